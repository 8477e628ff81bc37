"""What the watches of a client have missed while no server looked at them.

A client that connects anew sets its watches again as of the last events it has had. If the history
reaches back, all watches are run over it: one-shot, persistent and recursive ones get exactly what
an unbroken connection would have brought. Else the state must do. It shows each one-shot watch
whether its znode has changed, not how often; a znode that was missing, came and went again it does
not show. To a persistent watch it shows too little, so its watcher is told to read anew: RESYNC.
The same is done when a snapshot takes the place of the state under the watches (rule Z5).

ZooKeeper: `DataTree.setWatches`.
"""

from collections.abc import Iterator
from typing import Final

from msgspec import Struct

from raykeeper.zab.ids import Zxid
from raykeeper.znodes.acl import Identities, Permission, allows
from raykeeper.znodes.change_log import ChangeLog, values_size
from raykeeper.znodes.paths import path_fault
from raykeeper.znodes.replies import EventType, WatcherEvent
from raykeeper.znodes.requests import SetWatches
from raykeeper.znodes.state import State
from raykeeper.znodes.tree import Znode
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

RESUME_BYTES_MAX: Final = 4 << 20
"""Of the events that one client is told of its absence; above it, RESYNC."""
EVENT_BYTES: Final = 256
"""Of an event, besides its path and values. They are made in one go, so they may not be many."""


class WatchReplay(Struct, frozen=True):
    """Where the events come from: the state and how it came about; `identities_of` looks."""

    state: State
    change_log: ChangeLog
    identities_of: IdentitiesOf

    def set_watches(
        self, watches: WatchTable, connection: int, requests: list[SetWatches]
    ) -> list[WatcherEvent]:
        """Set what a client watched as of the requests' zxid; what it must be told, in order.

        Watches above the connection's bound, which it cannot have had before, are not set, nor are
        those on malformed paths, which nobody was ever told of.
        """
        since = requests[0].zxid
        armed = self._armed(watches.per_connection_max, connection, requests)
        events = self._events_from_log(armed, connection, since)
        if events is None:
            # What the replay has fired is set once more, for the state to show it.
            armed = self._armed(watches.per_connection_max, connection, requests)
            events = [event for _, event in self.events_from_state(armed, since)]
        for kind, path, flag in armed.watches_of(connection):
            if watches.count_of(connection) < watches.per_connection_max:
                watches.put(kind, path, connection, flag=flag)
        return events

    def events_from_state(self, watches: WatchTable, since: Zxid) -> list[Fired]:
        """What the state shows watches that were set as of `since`, or before and had not fired.

        Beyond ZooKeeper, a znode that was deleted and created again is told as deleted, as an
        unbroken watch would have.
        """
        fired: list[Fired] = []
        told: set[tuple[int, str]] = set()  # connection and path of a deletion
        for path, watchers in list(watches.tables[DATA].items()):
            for connection, existed in list(watchers.items()):
                event = self._data_event(
                    path, since, self.identities_of(connection), existed=existed
                )
                if event is not None:
                    watches.pop(DATA, path, connection)
                    fired.append((connection, event))
                    if event.kind is EventType.DELETED:
                        told.add((connection, path))
        for path, watchers in list(watches.tables[CHILD].items()):
            for connection in list(watchers):
                event = self._child_event(path, since, self.identities_of(connection))
                if event is not None:
                    watches.pop(CHILD, path, connection)
                    if event.kind is EventType.CHILD or (connection, path) not in told:
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
        """Run the watches over what has happened; None when it is not known, or too much."""
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
        for happened in missed:
            for _, event in armed.trigger(happened, self.identities_of, self.state.tree.znodes):
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
        """What a data watch has missed, None when nothing shows.

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
        if not _may_read(znode, identities):
            return None
        if not existed:
            return WatcherEvent(EventType.CREATED, path, znode.czxid, once=True)
        if znode.mzxid > since:
            return WatcherEvent(EventType.CHANGED, path, znode.mzxid, once=True)
        return None

    def _child_event(self, path: str, since: Zxid, identities: Identities) -> WatcherEvent | None:
        """What a child watch has missed."""
        znode = self.state.tree.znodes.get(path)
        if znode is None:
            return WatcherEvent(EventType.DELETED, path, self.state.zxid, once=True)
        if znode.czxid > since:
            return WatcherEvent(EventType.DELETED, path, self.state.zxid, once=True)
        if not _may_read(znode, identities):
            return None
        if znode.pzxid > since:
            return WatcherEvent(EventType.CHILD, path, znode.pzxid, once=True)
        return None


def _watches_in(requests: list[SetWatches]) -> Iterator[tuple[int, str, bool]]:
    """Table, path and flag of each."""
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


def _may_read(znode: Znode, identities: Identities) -> bool:
    traits = znode.attributes
    return traits is None or allows(traits.acls, identities, Permission.READ)
