"""The watches of one server's clients, and what each transaction sets off.

Two tables by path, `data` and `child`. A watch is one-shot: it is gone once it has fired. One
event goes to a connection for each path and trigger, even when both tables match. Events are made
while the transaction is applied, so they precede every reply that could show its effect.

A watch in the data table knows whether its znode existed when it was set. That stays true as long
as the watch is set, because both the creation and the deletion would fire it; it is what tells a
deleted znode from one that never was when the state is replaced behind the watches' back.

ZooKeeper: `WatchManager`, `DataTree.setWatches`; the trigger table of `DataTree.processTxn`.
"""

from msgspec import Struct

from raykeeper.zab.ids import Zxid
from raykeeper.znodes.limits import WATCHES_MAX
from raykeeper.znodes.paths import fault_in, parent_of
from raykeeper.znodes.replies import EventType, WatchFired
from raykeeper.znodes.requests import SetWatches
from raykeeper.znodes.state import State
from raykeeper.znodes.tree import Znode
from raykeeper.znodes.txns import Change, Created, DataSet, Deleted, SessionClosed, Several

Fired = tuple[int, WatchFired]
"""A connection and the event it gets."""


class Watching(Struct, gc=False):
    """The paths one connection watches, so that it can be dropped without a search."""

    data: dict[str, None]
    child: dict[str, None]


class WatchTable:
    """Who watches what. The innermost dicts are ordered by the time of the registration."""

    def __init__(self, per_connection_max: int = WATCHES_MAX) -> None:
        self.count = 0
        self._per_connection_max = per_connection_max
        self._data: dict[str, dict[int, bool]] = {}  # the flag: its znode existed
        self._child: dict[str, dict[int, None]] = {}
        self._by_connection: dict[int, Watching] = {}

    def count_of(self, connection: int) -> int:
        """Watches of one connection."""
        mine = self._by_connection.get(connection)
        return len(mine.data) + len(mine.child) if mine else 0

    def add_data(self, path: str, connection: int, *, exists: bool = True) -> None:
        """Watch for the next change of value or existence; again is the same watch."""
        watchers = self._data.setdefault(path, {})
        if connection not in watchers:
            watchers[connection] = exists
            self._watching(connection).data[path] = None
            self.count += 1

    def add_child(self, path: str, connection: int) -> None:
        """Watch an existing znode for the next child, loss of a child, or its own deletion."""
        watchers = self._child.setdefault(path, {})
        if connection not in watchers:
            watchers[connection] = None
            self._watching(connection).child[path] = None
            self.count += 1

    def drop(self, connection: int) -> None:
        """The connection is gone, and its watches with it."""
        mine = self._by_connection.pop(connection, None)
        if mine is None:
            return
        for path in mine.data:
            watchers = self._data[path]
            del watchers[connection]
            if not watchers:
                del self._data[path]
        for path in mine.child:
            others = self._child[path]
            del others[connection]
            if not others:
                del self._child[path]
        self.count -= len(mine.data) + len(mine.child)

    def trigger(self, zxid: Zxid, change: Change) -> list[Fired]:
        """What `change`, just applied as `zxid`, sets off, in the order it must be told."""
        fired: list[Fired] = []
        if self.count:
            self._trigger(fired, zxid, change)
        return fired

    def rearm(self, state: State, connection: int, request: SetWatches) -> list[WatchFired]:
        """Set again what a client watched as of `request.zxid`; tell what it missed.

        Beyond ZooKeeper, a znode that was deleted and created again is told as deleted, as an
        unbroken watch would have. What the state cannot show is a znode that was missing, came
        and went again; its watch is set again. Watches above the connection's bound, which it
        cannot have had before, are not set.
        """
        since = request.zxid
        znodes = state.tree.znodes
        fired: dict[tuple[EventType, str], WatchFired] = {}  # one deletion for both tables
        for existed, paths in ((True, request.data), (False, request.exist)):
            for path in paths:
                znode = znodes.get(path)
                event = _data_event(state, path, znode, since, existed=existed)
                if event is not None:
                    fired[event.kind, path] = event
                elif znode is None and fault_in(path) is not None:
                    continue  # no client was ever told that it watches this
                elif self.count_of(connection) < self._per_connection_max:
                    self.add_data(path, connection, exists=existed)
        for path in request.child:
            event = _child_event(state, path, znodes.get(path), since)
            if event is not None:
                fired[event.kind, path] = event
            elif self.count_of(connection) < self._per_connection_max:
                self.add_child(path, connection)
        return list(fired.values())

    def reevaluate(self, state: State, since: Zxid) -> list[Fired]:
        """A snapshot replaced the state the watches were set on, which was as of `since` (Z5).

        Each watch fires, or stays, as if its client had connected anew.
        """
        znodes = state.tree.znodes
        fired: list[Fired] = []
        told: set[tuple[int, str]] = set()  # connection and path of a deletion
        for path, watchers in list(self._data.items()):
            znode = znodes.get(path)
            for connection, existed in list(watchers.items()):
                event = _data_event(state, path, znode, since, existed=existed)
                if event is not None:
                    self._remove_data(path, connection)
                    fired.append((connection, event))
                    if event.kind is EventType.DELETED:
                        told.add((connection, path))
        for path, others in list(self._child.items()):
            event = _child_event(state, path, znodes.get(path), since)
            if event is None:
                continue
            for connection in list(others):
                self._remove_child(path, connection)
                if event.kind is EventType.CHILD or (connection, path) not in told:
                    fired.append((connection, event))
        return fired

    def _trigger(self, fired: list[Fired], zxid: Zxid, change: Change) -> None:
        match change:
            case DataSet():
                self._fire_data(fired, change.path, EventType.CHANGED, zxid)
            case Created():
                self._fire_data(fired, change.path, EventType.CREATED, zxid)
                self._fire_child(fired, parent_of(change.path), EventType.CHILD, zxid)
            case Deleted():
                self._deleted(fired, change.path, zxid)
            case SessionClosed():
                for path in change.ephemerals:
                    self._deleted(fired, path, zxid)
            case Several():
                for each in change.changes:
                    self._trigger(fired, zxid, each)
            case _:
                pass

    def _deleted(self, fired: list[Fired], path: str, zxid: Zxid) -> None:
        told = self._fire_data(fired, path, EventType.DELETED, zxid)
        self._fire_child(fired, path, EventType.DELETED, zxid, told)
        self._fire_child(fired, parent_of(path), EventType.CHILD, zxid)

    def _fire_data(
        self, fired: list[Fired], path: str, kind: EventType, zxid: Zxid
    ) -> dict[int, bool] | None:
        watchers = self._data.pop(path, None)
        if watchers is None:
            return None
        event = WatchFired(kind, path, zxid)
        for connection in watchers:
            del self._by_connection[connection].data[path]
            fired.append((connection, event))
        self.count -= len(watchers)
        return watchers

    def _fire_child(
        self,
        fired: list[Fired],
        path: str,
        kind: EventType,
        zxid: Zxid,
        told: dict[int, bool] | None = None,
    ) -> None:
        """A connection in `told` has heard of this deletion; its watch is gone all the same."""
        watchers = self._child.pop(path, None)
        if watchers is None:
            return
        event = WatchFired(kind, path, zxid)
        for connection in watchers:
            del self._by_connection[connection].child[path]
            if told is None or connection not in told:
                fired.append((connection, event))
        self.count -= len(watchers)

    def _watching(self, connection: int) -> Watching:
        mine = self._by_connection.get(connection)
        if mine is None:
            mine = self._by_connection[connection] = Watching({}, {})
        return mine

    def _remove_data(self, path: str, connection: int) -> None:
        watchers = self._data[path]
        del watchers[connection]
        if not watchers:
            del self._data[path]
        del self._by_connection[connection].data[path]
        self.count -= 1

    def _remove_child(self, path: str, connection: int) -> None:
        watchers = self._child[path]
        del watchers[connection]
        if not watchers:
            del self._child[path]
        del self._by_connection[connection].child[path]
        self.count -= 1


def _data_event(
    state: State, path: str, znode: Znode | None, since: Zxid, *, existed: bool
) -> WatchFired | None:
    """What a data watch set at `since` has missed, None when nothing shows.

    The zxid of a deletion is not known afterwards; the event names the last one applied.
    """
    if znode is None:
        return WatchFired(EventType.DELETED, path, state.zxid) if existed else None
    if not existed:
        return WatchFired(EventType.CREATED, path, znode.czxid)
    if znode.czxid > since:
        return WatchFired(EventType.DELETED, path, state.zxid)
    if znode.mzxid > since:
        return WatchFired(EventType.CHANGED, path, znode.mzxid)
    return None


def _child_event(state: State, path: str, znode: Znode | None, since: Zxid) -> WatchFired | None:
    """What a child watch set at `since` has missed."""
    if znode is None or znode.czxid > since:
        return WatchFired(EventType.DELETED, path, state.zxid)
    if znode.pzxid > since:
        return WatchFired(EventType.CHILD, path, znode.pzxid)
    return None
