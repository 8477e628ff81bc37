"""How long requests took: number, sum, minimum and maximum for a client, a histogram for a server.

ZooKeeper: `AvgMinMaxCounter`, `AvgMinMaxPercentileCounter`.
"""

from typing import Final

from msgspec import Struct

BY_MS: Final = 1_024
"""Requests that take less are counted by the millisecond."""
_NONE_YET: Final = 1 << 62
BOUNDS_MS: Final = tuple(1 << power for power in range(17))
"""The upper bounds of `LatencyBuckets`: from a millisecond to a minute."""
_DOUBLINGS: Final = BY_MS.bit_length() - 1
assert 1 << _DOUBLINGS == BY_MS, "by_ms must end at a bound"


class LatencyStats(Struct, frozen=True):
    """How long requests took from their arrival to their answer."""

    count: int = 0
    total_ms: int = 0
    min_ms: int = 0
    max_ms: int = 0


class LatencyBuckets(Struct, frozen=True):
    """How many requests took less than each of `BOUNDS_MS`, and in the end how many there were."""

    counts: tuple[int, ...]
    total_ms: int


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
    _longer: list[int]  # by the bits of their milliseconds

    def __init__(self) -> None:
        self.by_ms = [0] * BY_MS
        self.reset()

    def reset(self) -> None:
        """Begin anew, with the same list."""
        self.by_ms[:] = [0] * BY_MS
        self._longer = [0] * (len(BOUNDS_MS) + 1)
        self._longer_total_ms = self._max_ms = 0
        self._longer_min_ms = _NONE_YET

    def observe(self, took_ms: int) -> None:
        """Count one request."""
        if took_ms < BY_MS:
            self.by_ms[took_ms] += 1
            return
        self._longer[min(took_ms.bit_length(), len(BOUNDS_MS))] += 1
        self._longer_total_ms += took_ms
        self._max_ms = max(self._max_ms, took_ms)
        self._longer_min_ms = min(self._longer_min_ms, took_ms)

    def stats(self) -> LatencyStats:
        """Return what was counted."""
        counted = [(ms, count) for ms, count in enumerate(self.by_ms) if count]
        count = sum(number for _, number in counted) + sum(self._longer)
        if not count:
            return LatencyStats()
        total = sum(ms * number for ms, number in counted) + self._longer_total_ms
        least = counted[0][0] if counted else self._longer_min_ms
        return LatencyStats(count, total, least, self._max_ms or counted[-1][0])

    def buckets(self) -> LatencyBuckets:
        """Return what was counted, by the bounds of `BOUNDS_MS`."""
        by_ms, counts, counted, start = self.by_ms, [], 0, 0
        for bound in BOUNDS_MS[: _DOUBLINGS + 1]:
            counted += sum(by_ms[start:bound])
            counts.append(counted)
            start = bound
        for count in self._longer[_DOUBLINGS + 1 :]:
            counted += count
            counts.append(counted)
        return LatencyBuckets(tuple(counts), self.stats().total_ms)
