"""Judge the kept records of `raykeeper chaos` again."""

from pathlib import Path

from raykeeper.chaos.history import read_history
from raykeeper.chaos.judge import HistoryReport, judge
from raykeeper.clusters.config import ConfigError


def judge_records(folder: Path) -> HistoryReport:
    """Judge the rounds that a run kept in `folder`, each in a folder of its own.

    Raises:
        ConfigError: `folder` has no round.
        HistoryError: the records of a round are damaged.
    """
    rounds = sorted({path.parent for path in folder.rglob("*.jsonl")})
    if not rounds:
        raise ConfigError(f"{folder} holds no records of `raykeeper chaos`")
    total = HistoryReport()
    for records in rounds:
        total.include(judge(read_history(sorted(records.glob("*.jsonl")))))
    return total
