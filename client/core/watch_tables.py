"""The watchers of one client by kind and path: finds those that an event concerns.

The server keeps one watch per connection, kind and path; these tables fan it out to the user's
objects. The invariants of this file: a watcher is registered only after a reply said that its watch
is set; each watcher is called at most once per event, in however many tables it stands.

ZooKeeper: `ZKWatchManager`.
"""

from collections.abc import Iterable, Iterator
from typing import Any, Final

from msgspec.structs import replace

from raykeeper.zab.ids import Zxid
from raykeeper.znodes.paths import parent_of
from raykeeper.znodes.replies import EventType, ExistsReply, GetChildrenReply, GetDataReply
from raykeeper.znodes.requests import PersistentWatch, SetWatches, WatchKind, WatchMode

# By path, watchers in the order in which they were set, and whether each wants values.
WatchTable = dict[str, dict[object, bool]]
PATH_OVERHEAD_BYTES = 5  # of a string in msgpack

KIND_OF_MODE: Final = {
    WatchMode.PERSISTENT: WatchKind.PERSISTENT,
    WatchMode.RECURSIVE: WatchKind.RECURSIVE,
}
_REMOVED_EVENT: Final = {
    WatchKind.DATA: EventType.DATA_WATCH_REMOVED,
    WatchKind.CHILD: EventType.CHILD_WATCH_REMOVED,
    WatchKind.PERSISTENT: EventType.PERSISTENT_WATCH_REMOVED,
    WatchKind.RECURSIVE: EventType.PERSISTENT_WATCH_REMOVED,
}


class WatchTables:
    """Three tables of one-shot watches (data, exist, child) and two of persistent ones."""

    def __init__(self) -> None:
        self._data: WatchTable = {}
        self._exist: WatchTable = {}
        self._child: WatchTable = {}
        self._persistent: WatchTable = {}
        self._recursive: WatchTable = {}

    def add_one_shot(self, watcher: object, path: str, reply: object) -> None:
        """Register a one-shot watcher: `reply`, to a read of `path`, says that its watch is set."""
        if type(reply) is GetDataReply:
            table = self._data
        elif type(reply) is ExistsReply:
            table = self._exist if reply.stat is None else self._data
        else:
            assert type(reply) is GetChildrenReply, reply
            table = self._child
        table.setdefault(path, {})[watcher] = False

    def add_persistent(
        self, watcher: object, path: str, mode: WatchMode, *, with_values: bool
    ) -> None:
        """Register a persistent or recursive watcher, whose watch is set."""
        (table,) = self._tables_of(KIND_OF_MODE[mode])
        watchers = table.setdefault(path, {})
        watchers[watcher] = with_values or watchers.get(watcher, False)

    def take(self, kind: EventType, path: str, *, only_once: bool = False) -> list[object]:
        """Return the watchers that an event concerns, each once; remove the one-shot watchers.

        `only_once`: the event concerns one-shot watchers alone.
        """
        one_shot_tables: tuple[WatchTable, ...] = (self._data, self._exist)
        if kind is EventType.CHILD:
            one_shot_tables = (self._child,)
        elif kind is EventType.DELETED:
            one_shot_tables = (self._data, self._exist, self._child)
        elif kind is EventType.RESYNC:
            one_shot_tables = ()
        concerned: dict[object, bool] = {}
        for table in one_shot_tables:
            concerned.update(table.pop(path, {}))
        if only_once:
            return list(concerned)
        concerned.update(self._persistent.get(path, {}))
        if self._recursive and kind is not EventType.CHILD:
            concerned.update(self._recursive.get(path, {}))
            while path != "/" and kind is not EventType.RESYNC:
                path = parent_of(path)
                concerned.update(self._recursive.get(path, {}))
        return list(concerned)

    def take_all(self) -> dict[str, list[object]]:
        """Remove and return all watchers by path, each once per path."""
        every: dict[str, dict[object, bool]] = {}
        for table in self._tables():
            for path, watchers in table.items():
                every.setdefault(path, {}).update(watchers)
            table.clear()
        return {path: list(watchers) for path, watchers in every.items()}

    def remove(
        self, path: str, watcher: object | None, kinds: Iterable[WatchKind]
    ) -> dict[EventType, list[object]]:
        """Remove a watcher, or all (None), from these kinds; return the removed ones by event."""
        removed: dict[EventType, dict[object, bool]] = {}
        for kind in kinds:
            for table in self._tables_of(kind):
                watchers = table.get(path, {})
                gone = [each for each in watchers if watcher is None or each == watcher]
                for each in gone:
                    del watchers[each]
                    removed.setdefault(_REMOVED_EVENT[kind], {})[each] = False
                if gone and not watchers:
                    del table[path]
        return {event: list(watchers) for event, watchers in removed.items()}

    def set_watches(self, zxid: Zxid, xids: Iterator[int], bytes_max: int) -> list[SetWatches]:
        """Return the requests that set every watch on a new connection, each of about `bytes_max`.

        Args:
            zxid: The client has received the events up to this transaction.
            xids: The source of the requests' xids.
            bytes_max: Bound of the paths in one request; a single longer path travels alone.
        """
        requests: list[SetWatches] = []
        room = 0
        for place, path, watch in self._watches():
            size = len(path.encode()) + PATH_OVERHEAD_BYTES
            if size > room:
                requests.append(SetWatches(next(xids), zxid, [], [], [], [], more=True))
                room = bytes_max
            room -= size
            request = requests[-1]
            (request.data, request.exist, request.child, request.persistent)[place].append(watch)
        if requests:
            requests[-1] = replace(requests[-1], more=False)
        return requests

    def _watches(self) -> Iterator[tuple[int, str, Any]]:
        """Yield the list of SetWatches, the path and the entry for each watch."""
        for place, table in enumerate((self._data, self._exist, self._child)):
            for path in table:
                yield place, path, path
        for mode, kind in KIND_OF_MODE.items():
            (table,) = self._tables_of(kind)
            for path, watchers in table.items():
                yield 3, path, PersistentWatch(path, mode, any(watchers.values()))

    def _tables(self) -> tuple[WatchTable, ...]:
        return self._data, self._exist, self._child, self._persistent, self._recursive

    def _tables_of(self, kind: WatchKind) -> tuple[WatchTable, ...]:
        data, exist, child, persistent, recursive = self._tables()
        return {
            WatchKind.DATA: (data, exist),
            WatchKind.CHILD: (child,),
            WatchKind.PERSISTENT: (persistent,),
            WatchKind.RECURSIVE: (recursive,),
        }[kind]
