"""The recent end of the log in memory: the source of a DIFF, and the queue for commits.

A position is the zxid of a transaction, or `base`, after which the log starts. Runs are kept
per epoch, so a zxid is found by subtraction.

Invariant: inside an epoch zxids are consecutive, and a new epoch starts at counter 1, so the
log has no holes (ZOOKEEPER-4925).
"""

from collections.abc import Iterator

from raykeeper.zab.effects import LogRun
from raykeeper.zab.ids import COUNTER_MAX, Zxid, counter_of, epoch_of


def follows(zxid: Zxid, last: Zxid) -> bool:
    """Return whether a transaction `zxid` may stand in a log right after `last`."""
    if counter_of(zxid) <= 1:
        return counter_of(zxid) == 1 and epoch_of(zxid) > epoch_of(last)
    return zxid == last + 1


def within_epoch(first: Zxid, count: int) -> bool:
    """Return whether `count` transactions from `first` on lie in one epoch."""
    return counter_of(first) + count - 1 <= COUNTER_MAX


def split_run(run: LogRun, bytes_max: int) -> Iterator[LogRun]:
    """Split a run into parts of at most `bytes_max`, or of one transaction that is larger."""
    start = size = 0
    for index, txn in enumerate(run.txns):
        if size and size + len(txn) > bytes_max:
            yield LogRun(Zxid(run.first + start), run.txns[start:index])
            start, size = index, 0
        size += len(txn)
    if start < len(run.txns):
        yield LogRun(Zxid(run.first + start), run.txns[start:])


class RecentLog:
    """The transactions after `base`, oldest first."""

    __slots__ = ("_runs", "base", "bytes", "count", "last")

    def __init__(self, base: Zxid) -> None:
        self.base = base
        self.last = base
        self.count = 0
        self.bytes = 0
        self._runs: list[LogRun] = []  # ascending; the lists in them are ours alone

    def extend(self, first: Zxid, txns: list[bytes]) -> None:
        """Add consecutive transactions at the end."""
        assert txns, "an empty run"
        assert follows(first, self.last), (first, self.last)
        if self._runs and first == self.last + 1:
            self._runs[-1].txns.extend(txns)
        else:
            self._runs.append(LogRun(first, list(txns)))
        self.last = Zxid(first + len(txns) - 1)
        self.count += len(txns)
        self.bytes += sum(map(len, txns))

    def has(self, zxid: Zxid) -> bool:
        """Return whether `zxid` is a position of this log."""
        return zxid == self.base or any(
            run.first <= zxid < run.first + len(run.txns) for run in self._runs
        )

    def between(self, after: Zxid, upto: Zxid) -> list[LogRun]:
        """Return the transactions of (after, upto]; both need not be positions."""
        found = []
        for run in self._runs:
            start = max(0, after + 1 - run.first)
            end = min(len(run.txns), upto + 1 - run.first)
            if start < end:
                found.append(LogRun(Zxid(run.first + start), run.txns[start:end]))
        return found

    def truncate(self, upto: Zxid) -> None:
        """Drop everything after `upto`, which is a position."""
        assert self.has(upto), (upto, self.base, self.last)
        for run in self.between(upto, self.last):
            self.count -= len(run.txns)
            self.bytes -= sum(map(len, run.txns))
        kept = self.between(self.base, upto)
        self._runs = kept
        self.last = upto

    def trim(self, upto: Zxid) -> None:
        """Let the log start after `upto`, which is a position."""
        assert self.has(upto), (upto, self.base, self.last)
        while self._runs and self._runs[0].first <= upto:
            run = self._runs[0]
            gone = min(len(run.txns), upto + 1 - run.first)
            self.count -= gone
            self.bytes -= sum(map(len, run.txns[:gone]))
            if gone < len(run.txns):
                del run.txns[:gone]
                self._runs[0] = LogRun(Zxid(run.first + gone), run.txns)
                break
            del self._runs[0]
        self.base = upto

    def position_after(self, count: int) -> Zxid:
        """Return the position after the first `count` transactions (the last one if fewer)."""
        if count <= 0:
            return self.base
        for run in self._runs:
            if count <= len(run.txns):
                return Zxid(run.first + count - 1)
            count -= len(run.txns)
        return self.last
