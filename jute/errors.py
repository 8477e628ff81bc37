"""The error of bytes that break ZooKeeper's wire protocol."""

from raykeeper.zab.errors import RayKeeperError


class JuteError(RayKeeperError):
    """Raised when a ZooKeeper client sends bytes that are no record of its protocol.

    The caller should close the connection of that client; the session lives on.
    """


class MalformedRequest(JuteError):
    """Raised when the body of a request cannot be read.

    The caller should refuse the request alone: the next one begins with the next frame.
    """

    def __init__(self, xid: int, opcode: int, why: str) -> None:
        super().__init__(f"a request of opcode {opcode}: {why}")
        self.xid = xid
        self.opcode = opcode


class TooManyElements(JuteError):
    """Raised when a request has more elements of a kind than the reader was told to take.

    The caller should refuse the request alone.
    """

    def __init__(self, kind: type, most: int) -> None:
        super().__init__(f"more than {most} elements {kind.__name__}")
        self.kind = kind
        self.most = most
