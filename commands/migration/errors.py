"""The errors of `raykeeper import` and `raykeeper export`, besides those of the clients."""

from raykeeper.zab.errors import RayKeeperError


class ZooKeeperUnreachableError(RayKeeperError):
    """Raised when no server of a ZooKeeper opens a session; the text says what each one does.

    Nothing was written. The caller should correct the addresses, or wait for a quorum.
    """


class JournalError(RayKeeperError):
    """Raised when a journal cannot be used: it is in use, damaged, or of another copy.

    Nothing was written. The caller should end the other run, or name another file.
    """
