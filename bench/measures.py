"""From what load generators report to numbers: percentiles, rates, gaps and ratios. Pure.

Moments are seconds of the machine's monotonic clock, which all its processes share.
"""

import math
from collections.abc import Iterable, Sequence

BIN_S = 0.05
"""Completions are counted in bins of this length."""

_ROUNDING = 1e-6

Span = tuple[float, float]
Counts = Sequence[tuple[int, int, int]]
"""Bins: the moment divided by `BIN_S`, reads and writes completed in it."""


def percentile(values: Sequence[float], percent: float) -> float:
    """The smallest value that at least `percent` of all values do not exceed (nearest rank)."""
    assert values, "no value has no percentile"
    ordered = sorted(values)
    return ordered[max(0, math.ceil(len(ordered) * percent / 100) - 1)]


def rate(counts: Iterable[Counts], window: Span) -> float:
    """Operations per second of all generators together in the bins that lie within `window`."""
    first = math.ceil(window[0] / BIN_S - _ROUNDING)
    end = math.floor(window[1] / BIN_S + _ROUNDING)
    done = sum(
        reads + writes for each in counts for number, reads, writes in each if first <= number < end
    )
    return done / ((end - first) * BIN_S) if end > first else 0.0


def series(counts: Iterable[Counts], window: Span, step_s: float) -> list[tuple[float, float]]:
    """Operations per second over time: the start of each step, from 0, and the rate in it."""
    points = []
    for index in range(int((window[1] - window[0]) / step_s)):
        begin = window[0] + index * step_s
        points.append((begin, begin + step_s))
    kept = list(counts)
    return [(begin - window[0], rate(kept, (begin, end))) for begin, end in points]


def common_pauses(pauses: Sequence[Sequence[Span]]) -> list[Span]:
    """The spans in which every generator paused, in order."""
    if not pauses:
        return []
    common = sorted(pauses[0])
    for more in pauses[1:]:
        common = sorted(
            (max(a, c), min(b, d)) for a, b in common for c, d in more if max(a, c) < min(b, d)
        )
    return common


def longest_pause(pauses: Sequence[Sequence[Span]], window: Span) -> float:
    """The longest span without any write, of those that touch `window`; 0 if there is none."""
    return max(
        (
            end - begin
            for begin, end in common_pauses(pauses)
            if begin < window[1] and end > window[0]
        ),
        default=0.0,
    )


def split_by(timings: Iterable[Span], spans: Sequence[Span]) -> tuple[list[float], list[float]]:
    """The values of `timings` (moment, value) outside the spans, and inside one of them."""
    outside: list[float] = []
    inside: list[float] = []
    for moment, value in timings:
        is_inside = any(begin <= moment <= end for begin, end in spans)
        (inside if is_inside else outside).append(value)
    return outside, inside
