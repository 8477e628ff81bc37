"""How long requests took: number, sum, minimum and maximum for a client, a histogram for a server.

ZooKeeper: `AvgMinMaxCounter`, `AvgMinMaxPercentileCounter`.
"""

from typing import Final

from msgspec import Struct

BY_MS: Final = 1_024
"""Requests that take less are counted by the millisecond."""
_NONE_YET: Final = 1 << 62


class LatencyStats(Struct, frozen=True):
    """How long requests took from their arrival to their answer."""

    count: int = 0
    total_ms: int = 0
    min_ms: int = 0
    max_ms: int = 0


class Latency:
    """The requests of one client."""

    __slots__ = ("_count", "_max_ms", "_min_ms", "_total_ms")

    def __init__(self) -> None:
        self.reset()

    def reset(self) -> None:
        """Begin anew."""
        self._count = self._total_ms = self._max_ms = 0
        self._min_ms = _NONE_YET

    def observe(self, took_ms: int) -> None:
        """Count one request."""
        self._count += 1
        self._total_ms += took_ms
        if took_ms > self._max_ms:
            self._max_ms = took_ms
        if took_ms < self._min_ms:
            self._min_ms = took_ms

    def stats(self) -> LatencyStats:
        """Return what was counted."""
        least = self._min_ms if self._count else 0
        return LatencyStats(self._count, self._total_ms, least, self._max_ms)


class LatencyHistogram:
    """The requests of one kind of a server: how many took each number of milliseconds.

    To count one is to add to one integer of `by_ms`; `observe` is for those beyond.
    """

    __slots__ = ("_longer", "_longer_min_ms", "_longer_total_ms", "_max_ms", "by_ms")

    def __init__(self) -> None:
        self.by_ms = [0] * BY_MS
        self.reset()

    def reset(self) -> None:
        """Begin anew, with the same list."""
        self.by_ms[:] = [0] * BY_MS
        self._longer = self._longer_total_ms = self._max_ms = 0
        self._longer_min_ms = _NONE_YET

    def observe(self, took_ms: int) -> None:
        """Count one request."""
        if took_ms < BY_MS:
            self.by_ms[took_ms] += 1
            return
        self._longer += 1
        self._longer_total_ms += took_ms
        self._max_ms = max(self._max_ms, took_ms)
        self._longer_min_ms = min(self._longer_min_ms, took_ms)

    def stats(self) -> LatencyStats:
        """Return what was counted."""
        counted = [(ms, count) for ms, count in enumerate(self.by_ms) if count]
        count = sum(number for _, number in counted) + self._longer
        if not count:
            return LatencyStats()
        total = sum(ms * number for ms, number in counted) + self._longer_total_ms
        least = counted[0][0] if counted else self._longer_min_ms
        return LatencyStats(count, total, least, self._max_ms or counted[-1][0])
