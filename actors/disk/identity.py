"""The identity of a data folder: its owner, its disk, and how often it was opened.

Rule D1: an exclusive lock before anything is read, and an incarnation number that is persisted
and raised at each start, so that of two live instances of one server the newer fences the older.
Rule D2: formatting is a separate operation; opening never formats. ZooKeeper has only `myid`, and
takes an emptied folder for a new server with a vote (ZOOKEEPER-261).

The lock is on a file beside the identity (folder_lock.py).

The file is a line with a checksum and a line of JSON, which an operator can read. It also says
which step of a repair is next (repair.py, rule D4).
"""

import socket
import zlib
from enum import Enum
from pathlib import Path

import msgspec
from msgspec import Struct, field
from msgspec.structs import replace

from raykeeper.actors.disk.epochs import Epochs, make_epochs
from raykeeper.actors.disk.file_operations import (
    closed_on_error,
    make_store_folder,
    read_file,
    remove_leftovers,
    replace_file,
)
from raykeeper.actors.disk.filesystem import OS_FILESYSTEM, Filesystem
from raykeeper.actors.disk.folder_lock import lock_folder
from raykeeper.actors.disk.generations import holds_data, make_first_generation
from raykeeper.actors.disk.storage_errors import (
    CorruptRecord,
    FolderInUse,
    ForeignFolder,
    NotFormatted,
    StorageError,
    UnknownVersion,
    storage_errors,
)
from raykeeper.zab.errors import DECODE_ERRORS
from raykeeper.zab.feature_levels import LEVEL_MIN, FeatureLevel, level_problem
from raykeeper.zab.ids import FOUNDING_DISK, DiskId, Epoch, ServerId

IDENTITY_FILE = "identity"
FORMAT_VERSIONS = {FeatureLevel(1): 2, FeatureLevel(2): 3}
"""The version of an identity, by the feature level that its folder requires. They differ by the
number alone, which keeps out a program that knows no levels."""

_READABLE = " and ".join(map(str, FORMAT_VERSIONS.values()))
_MAGIC = b"RKIDENTITY"
_BYTES_MAX = 1 << 20


class FolderOwner(Struct, frozen=True):
    """The server a folder belongs to."""

    ensemble: str
    ensemble_uuid: str
    server_id: ServerId


class RepairStep(Enum):
    """The next step of a repair."""

    SET_ASIDE = "set aside what is there"
    START_ANEW = "start anew from nothing"


class Repair(Struct, frozen=True):
    """A repair that has begun; from then on the content of the folder no longer counts."""

    step: RepairStep
    reason: str


class DiskIdentity(Struct, frozen=True):
    """The content of the identity file."""

    owner: FolderOwner
    disk_uuid: str
    """Drawn by each formatting and each repair."""
    is_founding: bool
    """Whether the folder was formatted when the ensemble was founded (rule D2)."""
    incarnation: int = 0
    """Raised whenever the folder is opened, to the time in seconds at least. So it exceeds that of
    every other disk of this server, also when an older disk comes back."""
    reset_reason: str = field(default="", name="begun_anew")
    """Why the disk is not a founding one; "" on one that is."""
    repair: Repair | None = None
    format_version: int = 0
    """Set when it is written, see `FORMAT_VERSIONS`."""
    # From here on fields of later programs: a node of before sends identities without them.
    supersedes: list[str] = []
    """The uuids that this ensemble had before recoveries, which founded new histories, the oldest
    first: folders of these belong to the old ones."""
    level: FeatureLevel = LEVEL_MIN
    """The feature level that whoever reads the folder must know."""
    restored_from: str = ""
    """The backup that the ensemble was founded from; "" if it began with nothing."""

    def disk(self) -> DiskId:
        """Return the disk's name in the member list, the only one that counts as a voter (D3)."""
        return FOUNDING_DISK if self.is_founding else DiskId(self.disk_uuid)


class Claim(Struct, frozen=True):
    """A folder that is locked by this process and opened under `identity.incarnation`."""

    lock: int
    identity: DiskIdentity
    leftovers: list[str]
    """Temporary files of an earlier start, which were removed."""


class _Version(Struct):
    format_version: int


def format_folder(folder: Path, identity: DiskIdentity, files: Filesystem = OS_FILESYSTEM) -> None:
    """Make `folder`, which holds no data, the empty store of `identity`. Durable on return.

    Raises:
        FolderInUse: another process has the folder.
        StorageError: the folder has an identity, or data without one (which is left alone), or
            cannot be written. After a failure it has no identity, or the whole of this one.
    """
    assert not (identity.is_founding and identity.incarnation), identity
    with storage_errors(folder):
        make_store_folder(files, folder)
        lock = lock_folder(files, folder)
        try:
            if files.exists(folder / IDENTITY_FILE):
                raise StorageError(f"{folder} is formatted already")
            remove_leftovers(files, folder)
            # An interrupted formatting may have left it, empty and without an identity.
            make_first_generation(files, folder)
            make_epochs(files, folder, Epochs(Epoch(0), Epoch(0)))
            write_identity(files, folder, identity)
        finally:
            files.close(lock)


def read_identity(folder: Path, files: Filesystem = OS_FILESYSTEM) -> DiskIdentity | None:
    """Read the identity of a folder without locking it; None without identity and data.

    Changes nothing.

    Raises:
        CorruptRecord: the identity is damaged, or missing where there is data.
        UnknownVersion: it is of a version this program does not know.
        StorageError: it cannot be read.
    """
    with storage_errors(folder):
        return _read(files, folder)


def claim_folder(
    folder: Path, owner: FolderOwner, files: Filesystem = OS_FILESYSTEM, *, wall_s: int = 0
) -> Claim:
    """Lock a folder, check its owner and raise its incarnation. Durable on return.

    `wall_s` is the wall clock in seconds, below which no incarnation begins. Peers refuse an
    incarnation lower than one that they have seen, also one of another disk of this server.

    Raises:
        NotFormatted: the folder has neither an identity nor data.
        FolderInUse: another process has it.
        ForeignFolder: it belongs to another ensemble or server.
        CorruptRecord: its identity is damaged, or missing where there is data.
        UnknownVersion: its identity is of a version this program does not know.
        StorageError: it cannot be read or written.
    """
    with storage_errors(folder):
        if _read(files, folder) is None:  # checked first: leave no lock file behind
            raise NotFormatted(f"{folder} on {socket.gethostname()} has no identity")
        lock = lock_folder(files, folder)
        with closed_on_error(files, lock):
            identity = _read(files, folder)
            if identity is None:
                raise NotFormatted(f"{folder} on {socket.gethostname()} has no identity any more")
            if identity.owner != owner:
                raise ForeignFolder(
                    socket.gethostname(), str(folder), _name(identity.owner), _name(owner)
                )
            leftovers = remove_leftovers(files, folder)
            incarnation = max(identity.incarnation + 1, wall_s)
            identity = replace(identity, incarnation=incarnation)
            write_identity(files, folder, identity)
        return Claim(lock, identity, leftovers)


def reclaim_folder(
    folder: Path, identity: DiskIdentity, files: Filesystem = OS_FILESYSTEM
) -> Claim:
    """Lock a folder whose identity is damaged or missing, and write this one. Durable on return.

    Raises:
        FolderInUse: another process has it, or had it and repaired its identity.
        StorageError: it cannot be written.
    """
    with storage_errors(folder):
        lock = lock_folder(files, folder)
        with closed_on_error(files, lock):
            if not _is_damaged(files, folder):
                # Another process repaired it before the lock: that disk may have its vote back.
                raise FolderInUse(
                    f"{folder} on {socket.gethostname()} was repaired by another process"
                )
            leftovers = remove_leftovers(files, folder)
            write_identity(files, folder, identity)
        return Claim(lock, identity, leftovers)


def write_identity(files: Filesystem, folder: Path, identity: DiskIdentity) -> None:
    """Replace the identity, atomically. Durable on return.

    Raises:
        OSError: it failed; the old or the new identity is there.
    """
    identity = replace(identity, format_version=FORMAT_VERSIONS[identity.level])
    data = msgspec.json.encode(identity) + b"\n"
    assert len(data) < _BYTES_MAX // 2, len(data)
    replace_file(files, folder / IDENTITY_FILE, _version_line(data) + data)


def _is_damaged(files: Filesystem, folder: Path) -> bool:
    try:
        _read(files, folder)
    except CorruptRecord:
        return True
    return False


def _read(files: Filesystem, folder: Path) -> DiskIdentity | None:
    path = folder / IDENTITY_FILE
    if not files.exists(path):
        if files.exists(folder) and holds_data(files, folder):
            raise CorruptRecord(f"{path} is missing, but {folder} holds a log or a snapshot")
        return None
    content = read_file(files, path, _BYTES_MAX)
    head, _, data = content.partition(b"\n")
    try:
        if head + b"\n" != _version_line(data):
            if msgspec.json.decode(content, type=_Version).format_version == 1:
                raise UnknownVersion(f"{path} has version 1; this program reads {_READABLE}")
            raise CorruptRecord(f"{path} is damaged")
        version = msgspec.json.decode(data, type=_Version).format_version
        if version not in FORMAT_VERSIONS.values():
            raise UnknownVersion(f"{path} has version {version}; this program reads {_READABLE}")
        identity = msgspec.json.decode(data, type=DiskIdentity)
        if problem := level_problem(identity.level):
            raise UnknownVersion(f"{path} requires {problem}")
        return replace(identity, format_version=0)
    except DECODE_ERRORS as error:
        raise CorruptRecord(f"{path} is damaged: {error}") from error


def _version_line(data: bytes) -> bytes:
    return b"%s %08x\n" % (_MAGIC, zlib.crc32(data))


def _name(owner: FolderOwner) -> str:
    return f"server {owner.server_id} of ensemble {owner.ensemble!r} ({owner.ensemble_uuid})"
