"""How long a move waits for those before it."""

import pytest
from msgspec.structs import replace

from raykeeper.clusters.healing.pauses import DAY_MS, HOUR_MS, pause_left
from raykeeper.clusters.healing.vocabulary import Cause, Entry, HealSettings, MoveStep
from raykeeper.zab.ids import Millis, ServerId
from tests.harness.decisions import BEGUN

MIN = 60_000
S1, S2 = ServerId(1), ServerId(2)
NOW = Millis(10 * DAY_MS)
SETTINGS = HealSettings(
    heal_after_ms=Millis(0),
    pause_ms=Millis(10 * MIN),
    moves_per_hour=2,
    node_age_ms=Millis(0),
    vote_wait_ms=Millis(0),
    stale_after_s=7,
)
LOST, DRAINED, PREEMPTED = Cause.LOST, Cause.DRAINED, Cause.PREEMPTED


def begun(server: ServerId, ago: int, step: MoveStep = MoveStep.BEGUN) -> Entry:
    return Entry(ago, Millis(NOW - ago), replace(BEGUN, step=step, server=server))


@pytest.mark.parametrize(
    ("before", "cause", "left"),
    [
        # No move yet, or only the later steps of one.
        ([], LOST, 0),
        ([begun(S1, MIN, MoveStep.DONE)], LOST, 0),
        # Ten minutes after the move of any server, from its beginning.
        ([begun(S2, MIN)], LOST, 9 * MIN),
        ([begun(S2, MIN)], PREEMPTED, 9 * MIN),
        ([begun(S2, 10 * MIN)], LOST, 0),
        # Two within an hour.
        ([begun(S2, 50 * MIN), begun(S2, 20 * MIN)], LOST, 10 * MIN),
        ([begun(S2, 60 * MIN), begun(S2, 20 * MIN)], LOST, 0),
        ([begun(S2, 55 * MIN), begun(S2, 50 * MIN), begun(S2, 20 * MIN)], LOST, 10 * MIN),
        # Doubled for each move of the same server within a day.
        ([begun(S1, 11 * MIN)], LOST, 0),
        ([begun(S1, 3 * HOUR_MS), begun(S1, 11 * MIN)], LOST, 9 * MIN),
        ([begun(S1, 5 * HOUR_MS), begun(S1, 3 * HOUR_MS), begun(S1, 11 * MIN)], LOST, 29 * MIN),
        ([begun(S1, DAY_MS), begun(S1, 11 * MIN)], LOST, 0),
        # An operator does not wait for other servers.
        ([begun(S2, MIN)], DRAINED, 0),
        ([begun(S2, 50 * MIN), begun(S2, 20 * MIN)], DRAINED, 0),
        ([begun(S1, MIN)], DRAINED, 9 * MIN),
    ],
)
def test_a_move_waits_for_those_before_it(before: list[Entry], cause: Cause, left: int) -> None:
    found, why = pause_left(SETTINGS, before, S1, cause, NOW, {}, 0)
    assert max(0, found) == left
    assert bool(why) or left == 0


def test_a_clock_that_jumps_ahead_shortens_no_pause() -> None:
    """The leader's clock has gone an hour ahead, in a minute of the keeper that began the move."""
    entry = begun(S2, 61 * MIN)
    assert pause_left(SETTINGS, [entry], S1, LOST, NOW, {entry.number: MIN}, 0)[0] == 9 * MIN
    assert pause_left(SETTINGS, [entry], S1, LOST, NOW, {}, 0)[0] <= 0


def test_a_clock_that_goes_back_counts_as_no_time() -> None:
    assert pause_left(SETTINGS, [begun(S2, -5 * MIN)], S1, LOST, NOW, {}, 0)[0] == 10 * MIN


def test_a_time_that_stands_still_ends_every_pause() -> None:
    """The new leader's clock is behind, so the ensemble's time is that of the move."""
    entry = begun(S2, 0)
    assert pause_left(SETTINGS, [entry], S1, LOST, NOW, {entry.number: 9 * MIN}, 0)[0] == MIN
    assert pause_left(SETTINGS, [entry], S1, LOST, NOW, {entry.number: 10 * MIN}, 0)[0] == 0
    assert pause_left(SETTINGS, [entry], S1, LOST, NOW, {}, 9 * MIN)[0] == MIN
    assert pause_left(SETTINGS, [entry], S1, LOST, NOW, {}, 10 * MIN)[0] == 0


def test_the_longest_wait_is_told() -> None:
    moves = [begun(S1, 50 * MIN), begun(S1, 20 * MIN)]
    assert pause_left(SETTINGS, moves, S1, LOST, NOW, {}, 0) == (
        10 * MIN,
        "2 times a server has moved within an hour",
    )
    assert pause_left(SETTINGS, [begun(S1, MIN)], S1, DRAINED, NOW, {}, 0) == (
        9 * MIN,
        "server 1 has moved once within a day",
    )
