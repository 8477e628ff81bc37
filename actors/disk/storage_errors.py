"""The errors of a data folder, and what to do about each.

StorageError
├── CorruptRecord    the disk does not hold what was written to it
├── UnknownVersion   it was written by another version of this program
├── NotFormatted     there is no identity and no data
├── ForeignFolder    the folder belongs to another ensemble or server
├── FolderInUse      another live process has the folder
├── LogPruned        the log no longer reaches back that far
└── NoRoom           the disk is full
"""

import errno
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from raykeeper.actors.disk.filesystem import Unreadable
from raykeeper.zab.errors import RayKeeperError

_FULL = frozenset({errno.ENOSPC, errno.EDQUOT})


class StorageError(RayKeeperError):
    """Raised when a data folder cannot be read or written, or is not fit to start from.

    The caller should stop the replica. It may be started again on the same folder; a write or
    fsync that failed is never tried again in the same process (rule D5).
    """


class CorruptRecord(StorageError):
    """Raised when a record that was durable is missing, damaged or out of sequence.

    The caller should not serve from this folder: what it lacks may have been acknowledged. With
    other voters it is repaired from them (rule D4).
    """


class UnknownVersion(StorageError):
    """Raised when a file is whole, but of a format that this program does not know.

    The caller should run the version of the program that wrote it. The file is not damaged, and
    nothing may be discarded because of this error.
    """


class NotFormatted(StorageError):
    """Raised when a folder has neither an identity nor data: new, emptied, or a replaced disk.

    The caller should format it, as a founding one only when the ensemble itself is new (rule D2):
    a server that lost its promises must not vote.
    """


class ForeignFolder(StorageError):
    """Raised when the identity in a folder is that of another ensemble or server.

    The caller should leave the folder as it is and have the configuration or placement corrected.

    Attributes:
        machine: Name of the machine that holds the folder.
        folder: The folder.
        found: The owner of the folder.
        expected: The owner that was expected.
    """

    def __init__(self, machine: str, folder: str, found: str, expected: str) -> None:
        self.machine = machine
        self.folder = folder
        self.found = found
        self.expected = expected
        super().__init__(machine, folder, found, expected)  # pickling needs all of them

    def __str__(self) -> str:
        return f"{self.folder} on {self.machine} belongs to {self.found}, not to {self.expected}"


class FolderInUse(StorageError):
    """Raised when another live process holds the lock of a folder (rule D1).

    The caller should stop: of two live instances of one server only one may act.
    """


class LogPruned(StorageError):
    """Raised when a reader of the log asks for transactions that its server has removed.

    The caller should begin with the newest snapshot.
    """


class NoRoom(StorageError):
    """Raised when the disk is full, or the user's quota is.

    The caller should try again once there is space (rule D6); nothing that was accepted is lost.
    """


def is_full(error: OSError) -> bool:
    """Return whether the error means that the disk is full."""
    return error.errno in _FULL


@contextmanager
def storage_errors(folder: Path) -> Iterator[None]:
    """Turn an OSError inside the block into a StorageError that names the folder.

    Raises:
        StorageError: the operating system refused; the cause is attached. A full disk is a
            NoRoom, and unreadable bytes, such as a lost sector, are a CorruptRecord.
    """
    try:
        yield
    except OSError as error:
        where = error.filename if error.filename is not None else folder
        kind = StorageError
        if isinstance(error, Unreadable):
            kind = CorruptRecord
        elif is_full(error):
            kind = NoRoom
        raise kind(f"{where}: {error.strerror or error}") from error
