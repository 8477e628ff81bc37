"""The counters of a server: plain integers, incremented where the work is done.

A connection counts its own packets (`Connection`); the packets of closed connections are counted
here. So the path of a request adds to one integer for each frame, and to one for each request that
waited. `stats.py` puts the numbers together.

ZooKeeper: `ServerStats`.
"""

from collections.abc import Iterable

from raykeeper.server.connection import Connection
from raykeeper.server.latency import LatencyHistogram


class Counters:
    """The counts of one server since its start or the last reset.

    `packets_received` and `packets_sent` are those that its present connections do not count.
    """

    __slots__ = ("packets_received", "packets_sent", "reads", "updates")

    def __init__(self) -> None:
        self.packets_received = 0
        self.packets_sent = 0
        self.reads = LatencyHistogram()
        self.updates = LatencyHistogram()

    def take_over(self, connection: Connection) -> None:
        """Count here what a connection has counted, which begins anew or is gone."""
        self.packets_received += connection.packets_received
        self.packets_sent += connection.packets_sent
        connection.packets_received = connection.packets_sent = 0

    def reset(self, connections: Iterable[Connection]) -> None:
        """Begin anew; the connections go on with their own counts."""
        self.packets_received = -sum(each.packets_received for each in connections)
        self.packets_sent = -sum(each.packets_sent for each in connections)
        self.reads.reset()
        self.updates.reset()
