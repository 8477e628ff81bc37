"""How long requests took: the counts of a client and of a server, against the plain numbers."""

import pytest

from raykeeper.server.latency import (
    BOUNDS_MS,
    BY_MS,
    Latency,
    LatencyBuckets,
    LatencyHistogram,
    LatencyStats,
)


@pytest.mark.parametrize("kind", [Latency, LatencyHistogram])
@pytest.mark.parametrize(
    "times",
    [
        [],
        [0],
        [7, 3, 3, 0],
        [BY_MS - 1, BY_MS],
        [BY_MS + 5, BY_MS + 1, 90_000],
        [1, 90_000, 5],
    ],
)
def test_number_sum_least_and_most_are_those_of_the_requests(
    kind: type[Latency | LatencyHistogram], times: list[int]
) -> None:
    latency = kind()
    for _ in range(2):
        for time in times:
            latency.observe(time)
        least, most = min(times, default=0), max(times, default=0)
        assert latency.stats() == LatencyStats(len(times), sum(times), least, most)
        latency.reset()
    assert latency.stats() == LatencyStats()


@pytest.mark.parametrize(
    "times",
    [[], [0, 1, 1, 2, 3, 4], [511, 512, 1_023, 1_024], [2_047, 2_048, 65_535, 65_536, 10**9]],
)
def test_buckets_count_the_requests_below_each_bound(times: list[int]) -> None:
    latency = LatencyHistogram()
    for time in times:
        latency.observe(time)
    below = [sum(time < bound for time in times) for bound in BOUNDS_MS]
    assert latency.buckets() == LatencyBuckets((*below, len(times)), sum(times))
