"""Between two roles: wait until the disk has everything that the last role asked for.

Rule Z2: a vote speaks of what is synced, so a server that leaves a role first drains its log.
ZooKeeper lost transactions by not doing so (ZOOKEEPER-4712, -4541, -2845).
"""

from raykeeper.zab.history import History
from raykeeper.zab.transitions import DiskIdle, Transition


class AwaitDisk:
    """Takes no part in anything; ends by a completion of the disk, not by time."""

    def __init__(self, history: History) -> None:
        self.outcome: Transition | None = None
        self._history = history
        self.check()

    def check(self) -> None:
        """A completion of the disk has arrived."""
        if self._history.is_disk_idle:
            self.outcome = DiskIdle()
