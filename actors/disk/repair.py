"""Repair: a corrupt disk starts again as a lost one would, and its peers fill it.

Rule D4. From the first step on the folder is another disk: a new uuid, which the member list does
not name, so the server has no vote until rule D3 gives it back. The old files are set aside in
`damaged` until the vote is back, for a person who needs it because too many disks are damaged.
A later repair removes what it finds: after the first one nothing there was acknowledged.

    begin_repair     identity: new uuid, repair = SET_ASIDE, or START_ANEW if `damaged` exists;
                     a repair that has begun continues at its step, as yet another disk
    finish_repair    SET_ASIDE: generations and promises into `damaged`; repair = START_ANEW
                     START_ANEW: generations and promises removed, then made empty; no repair

Invariant: each step may be done again, and the identity names the next one durably before the
folder changes, so a crash anywhere leads to the same end at the next start. Nothing is ever removed
under a uuid that was given to a server before: if the disk loses the rename that ended a repair,
the one that begins again finds data of a disk that may have its vote back by now.
"""

from pathlib import Path
from uuid import uuid4

from msgspec.structs import replace

from raykeeper.actors.disk.epochs import EPOCHS_FILE, Epochs, make_epochs
from raykeeper.actors.disk.file_operations import remove_tree
from raykeeper.actors.disk.filesystem import Filesystem
from raykeeper.actors.disk.generations import is_generation, make_first_generation
from raykeeper.actors.disk.identity import DiskIdentity, Repair, RepairStep, write_identity
from raykeeper.actors.disk.spare_segment import SPARE_FILE
from raykeeper.zab.ids import Epoch

DAMAGED_FOLDER = "damaged"


def begin_repair(
    files: Filesystem, folder: Path, identity: DiskIdentity, reason: str
) -> DiskIdentity:
    """Declare the content of the folder, which is locked, void. Durable on return.

    A repair that has begun keeps its step and its reason. `reason` is for the log.

    Raises:
        OSError: it failed; the old or the new identity is there.
    """
    if identity.repair is not None:
        identity = replace(identity, disk_uuid=uuid4().hex)
    else:
        identity = with_repair(files, folder, identity, reason)
    write_identity(files, folder, identity)
    return identity


def with_repair(
    files: Filesystem, folder: Path, identity: DiskIdentity, reason: str
) -> DiskIdentity:
    """The identity of a folder whose repair begins; nothing is written."""
    is_first = not files.exists(folder / DAMAGED_FOLDER)
    step = RepairStep.SET_ASIDE if is_first else RepairStep.START_ANEW
    repair = Repair(step, reason)
    return replace(
        identity, disk_uuid=uuid4().hex, is_founding=False, reset_reason=reason, repair=repair
    )


def finish_repair(files: Filesystem, folder: Path, identity: DiskIdentity) -> DiskIdentity:
    """Complete the repair that `identity` names. Durable on return.

    Raises:
        OSError: it failed; the next start continues.
    """
    assert identity.repair is not None, identity
    if identity.repair.step is RepairStep.SET_ASIDE:
        _set_aside(files, folder)
        step = replace(identity.repair, step=RepairStep.START_ANEW)
        identity = replace(identity, repair=step)
        write_identity(files, folder, identity)
    for name in _names(files, folder):
        remove_tree(files, folder / name)
    make_first_generation(files, folder)  # this forces the removals, too
    make_epochs(files, folder, Epochs(Epoch(0), Epoch(0)))
    identity = replace(identity, repair=None)
    write_identity(files, folder, identity)
    return identity


def remove_damaged(files: Filesystem, folder: Path) -> None:
    """Remove what a repair has set aside, if anything.

    Raises:
        OSError: it failed; some of it is left.
    """
    path = folder / DAMAGED_FOLDER
    if files.exists(path):
        remove_tree(files, path)
        files.sync_folder(folder)


def _set_aside(files: Filesystem, folder: Path) -> None:
    path = folder / DAMAGED_FOLDER
    if not files.exists(path):
        files.make_folder(path)
        files.sync_folder(folder)  # or its content could be lost with it
    for name in _names(files, folder):
        if files.exists(path / name):
            remove_tree(files, folder / name)  # an earlier attempt moved it; keep the first
        else:
            files.rename(folder / name, path / name)
    files.sync_folder(path)
    files.sync_folder(folder)


def _names(files: Filesystem, folder: Path) -> list[str]:
    others = (EPOCHS_FILE, SPARE_FILE)
    return [name for name in files.names(folder) if is_generation(name) or name in others]
