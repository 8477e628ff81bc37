"""The counts of a server that its metrics show beside `ServerStats`.

ZooKeeper: `ServerMetrics`, `LearnerHandlerMBean`.
"""

from collections.abc import Collection

from msgspec import Struct

from raykeeper.server.connection import Connection
from raykeeper.server.context import ServerContext
from raykeeper.server.latency import LatencyBuckets
from raykeeper.server.read_only_mode import ReadOnlyMode
from raykeeper.server.stats import ServerStats, collect_stats
from raykeeper.zab.ids import ServerId, Zxid, counter_of, epoch_of
from raykeeper.zab.learners import Stage


class ServerMetrics(Struct, frozen=True, kw_only=True):
    """One server at one moment. Counts are those since its start, or since the last reset."""

    stats: ServerStats
    requests: dict[tuple[str, str], int]
    """Answered requests by kind and outcome, see `RequestCounts`."""
    reads: LatencyBuckets
    updates: LatencyBuckets
    commits: LatencyBuckets
    """From a proposal to its commit, of each run of transactions, on the leader."""
    proposed: int
    """Transactions that it has proposed as a leader."""
    applied: int
    """Transactions that it has applied."""
    elections: int
    """How often it has come to lead, or to follow a leader."""
    election_ms: int
    """How long it had no leader before, or did not lead, in all elections."""
    last_election_ms: int
    follower_lags: dict[ServerId, int]
    """On a leader: transactions that each synchronized learner has not acknowledged."""


def collect_metrics(
    context: ServerContext, connections: Collection[Connection], read_only: ReadOnlyMode
) -> ServerMetrics:
    """Return the metrics of a server with these connections."""
    counters = context.counters
    return ServerMetrics(
        stats=collect_stats(context, connections, read_only),
        requests=counters.requests.by_outcome(),
        reads=counters.reads.buckets(),
        updates=counters.updates.buckets(),
        commits=counters.commits.buckets(),
        proposed=counters.proposed,
        applied=counters.applied,
        elections=counters.elections,
        election_ms=counters.election_ms,
        last_election_ms=counters.last_election_ms,
        follower_lags=_follower_lags(context),
    )


def _follower_lags(context: ServerContext) -> dict[ServerId, int]:
    leader, logged = context.peer.broadcasting, context.peer.history.logged
    if leader is None:
        return {}
    return {
        learner.server_id: _transactions_between(learner.acked, logged)
        for learner in leader.learners
        if learner.stage is Stage.FOLLOWING
    }


def _transactions_between(acked: Zxid, logged: Zxid) -> int:
    """Return how many transactions of the newest epoch `acked` does not cover."""
    if epoch_of(acked) != epoch_of(logged):
        return counter_of(logged)
    return max(0, logged - acked)
