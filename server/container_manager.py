"""Decides on the leader when containers and znodes with a TTL are due to be deleted.

A container is due when its last child was deleted. A znode with a TTL is due when it has no
children and its value was set longer ago than the TTL. While one leader leads, its monotonic clock
measures that time, so a jump of the wall clock deletes nothing. The times of transactions tell how
much passed before.

A znode that is due is not deleted yet: its deletion is prepared against the outstanding changes, so
it stays if a write under way refreshes it or gives it a child. That write is applied later, and the
znode is then checked again; so no deletion is tried twice for the same reason.

ZooKeeper: `ContainerManager`, which looks at all of them once a minute.
"""

from collections import deque
from heapq import heapify, heappop, heappush
from typing import Final

from raykeeper.zab.ids import Millis
from raykeeper.znodes.paths import parent_of
from raykeeper.znodes.state import State
from raykeeper.znodes.txns import (
    CloseSessionTxn,
    CreateTxn,
    DeleteTxn,
    MultiTxn,
    SetDataTxn,
    TxnBody,
)
from raykeeper.znodes.znode import CONTAINER, Znode

SCANNED_PER_STEP: Final = 1_000
"""Existing znodes that a new leader schedules in one step."""
CHECKED_PER_STEP: Final = 1_000
"""Znodes that may be due and are checked in one step."""
STALE_ENTRIES_MAX: Final = 1_000
"""Entries of deleted znodes that may stay in the heap, beside as many as there are znodes."""


class ContainerManager:
    """The due times of one leader, which calls `on_txn` for every change that it applies."""

    def __init__(self, state: State, now: Millis) -> None:
        self._state = state
        self._unscanned = deque(state.tree.expiring_paths)
        self._began = (now, state.time_ms)
        self._due_times: dict[str, Millis] = {}
        # An entry may be too early, and is then pushed again when it is reached; never too late.
        self._heap: list[tuple[Millis, str]] = []
        self._heap_entries: dict[str, Millis] = {}  # the entry that counts for each path

    def on_txn(self, change: TxnBody, now: Millis) -> None:
        """Schedule the znodes that an applied change touches."""
        match change:
            case CreateTxn() | SetDataTxn():
                self._schedule(change.path, now)
            case DeleteTxn():
                self._on_deleted(change.path, now)
            case CloseSessionTxn():
                for path in change.ephemerals:
                    self._on_deleted(path, now)
            case MultiTxn():
                for each in change.changes:
                    self.on_txn(each, now)
            case _:
                pass

    def pop_due(self, now: Millis, most: int) -> list[tuple[str, Znode]]:
        """Return at most `most` znodes that are due, each once for each time it is due."""
        self._scan_initial()
        heap, found = self._heap, list[tuple[str, Znode]]()
        for _ in range(CHECKED_PER_STEP):
            if not heap or heap[0][0] > now or len(found) == most:
                break
            at, path = heappop(heap)
            if self._heap_entries.get(path) != at:
                continue
            del self._heap_entries[path]
            due = self._due_times.get(path)
            znode = self._state.tree.get(path)
            if due is None or znode is None or path not in self._state.tree.expiring_paths:
                self._due_times.pop(path, None)
                continue
            if due > now:
                self._set_due(path, due)
            elif not znode.children:
                found.append((path, znode))
        return found

    def is_behind(self, now: Millis) -> bool:
        """Whether `pop_due` has more znodes to check."""
        return bool(self._unscanned or (self._heap and self._heap[0][0] <= now))

    def retry(self, path: str, now: Millis) -> None:
        """Schedule a znode whose deletion could not be tried."""
        self._set_due(path, now)

    def _schedule(self, path: str, now: Millis) -> None:
        """Schedule a znode that was created or set."""
        if path not in self._state.tree.expiring_paths:
            return
        znode = self._state.tree.znodes[path]
        assert znode.attributes is not None
        ttl_ms = znode.attributes.ttl_ms
        if ttl_ms != CONTAINER:
            self._set_due(path, Millis(now + ttl_ms))
        elif znode.child_create_count and not znode.children:
            self._set_due(path, now)
        else:
            # An earlier znode of this path may still be scheduled: `on_txn` is not called for the
            # deletion of the last znode that can expire.
            self._due_times.pop(path, None)

    def _on_deleted(self, path: str, now: Millis) -> None:
        self._due_times.pop(path, None)
        parent_path = parent_of(path)
        if parent_path not in self._state.tree.expiring_paths:
            return
        parent = self._state.tree.znodes[parent_path]
        assert parent.attributes is not None
        if parent.children:
            return
        if parent.attributes.ttl_ms == CONTAINER:
            self._set_due(parent_path, now)
        elif parent_path in self._due_times:  # else it is still to be read
            self._set_due(parent_path, self._due_times[parent_path])

    def _set_due(self, path: str, due: Millis) -> None:
        self._due_times[path] = due
        queued = self._heap_entries.get(path)
        if queued is not None and queued <= due:
            return
        self._heap_entries[path] = due
        heappush(self._heap, (due, path))
        if len(self._heap) > 2 * len(self._state.tree.expiring_paths) + STALE_ENTRIES_MAX:
            self._rebuild_heap()

    def _rebuild_heap(self) -> None:
        """Drop the entries of deleted znodes; they are as many as the others, so this is rare."""
        mortals = self._state.tree.expiring_paths
        self._due_times = {path: due for path, due in self._due_times.items() if path in mortals}
        self._heap_entries = {
            path: due for path, due in self._heap_entries.items() if path in mortals
        }
        self._heap = [(due, path) for path, due in self._heap_entries.items()]
        heapify(self._heap)

    def _scan_initial(self) -> None:
        """Schedule some of the znodes that existed when this leader began."""
        began, time_ms = self._began
        for _ in range(min(SCANNED_PER_STEP, len(self._unscanned))):
            path = self._unscanned.popleft()
            znode = self._state.tree.get(path)
            if path in self._due_times or znode is None or znode.attributes is None:
                continue
            ttl_ms = znode.attributes.ttl_ms
            if ttl_ms > 0:
                left = max(0, ttl_ms - (time_ms - znode.mtime))
                self._set_due(path, Millis(began + left))
            elif ttl_ms == CONTAINER and znode.child_create_count and not znode.children:
                self._set_due(path, began)
