"""What the parts of each note mean, so that a log line names them.

The core notes plain tuples, which tests can compare; their fields are named here, in order.
"""

from typing import Any, Final

from raykeeper.actors.disk import storage_notes
from raykeeper.server import server_notes
from raykeeper.zab import notes
from raykeeper.zab.effects import Note

FIELDS: Final[dict[str, tuple[str, ...]]] = {
    notes.ELECTION_STARTED: ("round",),
    notes.ELECTION_ROUND: ("round",),
    notes.ELECTION_DECIDED: ("round", "leader"),
    notes.ROLE_LEFT: ("role", "reason"),
    notes.MESSAGE_STALE: ("peer", "message"),
    notes.MESSAGE_ILLEGAL: ("peer", "reason"),
    notes.QUORUM_LOST: ("without_vote",),
    notes.EPOCH_PROPOSED: ("epoch",),
    notes.EPOCH_OUTRUN: ("peer", "promised"),
    notes.HISTORY_BETTER: ("peer", "epoch", "last"),
    notes.LEARNER_JOINED: ("peer", "votes"),
    notes.LEARNER_LOST: ("peer", "reason"),
    notes.SYNC_DIFF: ("peer", "last"),
    notes.SYNC_TRUNC: ("peer", "last"),
    notes.SYNC_SNAPSHOT: ("peer", "last"),
    notes.SYNC_READ_LOG: ("peer", "last"),
    notes.ESTABLISHED: ("epoch", "last"),
    notes.ACTIVATED: ("leader", "delivered"),
    notes.PROPOSAL_DUPLICATE: ("first",),
    notes.COMMIT_DUPLICATE: ("upto",),
    notes.ACK_DUPLICATE: ("upto",),
    notes.LOG_PAUSED: ("logged",),
    notes.LOG_UNCERTAIN: ("uncertain",),
    notes.VOTE_REPLACED: ("server", "disk"),
    notes.SNAPSHOT_DISCARDED: ("zxid",),
    server_notes.CLIENT_MALFORMED: ("connection", "reason"),
    server_notes.CLIENT_OVERRUN: ("connection",),
    server_notes.SESSION_OPENED: ("session", "server"),
    server_notes.SESSION_EXPIRED: ("session",),
    server_notes.SESSION_DEPARTED: ("session",),
    server_notes.DEPARTURE_DROPPED: ("session",),
    server_notes.SESSION_FENCED: ("session", "connection"),
    server_notes.VERDICT_DROPPED: ("session",),
    server_notes.TRACKER_LOST: ("losses_before",),
    server_notes.TRACKER_REPLACED: ("epoch",),
    server_notes.WRITE_GAP: ("session", "last", "number"),
    server_notes.WRITE_FENCED: ("session", "number", "peer"),
    server_notes.QUOTA_EXCEEDED: ("path", "znodes", "bytes"),
    server_notes.WATCHES_FULL: ("session",),
    server_notes.REQUEST_SLOW: ("requests", "session", "kind", "number", "stage", "took_ms"),
    server_notes.PROPOSAL_SLOW: ("last", "stage", "took_ms"),
    server_notes.COUNTER_EXHAUSTED: ("epoch",),
    server_notes.SNAPSHOT_STARTED: ("zxid",),
    server_notes.SNAPSHOT_DONE: ("zxid",),
    server_notes.SNAPSHOT_FAILED: ("zxid",),
    server_notes.SNAPSHOT_ADOPTED: ("zxid",),
    server_notes.DIGEST_DIFFERS: ("zxid", "servers"),
    server_notes.DIGEST_UNDECIDED: ("zxid", "servers"),
    server_notes.ROOM_LOST: (),
    server_notes.ROOM_FOUND: (),
    server_notes.READS_HELD: (),
    server_notes.READS_RESUMED: (),
    server_notes.READ_ONLY_BEGUN: (),
    server_notes.READ_ONLY_ENDED: (),
    storage_notes.LOG_TAIL_CUT: ("segment", "offset", "last"),
    storage_notes.SNAPSHOT_INVALID: ("reason",),
    storage_notes.LEFTOVER_REMOVED: ("name",),
    storage_notes.SYNC_INTERRUPTED: ("last", "current"),
    storage_notes.LOG_PART_DAMAGED: ("reason",),
    storage_notes.PROMISES_MENDED: ("file",),
    storage_notes.REPAIRED: ("disk", "reason"),
}


def fields_of(note: Note) -> dict[str, Any]:
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
