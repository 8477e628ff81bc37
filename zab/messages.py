"""The messages between servers in Zab: one struct per packet of ZooKeeper, by phase.

Paper: Zab (Junqueira, Reed, Serafini, DSN 2011), section IV; names are ZooKeeper's packet types.
Differences: acks and commits are cumulative, a proposal packet carries a run of transactions, and
observers receive the same packets as followers, so INFORM is not needed.

Decoding checks the range of every number that a receiver computes with, so no peer can lead a
server out of the bounds of its log and its files.
"""

from enum import IntEnum

from msgspec import Struct

from raykeeper.zab.feature_levels import LEVEL_MIN, WireLevel
from raykeeper.zab.ids import ZERO, ServerId
from raykeeper.zab.member_list import MemberList
from raykeeper.zab.wire_types import WireDisk, WireEpoch, WireRound, WireServerId, WireZxid


class PeerState(IntEnum):
    """The state of a notification's sender (`QuorumPeer.ServerState`)."""

    LOOKING = 0
    FOLLOWING = 1
    LEADING = 2
    OBSERVING = 3


class Vote(Struct, frozen=True, array_like=True, gc=False):
    """A candidate and its history, and whether it is willing to lead.

    A server is not willing while its disk is full (rule D6), nor while the leader before asked for
    another one to take over.
    """

    epoch: WireEpoch
    zxid: WireZxid
    leader: WireServerId
    is_willing: bool = True

    @property
    def rank(self) -> tuple[int, int, bool, int]:
        """The order of votes: of two with the same history, a willing one leads."""
        return self.epoch, self.zxid, self.is_willing, self.leader


class Notification(Struct, frozen=True, array_like=True, tag=1):
    """Election: the sender's vote in its round; a sender with a role tells whom it follows.

    `has_vote` is False from a server that has no vote, or none now: it is answered but not counted,
    and while it looks both its votes are for nobody, server 0. `own_vote` is the sender's own
    history, whomever it votes for; `disk` tells a voter without its promises from one that is not
    ready. `members` is the newest member list that the sender knows to be committed: it may give a
    server its vote, which that server cannot see in its own log, or tell it of servers that have
    come and gone. `voter_disks` says a part of it for servers of an earlier version. `nominee` is
    the server that a leader which has stepped down asks its followers to elect, 0 for none.
    """

    round: WireRound
    vote: Vote
    state: PeerState
    has_vote: bool
    own_vote: Vote
    disk: WireDisk
    voter_disks: dict[WireServerId, WireDisk] = {}
    members: MemberList | None = None
    nominee: WireServerId = ServerId(0)


class FollowerInfo(Struct, frozen=True, array_like=True, tag=2):
    """Discovery 1, to the prospective leader: the newest epoch the sender has promised.

    `follow_attempt` numbers the sender's attempts to follow; packets of an earlier one are told by
    it. The sender has a vote if `disk` is its own in the leader's member list (rule D3). `level` is
    the newest feature level that its program knows.
    """

    accepted_epoch: WireEpoch
    follow_attempt: int
    disk: WireDisk
    level: WireLevel = LEVEL_MIN


class LeaderInfo(Struct, frozen=True, array_like=True, tag=3):
    """Discovery 2, to a learner: the epoch this leader proposes.

    `level` is the feature level that its log requires.
    """

    epoch: WireEpoch
    follow_attempt: int
    level: WireLevel = LEVEL_MIN


class AckEpoch(Struct, frozen=True, array_like=True, tag=4):
    """Discovery 3: the promise is on disk; the history it comes with (synced, rule Z2).

    `promised` is False when the epoch had been accepted before: the ack then opens the way to
    synchronization but is not counted, or two leaders could share an epoch. `is_uncertain` when
    the history may lack what was acknowledged last (rule D4). `committed` is what the sender knows
    to be committed: the leader may count a vote by it that it could not count else (rule D3).
    """

    current_epoch: WireEpoch
    last_zxid: WireZxid
    promised: bool
    is_uncertain: bool = False
    committed: WireZxid = ZERO


class Diff(Struct, frozen=True, array_like=True, tag=5):
    """Synchronization: the learner keeps its log; the missing transactions follow."""


class Trunc(Struct, frozen=True, array_like=True, tag=6):
    """Synchronization: the learner cuts its log after `upto`, then as Diff."""

    upto: WireZxid


class Snapshot(Struct, frozen=True, array_like=True, tag=7):
    """Synchronization: a whole tree follows, as of `zxid` or partly later (fuzzy)."""

    zxid: WireZxid


class SnapshotChunk(Struct, frozen=True, array_like=True, tag=8):
    """A part of the tree, opaque to Zab; answered by one SnapshotCredit."""

    data: bytes


class SnapshotEnd(Struct, frozen=True, array_like=True, tag=9):
    """The tree is complete; with the transactions up to `consistent_at` it is a real state."""

    consistent_at: WireZxid


class SnapshotCredit(Struct, frozen=True, array_like=True, tag=10):
    """The learner has taken one chunk and may be sent another."""


class NewLeader(Struct, frozen=True, array_like=True, tag=11):
    """Synchronization is complete up to `last`, the end of what was sent."""

    epoch: WireEpoch
    last: WireZxid


class AckNewLeader(Struct, frozen=True, array_like=True, tag=12):
    """The learner's log up to `NewLeader.last` and its current epoch are on disk."""

    epoch: WireEpoch


class UpToDate(Struct, frozen=True, array_like=True, tag=13):
    """A quorum has acknowledged NewLeader; everything up to `commit` is committed."""

    commit: WireZxid


class Proposals(Struct, frozen=True, array_like=True, tag=14):
    """Broadcast: a run of transactions with consecutive zxids of one epoch.

    `committed` is what the leader has delivered: a log never holds a transaction without the
    knowledge of what was committed when it was proposed (rule D3 rests on it).
    """

    first: WireZxid
    txns: list[bytes]
    committed: WireZxid = ZERO


class Ack(Struct, frozen=True, array_like=True, tag=15, gc=False):
    """Broadcast: the sender's log is on disk up to `upto`."""

    upto: WireZxid


class LogPaused(Struct, frozen=True, array_like=True, tag=19, gc=False):
    """Broadcast: the sender's disk is full; it follows and serves on, but logs no more (rule D6).

    Its earlier acknowledgements still count. It logs again only after it has begun anew.
    """


class Commit(Struct, frozen=True, array_like=True, tag=16, gc=False):
    """Broadcast: a quorum has everything up to `upto` on disk."""

    upto: WireZxid


class Ping(Struct, frozen=True, array_like=True, tag=17, gc=False):
    """The leader is alive; a learner answers with the same number (also the probe of rule Z4)."""

    number: int


class Pong(Struct, frozen=True, array_like=True, tag=18, gc=False):
    """The learner still follows the leader that sent Ping `number`."""

    number: int


SnapshotPacket = Snapshot | SnapshotChunk | SnapshotEnd
LeaderMessage = (
    LeaderInfo | Diff | Trunc | SnapshotPacket | NewLeader | UpToDate | Proposals | Commit | Ping
)
LearnerMessage = FollowerInfo | AckEpoch | AckNewLeader | SnapshotCredit | Ack | LogPaused | Pong
ZabMessage = Notification | LeaderMessage | LearnerMessage
