"""The effects that a server asks of its shell: a closed union, carried out in list order."""

from msgspec import Struct

from raykeeper.server.peer_messages import PeerMessage
from raykeeper.zab.effects import BreakLink, DiskEffect, TraceEvent
from raykeeper.zab.feature_levels import FeatureLevel
from raykeeper.zab.ids import ZERO, ServerId, Zxid
from raykeeper.zab.member_list import MemberList
from raykeeper.znodes.expiry import SessionReport


class SendPeer(Struct, frozen=True):
    """Send `message` to another server; messages to one peer stay in order."""

    peer: ServerId
    message: PeerMessage


class SendClient(Struct, frozen=True):
    """Send an encoded frame to a client."""

    connection: int
    data: bytes


class CloseClient(Struct, frozen=True):
    """Close a client's link after the frames that were sent before have left."""

    connection: int


class PauseReading(Struct, frozen=True):
    """Read no more from a client of ZooKeeper; what was read already may still be delivered."""

    connection: int


class ResumeReading(Struct, frozen=True):
    """Read again from a client of ZooKeeper."""

    connection: int


class ReadProcessFacts(Struct, frozen=True):
    """Say what the process has open and what its folder holds. Completion: ProcessFactsRead."""


class TrackSessions(Struct, frozen=True):
    """Send the session tracker a report; it answers with `SessionsOverdue`, perhaps empty."""

    report: SessionReport


class TransferResult(Struct, frozen=True):
    """The outcome of a request to transfer the lead."""

    leader: ServerId | None
    """The leader now, as far as this server knows."""
    is_done: bool
    """Whether the server that was asked for leads; any other one if none was."""
    reason: str = ""
    """Why not, or why nothing was to be done."""


class TransferAnswered(Struct, frozen=True):
    """Completion of TransferRequested."""

    request: int
    result: TransferResult


class ReconfigResult(Struct, frozen=True):
    """The outcome of a request for a step of the member list."""

    code: int
    """0: done, which means delivered and said again. Else a `Code`: nothing was changed, but for
    CONNECTION_LOSS, with which the outcome is not known. SYSTEM_ERROR: this server cannot do it,
    another one may, or this one later."""
    reason: str = ""
    version: Zxid = ZERO
    """Of the list that the step has made; 0 unless it is done."""


class ReconfigAnswered(Struct, frozen=True):
    """Completion of ReconfigRequested."""

    request: int
    result: ReconfigResult


class MembersKnown(Struct, frozen=True):
    """Keep links with `servers`, and leave the list in the folder for launches.

    Comes at the start, and whenever something of it changes.
    """

    members: MemberList
    """The newest list that was delivered here."""
    servers: tuple[ServerId, ...]
    """Those of all lists that count or may come to count, in order; this server too, if one has
    it."""
    was_member: bool
    """Whether a list has had this server while it took part in broadcast. If `members` has it and
    this is False, that list may be of an earlier server of its id."""


class LeaveEnsemble(Struct, frozen=True):
    """End, and never begin again on this disk: `members`, which was said again, has this server no
    more."""

    members: MemberList


class SnapshotBegin(Struct, frozen=True):
    """Have the Snapshotter open a temporary snapshot as of `zxid`, dropping any other one."""

    zxid: Zxid


class SnapshotWrite(Struct, frozen=True):
    """Give the Snapshotter a chunk. Completion: SnapshotCredited."""

    zxid: Zxid
    data: bytes


class SnapshotFinish(Struct, frozen=True):
    """The tree is complete. Completion: SnapshotWritten."""

    zxid: Zxid
    consistent_at: Zxid


class SnapshotAbort(Struct, frozen=True):
    """Drop the temporary snapshot; no completion."""

    zxid: Zxid


class PublishSnapshot(Struct, frozen=True):
    """Give the temporary snapshot its name and prune older ones, on the disk in order with the log.

    Completion: SnapshotPublished.
    """

    zxid: Zxid


class SaveLevel(Struct, frozen=True):
    """Note beside the data, durably, that whoever reads it must know this feature level.

    It comes before what requires it, on the disk in order with the log. No completion.
    """

    level: FeatureLevel


class Restart(Struct, frozen=True):
    """End this process once the disk has worked off its effects; the next one begins from the disk.

    `wipe_disk` is for a tree that differs from those of a quorum: the disk counts as damaged, so
    the next process begins without it, as one that lost its promises (rules D3 and D4).
    """

    reason: str
    wipe_disk: bool


SnapshotEffect = SnapshotBegin | SnapshotWrite | SnapshotFinish | SnapshotAbort
Effect = (
    SendPeer
    | SendClient
    | CloseClient
    | PauseReading
    | ResumeReading
    | ReadProcessFacts
    | BreakLink
    | DiskEffect
    | PublishSnapshot
    | SaveLevel
    | TrackSessions
    | TransferAnswered
    | ReconfigAnswered
    | MembersKnown
    | LeaveEnsemble
    | SnapshotEffect
    | Restart
    | TraceEvent
)
