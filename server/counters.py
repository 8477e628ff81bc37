"""The counters of a server: plain integers, incremented where the work is done.

A connection counts its own packets (`Connection`); the packets of closed connections are counted
here. So the path of a request adds to one integer for each frame, and to two for each write.
`stats.py` puts the numbers together.

ZooKeeper: `ServerStats`.
"""

from collections.abc import Iterable

from raykeeper.server.connection import Connection
from raykeeper.server.latency import LatencyHistogram
from raykeeper.server.request_counts import RequestCounts


class Counters:
    """The counts of one server since its start or the last reset.

    `packets_received` and `packets_sent` are those that its present connections do not count.
    `commits` are the times from a proposal to its commit, of each run of transactions, on the
    leader. `elections` and `election_ms` are how often this server had no leader, or did not lead,
    until it did, and for how long in all.
    """

    __slots__ = (
        *("applied", "commits", "election_ms", "elections", "last_election_ms"),
        *("packets_received", "packets_sent", "proposed", "reads", "requests", "updates"),
    )

    def __init__(self) -> None:
        self.packets_received = 0
        self.packets_sent = 0
        self.reads = LatencyHistogram()
        self.updates = LatencyHistogram()
        self.requests = RequestCounts()
        self.commits = LatencyHistogram()
        self.proposed = 0  # transactions, as a leader
        self.applied = 0  # transactions
        self.elections = self.election_ms = self.last_election_ms = 0

    def take_over(self, connection: Connection) -> None:
        """Count here what a connection has counted, which begins anew or is gone."""
        self.packets_received += connection.packets_received
        self.packets_sent += connection.packets_sent
        connection.packets_received = connection.packets_sent = 0

    def on_elected(self, took_ms: int) -> None:
        """Count an election: this server leads, or follows a leader, for the first time since."""
        self.elections += 1
        self.election_ms += took_ms
        self.last_election_ms = took_ms

    def reset(self, connections: Iterable[Connection]) -> None:
        """Begin anew; the connections go on with their own counts."""
        self.packets_received = -sum(each.packets_received for each in connections)
        self.packets_sent = -sum(each.packets_sent for each in connections)
        self.reads.reset()
        self.updates.reset()
        self.requests.reset()
        self.commits.reset()
        self.proposed = self.applied = 0
        self.elections = self.election_ms = self.last_election_ms = 0
