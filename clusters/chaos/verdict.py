"""The verdict of `raykeeper chaos` for its reader, and kept records judged once more."""

from collections.abc import Mapping
from pathlib import Path

from rich.console import Console
from rich.table import Table

from raykeeper.clusters.chaos.history import read_history
from raykeeper.clusters.chaos.judgement import Judgement, judge
from raykeeper.clusters.config import ConfigError

_SHOWN_MAX = 20


def judge_records(folder: Path) -> Judgement:
    """Judge what a run has kept in `folder`: the rounds, each in a folder of its own.

    Raises:
        ConfigError: no round is there.
        HistoryError: the records of a round are damaged.
    """
    rounds = sorted({path.parent for path in folder.rglob("*.jsonl")})
    if not rounds:
        raise ConfigError(f"{folder} holds no records of `raykeeper chaos`")
    total = Judgement()
    for records in rounds:
        total.include(judge(read_history(sorted(records.glob("*.jsonl")))))
    return total


def show_verdict(console: Console, total: Judgement, circumstances: Mapping[str, str]) -> None:
    """Print a table, after it the first of what is wrong."""
    table = Table(box=None, show_header=False, pad_edge=False)
    rows = {
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
    console.print(table, highlight=False)
    for text in (total.lost + total.violations)[:_SHOWN_MAX]:
        console.print(text, style="red", markup=False, highlight=False, soft_wrap=True)


def _count(found: list[str]) -> str:
    return f"[red]{len(found)}[/red]" if found else "0"
