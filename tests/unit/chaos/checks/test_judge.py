"""The verdict: its numbers, and that every check has a say in it."""

import pytest
from msgspec.structs import replace

from raykeeper.chaos.checks.faults import FaultRecord, FaultResult, RoundFaults
from raykeeper.chaos.checks.judge import HistoryReport, judge
from raykeeper.znodes.replies import EventType
from tests.unit.chaos.story import A, B, Story, X, Y


def sound() -> Story:
    """Some writes with one long pause, and a last look."""
    return (
        Story()
        .create(A, 1, 2, "/r", "")
        .create(A, 3, 4, X, "u")
        .set(B, 5, 6, "v", 5)
        .set(A, 40, 50, "w", 7)
        .set(B, 51, None, "x")
        .get(A, 52, 53, "w", 7)
        .close(A, 60, 61)
        .get("end", 90, 91, "w", 7, synced=True)
    )


def test_a_sound_history_passes() -> None:
    told = judge(sound().history())
    # The stories do not keep count of versions, so what linearizability says is left out here.
    assert told.lost == []
    assert (told.operations, told.unknown, told.acked_writes, told.sessions) == (8, 1, 4, 3)
    assert told.longest_gap_ns == 44


@pytest.mark.parametrize(
    ("story", "word"),
    [
        (Story().set(A, 1, 6, "v", 5).get(A, 2, 5, "v", 5), "fifo"),
        (Story().get(A, 1, 2, "w", 7).get(A, 3, 4, "v", 5), "reads go back"),
        (Story().fired(A, 1, EventType.CHANGED, 7), "watch fired"),
        (Story().set(A, 1, 2, "v", 7).set(B, 3, 4, "w", 5), "zxid against real time"),
        (Story().append(A, 1, 4, "v", 1).append(B, 2, 3, "w", 1), "given twice"),
        (Story().get(B, 2, 3, "v", 5, path=Y), "nobody wrote it"),
        (Story().set(A, 1, 2, "v", 5).get(B, 3, 4, "u", 3, synced=True), "stale"),
        (Story().close(A, 1, 2).set(A, 3, 4, "v", 5), "session is over"),
        (Story().create(A, 1, 2, "/", "v"), "no order explains"),
    ],
)
def test_every_check_contributes(story: Story, word: str) -> None:
    told = judge(story.history())
    assert any(word in text for text in told.violations), told.violations
    assert not told.is_clean


def test_lost_writes_are_counted_separately() -> None:
    story = Story().set(A, 1, 2, "v", 5).get("end", 90, 91, "u", 3, synced=True)
    told = judge(story.history())
    assert len(told.lost) == 1
    assert not told.is_clean


def test_errors_of_clients_count_if_only_orderly_faults_were_allowed() -> None:
    story = Story().set(A, 1, None, "v")
    faults = RoundFaults(records=(FaultRecord("transfer", 3, 5),))
    told = judge(story.history(), faults)
    assert (told.client_errors, told.is_clean) == (None, True)
    assert told.faults == {"transfer": FaultResult(1)}
    told = judge(story.history(), replace(faults, is_orderly=True))
    assert told.client_errors is not None and len(told.client_errors) == 1
    assert not told.is_clean


def test_faults_and_errors_of_clients_add_up() -> None:
    total = HistoryReport()
    for seen in (["x"], None, ["y"]):
        faults = {"transfer": FaultResult(2, 1, ["busy"], 7)}
        total.include(HistoryReport(client_errors=seen, faults=faults))
    assert total.client_errors == ["x", "y"]
    assert total.faults == {"transfer": FaultResult(6, 3, ["busy"] * 3, 7)}


def test_histories_add_up() -> None:
    total = HistoryReport(operations=3, acked_writes=2, longest_gap_ns=9, sessions=1)
    assert total.is_clean
    total.include(HistoryReport(operations=4, unknown=1, longest_gap_ns=7, lost=["x"], sessions=2))
    assert total == HistoryReport(
        operations=7, unknown=1, acked_writes=2, sessions=3, longest_gap_ns=9, lost=["x"]
    )
    assert not total.is_clean
