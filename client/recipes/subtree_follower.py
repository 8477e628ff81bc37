"""A copy of a subtree that is always current, by one lasting recursive watch with values.

The watch is set first, then the znodes are read, then events are applied: of each znode those that
are newer than what was read of it. So there is no gap, though the reads are of different moments;
and since an event precedes every answer that could show its effect, a client's own writes are in
its copy before they return. When no server knows any more what was missed (RESYNC), all is read
again while the old copy stays readable.

The invariant of this file: the copy goes from one state that the subtree had to a later one, whole
transactions at a time, and each difference is told once, in order. States are passed over only
where values had to be read: what an event could not hold, or what was missed without a connection.

Curator: `TreeCache`, `CuratorCache`; these read every znode again when its watch has fired.
"""

from collections.abc import Iterable, Iterator
from itertools import groupby
from typing import Any, Final

from msgspec import Struct

from raykeeper.client.core.effects import SuccessReply
from raykeeper.client.core.outstanding import Query, WatchAddition
from raykeeper.client.core.watched_event import EventType, WatchedEvent
from raykeeper.client.errors import CacheFullError, KeeperError, NoAuthError, NoNodeError
from raykeeper.client.flows import Cancelled, Event, Flow, Gather, Wait
from raykeeper.client.recipes.compare_and_set import checkpoint
from raykeeper.client.recipes.primitives import best_effort_cleanup
from raykeeper.client.recipes.tree_mirror import CachedZnode, TreeChange, TreeMirror
from raykeeper.zab.ids import Zxid
from raykeeper.znodes.paths import join
from raykeeper.znodes.replies import GetChildrenReply, GetDataReply
from raykeeper.znodes.requests import GetChildren, GetData, WatchKind, WatchMode

READ_BATCH_MAX: Final = 500
"""So that others need not wait behind all reads of a large subtree."""
_ABOUT_ZNODES: Final = (EventType.CREATED, EventType.CHANGED, EventType.DELETED)
_END: Final = Zxid((1 << 63) - 1)


class _ZnodeRead(Struct, frozen=True):
    """What was read of a znode, and what events up to `zxid` are in it."""

    znode: CachedZnode | None
    zxid: Zxid


class _UnknownValue(Struct, frozen=True):
    """Stands for a znode whose value was not told."""


_UNKNOWN_VALUE: Final = _UnknownValue()
Reads = dict[str, _ZnodeRead]
Written = dict[str, Any]
"""By path: a CachedZnode, None for none, or _UNTOLD."""


class SubtreeFollower:
    """What one cache follows. Its flows run one after the other."""

    def __init__(self, path: str, copy: TreeMirror, *, is_deep: bool) -> None:
        """`is_deep`: with all that is below its children."""
        self.path = path
        self.is_closed = False
        self._mirror = copy
        self._is_recursive = is_deep
        self._below = path if path == "/" else f"{path}/"
        self._changed = Event()

    def open(self) -> Flow[list[TreeChange]]:
        """Begin; all that is there now.

        Raises:
            CacheFullError: it is too much; nothing is watched.
            KeeperError: what a request failed with; nothing is watched.
        """
        try:
            return (yield from self._catch_up(is_watched=False))
        except (Cancelled, KeeperError, CacheFullError):
            yield from self.close()
            raise

    def changes(self) -> Flow[list[TreeChange]]:
        """Wait until something has happened; what is different since.

        Raises:
            CacheFullError: there are too many znodes; the copy is as it was before.
            KeeperError: the session is over.
        """
        yield Wait((self._changed,))
        return (yield from self._catch_up())

    def close(self) -> Flow[None]:
        """End it. The copy stays as it is."""
        if not self.is_closed:
            self.is_closed = True
            self._changed.set()
            yield from best_effort_cleanup([], [(self.path, WatchKind.RECURSIVE, self._changed)])

    def _catch_up(self, *, is_watched: bool = True) -> Flow[list[TreeChange]]:
        """Bring the copy to the newest state that is known."""
        events: list[WatchedEvent] = []
        reads: Reads = {}
        is_whole = not is_watched
        if is_whole:
            reads = yield from self._load(is_watched=False)
        while True:
            events += self._changed.drain()
            kinds = {event.type for event in events}
            if self.is_closed:
                return []
            if EventType.RESYNC in kinds or EventType.PERSISTENT_WATCH_REMOVED in kinds:
                # Whatever has come so far is in what is read from now on.
                is_watched = EventType.PERSISTENT_WATCH_REMOVED not in kinds
                events, is_whole = [], True
                reads = yield from self._load(is_watched=is_watched)
                continue
            if events and events[-1].more:
                yield Wait((self._changed,))  # the rest of the transaction follows at once
                continue
            written = self._written(events, reads, is_whole=is_whole)
            untold = [path for path, znode in written.items() if znode is _UNKNOWN_VALUE]
            if not untold:
                break
            found = yield from self._read(untold)
            for path in untold:  # what is gone is so as of the answer, which all events precede
                reads[path] = found.get(path) or _ZnodeRead(None, events[-1].zxid)
        if is_whole:
            return self._mirror.replace({path: each for path, each in written.items() if each})
        if reads:
            return self._mirror.commit(written)
        changes: list[TreeChange] = []
        for _, group in groupby(events, key=lambda event: event.zxid):
            changes += self._mirror.commit(self._written(group, {}, is_whole=False))
        return changes

    def _written(self, events: Iterable[WatchedEvent], reads: Reads, *, is_whole: bool) -> Written:
        """What the events make of what was read, or else (unless `is_whole`) of the copy.

        The last one touched is the last one in it.
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
        if self._is_recursive or path == self.path:
            return True
        return "/" not in path[len(self._below) :]

    def _load(self, *, is_watched: bool) -> Flow[Reads]:
        """Everything, level by level."""
        if not is_watched:
            yield WatchAddition(self.path, WatchMode.RECURSIVE, True, self._changed)
        reads: Reads = {}
        level = [self.path]
        while level:
            found = yield from self._read(level)
            reads |= found
            self._mirror.check_limit(len(reads))
            level = []
            if self._is_recursive or len(reads) == len(found):
                parents = [path for path, read in found.items() if _has_children(read)]
                level = yield from self._list(parents, len(reads))
        return reads

    def _read(self, paths: list[str]) -> Flow[Reads]:
        """Of each znode what is there; nothing of those that are gone."""
        reads: Reads = {}
        for portion in _batches(paths):
            answers = yield Gather([Query(GetData, path) for path in portion], _answer_itself)
            for path, answer in zip(portion, answers, strict=True):
                if isinstance(answer, GetDataReply):
                    reads[path] = _ZnodeRead(CachedZnode(answer.value, answer.stat), answer.zxid)
                elif isinstance(answer, NoAuthError):
                    reads[path] = _ZnodeRead(None, _END)
                elif not isinstance(answer, NoNodeError):
                    raise answer
            yield from checkpoint()
        return reads

    def _list(self, parents: list[str], count: int) -> Flow[list[str]]:
        """The paths of their children."""
        paths: list[str] = []
        for portion in _batches(parents):
            answers = yield Gather([Query(GetChildren, path) for path in portion], _answer_itself)
            for path, answer in zip(portion, answers, strict=True):
                if isinstance(answer, GetChildrenReply):
                    paths += [join(path, name) for name in answer.children]
                elif not isinstance(answer, NoNodeError | NoAuthError):
                    raise answer
            self._mirror.check_limit(count + len(paths))
            yield from checkpoint()
        return paths


def _znode_after(event: WatchedEvent) -> CachedZnode | _UnknownValue | None:
    """What a znode is after an event."""
    if event.type is EventType.DELETED:
        return None
    if event.new is None or event.new.value is None:
        return _UNKNOWN_VALUE
    return CachedZnode(event.new.value, event.new.stat)


def _has_children(read: _ZnodeRead) -> bool:
    return read.znode is not None and read.znode.stat.num_children > 0


def _answer_itself(answer: SuccessReply) -> SuccessReply:
    return answer


def _batches(paths: list[str]) -> Iterator[list[str]]:
    return (paths[at : at + READ_BATCH_MAX] for at in range(0, len(paths), READ_BATCH_MAX))
