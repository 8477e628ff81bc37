"""Figures of a run beside their goals: the rows of its report."""

from msgspec import Struct

from raykeeper.chaos.checks.judge import HistoryReport

_TEN_MS = 10_000_000


class Row(Struct, frozen=True):
    """A figure of the run, and its goal; without a goal it is only told."""

    name: str
    measured: str
    goal: str = ""
    is_met: bool = True


def rows_of_clients(report: HistoryReport, errors: list[str]) -> list[Row]:
    """Return the rows of what no client may ever see; `errors` are those of the clients."""
    return [
        Row("lost acknowledged writes", str(len(report.lost)), "0", not report.lost),
        Row("violations", str(len(report.violations)), "0", not report.violations),
        Row("client errors", str(len(errors)), "0", not errors),
    ]


def format_seconds(nanoseconds: int) -> str:
    """Format a time in seconds, to the next lower hundredth."""
    hundredths = nanoseconds // _TEN_MS
    return f"{hundredths // 100}.{hundredths % 100:02} s"
