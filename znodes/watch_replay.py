"""The events that a client's watches have missed while no server looked at them.

A client that connects anew sets its watches again as of the last events it has had. If the change
log reaches back, all watches run over it: one-shot, persistent and recursive watches get exactly
the events of an unbroken connection. If the log is too short, the present state has to do. It
shows a one-shot watch whether its znode has changed, not how often, and hides a znode that was
missing, came and went again. To a persistent watch it shows too little, so the watcher receives
RESYNC and must read again. The same happens when a snapshot replaces the state under the watches
(rule Z5).

ZooKeeper: `DataTree.setWatches`.
"""

from collections.abc import Iterator
from typing import Final

from msgspec import Struct

from raykeeper.zab.ids import Zxid
from raykeeper.znodes.acl import Identities, Permission
from raykeeper.znodes.change_log import ChangeLog, values_size
from raykeeper.znodes.paths import path_fault
from raykeeper.znodes.replies import EventType, WatcherEvent
from raykeeper.znodes.requests import SetWatches
from raykeeper.znodes.state import State
from raykeeper.znodes.watches import (
    CHILD,
    DATA,
    PERSISTENT,
    RECURSIVE,
    TABLE_OF_MODE,
    Fired,
    IdentitiesOf,
    WatchTable,
)
from raykeeper.znodes.znode import is_allowed

RESUME_BYTES_MAX: Final = 4 << 20
"""The bytes of missed events that one client is sent; above it, it gets RESYNC."""
EVENT_BYTES: Final = 256
"""The size of an event, besides its path and values. All are made in one step, so they are few."""


class WatchReplay(Struct, frozen=True):
    """The sources of missed events: the state and the log of changes that led to it."""

    state: State
    change_log: ChangeLog
    identities_of: IdentitiesOf

    def set_watches(
        self, watches: WatchTable, connection: int, requests: list[SetWatches]
    ) -> list[WatcherEvent]:
        """Set a client's watches as of the requests' zxid; return the missed events, in order.

        Watches above the connection's bound, which it cannot have had before, are not set, nor are
        those on malformed paths, which never had an event.
        """
        since = requests[0].zxid
        armed = self._armed(watches.per_connection_max, connection, requests)
        events = self._events_from_log(armed, connection, since)
        if events is None:
            # The replay has fired some watches: set them once more, for the state to fire.
            armed = self._armed(watches.per_connection_max, connection, requests)
            events = [event for _, event in self.events_from_state(armed, since)]
        for kind, path, flag in armed.watches_of(connection):
            if watches.count_of(connection) < watches.per_connection_max:
                watches.put(kind, path, connection, flag=flag)
        return events

    def events_from_state(self, watches: WatchTable, since: Zxid) -> list[Fired]:
        """Fire what the state shows to watches set as of `since`, or before and not fired yet.

        Unlike ZooKeeper, a znode that was deleted and created again fires DELETED, as it would have
        for an unbroken watch.
        """
        fired: list[Fired] = []
        deleted: set[tuple[int, str]] = set()  # connection and path of a deletion
        for path, watchers in list(watches.tables[DATA].items()):
            for connection, existed in list(watchers.items()):
                event = self._data_event(
                    path, since, self.identities_of(connection), existed=existed
                )
                if event is not None:
                    watches.pop(DATA, path, connection)
                    fired.append((connection, event))
                    if event.kind is EventType.DELETED:
                        deleted.add((connection, path))
        for path, watchers in list(watches.tables[CHILD].items()):
            for connection in list(watchers):
                event = self._child_event(path, since, self.identities_of(connection))
                if event is not None:
                    watches.pop(CHILD, path, connection)
                    if event.kind is EventType.CHILD or (connection, path) not in deleted:
                        fired.append((connection, event))
        lasting: dict[tuple[int, str], None] = {}
        for kind in (PERSISTENT, RECURSIVE):
            for path, watchers in watches.tables[kind].items():
                lasting.update(dict.fromkeys((connection, path) for connection in watchers))
        for connection, path in lasting:
            fired.append((connection, WatcherEvent(EventType.RESYNC, path, self.state.zxid)))
        return fired

    def _events_from_log(
        self, armed: WatchTable, connection: int, since: Zxid
    ) -> list[WatcherEvent] | None:
        """Run the watches over the change log; None when it is too short or finds too much."""
        paths, below = set[str](), set[str]()
        for kind, path, _ in armed.watches_of(connection):
            paths.add(path)
            if kind == RECURSIVE:
                below.add(path if path == "/" else path + "/")
        missed = self.change_log.changes_after(since, paths, tuple(below))
        if missed is None:
            return None
        events: list[WatcherEvent] = []
        size = 0
        for changes in missed:
            for _, event in armed.trigger(changes, self.identities_of, self.state.tree.znodes):
                size += EVENT_BYTES + len(event.path) + values_size((event.old, event.new))
                if size > RESUME_BYTES_MAX:
                    return None
                events.append(event)
        return events

    def _armed(self, count_max: int, connection: int, requests: list[SetWatches]) -> WatchTable:
        znodes = self.state.tree.znodes
        armed = WatchTable(count_max)
        for kind, path, flag in _watches_in(requests):
            if path not in znodes and path_fault(path) is not None:
                continue
            if armed.count_of(connection) < count_max:
                armed.put(kind, path, connection, flag=flag)
        return armed

    def _data_event(
        self, path: str, since: Zxid, identities: Identities, *, existed: bool
    ) -> WatcherEvent | None:
        """Return the event that a data watch has missed, None when nothing shows.

        The zxid of a deletion is not known afterwards; the event names the last one applied.
        """
        znode = self.state.tree.znodes.get(path)
        if znode is None:
            return (
                WatcherEvent(EventType.DELETED, path, self.state.zxid, once=True)
                if existed
                else None
            )
        if existed and znode.czxid > since:
            return WatcherEvent(EventType.DELETED, path, self.state.zxid, once=True)
        if not is_allowed(znode.attributes, identities, Permission.READ):
            return None
        if not existed:
            return WatcherEvent(EventType.CREATED, path, znode.czxid, once=True)
        if znode.mzxid > since:
            return WatcherEvent(EventType.CHANGED, path, znode.mzxid, once=True)
        return None

    def _child_event(self, path: str, since: Zxid, identities: Identities) -> WatcherEvent | None:
        """Return the event that a child watch has missed, None when nothing shows."""
        znode = self.state.tree.znodes.get(path)
        if znode is None:
            return WatcherEvent(EventType.DELETED, path, self.state.zxid, once=True)
        if znode.czxid > since:
            return WatcherEvent(EventType.DELETED, path, self.state.zxid, once=True)
        if not is_allowed(znode.attributes, identities, Permission.READ):
            return None
        if znode.pzxid > since:
            return WatcherEvent(EventType.CHILD, path, znode.pzxid, once=True)
        return None


def _watches_in(requests: list[SetWatches]) -> Iterator[tuple[int, str, bool]]:
    """Yield table, path and flag of each watch."""
    for request in requests:
        for path in request.data:
            yield DATA, path, True
        for path in request.exist:
            yield DATA, path, False
        for path in request.child:
            yield CHILD, path, False
        for lasting in request.persistent:
            if lasting.mode in TABLE_OF_MODE:
                yield TABLE_OF_MODE[lasting.mode], lasting.path, lasting.with_values
