"""The entries of a log, each a transaction with its zxid, and the runs that carry them."""

from raykeeper.zab.effects import Append, Deliver, LogRun
from raykeeper.zab.ids import Zxid
from raykeeper.zab.messages import Proposals

Entry = tuple[Zxid, bytes]


def entries_of(*runs: LogRun | Append | Deliver | Proposals) -> list[Entry]:
    """Return the entries of runs, in order."""
    return [(Zxid(run.first + i), txn) for run in runs for i, txn in enumerate(run.txns)]


def runs_of(entries: list[Entry]) -> list[LogRun]:
    """Return the runs of a part of a log."""
    runs: list[LogRun] = []
    for zxid, txn in entries:
        if runs and zxid == runs[-1].first + len(runs[-1].txns):
            runs[-1].txns.append(txn)
        else:
            runs.append(LogRun(zxid, [txn]))
    return runs
