"""What `raykeeper chaos` tells of a verdict."""

from pathlib import Path

from raykeeper.chaos.checks.judge import HistoryReport
from raykeeper.commands.chaos_report import show_verdict, verdict_document
from tests.unit.commands.printed import printed

WRONG = HistoryReport(
    operations=3,
    unknown=1,
    acked_writes=2,
    sessions=4,
    longest_gap_ns=1_500_000_000,
    lost=["lost: /x"],
    violations=["/[red]"],
    undecided=["/y"],
)


def shown(judgement: HistoryReport) -> str:
    return printed(lambda console: show_verdict(console, judgement, {"seed": "7"}))


def test_numbers_come_with_their_circumstances() -> None:
    told = shown(
        HistoryReport(operations=3, unknown=1, acked_writes=2, longest_gap_ns=1_500_000_000)
    )
    rows = [tuple(part.strip() for part in line.split("  ", 1)) for line in told.splitlines()]
    assert rows == [
        ("seed", "7"),
        ("operations", "3, 1 of them with an unknown outcome"),
        ("acknowledged writes", "2"),
        ("sessions", "0"),
        ("longest gap in writes", "1.5 s"),
        ("lost acknowledged writes", "0"),
        ("violations", "0"),
    ]


def test_what_is_wrong_is_told_but_not_without_end() -> None:
    many = [f"violation [{number}]" for number in range(100)]
    told = shown(HistoryReport(lost=["lost: /x"], violations=many, undecided=["/y"]))
    assert "undecided znodes          1, judged by all other checks only" in told
    assert told.splitlines()[-20:] == ["lost: /x", *many[:19]]


def test_a_document_holds_all_that_is_wrong() -> None:
    assert verdict_document(WRONG, seed=7, faults={"kill server": 2}, records=Path("/r")) == {
        "is_clean": False,
        "seed": 7,
        "faults": {"kill server": 2},
        "operations": 3,
        "unknown_outcomes": 1,
        "acknowledged_writes": 2,
        "sessions": 4,
        "longest_gap_s": 1.5,
        "lost_writes": ["lost: /x"],
        "violations": ["/[red]"],
        "undecided_znodes": ["/y"],
        "records": "/r",
    }
