"""What lost nodes may cost, and that each figure beyond its goal is a miss."""

import pytest
from msgspec.structs import replace

from raykeeper.chaos.checks.goals import Row
from raykeeper.chaos.checks.history import History
from raykeeper.chaos.checks.judge import HistoryReport
from raykeeper.chaos.checks.node_losses import (
    GAP_NS,
    VOTE_BACK_NS,
    NodeLoss,
    NodeReturns,
    judge_losses,
)
from raykeeper.zab.ids import ServerId
from tests.unit.chaos.story import A, B, Story

MS = 1_000_000
S = 1_000 * MS
HEAL_MS = 5_000
HEAL_NS = HEAL_MS * MS
SOUND = NodeLoss(ServerId(2), "leader", 10 * S, 13 * S, 13 * S + HEAL_NS + VOTE_BACK_NS)
BACK = NodeReturns(50 * S, 60 * S, [], ["/n/1", "/n/2"], ["/n/2", "/n/1"])


def writes(*at_ns: int) -> History:
    """Writes that were answered at these times."""
    story = Story()
    for number, at in enumerate(at_ns, 1):
        story.set(A, at - 1, at, str(number), number)
    return story.history()


def steady(until_ns: int, step_ns: int = GAP_NS) -> History:
    return writes(*range(step_ns, until_ns, step_ns))


def missed(rows: list[Row]) -> list[str]:
    return [f"{row.name}: {row.measured}" for row in rows if not row.is_met]


def test_a_run_that_meets_its_goals() -> None:
    rows = judge_losses(steady(70 * S), HistoryReport(), [SOUND], BACK, HEAL_MS)
    assert [(row.name, row.measured, row.goal) for row in rows] == [
        ("server 2, the leader: Ray called its node dead after", "3.00 s", ""),
        (
            "server 2, the leader: vote back after",
            "20.00 s",
            "15.00 s after the 5.00 s that healing waits",
        ),
        ("server 2, the leader: gap in writes", "0.30 s", "0.30 s"),
        ("nodes return: changes", "none", "none"),
        ("nodes return: stale folders that are named", "2 of 2", "all"),
        ("nodes return: gap in writes", "0.30 s", ""),
        ("lost acknowledged writes", "0", "0"),
        ("violations", "0", "0"),
        ("client errors", "0", "0"),
    ]
    assert missed(rows) == []


@pytest.mark.parametrize(
    ("loss", "said"),
    [
        (replace(SOUND, voted_ns=None), "server 2, the leader: vote back after: never"),
        (
            replace(SOUND, voted_ns=13 * S + HEAL_NS + VOTE_BACK_NS + 10 * MS),
            "server 2, the leader: vote back after: 20.01 s",
        ),
    ],
)
def test_a_vote_that_comes_too_late_is_a_miss(loss: NodeLoss, said: str) -> None:
    rows = judge_losses(steady(70 * S), HistoryReport(), [loss], BACK, HEAL_MS)
    assert missed(rows) == [said]


@pytest.mark.parametrize(
    ("returns", "said"),
    [
        (
            replace(BACK, changes=["server 1 moved", "server 3 restarted"]),
            "nodes return: changes: server 1 moved; server 3 restarted",
        ),
        (
            replace(BACK, named=["/n/1"]),
            "nodes return: stale folders that are named: 1 of 2",
        ),
        (
            replace(BACK, stale=[], named=[]),
            "nodes return: stale folders that are named: 0 of 0",
        ),
    ],
)
def test_what_happens_when_nodes_return_is_a_miss(returns: NodeReturns, said: str) -> None:
    rows = judge_losses(steady(70 * S), HistoryReport(), [SOUND], returns, HEAL_MS)
    assert missed(rows) == [said]


def test_a_gap_is_a_miss_where_it_touches_a_loss() -> None:
    times = [*range(GAP_NS, 70 * S, GAP_NS)]
    before = writes(*(t for t in times if not S < t < 8 * S))
    assert missed(judge_losses(before, HistoryReport(), [SOUND], BACK, HEAL_MS)) == []
    into = writes(*(t for t in times if not 9 * S < t < 11 * S))
    assert missed(judge_losses(into, HistoryReport(), [SOUND], BACK, HEAL_MS)) == [
        "server 2, the leader: gap in writes: 2.10 s"
    ]
    at_the_end = writes(*(t for t in times if not 59 * S < t < 62 * S))
    rows = judge_losses(at_the_end, HistoryReport(), [SOUND], BACK, HEAL_MS)
    assert missed(rows) == []
    assert ("nodes return: gap in writes", "3.30 s") in [(r.name, r.measured) for r in rows]


def test_losses_of_the_report_are_misses() -> None:
    report = HistoryReport(lost=["lost: this"], violations=["stale: that", "stale: those"])
    rows = judge_losses(steady(70 * S), report, [SOUND], BACK, HEAL_MS)
    assert missed(rows) == ["lost acknowledged writes: 1", "violations: 2"]


def test_a_run_that_ended_early_has_no_rows_of_returns() -> None:
    rows = judge_losses(steady(70 * S), HistoryReport(), [], None, HEAL_MS)
    assert [row.name for row in rows] == [
        "lost acknowledged writes",
        "violations",
        "client errors",
    ]


def test_errors_of_clients_are_misses() -> None:
    story = Story().set(A, 1, 2, "u", 1).set(B, 8, None, "x")
    (row,) = (
        r for r in judge_losses(story.history(), HistoryReport(), [], None, 0) if not r.is_met
    )
    assert (row.name, row.measured) == ("client errors", "1")
