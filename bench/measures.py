"""Percentiles, rates, gaps and ratios from the reports of load generators. Pure.

Moments are seconds of the machine's monotonic clock, which all its processes share.
"""

import math
from collections.abc import Iterable, Sequence

from msgspec import Struct

BIN_S = 0.05
"""Completions are counted in bins of this length."""

STEADY_WINDOWS = 4
"""A rate stands still if the halves of so many windows ..."""
STEADY_PART = 0.05
"""... differ by at most this part."""

_ROUNDING = 1e-6

Span = tuple[float, float]
Counts = Sequence[tuple[int, int, int]]
"""Bins: the moment divided by `BIN_S`, and the reads and writes completed in it."""


class WarmUpBounds(Struct, frozen=True):
    """For how long a load warms a system, at least and at most."""

    least_s: float
    most_s: float

    @property
    def window_s(self) -> float:
        """Return the length of a window, if the load takes a time and not an amount of work."""
        return self.least_s / STEADY_WINDOWS


class WarmUp(Struct, frozen=True):
    """The end of a warm-up."""

    seconds: float
    rate: float
    """Of the last windows, in operations per second."""
    is_steady: bool
    """The rate stood still; else the warm-up took as long as it may."""


def judge_warm_up(windows: Sequence[tuple[int, float]], bounds: WarmUpBounds) -> WarmUp | None:
    """Decide by the windows of a load so far, operations and seconds of each; None: go on.

    A system is warm when it was loaded for `least_s`, and the rates of the two halves of the last
    `STEADY_WINDOWS` windows differ by at most `STEADY_PART` of the higher one. A rate that never
    stands still, as on a machine with other work, ends the warm-up after `most_s`.
    """
    seconds = sum(taken for _, taken in windows)
    last = windows[-STEADY_WINDOWS:]
    half = STEADY_WINDOWS // 2
    before, after = _rate_of(last[:-half]), _rate_of(last[-half:])
    is_full = len(last) == STEADY_WINDOWS and seconds >= bounds.least_s - _ROUNDING
    is_steady = is_full and abs(after - before) <= STEADY_PART * max(before, after)
    if is_steady or seconds >= bounds.most_s - _ROUNDING:
        return WarmUp(seconds, _rate_of(last), is_steady)
    return None


def _rate_of(windows: Sequence[tuple[int, float]]) -> float:
    seconds = sum(taken for _, taken in windows)
    return sum(done for done, _ in windows) / seconds if seconds else 0.0


def percentile(values: Sequence[float], percent: float) -> float:
    """Return the smallest value that `percent` of all values do not exceed (nearest rank)."""
    assert values, "no value has no percentile"
    ordered = sorted(values)
    return ordered[max(0, math.ceil(len(ordered) * percent / 100) - 1)]


def rate(counts: Iterable[Counts], window: Span) -> float:
    """Return operations per second of all generators together in the bins within `window`."""
    first = math.ceil(window[0] / BIN_S - _ROUNDING)
    end = math.floor(window[1] / BIN_S + _ROUNDING)
    done = sum(
        reads + writes for each in counts for number, reads, writes in each if first <= number < end
    )
    return done / ((end - first) * BIN_S) if end > first else 0.0


def series(counts: Iterable[Counts], window: Span, step_s: float) -> list[tuple[float, float]]:
    """Return operations per second over time: each step's start, counted from 0, and its rate."""
    points = []
    for index in range(int((window[1] - window[0]) / step_s)):
        begin = window[0] + index * step_s
        points.append((begin, begin + step_s))
    kept = list(counts)
    return [(begin - window[0], rate(kept, (begin, end))) for begin, end in points]


def common_pauses(pauses: Sequence[Sequence[Span]]) -> list[Span]:
    """Return the spans in which every generator paused, in order."""
    if not pauses:
        return []
    common = sorted(pauses[0])
    for more in pauses[1:]:
        common = sorted(
            (max(a, c), min(b, d)) for a, b in common for c, d in more if max(a, c) < min(b, d)
        )
    return common


def longest_pause(pauses: Sequence[Sequence[Span]], window: Span) -> float:
    """Return the longest span without any write that touches `window`; 0 if there is none."""
    return max(
        (
            end - begin
            for begin, end in common_pauses(pauses)
            if begin < window[1] and end > window[0]
        ),
        default=0.0,
    )


def split_by(timings: Iterable[Span], spans: Sequence[Span]) -> tuple[list[float], list[float]]:
    """Return the values of `timings` (moment, value) outside all spans, and those inside one."""
    outside: list[float] = []
    inside: list[float] = []
    for moment, value in timings:
        is_inside = any(begin <= moment <= end for begin, end in spans)
        (inside if is_inside else outside).append(value)
    return outside, inside
