"""The statistics of one server: what it counts while it serves, and what it is at one moment.

Counted are plain integers, so that counting costs next to nothing; the time of an answer is that of
the step which makes it. Every number is computed here, once: the four-letter words, the admin
server and `status` show them.

ZooKeeper: `ServerStats`.
"""

from collections.abc import Collection

from msgspec import Struct

from raykeeper.server.connection import Connection
from raykeeper.server.context import ServerContext
from raykeeper.server.latency import LatencyStats
from raykeeper.server.read_only_mode import ReadOnlyMode
from raykeeper.zab.effects import Role
from raykeeper.zab.ids import DiskId, Epoch, Millis, ServerId, Zxid
from raykeeper.zab.learners import Stage


class LearnerCounts(Struct, frozen=True):
    """The learners of an established leader."""

    learners: int
    """All that follow, or are being synchronized."""
    followers: int
    """Synchronized voters."""
    non_voting_followers: int
    """Synchronized voters that wait for their vote (D3)."""
    observers: int
    """Synchronized observers."""
    pending_syncs: int
    """Syncs and linearizable reads, of all servers, that wait for a quorum's confirmation."""


class ServerStats(Struct, frozen=True, kw_only=True):
    """One server at one moment."""

    server_id: ServerId
    role: Role
    is_active: bool
    is_read_only: bool
    """Whether it serves reads without a leader, to clients that accept it."""
    leader: ServerId | None
    epoch: Epoch
    last_zxid: Zxid
    has_vote: bool
    voters: int
    """How many the ensemble has."""
    voters_lost: list[ServerId]
    """Linked voters that lost their promises; a leader gives them their vote back (D3)."""
    voter_disks: dict[ServerId, DiskId]
    """The disk under which each voter is counted, as far as this server has delivered (D3)."""
    has_disk_space: bool
    """False while the disk is full and nothing is logged (D6)."""
    linked: list[ServerId]
    learners: LearnerCounts | None
    """None unless this server is an established leader."""
    uptime_ms: Millis
    sessions: int
    local_sessions: int
    """Those of read-only mode, which only this server knows."""
    connections: int
    znodes: int
    ephemerals: int
    data_bytes: int
    """Bytes of all values and characters of all paths."""
    watches: int
    outstanding: int
    packets_received: int
    """Requests, connects and heartbeats that have arrived since the last reset."""
    packets_sent: int
    """Replies, events and confirmed heartbeats that were sent since the last reset."""
    reads: LatencyStats
    """Of reads, syncs and requests about watches since the last reset."""
    updates: LatencyStats
    """Of writes since the last reset."""
    clients_to_move: int | None = None
    """How many clients are still to be moved; None unless the server is drained."""

    @property
    def latency(self) -> LatencyStats:
        """Of all requests."""
        both = [each for each in (self.reads, self.updates) if each.count]
        return LatencyStats(
            sum(each.count for each in both),
            sum(each.total_ms for each in both),
            min((each.min_ms for each in both), default=0),
            max((each.max_ms for each in both), default=0),
        )


def collect_stats(
    context: ServerContext,
    connections: Collection[Connection],
    read_only: ReadOnlyMode,
    clients_to_move: int | None = None,
) -> ServerStats:
    """Return the statistics of a server with these connections."""
    peer, state, counters = context.peer, context.state, context.counters
    members, tree = peer.settings.members, state.tree
    received, sent = counters.packets_received, counters.packets_sent
    return ServerStats(
        server_id=peer.settings.server_id,
        role=peer.role,
        is_active=peer.is_active,
        is_read_only=read_only.is_active,
        leader=peer.leader,
        epoch=peer.epoch,
        last_zxid=state.zxid,
        has_vote=peer.settings.has_vote,
        voters=len(members.voters),
        voters_lost=peer.voters_lost,
        voter_disks=members.counted_disks,
        has_disk_space=peer.history.has_disk_space,
        linked=sorted(peer.links),
        learners=_learner_counts(context),
        uptime_ms=Millis(context.now.mono - context.started_at),
        sessions=len(state.sessions.by_id),
        local_sessions=sum(each.local_session is not None for each in connections),
        connections=len(connections),
        znodes=len(tree.znodes),
        ephemerals=sum(map(len, tree.ephemerals.values())),
        data_bytes=tree.data_bytes,
        watches=context.watches.count,
        outstanding=sum(len(each.requests) for each in connections),
        packets_received=received + sum(each.packets_received for each in connections),
        packets_sent=sent + sum(each.packets_sent for each in connections),
        reads=counters.reads.stats(),
        updates=counters.updates.stats(),
        clients_to_move=clients_to_move,
    )


def _learner_counts(context: ServerContext) -> LearnerCounts | None:
    leader, is_voter = context.peer.broadcasting, context.peer.settings.members.is_voter
    if leader is None:
        return None
    following = [each for each in leader.learners if each.stage is Stage.FOLLOWING]
    followers = sum(each.has_vote for each in following)
    observers = sum(not is_voter(each.server_id) for each in following)
    return LearnerCounts(
        learners=sum(1 for _ in leader.learners),
        followers=followers,
        non_voting_followers=len(following) - followers - observers,
        observers=observers,
        pending_syncs=leader.read_indexes_pending,
    )
