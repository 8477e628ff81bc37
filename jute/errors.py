"""The error of bytes that break ZooKeeper's wire protocol."""

from raykeeper.zab.errors import RayKeeperError


class JuteError(RayKeeperError):
    """Raised when a ZooKeeper client sends bytes that are no record of its protocol.

    The caller should close the connection of that client; the session lives on.
    """
