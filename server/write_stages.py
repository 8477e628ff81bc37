"""Where a write spends its time, as far as its client's server can tell.

A write waits in three stages that end at different steps of the server. What a step itself takes
(prepare, apply, answer) only its shell can measure: the time of a step is one.

| stage | from | to |
|---|---|---|
| queue | the request has arrived | its proposal is in this server's log |
| force | its proposal is in the log | this server's disk has forced it |
| quorum | this server's disk has forced it | it is committed: the disks of others were slower |

In the queue a write is also forwarded to the leader and prepared. If the commit comes before this
server has forced the proposal, the time since it was logged was spent on the others as well:
`quorum`. A change of role in between is the stage `election`.

ZooKeeper: `RequestPathMetricsCollector`, `ServerMetrics` (proposal_latency, sync_process_time).
"""

from collections import deque
from typing import Final

from msgspec import Struct

from raykeeper.zab.ids import Millis, Zxid

QUEUE: Final = "queue"
FORCE: Final = "force"
QUORUM: Final = "quorum"
ELECTION: Final = "election"


class _LoggedRun(Struct):
    """A run of transactions that was appended to the log at once."""

    last: Zxid
    logged_at: Millis
    synced_at: Millis | None = None


class WriteStages:
    """The runs of this server's log that are not delivered yet."""

    def __init__(self) -> None:
        self._runs: deque[_LoggedRun] = deque()
        self._role_changed_at = Millis(0)

    def on_role_changed(self, now: Millis) -> None:
        """Forget all runs: the next role delivers them, or cuts them off."""
        self._role_changed_at = now
        self._runs.clear()

    def on_logged(self, last: Zxid, now: Millis) -> None:
        """Note that a run up to `last` is being written to the log."""
        self._runs.append(_LoggedRun(last, now))

    def on_synced(self, upto: Zxid, now: Millis) -> None:
        """Note that the log is forced up to `upto`."""
        for run in reversed(self._runs):
            if run.synced_at is not None:
                return
            if run.last <= upto:
                run.synced_at = now

    def on_delivered(self, upto: Zxid) -> None:
        """Forget the runs that are delivered as a whole."""
        runs = self._runs
        while runs and runs[0].last <= upto:
            runs.popleft()

    def longest(self, zxid: Zxid | None, arrived: Millis, now: Millis) -> str:
        """Return the stage that took longest of a request that is answered `now`.

        `zxid` is that of the write, which is just being delivered; None is a request that waited
        for a quorum alone.
        """
        if arrived < self._role_changed_at:
            return ELECTION
        if zxid is None:
            return QUORUM
        run = next((run for run in self._runs if run.last >= zxid), None)
        if run is None:  # it was logged before it arrived here: the client has sent it again
            return QUEUE
        logged_at = max(run.logged_at, arrived)
        forced_at = logged_at if run.synced_at is None else max(run.synced_at, logged_at)
        took = {QUEUE: logged_at - arrived, FORCE: forced_at - logged_at, QUORUM: now - forced_at}
        return max(took, key=took.__getitem__)
