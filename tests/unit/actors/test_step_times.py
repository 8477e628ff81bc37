"""StepTimes: times by powers of two of a microsecond, and the longest pause of some seconds."""

import gc

import pytest

from raykeeper.actors.step_times import (
    PAUSES_KEPT,
    STAGE_BOUNDS,
    CollectorPauses,
    LongestPause,
    StageTimes,
    StepTimes,
)


@pytest.mark.parametrize("took_us", [0, 1, 63, 64, 65, 127, 128, 5_000, 1 << 22, 1 << 23, 10**9])
def test_a_time_is_below_the_bounds_that_are_greater(took_us: int) -> None:
    stage = StageTimes()
    stage.add(took_us * 1000 + 999)
    *bounds, last = STAGE_BOUNDS
    assert stage.below() == [*(int(took_us / 1e6 < float(bound)) for bound in bounds), 1]
    assert last == "+Inf"
    assert stage.total_s == took_us / 1e6


def test_the_bounds_go_from_tens_of_microseconds_to_seconds() -> None:
    assert (STAGE_BOUNDS[0], STAGE_BOUNDS[-2]) == ("0.000064", "8.388608")
    assert list(StepTimes().by_stage) == ["queue", "prepare", "force", "apply", "answer"]


def test_the_longest_pause_is_shown_for_some_seconds() -> None:
    pause = LongestPause()
    pause.add(5_000_000_000)
    pause.add(2_000_000_000)
    assert [pause.end_second() for _ in range(PAUSES_KEPT)] == [5.0] * PAUSES_KEPT
    pause.add(1_000_000)
    assert pause.end_second() == 0.001


def test_each_garbage_collection_is_a_pause_while_it_is_attached() -> None:
    pauses = CollectorPauses()
    pauses.attach()
    try:
        gc.collect()
        gc.collect()
    finally:
        pauses.detach()
    gc.collect()
    assert pauses.collections == 2
    assert pauses.total_ns > 0
    assert 0 < pauses.longest.end_second() <= pauses.total_ns / 1e9
    pauses.detach()  # nothing is left of it
