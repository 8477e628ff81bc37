"""Which containers and znodes with a TTL are due to go; kept by the leader alone.

A container is due when its last child has gone, a znode with a TTL when so much time has passed
since its value was set and it has no children. Within a reign that is the time of the leader's
monotonic clock, so a jump of the wall clock ends nothing; what passed before the reign is told by
the times of transactions.

Due is not gone: a deletion is prepared against the future state, so a znode that was refreshed,
or got a child, by a write that is still under way stays. Whatever keeps it is applied later, and
then it is looked at again; so nothing is ever tried twice for the same reason.

ZooKeeper: `ContainerManager`, which looks at all of them once a minute.
"""

from collections import deque
from heapq import heapify, heappop, heappush
from typing import Final

from raykeeper.zab.ids import Millis
from raykeeper.znodes.paths import parent_of
from raykeeper.znodes.state import State
from raykeeper.znodes.traits import CONTAINER
from raykeeper.znodes.tree import Znode
from raykeeper.znodes.txns import Change, Created, DataSet, Deleted, SessionClosed, Several

READ_AT_ONCE: Final = 1_000
"""Znodes of the tree that are taken note of in one step at the beginning of a reign."""
LOOKED_AT_ONCE: Final = 1_000
"""Znodes that are looked at in one step because they may be due."""
SUPERFLUOUS_MAX: Final = 1_000
"""Entries of znodes that are gone, beside one for each that is there."""


class Mortals:
    """Made at the beginning of a reign; told of every change that is applied in it."""

    def __init__(self, state: State, now: Millis) -> None:
        self._state = state
        self._unread = deque(state.tree.mortals)
        self._began = (now, state.time_ms)
        self._due: dict[str, Millis] = {}
        # An entry may be too early, then it is pushed again when it is reached; never too late.
        self._heap: list[tuple[Millis, str]] = []
        self._queued: dict[str, Millis] = {}  # the entry of each that counts

    def changed(self, change: Change, now: Millis) -> None:
        """`change` was applied."""
        match change:
            case Created() | DataSet():
                self._schedule(change.path, now)
            case Deleted():
                self._gone(change.path, now)
            case SessionClosed():
                for path in change.ephemerals:
                    self._gone(path, now)
            case Several():
                for each in change.changes:
                    self.changed(each, now)
            case _:
                pass

    def due(self, now: Millis, most: int) -> list[tuple[str, Znode]]:
        """Some that may go now, at most so many; each is named once for each time it is due."""
        self._read()
        heap, found = self._heap, list[tuple[str, Znode]]()
        for _ in range(LOOKED_AT_ONCE):
            if not heap or heap[0][0] > now or len(found) == most:
                break
            at, path = heappop(heap)
            if self._queued.get(path) != at:
                continue
            del self._queued[path]
            due = self._due.get(path)
            znode = self._state.tree.get(path)
            if due is None or znode is None or path not in self._state.tree.mortals:
                self._due.pop(path, None)
                continue
            if due > now:
                self._queue(path, due)
            elif not znode.children:
                found.append((path, znode))
        return found

    def is_behind(self, now: Millis) -> bool:
        """Whether `due` has more to look at."""
        return bool(self._unread or (self._heap and self._heap[0][0] <= now))

    def put_back(self, path: str, now: Millis) -> None:
        """It could not be tried to delete it."""
        self._queue(path, now)

    def _schedule(self, path: str, now: Millis) -> None:
        """Set or created, or a child has gone."""
        if path not in self._state.tree.mortals:
            return
        znode = self._state.tree.znodes[path]
        assert znode.traits is not None
        ttl_ms = znode.traits.ttl_ms
        if ttl_ms != CONTAINER:
            self._queue(path, Millis(now + ttl_ms))
        elif znode.creates and not znode.children:
            self._queue(path, now)
        else:
            # One of before at this path may have been due; the end of the last mortal of all is
            # told to nobody here.
            self._due.pop(path, None)

    def _gone(self, path: str, now: Millis) -> None:
        self._due.pop(path, None)
        parent_path = parent_of(path)
        if parent_path not in self._state.tree.mortals:
            return
        parent = self._state.tree.znodes[parent_path]
        assert parent.traits is not None
        if parent.children:
            return
        if parent.traits.ttl_ms == CONTAINER:
            self._queue(parent_path, now)
        elif parent_path in self._due:  # else it is still to be read
            self._queue(parent_path, self._due[parent_path])

    def _queue(self, path: str, due: Millis) -> None:
        self._due[path] = due
        queued = self._queued.get(path)
        if queued is not None and queued <= due:
            return
        self._queued[path] = due
        heappush(self._heap, (due, path))
        if len(self._heap) > 2 * len(self._state.tree.mortals) + SUPERFLUOUS_MAX:
            self._sweep()

    def _sweep(self) -> None:
        """Forget those that are gone: as many as there are others, so it is done seldom."""
        mortals = self._state.tree.mortals
        self._due = {path: due for path, due in self._due.items() if path in mortals}
        self._queued = {path: due for path, due in self._queued.items() if path in mortals}
        self._heap = [(due, path) for path, due in self._queued.items()]
        heapify(self._heap)

    def _read(self) -> None:
        """Take note of some that were there when the reign began."""
        began, time_ms = self._began
        for _ in range(min(READ_AT_ONCE, len(self._unread))):
            path = self._unread.popleft()
            znode = self._state.tree.get(path)
            if path in self._due or znode is None or znode.traits is None:
                continue
            ttl_ms = znode.traits.ttl_ms
            if ttl_ms > 0:
                left = max(0, ttl_ms - (time_ms - znode.mtime))
                self._queue(path, Millis(began + left))
            elif ttl_ms == CONTAINER and znode.creates and not znode.children:
                self._queue(path, began)
