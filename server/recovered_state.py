"""What a replica starts from: its promises, its snapshot and the log after it.

Plain data without a trace of files, because the pure server is built from it. Invariants, checked
by every store: `current <= accepted`; the epoch of the last transaction is at most `accepted`;
`runs` follow `snapshot_zxid` without a hole and reach at least to `consistent_at`.
"""

from collections.abc import Iterable

from msgspec import Struct, field

from raykeeper.zab.effects import LogRun, TraceEvent
from raykeeper.zab.ids import FOUNDING_DISK, ZERO, DiskId, Epoch, Zxid
from raykeeper.znodes.snapshot import SnapshotLoader
from raykeeper.znodes.state import State


class RecoveredState(Struct, frozen=True):
    """The durable state of a server."""

    accepted: Epoch
    current: Epoch
    snapshot_zxid: Zxid
    """The snapshot holds everything up to here and perhaps some of what follows; 0 is none."""
    consistent_at: Zxid
    """Replayed up to here, the snapshot is a real state; 0 without a snapshot."""
    chunks: Iterable[bytes]
    """The snapshot's content, verified; empty without a snapshot."""
    runs: list[LogRun]
    """Every transaction in the log after `snapshot_zxid`, committed or not."""
    committed: Zxid
    """The newest zxid that is known to be committed."""
    disk_id: DiskId = FOUNDING_DISK
    """The disk it starts from; whether it may vote is for the member list to say (rule D3)."""
    is_uncertain: bool = False
    """The last batch of the log was bad, and may or may not have been acknowledged (rule D4)."""
    has_initial_history: bool = True
    """The log reaches to where it ended when the current epoch was taken over."""
    has_disk_space: bool = True
    """Whether there is a spare segment for the log (rule D6)."""
    trace_events: list[TraceEvent] = field(default_factory=list)


def load_state(recovered: RecoveredState) -> State:
    """The state that the snapshot holds, that of the beginning without one."""
    if recovered.snapshot_zxid == ZERO:
        return State()
    loader = SnapshotLoader()
    for chunk in recovered.chunks:
        loader.load(chunk)
    return loader.finish(recovered.snapshot_zxid, recovered.consistent_at)
