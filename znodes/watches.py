"""The watches of one server's clients, and the events that each transaction fires.

Four tables by path. One-shot watches stand in `data` and `child` and are gone once they have fired;
`persistent` and `recursive` ones stay. The trigger table:

    znode        data, persistent and recursive   child and persistent   of the parent:
                 of it, recursive of those above  of it                  child and persistent
    created      CREATED                                                 CHILD
    changed      CHANGED
    deleted      DELETED                          DELETED                CHILD

One event goes to a connection for each path and trigger, however many of its watches match. Events
are made while the transaction is applied, so they precede every reply that could show its effect.
An event goes only to connections that may read the znode by the ACL it had, or the parent's for
CHILD; for the others the watch stays as if the znode had not changed.

A watch in the data table knows whether its znode existed when it was set. The flag stays true as
long as the watch is set, because both the creation and the deletion would fire it; it tells a
deleted znode from one that never existed when the state is replaced behind the watches' back.

ZooKeeper: `WatchManager`, `DataTree.setWatches`; the trigger table of `DataTree.processTxn`.
"""

from collections.abc import Callable, Iterator
from typing import Final

from msgspec.structs import replace

from raykeeper.zab.ids import Zxid
from raykeeper.znodes.acl import Identities, Permission, allows
from raykeeper.znodes.change_log import CHANGED, DELETED, EventContents, ZnodeChange
from raykeeper.znodes.limits import WATCHES_MAX
from raykeeper.znodes.paths import parent_of
from raykeeper.znodes.replies import EventType, WatcherEvent
from raykeeper.znodes.requests import WatchKind, WatchMode
from raykeeper.znodes.znode import Znode, ZnodeAttributes

Fired = tuple[int, WatcherEvent]
"""A connection and the event it gets."""
IdentitiesOf = Callable[[int], Identities]
"""Returns the identities by which the ACLs know a connection."""
Table = dict[str, dict[int, bool]]
"""Connections by path, each path's by the time of registration. The flag of a data watch: its znode
existed; of a persistent or recursive one: it wants values."""

DATA: Final = 0
CHILD: Final = 1
PERSISTENT: Final = 2
RECURSIVE: Final = 3
TABLE_OF_MODE: Final[dict[int, int]] = {
    WatchMode.PERSISTENT: PERSISTENT,
    WatchMode.RECURSIVE: RECURSIVE,
}
_TABLES_OF_KIND: Final[dict[int, tuple[int, ...]]] = {
    WatchKind.CHILD: (CHILD,),
    WatchKind.DATA: (DATA,),
    WatchKind.ANY: (DATA, CHILD, PERSISTENT, RECURSIVE),
    WatchKind.PERSISTENT: (PERSISTENT,),
    WatchKind.RECURSIVE: (RECURSIVE,),
}


class WatchTable:
    """The watches of one server's clients."""

    def __init__(self, per_connection_max: int = WATCHES_MAX) -> None:
        self.count = 0
        self.per_connection_max = per_connection_max
        self.tables: tuple[Table, Table, Table, Table] = ({}, {}, {}, {})
        self.value_watches: dict[tuple[int, int, str], None] = {}
        """The watches that want values."""
        # The paths of each connection, so that it can be dropped without a search.
        self._paths: dict[int, tuple[dict[str, None], ...]] = {}

    def count_of(self, connection: int) -> int:
        """Return the number of watches of one connection."""
        return sum(map(len, self._paths.get(connection, ())))

    def add_data(self, path: str, connection: int, *, exists: bool = True) -> None:
        """Watch for the next change of value or existence; set again, it is the same watch."""
        self.put(DATA, path, connection, flag=exists)

    def add_child(self, path: str, connection: int) -> None:
        """Watch an existing znode for the next child, loss of a child, or its own deletion."""
        self.put(CHILD, path, connection)

    def add_persistent(self, path: str, connection: int, mode: int, *, with_values: bool) -> None:
        """Watch all changes of a znode, or of it and all below it, as `mode` says."""
        self.put(TABLE_OF_MODE[mode], path, connection, flag=with_values)

    def has_persistent(self, path: str, connection: int, mode: int) -> bool:
        """Return whether this watch is set already."""
        return connection in self.tables[TABLE_OF_MODE[mode]].get(path, ())

    def put(self, kind: int, path: str, connection: int, *, flag: bool = False) -> None:
        """Set a watch in one of the tables; one that is set already may become one with values."""
        watchers = self.tables[kind].setdefault(path, {})
        if connection not in watchers:
            watchers[connection] = flag
            paths = self._paths.get(connection)
            if paths is None:
                paths = self._paths[connection] = ({}, {}, {}, {})
            paths[kind][path] = None
            self.count += 1
        if flag and kind >= PERSISTENT:
            watchers[connection] = True
            self.value_watches[kind, connection, path] = None

    def pop(self, kind: int, path: str, connection: int) -> None:
        """Remove a watch that is there."""
        watchers = self.tables[kind][path]
        del watchers[connection]
        if not watchers:
            del self.tables[kind][path]
        del self._paths[connection][kind][path]
        self.value_watches.pop((kind, connection, path), None)
        self.count -= 1

    def remove(self, path: str, connection: int, kinds: list[int]) -> bool:
        """Remove the watches of these WatchKinds; False when there is none."""
        before = self.count
        for kind in kinds:
            for table in _TABLES_OF_KIND[kind]:
                if connection in self.tables[table].get(path, ()):
                    self.pop(table, path, connection)
        return self.count < before

    def has_any(self, path: str, connection: int, kind: int) -> bool:
        """Return whether there is a watch of this WatchKind."""
        return any(
            connection in self.tables[table].get(path, ()) for table in _TABLES_OF_KIND[kind]
        )

    def drop(self, connection: int) -> None:
        """Remove all watches of a connection that is gone."""
        for kind, path, _ in list(self.watches_of(connection)):
            self.pop(kind, path, connection)
        self._paths.pop(connection, None)

    def watches_of(self, connection: int) -> Iterator[tuple[int, str, bool]]:
        """Yield table, path and flag of each watch of one connection."""
        for kind, paths in enumerate(self._paths.get(connection, ())):
            table = self.tables[kind]
            for path in paths:
                yield kind, path, table[path][connection]

    def watches_on(self, path: str) -> Iterator[tuple[int, str, int]]:
        """Yield table, path and connection of each watch that a change of `path` concerns."""
        for kind, table in enumerate(self.tables):
            for connection in table.get(path, ()):
                yield kind, path, connection
        recursive, above = self.tables[RECURSIVE], path
        while above != "/":
            above = parent_of(above)
            for connection in recursive.get(above, ()):
                yield RECURSIVE, above, connection

    def trigger(
        self, changes: list[ZnodeChange], identities_of: IdentitiesOf, znodes: dict[str, Znode]
    ) -> list[Fired]:
        """Return a transaction's events in the order they must be sent; `znodes` are of now."""
        if not self.count:
            return []
        firing = _Firing(self, identities_of, EventContents(changes, znodes))
        for each in changes:
            informed = firing.of_value(each)
            if each.kind is DELETED:
                firing.of_children(DELETED, each.path, each.zxid, each.attributes, informed)
            if each.kind is not CHANGED:
                above = parent_of(each.path)
                firing.of_children(EventType.CHILD, above, each.zxid, each.parent_attributes, {})
        return _marked(firing.fired)


class _Firing:
    """The events of one transaction while they are collected."""

    def __init__(
        self, watches: WatchTable, identities_of: IdentitiesOf, contents: EventContents
    ) -> None:
        self.fired: list[Fired] = []
        self._watches = watches
        self._identities_of = identities_of
        self._contents = contents

    def of_value(self, change: ZnodeChange) -> dict[int, bool]:
        """Fire for a change of value or existence. Return the connections that got an event."""
        kind, path, attributes = change.kind, change.path, change.attributes
        _, _, persistent, recursive = self._watches.tables
        informed = dict.fromkeys(
            self._take_one_shot(DATA, path, attributes, is_gone=kind is DELETED), False
        )
        if persistent:
            self._persistent(persistent, path, attributes, informed)
        if recursive:
            above = path
            self._persistent(recursive, above, attributes, informed)
            while above != "/":
                above = parent_of(above)
                self._persistent(recursive, above, attributes, informed)
        if informed:
            plain = WatcherEvent(kind, path, change.zxid)
            full = plain
            if any(informed.values()):
                old, new = self._contents.before_and_after(change)
                full = WatcherEvent(kind, path, change.zxid, False, old, new)
            for connection, wants_values in informed.items():
                self.fired.append((connection, full if wants_values else plain))
        return informed

    def of_children(
        self,
        kind: EventType,
        path: str,
        zxid: Zxid,
        attributes: ZnodeAttributes | None,
        informed: dict[int, bool],
    ) -> None:
        """Fire for changed children, or for the deletion of the znode.

        A connection in `informed` got an event for this deletion; its watch is gone all the same.
        """
        concerned = dict.fromkeys(
            self._take_one_shot(CHILD, path, attributes, is_gone=False), False
        )
        persistent = self._watches.tables[PERSISTENT]
        if persistent:
            self._persistent(persistent, path, attributes, concerned)
        if concerned:
            event = WatcherEvent(kind, path, zxid)
            self.fired.extend((each, event) for each in concerned if each not in informed)

    def _take_one_shot(
        self, table: int, path: str, attributes: ZnodeAttributes | None, *, is_gone: bool
    ) -> list[int]:
        """Remove the one-shot watches on `path` and return their connections.

        For a connection that may not read, a created znode stays a missing one and a deleted one
        becomes missing: the flag must not let a later event tell what was hidden.
        """
        watchers = self._watches.tables[table].get(path)
        if watchers is None:
            return []
        concerned = []
        for connection in list(watchers):
            if self._may_read(connection, attributes):
                self._watches.pop(table, path, connection)
                concerned.append(connection)
            elif is_gone:
                watchers[connection] = False
        return concerned

    def _persistent(
        self, table: Table, path: str, attributes: ZnodeAttributes | None, informed: dict[int, bool]
    ) -> None:
        for connection, wants_values in table.get(path, {}).items():
            if self._may_read(connection, attributes):
                informed[connection] = wants_values or informed.get(connection, False)

    def _may_read(self, connection: int, attributes: ZnodeAttributes | None) -> bool:
        if attributes is None or attributes.acls is None:
            return True
        return allows(attributes.acls, self._identities_of(connection), Permission.READ)


def _marked(fired: list[Fired]) -> list[Fired]:
    """Mark each event but the last one of its connection: more follow."""
    if len(fired) > 1:
        last: set[int] = set()
        for index in range(len(fired) - 1, -1, -1):
            connection, event = fired[index]
            if connection in last:
                fired[index] = connection, replace(event, more=True)
            last.add(connection)
    return fired
