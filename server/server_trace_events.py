"""Names of the trace events that a server emits beside those of `zab.trace_events`."""

from typing import Final

from raykeeper.zab.trace_events import TraceName

CLIENT_MALFORMED: Final = TraceName("client.malformed", "connection", "reason")
CLIENT_LIMITED: Final = TraceName("client.limited", "connection", "reason")
"""A request or its reply is above a limit; the reason names the setting."""
RECONFIG_REFUSED: Final = TraceName("members.refused", "connection", "reason")
"""A step of the member list was refused: of ZooKeeper's clients none is told why."""
CLIENT_OVERRUN: Final = TraceName("client.overrun", "connection")
SESSION_OPENED: Final = TraceName("session.opened", "session", "server")
SESSION_SUSPECTED: Final = TraceName("session.suspected", "session")
"""Half of its timeout has passed in silence, which the next leader will know too."""
SESSION_EXPIRED: Final = TraceName("session.expired", "session")
SESSION_PROCESS_DIED: Final = TraceName("session.departed", "session")
"""The client's process is dead, so the session ends before its timeout."""
DEAD_SESSION_DROPPED: Final = TraceName("session.departure_dropped", "session")
"""A process died whose session had moved or ended meanwhile."""
SESSION_FENCED: Final = TraceName("session.fenced", "session", "connection")
EXPIRY_DROPPED: Final = TraceName("session.verdict_dropped", "session")
TRACKER_LOST: Final = TraceName("tracker.lost", "losses_before")
TRACKER_REPLACED: Final = TraceName("tracker.replaced_by_core", "epoch")
WRITE_GAP: Final = TraceName("write.gap", "session", "last", "number")
WRITE_FENCED: Final = TraceName("write.fenced", "session", "number", "peer")
QUOTA_EXCEEDED: Final = TraceName("quota.exceeded", "path", "znodes", "bytes")
"""A subtree has grown above a soft limit; above a hard one it cannot."""
WATCHES_FULL: Final = TraceName("client.watches_full", "session")
REQUEST_SLOW: Final = TraceName(
    "request.slow", "requests", "session", "kind", "number", "stage", "took_ms"
)
PROPOSAL_SLOW: Final = TraceName("proposal.slow", "last", "stage", "took_ms")
COUNTER_EXHAUSTED: Final = TraceName("zxid.counter_exhausted", "epoch")
SNAPSHOT_STARTED: Final = TraceName("snapshot.started", "zxid")
SNAPSHOT_PUBLISHED: Final = TraceName("snapshot.published", "zxid")
SNAPSHOT_FAILED: Final = TraceName("snapshot.failed", "zxid")
LEVEL_RAISED: Final = TraceName("level.raised", "level")
"""A feature level is in force: no program of before can join any more."""
SNAPSHOT_INSTALLED: Final = TraceName("snapshot.adopted", "zxid")
DIGEST_DIFFERS: Final = TraceName("digest.differs", "zxid", "servers")
"""A quorum agrees on another state at a zxid than the server named."""
DIGEST_UNDECIDED: Final = TraceName("digest.undecided", "zxid", "servers")
"""Servers differ, and no quorum agrees on any state, so the right one is not known."""
DISK_FULL: Final = TraceName("disk.full")
DISK_SPACE_FREED: Final = TraceName("disk.has_room")
READS_PAUSED: Final = TraceName("reads.held")
READS_RESUMED: Final = TraceName("reads.resumed")
DRAIN_BEGUN: Final = TraceName("drain.begun", "clients", "clients_per_s")
"""The server takes no more clients, and moves those it has."""
DRAIN_DONE: Final = TraceName("drain.done")
DRAIN_ENDED: Final = TraceName("drain.ended")
READ_ONLY_BEGUN: Final = TraceName("read_only.begun")
READ_ONLY_ENDED: Final = TraceName("read_only.ended")
