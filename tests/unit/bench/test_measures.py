"""Percentiles, rates over windows of bins, pauses that all generators share."""

import pytest

from raykeeper.bench.measures import (
    BIN_S,
    Counts,
    Span,
    WarmUp,
    WarmUpBounds,
    common_pauses,
    judge_warm_up,
    longest_pause,
    percentile,
    rate,
    series,
    split_by,
)


def steady(seconds: float, rate: float) -> WarmUp:
    return WarmUp(seconds, rate, is_steady=True)


@pytest.mark.parametrize(
    ("done", "expected"),
    [
        # Windows of 2.5 s, at least 10 s and at most 20 s. Nothing is known yet.
        ([], None),
        ([100], None),
        ([100, 100, 100], None),
        # The halves of the last four windows agree, to 5 % of the higher one.
        ([100, 100, 100, 100], steady(10, 40)),
        ([90, 110, 95, 105], steady(10, 40)),
        ([95, 95, 100, 100], steady(10, 39)),
        ([94, 94, 100, 100], None),
        ([100, 100, 95, 95], steady(10, 39)),
        ([100, 100, 94, 94], None),
        # Earlier windows do not count.
        ([1, 20, 100, 100, 100, 100], steady(15, 40)),
        ([1, 100, 100, 100], None),
        # It takes too long: the last windows tell the rate.
        ([10, 20, 30, 40, 50, 60, 70, 80], WarmUp(20, 26, is_steady=False)),
        ([10, 20, 30, 40, 50, 60, 70], None),
        # Nothing at all happens, and goes on not to happen.
        ([0, 0, 0, 0], steady(10, 0)),
    ],
)  # fmt: skip
def test_a_system_is_warm_when_its_rate_stands_still(
    done: list[int], expected: WarmUp | None
) -> None:
    bounds = WarmUpBounds(10.0, 20.0)
    assert bounds.window_s == 2.5
    assert judge_warm_up([(each, 2.5) for each in done], bounds) == expected


def test_windows_of_different_lengths_count_by_their_rates() -> None:
    bounds = WarmUpBounds(10.0, 20.0)
    windows = [(100, 1.0), (200, 2.0), (100, 1.0), (700, 7.0)]
    assert judge_warm_up(windows, bounds) == steady(11.0, 100.0)
    assert judge_warm_up([(100, 1.0)] * 9, bounds) is None  # not long enough
    assert judge_warm_up([(100, 30.0)], bounds) == WarmUp(30.0, 100 / 30, is_steady=False)


@pytest.mark.parametrize(
    ("values", "percent", "expected"),
    [
        ([3.0], 50, 3.0),
        ([3.0], 99.9, 3.0),
        ([4.0, 1.0, 3.0, 2.0], 50, 2.0),
        ([4.0, 1.0, 3.0, 2.0], 51, 3.0),
        ([float(i) for i in range(1, 1001)], 99, 990.0),
        ([float(i) for i in range(1, 1001)], 99.9, 999.0),
        ([float(i) for i in range(1, 1001)], 100, 1000.0),
    ],
)  # fmt: skip
def test_percentile_is_the_nearest_rank(
    values: list[float], percent: float, expected: float
) -> None:
    assert percentile(values, percent) == expected


ONE: Counts = [(99, 7, 7), (100, 1, 2), (101, 3, 0), (102, 50, 50)]
TWO: Counts = [(100, 0, 4)]


def test_rate_counts_the_bins_within_the_window() -> None:
    assert rate([ONE, TWO], (100 * BIN_S, 102 * BIN_S)) == pytest.approx(10 / (2 * BIN_S))


def test_rate_leaves_out_bins_that_are_within_in_part() -> None:
    window = (99.5 * BIN_S, 101.5 * BIN_S)
    assert rate([ONE], window) == pytest.approx(3 / BIN_S)
    assert rate([ONE], (99.2 * BIN_S, 99.8 * BIN_S)) == 0


def test_series_begins_with_zero_and_has_only_whole_steps() -> None:
    window = (100 * BIN_S, 104.9 * BIN_S)
    found = series([ONE, TWO], window, 2 * BIN_S)
    assert [at for at, _ in found] == pytest.approx([0, 2 * BIN_S])
    assert [value for _, value in found] == pytest.approx([10 / (2 * BIN_S), 100 / (2 * BIN_S)])


@pytest.mark.parametrize(
    ("pauses", "expected"),
    [
        ([], []),
        ([[(1, 2), (5, 9)]],                  [(1, 2), (5, 9)]),
        ([[(1, 4), (5, 9)], [(2, 6)]],        [(2, 4), (5, 6)]),
        ([[(1, 4)], [(4, 6)]],                []),  # no time in common
        ([[(1, 9)], [(2, 8)], [(3, 4)]],      [(3, 4)]),
        ([[(1, 9)], []],                      []),  # one never paused
    ],
)  # fmt: skip
def test_common_pauses_are_of_all_generators(
    pauses: list[list[Span]], expected: list[Span]
) -> None:
    assert common_pauses(pauses) == expected


@pytest.mark.parametrize(
    ("window", "expected"),
    [
        ((0, 20), 4),
        ((0, 3), 1),     # the long one begins later
        ((6, 7), 4),     # it counts whole, though it reaches beyond the window on both sides
        ((9, 20), 0),    # it is over
        ((0, 1), 0),
    ],
)  # fmt: skip
def test_longest_pause_touches_the_window(window: Span, expected: float) -> None:
    assert longest_pause([[(1, 2), (5, 9)]], window) == expected


def test_split_by_groups_values_by_their_begin() -> None:
    timings = [(1.0, 10.0), (2.0, 20.0), (3.0, 30.0), (4.0, 40.0)]
    assert split_by(timings, [(2.0, 3.0)]) == ([10.0, 40.0], [20.0, 30.0])
    assert split_by(timings, []) == ([10.0, 20.0, 30.0, 40.0], [])
