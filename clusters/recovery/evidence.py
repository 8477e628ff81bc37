"""What the folders of a node hold, for a recovery: read as a start would, and nothing is changed.

Folders that were set aside count, too: not as votes, but as a source of what is left.
"""

from collections.abc import Iterator
from pathlib import Path

from msgspec import Struct

from raykeeper.actors.disk.epochs import Epochs
from raykeeper.actors.disk.folder_reader import (
    FolderReader,
    load_state_at,
    newest_zxids,
    synced_upto,
)
from raykeeper.actors.disk.identity import DiskIdentity
from raykeeper.actors.disk.spare_segment import SPARE_FILE, check_spare
from raykeeper.actors.disk.storage import check_consistency
from raykeeper.actors.disk.storage_errors import (
    CorruptRecord,
    StorageError,
    UnknownVersion,
    storage_errors,
)
from raykeeper.clusters.node_discovery import SUPERSEDED_MARK
from raykeeper.clusters.stale_folders import STALE_MARK
from raykeeper.zab.errors import RayKeeperError
from raykeeper.zab.ids import ZERO, DiskId, Epoch, Millis, ServerId, Zxid, epoch_of
from raykeeper.znodes.snapshot import SnapshotFormatError
from raykeeper.znodes.state import State


class HeldFolder(Struct):
    """A folder of a server, and what could be read of it."""

    server_id: ServerId
    folder: str
    is_set_aside: bool = False
    """By a keeper or an earlier recovery: no server starts from it."""
    node_id: str = ""
    node: str = ""
    identity: DiskIdentity | None = None
    epochs: Epochs | None = None
    last: Zxid = ZERO
    """The last transaction of the log, or the newest snapshot."""
    committed: Zxid = ZERO
    """The newest zxid that is known to be committed."""
    last_ms: Millis = Millis(0)
    """When transaction `last` was proposed, by the clock of its leader."""
    snapshot: Zxid = ZERO
    """The newest snapshot, 0 without one."""
    is_uncertain: bool = False
    """The end of the log is torn, or was at an earlier start (rule D4)."""
    voters: dict[ServerId, DiskId] = {}
    """The votes on other than founding disks, as of `last`."""
    members: dict[ServerId, DiskId] | None = None
    """All voters and their disks, if the ensemble has others than it was founded with."""
    znodes: int = 0
    sessions: int = 0
    problem: str = ""
    """Why nothing can be founded from it, "" if something can."""
    is_other_version: bool = False
    """The problem is that another version of the program wrote it: nothing of it is lost."""

    @property
    def uuid(self) -> str:
        """The uuid of its ensemble, "" when its identity is damaged."""
        return "" if self.identity is None else self.identity.owner.ensemble_uuid

    @property
    def rank(self) -> tuple[Epoch, Zxid]:
        """How good its history is: as an election counts it (`History.rank_epoch`)."""
        if self.epochs is None:
            return Epoch(0), ZERO
        is_whole = self.last >= self.epochs.initial or not self.is_uncertain
        return self.epochs.current if is_whole else epoch_of(self.last), self.last


def gather_evidence(data_dir: str, ensemble: str) -> list[HeldFolder]:
    """Read every folder of the ensemble on this node, one after the other.

    Each takes the time and the memory of a server's start.

    Raises:
        StorageError: the folder of the ensemble cannot be read.
    """
    return [
        read_evidence(server, folder, is_set_aside=is_set_aside)
        for server, folder, is_set_aside in server_folders(data_dir, ensemble)
    ]


def server_folders(data_dir: str, ensemble: str) -> Iterator[tuple[ServerId, Path, bool]]:
    """Yield each folder of a server with its id, and whether it was set aside.

    Raises:
        StorageError: the folder of the ensemble cannot be read.
    """
    home = Path(data_dir).expanduser() / ensemble
    with storage_errors(home):
        folders = sorted(home.iterdir()) if home.is_dir() else []
    for folder in folders:
        number, mark = folder.name, ""
        for each in (STALE_MARK, SUPERSEDED_MARK):
            if each in number:
                number, mark, _ = number.partition(each)
        if number.isdecimal() and str(int(number)) == number:
            yield ServerId(int(number)), folder, bool(mark)


def read_evidence(server_id: ServerId, folder: Path, *, is_set_aside: bool = False) -> HeldFolder:
    """Read what one folder holds; what cannot be read is its `problem`."""
    held = HeldFolder(server_id, str(folder), is_set_aside)
    try:
        reader = FolderReader(folder)
        # The promises first: the epochs of a folder that is damaged otherwise count as well.
        held.epochs = reader.epochs()[0]
        held.identity = reader.identity()
        if held.identity.repair is not None:
            raise CorruptRecord(f"it counts no more: {held.identity.repair.reason}")
        state = _read_data(held, reader)
    except (StorageError, SnapshotFormatError) as error:
        held.problem, held.is_other_version = str(error), isinstance(error, UnknownVersion)
    else:
        held.last_ms, held.voters = state.time_ms, dict(state.voters)
        held.members = None if state.members is None else dict(state.members.voters)
        held.znodes, held.sessions = len(state.tree.znodes), len(state.sessions.by_id)
        if held.last == ZERO:
            held.problem = "it holds no transaction"
    return held


def load_evidence(held: HeldFolder) -> State:
    """Return the state in a folder that was read before, as of its last transaction.

    Raises:
        StorageError: the folder is another one by now, or cannot be read.
    """
    again = HeldFolder(held.server_id, held.folder, held.is_set_aside)
    try:
        reader = FolderReader(Path(held.folder))
        again.epochs, again.identity = reader.epochs()[0], reader.identity()
        state = _read_data(again, reader)
    except RayKeeperError as error:
        raise StorageError(f"{held.folder} cannot be read any more: {error}") from error
    before, now = ((e.identity, e.epochs, e.last) for e in (held, again))
    if before != now:
        raise StorageError(f"{held.folder} has changed since it was judged; recover again")
    return state


def _read_data(held: HeldFolder, reader: FolderReader) -> State:
    """Read snapshots and log into `held`; return the state as of the last transaction.

    Raises:
        CorruptRecord: something is damaged, missing or contradictory that a start would need.
        SnapshotFormatError: a snapshot is of a format that this program does not know.
        StorageError: a file cannot be read.
    """
    assert held.epochs is not None
    generation = reader.generation()[0]
    snapshots = reader.snapshots()
    good = [each for each in snapshots if each.consistent_at is not None]
    newest = good[-1] if good else None
    held.snapshot = ZERO if newest is None else newest.zxid
    synced = synced_upto(snapshots)
    log = reader.log(synced)
    # As a start: what is damaged in the log before the newest snapshot is not needed.
    unneeded = [first for first in log.firsts if first <= held.snapshot][:-1]
    log.firsts = log.firsts[len(unneeded) :]
    is_torn = False
    for content in log:
        if content.problem:
            raise CorruptRecord(content.problem)
        is_torn = content.is_torn
    with storage_errors(generation):
        if reader.files.exists(reader.folder / SPARE_FILE):
            check_spare(reader.files, reader.folder, generation)
    held.is_uncertain = held.epochs.is_uncertain or is_torn
    held.last, held.committed = newest_zxids(log, snapshots)
    check_consistency(reader.folder, synced, held.last, held.epochs)
    return load_state_at(log, newest, held.last, reader.files)
