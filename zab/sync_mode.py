"""How a learner's log is made a prefix of the leader's: DIFF, TRUNC or SNAP.

ZooKeeper: `LearnerHandler.syncFollower` (3.9.5). With p the learner's last zxid, [base, last] the
leader's recent log, the decision table is, in order:

    p == last                                   DIFF, nothing to send
    p > last                                    TRUNC(last)
    base <= p < last, p is a position           DIFF and what follows p
    base <= p < last, p is none                 SNAP: the cut would cross an epoch (ZOOKEEPER-1154)
    p < base, the log on disk reaches back      DIFF from the disk and the recent log
    otherwise                                   SNAP

ZooKeeper's rows for a p with counter 0, and for gaps inside an epoch, have no counterpart: our
last zxid is always that of a logged transaction (Z2), and the zxids of an epoch have no gaps.

TRUNC(last) is safe across epochs. Proof: p > last although the leader was preferred by the
learner's discovery answer, so the learner logged p under an established leader of an epoch that
this leader's history also descends from, or under this very epoch; both hold `last`.
"""

from enum import Enum

from raykeeper.zab.effects import LogRun
from raykeeper.zab.ids import ZERO, Zxid
from raykeeper.zab.recent_log import RecentLog


class SyncMode(Enum):
    """The first thing that the learner is sent."""

    DIFF = "diff"
    TRUNC = "trunc"
    READ_LOG = "read log"
    SNAPSHOT = "snapshot"


def choose_sync_mode(last_zxid: Zxid, window: RecentLog) -> SyncMode:
    """Return the row of the table for a learner whose log ends at `last_zxid`."""
    if last_zxid == window.last:
        return SyncMode.DIFF
    if last_zxid > window.last:
        return SyncMode.TRUNC
    if last_zxid >= window.base:
        return SyncMode.DIFF if window.has(last_zxid) else SyncMode.SNAPSHOT
    return SyncMode.READ_LOG


def read_after(last_zxid: Zxid) -> Zxid:
    """Return where to read the log on disk from: one before, to see if it holds `last_zxid`."""
    return Zxid(max(ZERO, last_zxid - 1))


def usable_runs(last_zxid: Zxid, base: Zxid, runs: list[LogRun]) -> list[LogRun] | None:
    """Return what follows `last_zxid` in runs read after `read_after`; None when it is not there.

    None as well when they do not end at `base`: an earlier attempt asked for them, when the log
    began elsewhere, and what follows would come after a hole.
    """
    if not runs or runs[-1].first + len(runs[-1].txns) - 1 != base:
        return None
    if last_zxid == ZERO:
        return runs
    first = runs[0]
    if first.first != last_zxid:
        return None
    rest = first.txns[1:]
    return ([LogRun(Zxid(last_zxid + 1), rest)] if rest else []) + runs[1:]
