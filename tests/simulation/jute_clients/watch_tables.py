"""The watches of a client of ZooKeeper's protocol, by path; the server knows only the paths.

ZooKeeper: `ZKWatchManager`.
"""

from raykeeper.jute.records import SetWatches, SetWatches2
from raykeeper.zab.ids import Zxid
from raykeeper.znodes.replies import EventType
from raykeeper.znodes.requests import WatchKind, WatchMode

Table = dict[str, dict[object, None]]
"""The watchers of each path, oldest first."""


class WatchTables:
    """All watches of one session."""

    def __init__(self) -> None:
        self.data: Table = {}
        self.exist: Table = {}
        self.child: Table = {}
        self.lasting: dict[WatchMode, Table] = {mode: {} for mode in WatchMode}

    def told_of(self, kind: EventType, path: str) -> list[object]:
        """Return the watchers of an event, each once; one-shot watches are gone then."""
        tables = {
            EventType.CREATED: [self.data, self.exist],
            EventType.CHANGED: [self.data, self.exist],
            EventType.CHILD: [self.child],
            EventType.DELETED: [self.data, self.exist, self.child],
        }[kind]
        told: dict[object, None] = {}
        for table in tables:
            told.update(table.pop(path, {}))
        told.update(self.lasting[WatchMode.PERSISTENT].get(path, {}))
        if kind is not EventType.CHILD:
            for above, watchers in self.lasting[WatchMode.RECURSIVE].items():
                if path == above or path.startswith(above.rstrip("/") + "/"):
                    told.update(watchers)
        return list(told)

    def removed(self, kind: WatchKind, path: str, watcher: object | None) -> list[object]:
        """Remove the watches of one watcher, or of all (None), and return whose they were."""
        tables = {
            WatchKind.DATA: [self.data, self.exist],
            WatchKind.CHILD: [self.child],
            WatchKind.PERSISTENT: [self.lasting[WatchMode.PERSISTENT]],
            WatchKind.RECURSIVE: [self.lasting[WatchMode.RECURSIVE]],
        }[kind]
        gone: dict[object, None] = {}
        for table in tables:
            watchers = table.get(path, {})
            for each in [each for each in watchers if watcher in (None, each)]:
                gone[each] = watchers.pop(each)
            if not watchers:
                table.pop(path, None)
        return list(gone)

    def to_set_again(self, zxid: Zxid) -> SetWatches | SetWatches2 | None:
        """Return the request of the next connection; None without watches."""
        one_shot = list(self.data), list(self.exist), list(self.child)
        lasting = [list(self.lasting[mode]) for mode in WatchMode]
        if any(lasting):
            return SetWatches2(zxid, *one_shot, *lasting)
        return SetWatches(zxid, *one_shot) if any(one_shot) else None
