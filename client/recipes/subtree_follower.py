"""The follower of a subtree, down to some level or whole: a mirror of it that is always current.

Guarantees:

-   The mirror goes from one state that the subtree had to a later one, whole transactions at a
    time, and each difference is returned once, in order. The newest state is never left out.
-   A change costs no request: the events bring the values. The follower reads a znode only where
    an event does not bring its value: it was too long, or was missed without a connection. It
    reads everything again when no server knows any more what was missed (RESYNC), and when
    somebody removed all watches of the path. States in between may then be passed over; meanwhile
    the old mirror stays readable.
-   A client's own writes are in its mirror before they return.
-   A znode that the client may not read is left out, and so is what is below it.

There is no gap between the first reads and the events: the watch is set first, then the znodes are
read, then the events are applied, to each znode those that are newer than what was read of it. A
server sends an event before every answer that could show its effect.

Caches, groups, services and the partitioner follow their znodes by this. Curator: `TreeCache`,
`CuratorCache`; these read every znode again when its watch has fired.
"""

from collections.abc import Iterable
from itertools import groupby
from typing import Any, Final

from msgspec import Struct

from raykeeper.client.core.effects import SuccessReply
from raykeeper.client.core.flows import Cancelled, Event, Flow, Gather, Wait
from raykeeper.client.core.outstanding import Query, WatchAddition
from raykeeper.client.core.public_types import EventType, WatchedEvent
from raykeeper.client.errors import CacheFullError, KeeperError, NoAuthError, NoNodeError
from raykeeper.client.recipes.compare_and_set import checkpoint
from raykeeper.client.recipes.primitives import batches, best_effort_cleanup
from raykeeper.client.recipes.tree_mirror import CachedZnode, TreeChange, TreeMirror
from raykeeper.zab.ids import Zxid
from raykeeper.znodes.paths import join
from raykeeper.znodes.replies import GetChildrenReply, GetDataReply
from raykeeper.znodes.requests import GetChildren, GetData, WatchMode

_ABOUT_ZNODES: Final = (EventType.CREATED, EventType.CHANGED, EventType.DELETED)


class _ZnodeRead(Struct, frozen=True):
    """The content of a znode that was read; events up to `zxid` are contained in it."""

    znode: CachedZnode | None
    zxid: Zxid


class _UnknownValue(Struct, frozen=True):
    """Stands for a znode of which an event did not bring the value."""


_UNKNOWN_VALUE: Final = _UnknownValue()
_UNREADABLE: Final = _ZnodeRead(None, Zxid((1 << 63) - 1))
"""A znode that the client may not read, whatever events say."""
Reads = dict[str, _ZnodeRead]
Written = dict[str, Any]
"""By path: a CachedZnode, None for a znode that is gone, or _UNKNOWN_VALUE."""


class SubtreeFollower:
    """The znode at a path, which need not exist, and those below it, from `open` to `close`.

    Its flows run one after the other.
    """

    def __init__(
        self,
        path: str,
        depth: int | None = None,
        znodes_max: int | None = None,
        *,
        needs_root: bool = False,
    ) -> None:
        """Nothing is watched yet.

        Args:
            path: Of the root.
            depth: How many levels below the root it follows; None for all.
            znodes_max: So many znodes at most, the root included; None for any number.
            needs_root: `open` fails if the client may not read the root; else it finds nothing.
        """
        self.path = path
        self.mirror = TreeMirror(znodes_max)
        self.changed = Event()
        """Set when there is something to catch up with."""
        self.is_closed = False
        self._depth = depth
        self._needs_root = needs_root
        self._below = path if path == "/" else f"{path}/"

    def open(self) -> Flow[list[TreeChange]]:
        """Set the watch and read everything; return it as changes.

        Raises:
            CacheFullError: there are too many znodes; nothing is watched.
            KeeperError: what a request failed with; nothing is watched.
        """
        try:
            return (yield from self._apply_events(is_watched=False))
        except (Cancelled, KeeperError, CacheFullError):
            yield from self.close()
            raise

    def next_changes(self) -> Flow[list[TreeChange]]:
        """Wait until something happens; bring the mirror up to date and return the changes.

        Raises:
            CacheFullError: there are too many znodes; the mirror is as it was before.
            KeeperError: the session is over.
        """
        yield Wait((self.changed,))
        return (yield from self.catch_up())

    def catch_up(self) -> Flow[list[TreeChange]]:
        """Bring the mirror to the newest state that is known; return the changes.

        Raises:
            CacheFullError: as for `next_changes`.
            KeeperError: as for `next_changes`.
        """
        return (yield from self._apply_events(is_watched=True))

    def close(self) -> Flow[None]:
        """Remove the watch, once. The mirror stays as it is."""
        if not self.is_closed:
            self.is_closed = True
            self.changed.set()
            yield from best_effort_cleanup([], [(self.path, self.changed)])

    def _apply_events(self, *, is_watched: bool) -> Flow[list[TreeChange]]:
        events: list[WatchedEvent] = []
        reads: Reads = {}
        is_whole = not is_watched
        if is_whole:
            reads = yield from self._load(is_watched=False)
        while True:
            events += self.changed.drain()
            kinds = {event.type for event in events}
            if self.is_closed:
                return []
            if EventType.RESYNC in kinds or EventType.PERSISTENT_WATCH_REMOVED in kinds:
                # Reads from now on contain all events that have come so far.
                is_watched = EventType.PERSISTENT_WATCH_REMOVED not in kinds
                events, is_whole = [], True
                reads = yield from self._load(is_watched=is_watched)
                continue
            if events and events[-1].more:
                yield Wait((self.changed,))  # the rest of the transaction follows at once
                continue
            written = self._written(events, reads, is_whole=is_whole)
            unknown = [path for path, znode in written.items() if znode is _UNKNOWN_VALUE]
            if not unknown:
                break
            found = yield from self._read(unknown)
            for path in unknown:  # all events precede the answer by which a znode is gone
                reads[path] = found.get(path) or _ZnodeRead(None, events[-1].zxid)
        if is_whole:
            return self.mirror.replace({path: each for path, each in written.items() if each})
        if reads:
            return self.mirror.commit(written)
        changes: list[TreeChange] = []
        for _, group in groupby(events, key=lambda event: event.zxid):
            changes += self.mirror.commit(self._written(group, {}, is_whole=False))
        return changes

    def _written(self, events: Iterable[WatchedEvent], reads: Reads, *, is_whole: bool) -> Written:
        """Apply events to what was read, or else (unless `is_whole`) to the mirror.

        The znode that was changed last is the last one of the result.
        """
        written: Written = {path: read.znode for path, read in reads.items()}
        for event in events:
            path = event.path
            if event.type not in _ABOUT_ZNODES or not self._covers(path):
                continue
            if path in reads and event.zxid <= reads[path].zxid:
                written[path] = written.pop(path)  # in its turn
                continue
            if event.type is EventType.CHANGED and is_whole and written.get(path) is None:
                continue  # it was gone again before anything was read of it
            written.pop(path, None)
            written[path] = _znode_after(event)
        return written

    def _covers(self, path: str) -> bool:
        if self._depth is None or path == self.path:
            return True
        return path.count("/", len(self._below)) < self._depth

    def _load(self, *, is_watched: bool) -> Flow[Reads]:
        """Read everything, level by level."""
        if not is_watched:
            yield WatchAddition(self.path, WatchMode.RECURSIVE, True, self.changed)
        reads: Reads = {}
        level, depth = [self.path], 0
        while level:
            found = yield from self._read(level)
            if self._needs_root and found.get(self.path) is _UNREADABLE:
                raise NoAuthError(self.path)
            reads |= found
            self.mirror.check_limit(len(reads))
            parents = [path for path, read in found.items() if _has_children(read)]
            level = []
            if self._depth is None or depth < self._depth:
                level = yield from self._list(parents, len(reads))
            depth += 1
        return reads

    def _read(self, paths: list[str]) -> Flow[Reads]:
        """Read znodes; those that are gone are left out."""
        reads: Reads = {}
        for portion in batches(paths):
            answers = yield Gather([Query(GetData, path) for path in portion], _answer_itself)
            for path, answer in zip(portion, answers, strict=True):
                if isinstance(answer, GetDataReply):
                    znode = CachedZnode(answer.value or b"", answer.stat)
                    reads[path] = _ZnodeRead(znode, answer.zxid)
                elif isinstance(answer, NoAuthError):
                    reads[path] = _UNREADABLE
                elif not isinstance(answer, NoNodeError):
                    raise answer
            yield from checkpoint()
        return reads

    def _list(self, parents: list[str], count: int) -> Flow[list[str]]:
        """Return the paths of the children."""
        paths: list[str] = []
        for portion in batches(parents):
            answers = yield Gather([Query(GetChildren, path) for path in portion], _answer_itself)
            for path, answer in zip(portion, answers, strict=True):
                if isinstance(answer, GetChildrenReply):
                    paths += [join(path, name) for name in answer.children]
                elif not isinstance(answer, NoNodeError | NoAuthError):
                    raise answer
            self.mirror.check_limit(count + len(paths))
            yield from checkpoint()
        return paths


def _znode_after(event: WatchedEvent) -> CachedZnode | _UnknownValue | None:
    """Return a znode after an event."""
    if event.type is EventType.DELETED:
        return None
    if event.new is None or event.new.value is None:
        return _UNKNOWN_VALUE
    return CachedZnode(event.new.value, event.new.stat)


def _has_children(read: _ZnodeRead) -> bool:
    return read.znode is not None and read.znode.stat.num_children > 0


def _answer_itself(answer: SuccessReply) -> SuccessReply:
    return answer
