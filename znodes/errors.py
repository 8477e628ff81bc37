"""The errors that a client can get: ZooKeeper's codes and names, one class each.

`definite` says whether the outcome is certain: True means that the operation surely had no
effect; False means that it may have had one. Codes are those of `KeeperException.Code` (3.9.5).
"""

from enum import IntEnum

from raykeeper.zab.errors import RayKeeperError


class Code(IntEnum):
    """ZooKeeper's error codes as far as this server or client can produce them."""

    OK = 0
    SYSTEM_ERROR = -1
    RUNTIME_INCONSISTENCY = -2
    CONNECTION_LOSS = -4
    MARSHALLING_ERROR = -5
    UNIMPLEMENTED = -6
    OPERATION_TIMEOUT = -7
    BAD_ARGUMENTS = -8
    NEW_CONFIG_NO_QUORUM = -13
    RECONFIG_IN_PROGRESS = -14
    NO_NODE = -101
    NO_AUTH = -102
    BAD_VERSION = -103
    NO_CHILDREN_FOR_EPHEMERALS = -108
    NODE_EXISTS = -110
    NOT_EMPTY = -111
    SESSION_EXPIRED = -112
    INVALID_ACL = -114
    AUTH_FAILED = -115
    SESSION_MOVED = -118
    NOT_READ_ONLY = -119
    NO_WATCHER = -121
    REQUEST_TIMEOUT = -122
    QUOTA_EXCEEDED = -125
    THROTTLED_OP = -127


class KeeperError(RayKeeperError):
    """Root of the errors a client sees.

    Attributes:
        code: ZooKeeper's code.
        path: The path of the request, "" where there is none.
        definite: True when the operation surely had no effect.
        results: Of a transaction that failed: for each operation its error, or None for one that
            would have succeeded. None of other requests.
        failed: Of a transaction that failed: the index of the operation because of which; else -1.
    """

    code: Code = Code.SYSTEM_ERROR
    meaning: str = "the server failed to process the request"

    results: list[object] | None = None
    failed: int = -1

    def __init__(self, path: str = "", detail: str = "", *, definite: bool = True) -> None:
        self.path = path
        self.detail = detail
        self.definite = definite
        # Unprintable characters, for example line breaks, must not break a terminal or a log.
        shown = path if path.isprintable() else repr(path)[1:-1]
        text = f"{shown}: {self.meaning}" if path else self.meaning
        if detail:
            text = f"{text} ({detail})"
        if not definite:
            text = f"{text}; the operation may or may not have taken effect"
        super().__init__(text)

    def __reduce__(self) -> tuple[object, ...]:
        return (_rebuild, (type(self), self.path, self.detail, self.definite), self.__dict__)


class LostError(RayKeeperError):
    """Raised when what was held is held no more, or a place among those who wait is gone.

    Its znode was deleted, or the session ended: SessionExpiredError and SessionMovedError are
    LostErrors too. The caller must assume that others have acted in between, and must not go on
    with what the lock protected.
    """


def _rebuild(kind: type[KeeperError], path: str, detail: str, definite: bool) -> KeeperError:
    return kind(path, detail, definite=definite)


class RuntimeInconsistencyError(KeeperError):
    """An operation after the failing one of a transaction was not tried."""

    code = Code.RUNTIME_INCONSISTENCY
    meaning = "not tried, an operation before it failed"


class ConnectionLossError(KeeperError):
    """No server could be reached."""

    code = Code.CONNECTION_LOSS
    meaning = "connection to the ensemble lost"


class MarshallingError(KeeperError):
    """The request could not be decoded."""

    code = Code.MARSHALLING_ERROR
    meaning = "the request could not be decoded"


class UnimplementedError(KeeperError):
    """The server does not know the operation."""

    code = Code.UNIMPLEMENTED
    meaning = "the server does not know this operation"


class OperationTimeoutError(KeeperError):
    """The operation was not answered within the handle's `timeout_s`."""

    code = Code.OPERATION_TIMEOUT
    meaning = "no answer within the timeout"


class BadArgumentsError(KeeperError):
    """A path, value, version or flag is not acceptable; nothing was sent or changed."""

    code = Code.BAD_ARGUMENTS
    meaning = "bad arguments"


class NoNodeError(KeeperError):
    """The znode, or the parent of the znode to create, does not exist."""

    code = Code.NO_NODE
    meaning = "no such znode"


class NoAuthError(KeeperError):
    """The client lacks the permission."""

    code = Code.NO_AUTH
    meaning = "not authorized"


class BadVersionError(KeeperError):
    """The expected version is not the znode's."""

    code = Code.BAD_VERSION
    meaning = "the znode has another version"


class NoChildrenForEphemeralsError(KeeperError):
    """An ephemeral znode cannot have children."""

    code = Code.NO_CHILDREN_FOR_EPHEMERALS
    meaning = "ephemeral znodes cannot have children"


class NodeExistsError(KeeperError):
    """The znode to create exists."""

    code = Code.NODE_EXISTS
    meaning = "znode exists"


class NotEmptyError(KeeperError):
    """The znode to delete has children."""

    code = Code.NOT_EMPTY
    meaning = "znode has children"


class SessionExpiredError(KeeperError, LostError):
    """The session has ended; its ephemerals are gone and the handle is of no more use."""

    code = Code.SESSION_EXPIRED
    meaning = "session expired"


class InvalidAclError(KeeperError):
    """An ACL is empty or malformed, or `auth` stands for nobody."""

    code = Code.INVALID_ACL
    meaning = "invalid ACL"


class AuthFailedError(KeeperError):
    """The password of a session is wrong, or a credential proves nothing."""

    code = Code.AUTH_FAILED
    meaning = "authentication failed"


class SessionMovedError(KeeperError, LostError):
    """The session has been taken over by another connection."""

    code = Code.SESSION_MOVED
    meaning = "session moved to another connection"


class NotReadOnlyError(KeeperError):
    """A server without a quorum was asked for more than a read."""

    code = Code.NOT_READ_ONLY
    meaning = "the server has no quorum and only reads"


class NoWatcherError(KeeperError):
    """There is no such watch to remove."""

    code = Code.NO_WATCHER
    meaning = "no such watch"


class RequestTimeoutError(KeeperError):
    """The client gave up waiting for a reply."""

    code = Code.REQUEST_TIMEOUT
    meaning = "request timed out"


class QuotaExceededError(KeeperError):
    """The write would exceed a hard quota of a subtree."""

    code = Code.QUOTA_EXCEEDED
    meaning = "quota exceeded"


class NewConfigNoQuorumError(KeeperError):
    """With the new member list there would be no majority that can go on; nothing was changed."""

    code = Code.NEW_CONFIG_NO_QUORUM
    meaning = "the new members could not go on"


class ReconfigInProgressError(KeeperError):
    """Another change of the member list is open; nothing was changed."""

    code = Code.RECONFIG_IN_PROGRESS
    meaning = "the members are being changed"


class ThrottledOpError(KeeperError):
    """The results of a transaction did not fit beside those not yet acknowledged."""

    code = Code.THROTTLED_OP
    meaning = "too many results are not yet acknowledged"


_KINDS: list[type[KeeperError]] = [KeeperError, *KeeperError.__subclasses__()]
_BY_CODE: dict[int, type[KeeperError]] = {kind.code: kind for kind in _KINDS}


class ClosedError(KeeperError):
    """Raised when a call comes after `close` or `stop`, or `close` did not wait for its answer.

    No server answers so, and ZooKeeper has no code of its own for it. If the error is `definite`
    nothing was sent. The caller must not go on with what it has closed.
    """

    code = Code.CONNECTION_LOSS
    meaning = "not open any more"


def error_for(code: int, path: str = "", detail: str = "", *, definite: bool = True) -> KeeperError:
    """Return the exception of a ZooKeeper code, for an unknown one a KeeperError with that code.

    Args:
        code: One of `Code`, or another number.
        path: The path of the request.
        detail: More for a person, of a code that is known.
        definite: Whether the operation surely had no effect.
    """
    kind = _BY_CODE.get(code)
    if kind is None:
        return KeeperError(path, f"code {code}", definite=definite)
    return kind(path, detail, definite=definite)
