"""What a server did between two looks at its statistics."""

from msgspec import Struct

from raykeeper.server.latency import LatencyStats
from raykeeper.server.stats import ServerStats


class ServerRates(Struct, frozen=True):
    """What a server did in each second of an interval, in whole numbers."""

    interval_ms: int
    """By the server's own clock."""
    reads: int
    """Reads, syncs and requests about watches that were answered."""
    updates: int
    """Writes of this server's clients that were answered."""
    packets_received: int
    """Requests, connects and heartbeats."""
    packets_sent: int
    """Replies, events and confirmed heartbeats."""
    read_us: int | None
    """Mean microseconds of a read, of counts in whole milliseconds; None if there was none."""
    update_us: int | None
    """The same of a write."""


def rates_between(before: ServerStats, after: ServerStats) -> ServerRates | None:
    """Return what a server did; None if it was started, or its counts were reset, in between."""
    interval_ms = after.uptime_ms - before.uptime_ms
    counts = (
        after.reads.count - before.reads.count,
        after.updates.count - before.updates.count,
        after.packets_received - before.packets_received,
        after.packets_sent - before.packets_sent,
    )
    if interval_ms <= 0 or min(counts) < 0:
        return None
    reads, updates, received, sent = (count * 1000 // interval_ms for count in counts)
    return ServerRates(
        interval_ms=interval_ms,
        reads=reads,
        updates=updates,
        packets_received=received,
        packets_sent=sent,
        read_us=_mean_us(before.reads, after.reads),
        update_us=_mean_us(before.updates, after.updates),
    )


def lag_behind(leader: ServerStats | None, server: ServerStats) -> int | None:
    """Return how many transactions a server has yet to apply; None if that cannot be said.

    The two looks are not at one moment, so a busy server may seem to be ahead: that is 0.
    """
    if leader is None or leader.epoch != server.epoch:
        return None
    return max(0, leader.last_zxid - server.last_zxid)


def _mean_us(before: LatencyStats, after: LatencyStats) -> int | None:
    count = after.count - before.count
    return (after.total_ms - before.total_ms) * 1000 // count if count else None
