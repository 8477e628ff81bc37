"""The rows that every run has, and how a time is shown."""

from raykeeper.chaos.checks.goals import Row, format_seconds, rows_of_clients
from raykeeper.chaos.checks.judge import HistoryReport


def test_what_no_client_may_see_is_a_miss() -> None:
    assert all(row.is_met for row in rows_of_clients(HistoryReport(), []))
    report = HistoryReport(lost=["lost: this"], violations=["stale: that", "stale: those"])
    assert rows_of_clients(report, ["error: x"]) == [
        Row("lost acknowledged writes", "1", "0", is_met=False),
        Row("violations", "2", "0", is_met=False),
        Row("client errors", "1", "0", is_met=False),
    ]


def test_a_time_is_shown_to_the_next_lower_hundredth() -> None:
    assert [format_seconds(ns) for ns in (0, 9_999_999, 12_345_678_901)] == [
        "0.00 s",
        "0.00 s",
        "12.34 s",
    ]
