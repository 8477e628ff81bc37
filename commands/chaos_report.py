"""The final report of `raykeeper chaos`: a table, or a document."""

from collections.abc import Mapping
from pathlib import Path

from rich.console import Console
from rich.table import Table
from rich.text import Text

from raykeeper.chaos.checks.judge import HistoryReport
from raykeeper.commands.consoles import print_table
from raykeeper.commands.documents import Document

_SHOWN_MAX = 20


def show_verdict(console: Console, total: HistoryReport, circumstances: Mapping[str, str]) -> None:
    """Print a table, and after it the first violations."""
    table = Table(box=None, show_header=False, pad_edge=False)
    rows: dict[str, str | Text] = {
        **circumstances,
        "operations": f"{total.operations}, {total.unknown} of them with an unknown outcome",
        "acknowledged writes": str(total.acked_writes),
        "sessions": str(total.sessions),
        "longest gap in writes": f"{total.longest_gap_ns / 1e9:.1f} s",
        "lost acknowledged writes": _count(total.lost),
        "violations": _count(total.violations),
    }
    if total.undecided:
        rows["undecided znodes"] = f"{len(total.undecided)}, judged by all other checks only"
    for name, value in rows.items():
        table.add_row(name, value)
    print_table(console, table)
    for text in (total.lost + total.violations)[:_SHOWN_MAX]:
        console.print(text, style="red")


def verdict_document(
    total: HistoryReport,
    *,
    seed: int | None = None,
    faults: Mapping[str, int] | None = None,
    records: Path | None = None,
) -> Document:
    """Return the numbers of the table, and all violations."""
    return {
        "is_clean": total.is_clean,
        "seed": seed,
        "faults": faults,
        "operations": total.operations,
        "unknown_outcomes": total.unknown,
        "acknowledged_writes": total.acked_writes,
        "sessions": total.sessions,
        "longest_gap_s": total.longest_gap_ns / 1e9,
        "lost_writes": total.lost,
        "violations": total.violations,
        "undecided_znodes": total.undecided,
        "records": None if records is None else str(records),
    }


def _count(found: list[str]) -> Text:
    return Text(str(len(found)), style="red" if found else "")
