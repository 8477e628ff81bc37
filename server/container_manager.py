"""Decides on the leader when containers and znodes with a TTL are due to be deleted.

A container is due when it has had no child for the grace. A znode with a TTL is due when it has no
children and its value was set longer ago than the TTL; if it had children, it stays for the grace
too, but no longer than its TTL. While one leader leads, its monotonic clock measures that time, so
a jump of the wall clock deletes nothing. For values, the times of transactions tell how much passed
before; nothing tells when a child was deleted, so a new leader counts the grace from its beginning.

Clients come back to a parent that they have just used: they list it, or create the next child. The
grace saves them the error that it is gone, and its sequence numbers from beginning anew.

A znode that is due is not deleted yet: its deletion is prepared against the outstanding changes, so
it stays if a write under way refreshes it, gives it a child or takes one from it. That write is
applied later, and the znode is then checked again; so no deletion is tried twice for the same
reason.

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

    def __init__(self, state: State, now: Millis, grace_ms: Millis) -> None:
        """`grace_ms`: see the setting `container_grace_s`."""
        self._state = state
        self._grace_ms = grace_ms
        self._unscanned = deque(state.tree.expiring_paths)
        self._began = (now, state.time_ms)
        self._ttl_ends: dict[str, Millis] = {}  # of the present value
        self._grace_ends: dict[str, Millis] = {}  # after the deletion of the last child
        # An entry may be too early, and is then pushed again when it is reached; never too late.
        self._heap: list[tuple[Millis, str]] = []
        self._heap_entries: dict[str, Millis] = {}  # the entry that counts for each path

    def on_txn(self, change: TxnBody, now: Millis) -> None:
        """Schedule the znodes that an applied change touches."""
        match change:
            case CreateTxn():
                # An earlier znode of this path may be known: `on_txn` is not called for the
                # deletion of the last znode that can expire.
                self._grace_ends.pop(change.path, None)
                self._on_value(change.path, now)
            case SetDataTxn():
                self._on_value(change.path, now)
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
            znode = self._state.tree.get(path)
            if znode is None or path not in self._state.tree.expiring_paths:
                self._forget(path)
                continue
            due = self._due_of(path, znode)
            if due is not None and due > now:
                self._push(path, due)
            elif due is not None and not znode.children:
                found.append((path, znode))
        return found

    def is_behind(self, now: Millis) -> bool:
        """Whether `pop_due` has more znodes to check."""
        return bool(self._unscanned or (self._heap and self._heap[0][0] <= now))

    def retry(self, path: str, now: Millis) -> None:
        """Schedule a znode whose deletion could not be tried."""
        self._push(path, now)

    def _on_value(self, path: str, now: Millis) -> None:
        """Schedule a znode that was created or set."""
        if path not in self._state.tree.expiring_paths:
            return
        znode = self._state.tree.znodes[path]
        ttl_ms = _ttl_ms_of(znode)
        if ttl_ms != CONTAINER:
            self._ttl_ends[path] = Millis(now + ttl_ms)
        self._schedule(path, znode)

    def _on_deleted(self, path: str, now: Millis) -> None:
        self._forget(path)
        parent_path = parent_of(path)
        if parent_path not in self._state.tree.expiring_paths:
            return
        parent = self._state.tree.znodes[parent_path]
        if not parent.children:
            self._begin_grace(parent_path, parent, now)
            self._schedule(parent_path, parent)

    def _begin_grace(self, path: str, znode: Znode, now: Millis) -> None:
        ttl_ms = _ttl_ms_of(znode)
        grace_ms = self._grace_ms if ttl_ms == CONTAINER else min(self._grace_ms, ttl_ms)
        self._grace_ends[path] = Millis(now + grace_ms)

    def _schedule(self, path: str, znode: Znode) -> None:
        due = self._due_of(path, znode)
        if due is not None:
            self._push(path, due)

    def _due_of(self, path: str, znode: Znode) -> Millis | None:
        """Return when a znode is due if it has no children then; None as far as is known, never."""
        grace_end = self._grace_ends.get(path)
        if _ttl_ms_of(znode) == CONTAINER:
            return grace_end
        ttl_end = self._ttl_ends.get(path)
        if ttl_end is None or grace_end is None:  # without the first it is still to be scanned
            return ttl_end
        return max(ttl_end, grace_end)

    def _forget(self, path: str) -> None:
        self._ttl_ends.pop(path, None)
        self._grace_ends.pop(path, None)

    def _push(self, path: str, due: Millis) -> None:
        queued = self._heap_entries.get(path)
        if queued is not None and queued <= due:
            return
        self._heap_entries[path] = due
        heappush(self._heap, (due, path))
        if len(self._heap) > 2 * len(self._state.tree.expiring_paths) + STALE_ENTRIES_MAX:
            self._rebuild_heap()

    def _rebuild_heap(self) -> None:
        """Drop the entries of deleted znodes; they are as many as the others, so this is rare."""
        expiring = self._state.tree.expiring_paths
        for times in (self._ttl_ends, self._grace_ends, self._heap_entries):
            for path in [path for path in times if path not in expiring]:
                del times[path]
        self._heap = [(due, path) for path, due in self._heap_entries.items()]
        heapify(self._heap)

    def _scan_initial(self) -> None:
        """Schedule some of the znodes that existed when this leader began."""
        began, time_ms = self._began
        for _ in range(min(SCANNED_PER_STEP, len(self._unscanned))):
            path = self._unscanned.popleft()
            znode = self._state.tree.get(path)
            if znode is None or path not in self._state.tree.expiring_paths:
                continue
            ttl_ms = _ttl_ms_of(znode)
            if ttl_ms != CONTAINER and path not in self._ttl_ends:
                left = max(0, ttl_ms - (time_ms - znode.mtime))
                self._ttl_ends[path] = Millis(began + left)
            if znode.child_create_count and not znode.children and path not in self._grace_ends:
                self._begin_grace(path, znode, began)
            self._schedule(path, znode)


def _ttl_ms_of(znode: Znode) -> int:
    assert znode.attributes is not None, "only a znode that can expire is asked for"
    return znode.attributes.ttl_ms
