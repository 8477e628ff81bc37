"""What the parts of each note mean, so that a log line names them.

The core notes plain tuples, which tests can compare; their fields are named here, in order.
"""

from typing import Any, Final

from raykeeper.actors.disk import storage_notes
from raykeeper.server import server_trace_events
from raykeeper.zab import trace_events
from raykeeper.zab.effects import TraceEvent

FIELDS: Final[dict[str, tuple[str, ...]]] = {
    trace_events.ELECTION_STARTED: ("round",),
    trace_events.ELECTION_ROUND: ("round",),
    trace_events.ELECTION_DECIDED: ("round", "leader"),
    trace_events.ROLE_LEFT: ("role", "reason"),
    trace_events.MESSAGE_STALE: ("peer", "message"),
    trace_events.MESSAGE_ILLEGAL: ("peer", "reason"),
    trace_events.QUORUM_LOST: ("without_vote",),
    trace_events.EPOCH_PROPOSED: ("epoch",),
    trace_events.HIGHER_EPOCH_PROMISED: ("peer", "promised"),
    trace_events.NEWER_HISTORY_FOUND: ("peer", "epoch", "last"),
    trace_events.LEARNER_JOINED: ("peer", "votes"),
    trace_events.LEARNER_LOST: ("peer", "reason"),
    trace_events.SYNC_DIFF: ("peer", "last"),
    trace_events.SYNC_TRUNC: ("peer", "last"),
    trace_events.SYNC_SNAPSHOT: ("peer", "last"),
    trace_events.SYNC_READ_LOG: ("peer", "last"),
    trace_events.LEADER_ESTABLISHED: ("epoch", "last"),
    trace_events.LEARNER_ACTIVATED: ("leader", "delivered"),
    trace_events.PROPOSAL_DUPLICATE: ("first",),
    trace_events.COMMIT_DUPLICATE: ("upto",),
    trace_events.ACK_DUPLICATE: ("upto",),
    trace_events.LOG_PAUSED: ("logged",),
    trace_events.LOG_UNCERTAIN: ("uncertain",),
    trace_events.VOTE_REPLACED: ("server", "disk"),
    trace_events.SNAPSHOT_DISCARDED: ("zxid",),
    server_trace_events.CLIENT_MALFORMED: ("connection", "reason"),
    server_trace_events.CLIENT_OVERRUN: ("connection",),
    server_trace_events.SESSION_OPENED: ("session", "server"),
    server_trace_events.SESSION_EXPIRED: ("session",),
    server_trace_events.SESSION_PROCESS_DIED: ("session",),
    server_trace_events.DEAD_SESSION_DROPPED: ("session",),
    server_trace_events.SESSION_FENCED: ("session", "connection"),
    server_trace_events.EXPIRY_DROPPED: ("session",),
    server_trace_events.TRACKER_LOST: ("losses_before",),
    server_trace_events.TRACKER_REPLACED: ("epoch",),
    server_trace_events.WRITE_GAP: ("session", "last", "number"),
    server_trace_events.WRITE_FENCED: ("session", "number", "peer"),
    server_trace_events.QUOTA_EXCEEDED: ("path", "znodes", "bytes"),
    server_trace_events.WATCHES_FULL: ("session",),
    server_trace_events.REQUEST_SLOW: ("requests", "session", "kind", "number", "stage", "took_ms"),
    server_trace_events.PROPOSAL_SLOW: ("last", "stage", "took_ms"),
    server_trace_events.COUNTER_EXHAUSTED: ("epoch",),
    server_trace_events.SNAPSHOT_STARTED: ("zxid",),
    server_trace_events.SNAPSHOT_PUBLISHED: ("zxid",),
    server_trace_events.SNAPSHOT_FAILED: ("zxid",),
    server_trace_events.SNAPSHOT_INSTALLED: ("zxid",),
    server_trace_events.DIGEST_DIFFERS: ("zxid", "servers"),
    server_trace_events.DIGEST_UNDECIDED: ("zxid", "servers"),
    server_trace_events.DISK_FULL: (),
    server_trace_events.DISK_SPACE_FREED: (),
    server_trace_events.READS_PAUSED: (),
    server_trace_events.READS_RESUMED: (),
    server_trace_events.READ_ONLY_BEGUN: (),
    server_trace_events.READ_ONLY_ENDED: (),
    storage_notes.LOG_TAIL_CUT: ("segment", "offset", "last"),
    storage_notes.SNAPSHOT_INVALID: ("reason",),
    storage_notes.LEFTOVER_REMOVED: ("name",),
    storage_notes.SYNC_INTERRUPTED: ("last", "current"),
    storage_notes.LOG_PART_DAMAGED: ("reason",),
    storage_notes.PROMISES_MENDED: ("file",),
    storage_notes.REPAIRED: ("disk", "reason"),
}


def trace_fields(note: TraceEvent) -> dict[str, Any]:
    """The note's detail by name; a detail that names its parts itself is left as it is."""
    detail = note.detail
    if detail is None:
        return {}
    if isinstance(detail, dict):
        return detail
    values = detail if isinstance(detail, tuple) else (detail,)
    names = FIELDS.get(note.name, ())
    if len(values) > len(names):
        return {"detail": detail}
    return dict(zip(names, values, strict=False))
