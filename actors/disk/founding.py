"""Makes a folder the store of a server that begins a new history from an existing state.

`raykeeper recover` and `raykeeper restore` found an ensemble in this way: every voter gets a
founding disk with the same snapshot and the same promises. Zxids are fencing tokens, so the
promises are of an epoch well above every one in which a token was given, and the first leader leads
the next one.

ZooKeeper's users copy `version-2` from the server that they take for the best one to the others,
and the epochs with it: then the tokens of what was lost are given again.
"""

from collections.abc import Iterable
from pathlib import Path
from typing import Final

from msgspec.structs import replace

from raykeeper.actors.disk.epochs import Epochs, make_epochs
from raykeeper.actors.disk.file_operations import make_store_folder, rename_durably
from raykeeper.actors.disk.filesystem import OS_FILESYSTEM, Filesystem
from raykeeper.actors.disk.folder_lock import lock_folder
from raykeeper.actors.disk.generations import find_generation, make_first_generation
from raykeeper.actors.disk.identity import IDENTITY_FILE, DiskIdentity, write_identity
from raykeeper.actors.disk.snapshot_files import (
    SnapshotWriter,
    snapshot_name,
    temp_snapshot_path,
)
from raykeeper.actors.disk.storage_errors import StorageError, storage_errors
from raykeeper.zab.feature_levels import FeatureLevel
from raykeeper.zab.ids import EPOCH_MAX, ZERO, Epoch, Zxid, epoch_of
from raykeeper.znodes.snapshot import level_of

EPOCH_GAP: Final = 10_000
"""By how much the epoch of a new history exceeds every one that is known, unless told otherwise.

Servers whose disks are lost may have led further epochs. An epoch takes an election, so ten
thousand of them are a quarter of an hour of nothing but elections; and there are two millions."""


def founding_epoch(accepted: Iterable[Epoch], gap: int = EPOCH_GAP) -> Epoch:
    """Return the epoch that a new history begins with; `accepted` are all that were promised.

    Raises:
        StorageError: no epoch is left.
    """
    highest = max(accepted, default=0)
    if highest + gap >= EPOCH_MAX:
        raise StorageError(
            f"epoch {highest} was promised, and {gap} more is above the last one, {EPOCH_MAX}; "
            "give a smaller gap"
        )
    return Epoch(highest + gap)


def found_folder(
    folder: Path,
    identity: DiskIdentity,
    epoch: Epoch,
    zxid: Zxid,
    chunks: Iterable[bytes],
    files: Filesystem = OS_FILESYSTEM,
) -> None:
    """Make `folder`, which holds no data, the store of `identity` with the state in `chunks`.

    Durable on return. The state is that as of `zxid`, and `epoch` is promised and taken over.

    Raises:
        FolderInUse: another process has the folder.
        CorruptRecord: what was written is not what is read.
        SnapshotFormatError: the first chunk is not that of a snapshot.
        StorageError: the folder has an identity, or data without one, or cannot be written. It has
            no identity then, and may be removed.
    """
    assert identity.is_founding and not identity.incarnation, identity
    assert zxid > ZERO and epoch_of(zxid) <= epoch, (zxid, epoch)
    with storage_errors(folder):
        make_store_folder(files, folder)
        lock = lock_folder(files, folder)
        try:
            if files.exists(folder / IDENTITY_FILE):
                raise StorageError(f"{folder} is formatted already")
            make_first_generation(files, folder)
            level = _write_snapshot(files, folder, zxid, chunks)
            make_epochs(files, folder, Epochs(epoch, epoch, initial=zxid))
            # As if it had been opened: a launch formats no further founding disks beside it, which
            # would be a quorum without this state.
            write_identity(files, folder, replace(identity, incarnation=1, level=level))
        finally:
            files.close(lock)


def _write_snapshot(
    files: Filesystem, folder: Path, zxid: Zxid, chunks: Iterable[bytes]
) -> FeatureLevel:
    """Write and publish the snapshot; return the feature level that it requires."""
    writer = SnapshotWriter(temp_snapshot_path(folder, zxid), zxid, files)
    level = None
    for chunk in chunks:
        level = level_of(chunk) if level is None else level
        writer.write(chunk)
    assert level is not None, "a snapshot without a chunk"
    writer.finish(zxid)
    generation = find_generation(files, folder)[0].path
    rename_durably(files, writer.path, generation / snapshot_name(zxid))
    return level
