"""The watcher objects of one client, by kind and path, and which of them an event concerns.

The server keeps one watch per connection, kind and path; here it fans out to the user's objects.
The invariant of this file: a watcher is registered only once a reply said that its watch is set,
and each object is called at most once per event, however often and by whichever kind it was set.

ZooKeeper: `ZKWatchManager`.
"""

from collections.abc import Iterable, Iterator

from raykeeper.zab.ids import Zxid
from raykeeper.znodes.replies import ChildrenRead, DataRead, EventType, StatRead
from raykeeper.znodes.requests import SetWatches

# An insertion-ordered set: watchers are called in the order in which they were set.
Table = dict[str, dict[object, None]]
PATH_OVERHEAD_BYTES = 5  # of a string in msgpack


class Watchers:
    """Three tables: data, exist and child watches."""

    def __init__(self) -> None:
        self._data: Table = {}
        self._exist: Table = {}
        self._child: Table = {}

    def add(self, watcher: object, path: str, reply: object) -> None:
        """`reply`, to a read of `path`, says that the watch is set."""
        if type(reply) is DataRead:
            table = self._data
        elif type(reply) is StatRead:
            table = self._exist if reply.stat is None else self._data
        else:
            assert type(reply) is ChildrenRead, reply
            table = self._child
        table.setdefault(path, {})[watcher] = None

    def take(self, kind: EventType, path: str) -> list[object]:
        """Remove and return the watchers that an event concerns, each once."""
        if kind is EventType.CHILD:
            tables = [self._child]
        elif kind is EventType.DELETED:
            tables = [self._data, self._exist, self._child]
        else:
            tables = [self._data, self._exist]
        concerned: dict[object, None] = {}
        for table in tables:
            concerned.update(table.pop(path, {}))
        return list(concerned)

    def take_all(self) -> dict[str, list[object]]:
        """Remove and return all of them by path, each once per path."""
        every: dict[str, dict[object, None]] = {}
        for table in (self._data, self._exist, self._child):
            for path, watchers in table.items():
                every.setdefault(path, {}).update(watchers)
            table.clear()
        return {path: list(watchers) for path, watchers in every.items()}

    def set_again(self, zxid: Zxid, xids: Iterator[int], bytes_max: int) -> list[SetWatches]:
        """The requests that set every watch on a new connection, each of about `bytes_max`.

        Args:
            zxid: Events up to this transaction have reached us.
            xids: Where the xids of the requests come from.
            bytes_max: Bound of the paths in one request; a single longer path travels alone.
        """
        requests: list[SetWatches] = []
        room = 0
        for kind, path in self._kinds_and_paths():
            size = len(path.encode()) + PATH_OVERHEAD_BYTES
            if size > room:
                requests.append(SetWatches(next(xids), zxid, [], [], []))
                room = bytes_max
            room -= size
            request = requests[-1]
            (request.data, request.exist, request.child)[kind].append(path)
        return requests

    def _kinds_and_paths(self) -> Iterable[tuple[int, str]]:
        for kind, table in enumerate((self._data, self._exist, self._child)):
            for path in table:
                yield kind, path
