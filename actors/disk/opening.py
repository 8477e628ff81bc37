"""Opens the store of a replica: creates what is missing and repairs what is corrupt.

Rules D2 to D4. Founding an ensemble formats its folders; a folder that is empty or damaged later
has lost promises. If there are other voters it starts again as another disk, which gets its vote
back through them. The only voter of an ensemble has no peers to start again with, so for it an
empty or damaged folder is an error, and a person decides.
"""

from pathlib import Path
from uuid import uuid4

from raykeeper.actors.disk.filesystem import OS_FILESYSTEM, Filesystem
from raykeeper.actors.disk.identity import (
    Claim,
    DiskIdentity,
    FolderOwner,
    claim_folder,
    format_folder,
    reclaim_folder,
)
from raykeeper.actors.disk.repair import with_repair
from raykeeper.actors.disk.storage import Storage, StorageLimits
from raykeeper.actors.disk.storage_errors import CorruptRecord, NotFormatted
from raykeeper.server.recovered_state import RecoveredState

_ALONE = "this is the only voter, so there is nobody to repair it from"


def open_storage(
    folder: Path,
    owner: FolderOwner,
    limits: StorageLimits,
    *,
    has_peers: bool,
    wall_s: int,
    files: Filesystem = OS_FILESYSTEM,
) -> tuple[Storage, RecoveredState]:
    """Open the store of `owner` in `folder`; return it and what it contains.

    Args:
        folder: The folder.
        owner: The required owner.
        limits: Sizes and counts of the store.
        has_peers: Whether there are other voters.
        wall_s: Seconds, below which no incarnation begins: the wall clock, or more if the server
            ran where the clock is ahead.
        files: The file operations.

    Raises:
        NotFormatted: the folder is empty and there are no other voters.
        CorruptRecord: the folder is corrupt and there are no other voters.
        ForeignFolder: it belongs to another ensemble or server.
        FolderInUse: another process has it.
        NoRoom: the disk is full.
        UnknownVersion: it was written by another version of this program.
        StorageError: it cannot be read or written.
    """
    claim = _claim(folder, owner, files, has_peers=has_peers, wall_s=wall_s)
    storage = Storage(folder, claim, limits, files)
    try:
        repair = claim.identity.repair
        if repair is not None:
            _check_peers(repair.reason, has_peers=has_peers)
            storage.repair(repair.reason)
        try:
            recovered = storage.recover()
        except CorruptRecord as error:
            _check_peers(str(error), has_peers=has_peers)
            storage.repair(str(error))
            recovered = storage.recover()
    except BaseException:
        storage.close()
        raise
    return storage, recovered


def _claim(
    folder: Path, owner: FolderOwner, files: Filesystem, *, has_peers: bool, wall_s: int
) -> Claim:
    try:
        return claim_folder(folder, owner, files, wall_s=wall_s)
    except NotFormatted as error:
        if not has_peers:
            raise NotFormatted(f"{error}; {_ALONE}") from error
        format_folder(folder, _new_identity(owner, wall_s, "its folder was empty"), files)
        return claim_folder(folder, owner, files, wall_s=wall_s)
    except CorruptRecord as error:
        _check_peers(str(error), has_peers=has_peers)
        identity = with_repair(files, folder, _new_identity(owner, wall_s, ""), str(error))
        return reclaim_folder(folder, identity, files)


def _new_identity(owner: FolderOwner, wall_s: int, reason: str) -> DiskIdentity:
    return DiskIdentity(
        owner, uuid4().hex, is_founding=False, incarnation=wall_s, reset_reason=reason
    )


def _check_peers(reason: str, *, has_peers: bool) -> None:
    if not has_peers:
        raise CorruptRecord(f"{reason}; {_ALONE}")
