"""The watcher objects of one client, by kind and path, and which of them an event concerns.

The server keeps one watch per connection, kind and path; here it fans out to the user's objects.
The invariant of this file: a watcher is registered only once a reply said that its watch is set,
and each object is called at most once per event, however often and by whichever kind it was set.

ZooKeeper: `ZKWatchManager`.
"""

from collections.abc import Iterable, Iterator
from typing import Any, Final

from msgspec.structs import replace

from raykeeper.zab.ids import Zxid
from raykeeper.znodes.paths import parent_of
from raykeeper.znodes.replies import EventType, ExistsReply, GetChildrenReply, GetDataReply
from raykeeper.znodes.requests import PersistentWatch, SetWatches, WatchKind, WatchMode

# An insertion-ordered set: watchers are called in the order in which they were set. What is kept
# of each is whether it wants values.
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
    """Three tables of one-shot watches: data, exist and child; and those of persistent ones."""

    def __init__(self) -> None:
        self._data: WatchTable = {}
        self._exist: WatchTable = {}
        self._child: WatchTable = {}
        self._persistent: WatchTable = {}
        self._recursive: WatchTable = {}

    def add_one_shot(self, watcher: object, path: str, reply: object) -> None:
        """`reply`, to a read of `path`, says that the watch is set."""
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
        """A persistent or recursive watch is set."""
        (table,) = self._tables_of(KIND_OF_MODE[mode])
        watchers = table.setdefault(path, {})
        watchers[watcher] = with_values or watchers.get(watcher, False)

    def take(self, kind: EventType, path: str, *, only_once: bool = False) -> list[object]:
        """The watchers that an event concerns, each once; the one-shot ones are removed.

        `only_once`: it concerns only these.
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
        """Remove and return all of them by path, each once per path."""
        every: dict[str, dict[object, bool]] = {}
        for table in self._tables():
            for path, watchers in table.items():
                every.setdefault(path, {}).update(watchers)
            table.clear()
        return {path: list(watchers) for path, watchers in every.items()}

    def remove(
        self, path: str, watcher: object | None, kinds: Iterable[WatchKind]
    ) -> dict[EventType, list[object]]:
        """Remove one watcher, None for all of them, from these kinds; who has to be told what."""
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
        """The requests that set every watch on a new connection, each of about `bytes_max`.

        Args:
            zxid: Events up to this transaction have reached us.
            xids: Where the xids of the requests come from.
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
        """Place in a request, path, and what stands there."""
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
