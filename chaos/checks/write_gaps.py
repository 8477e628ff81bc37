"""Gaps in writes: the times in which no client was told that a write is done."""

from collections.abc import Iterable
from itertools import pairwise

from raykeeper.chaos.checks.history import BEGIN, History
from raykeeper.chaos.checks.writes import is_acked_write

Gap = tuple[int, int]


def write_gaps(history: History) -> list[Gap]:
    """Return the times of the answers to each two successive successful writes of the load.

    Before the first write and after the last one there is no gap.
    """
    times = sorted(
        operation.returned
        for operation in history.operations
        if operation.returned is not None
        and operation.client != BEGIN
        and is_acked_write(operation)
    )
    return list(pairwise(times))


def longest_gap(gaps: Iterable[Gap]) -> int:
    """Return the longest of these gaps, 0 if there is none."""
    return max((after - before for before, after in gaps), default=0)


def gaps_between(gaps: Iterable[Gap], since: int, until: int) -> list[Gap]:
    """Return the gaps that have a part between these times."""
    return [(before, after) for before, after in gaps if after > since and before < until]
