"""The durable state that a server starts from: its promises, its snapshot and the log after it.

Plain data that knows no files, because the pure server is built from it. Invariants, checked by
every store: `current <= accepted`; the epoch of the last transaction is at most `accepted`;
`runs` follow `snapshot_zxid` without a hole and reach at least to `consistent_at`.
"""

from collections.abc import Iterable

from msgspec import Struct, field

from raykeeper.zab.effects import LogRun, TraceEvent
from raykeeper.zab.feature_levels import LEVEL_MIN, FeatureLevel
from raykeeper.zab.ids import FOUNDING_DISK, ZERO, DiskId, Epoch, Zxid
from raykeeper.znodes.snapshot import SnapshotLoader
from raykeeper.znodes.state import State


class RecoveredState(Struct, frozen=True):
    """The durable state of a server."""

    accepted: Epoch
    current: Epoch
    snapshot_zxid: Zxid
    """The snapshot holds everything up to this zxid and perhaps some of what follows; 0 is none."""
    consistent_at: Zxid
    """The snapshot is consistent once replayed up to this zxid; 0 without a snapshot."""
    chunks: Iterable[bytes]
    """The snapshot's content, verified; empty without a snapshot."""
    runs: list[LogRun]
    """Every transaction in the log after `snapshot_zxid`, committed or not."""
    committed: Zxid
    """The newest zxid that is known to be committed."""
    disk_id: DiskId = FOUNDING_DISK
    """The disk it starts from; the member list says whether it may vote (rule D3)."""
    is_uncertain: bool = False
    """The last batch of the log was damaged, and may have been acknowledged (rule D4)."""
    has_initial_history: bool = True
    """The log has the whole initial history of the current epoch."""
    has_disk_space: bool = True
    """Whether a spare segment for the log exists (rule D6)."""
    level: FeatureLevel = LEVEL_MIN
    """The feature level that its content requires."""
    was_member: bool = False
    """Whether a member list has had the server in an earlier run, as its folder says."""
    trace_events: list[TraceEvent] = field(default_factory=list)


def load_state(recovered: RecoveredState) -> State:
    """Return the state in the snapshot, or the initial state without one."""
    if recovered.snapshot_zxid == ZERO:
        return State()
    loader = SnapshotLoader()
    for chunk in recovered.chunks:
        loader.load(chunk)
    return loader.finish(recovered.snapshot_zxid, recovered.consistent_at)
