"""Whose a data folder is, who has it open, and how often it was opened.

Rule D1: an exclusive lock before anything is read, and an incarnation number that is persisted
and raised at each start, so that of two live instances of one server the newer fences the older.
Rule D2: formatting is an act of its own; opening never formats. ZooKeeper has only `myid`, and
takes an emptied folder for a new server with a vote (ZOOKEEPER-261).

The lock is on a file beside the identity, made once and never replaced. A lock belongs to an
inode, and the identity gets a new one each time it is replaced atomically: a process that opened
the old file would hold a lock that nobody else meets.
"""

import socket
from pathlib import Path

import msgspec
from msgspec import Struct
from msgspec.structs import replace

from raykeeper.actors.disk.atomic_file import (
    TEMP_SUFFIX,
    make_folders,
    read_file,
    remove_leftovers,
    replace_file,
)
from raykeeper.actors.disk.epochs import Epochs, save_epochs
from raykeeper.actors.disk.file_layer import OS_FILES, FileLayer
from raykeeper.actors.disk.generations import make_first_generation
from raykeeper.actors.disk.storage_errors import (
    CorruptRecord,
    FolderInUse,
    ForeignFolder,
    NotFormatted,
    StorageError,
    storage_errors,
)
from raykeeper.zab.ids import Epoch, ServerId

IDENTITY_FILE = "identity"
LOCK_FILE = "lock"
FORMAT_VERSION = 1


class Owner(Struct, frozen=True):
    """The server a folder belongs to."""

    ensemble: str
    ensemble_uuid: str
    server_id: ServerId


class Identity(Struct, frozen=True):
    """What the identity file says."""

    owner: Owner
    disk_uuid: str
    """Made anew by each formatting; the member list counts a voter only under it (rule D3)."""
    votes: bool
    """False on a folder formatted for a server that lost its promises."""
    incarnation: int = 0
    """How often the folder was opened."""
    format_version: int = FORMAT_VERSION


class Claim(Struct, frozen=True):
    """A folder that is locked by this process, opened for the `identity.incarnation`-th time."""

    lock: int
    identity: Identity
    leftovers: list[str]
    """Temporary files of an earlier start, which were removed."""


class _Version(Struct):
    format_version: int


def format_folder(folder: Path, identity: Identity, files: FileLayer = OS_FILES) -> None:
    """Make `folder`, which holds no data, the empty store of `identity`. Durable on return.

    Raises:
        FolderInUse: another process has the folder.
        StorageError: the folder has an identity, or data without one (which is left alone), or
            cannot be written. After a failure it has no identity, or the whole of this one.
    """
    assert identity.incarnation == 0, identity
    with storage_errors(folder):
        make_folders(files, folder)
        lock = _lock(files, folder)
        try:
            if files.exists(folder / IDENTITY_FILE):
                raise StorageError(f"{folder} is formatted already")
            remove_leftovers(files, folder)
            # Without an identity, but left from an interrupted formatting: empty, or nothing.
            make_first_generation(files, folder)
            save_epochs(files, folder, Epochs(Epoch(0), Epoch(0)))
            _write(files, folder, identity)
        finally:
            files.close(lock)


def peek_identity(folder: Path, files: FileLayer = OS_FILES) -> Identity | None:
    """The identity of a folder, without the lock; None when it has none. Changes nothing.

    Raises:
        CorruptRecord: the identity is damaged or of a version this program does not know.
        StorageError: it cannot be read.
    """
    with storage_errors(folder):
        if not files.exists(folder / IDENTITY_FILE):
            return None
        return _read(files, folder)


def claim_folder(folder: Path, owner: Owner, files: FileLayer = OS_FILES) -> Claim:
    """Lock a folder, check whose it is and raise its incarnation. Durable on return.

    Raises:
        NotFormatted: the folder has no identity.
        FolderInUse: another process has it.
        ForeignFolder: it is another ensemble's or server's.
        CorruptRecord: its identity is damaged or of a version this program does not know.
        StorageError: it cannot be read or written.
    """
    with storage_errors(folder):
        if not files.exists(folder / IDENTITY_FILE):  # checked first: leave no lock file behind
            raise NotFormatted(f"{folder} on {socket.gethostname()} has no identity")
        lock = _lock(files, folder)
        try:
            identity = _read(files, folder)
            if identity.owner != owner:
                raise ForeignFolder(
                    socket.gethostname(), str(folder), _name(identity.owner), _name(owner)
                )
            leftovers = remove_leftovers(files, folder)
            identity = replace(identity, incarnation=identity.incarnation + 1)
            _write(files, folder, identity)
        except BaseException:
            files.close(lock)
            raise
        return Claim(lock, identity, leftovers)


def _lock(files: FileLayer, folder: Path) -> int:
    lock = files.lock(folder / LOCK_FILE)
    if lock is None:
        raise FolderInUse(f"{folder} on {socket.gethostname()} is in use by another process")
    return lock


def _read(files: FileLayer, folder: Path) -> Identity:
    path = folder / IDENTITY_FILE
    data = read_file(files, path)
    try:
        version = msgspec.json.decode(data, type=_Version).format_version
        if version != FORMAT_VERSION:
            raise CorruptRecord(
                f"{path} has version {version}; this program reads {FORMAT_VERSION}"
            )
        return msgspec.json.decode(data, type=Identity)
    except msgspec.DecodeError as error:
        raise CorruptRecord(f"{path} is damaged: {error}") from error


def _write(files: FileLayer, folder: Path, identity: Identity) -> None:
    replace_file(files, folder / IDENTITY_FILE, msgspec.json.encode(identity) + b"\n")


def _name(owner: Owner) -> str:
    return f"server {owner.server_id} of ensemble {owner.ensemble!r} ({owner.ensemble_uuid})"


assert not LOCK_FILE.endswith(TEMP_SUFFIX), "or it would be removed as a leftover"
