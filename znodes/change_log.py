"""What happened to znodes lately: the material of watch events, kept for who was away.

Every server keeps what its last transactions did to znodes, as the tree told it, but no values and
Stats: to keep those of a busy ensemble takes time, and few ask for them. It is bounded by count
and by bytes, and forgotten in runs of whole transactions: to drop each change by itself costs every
write. `floor` is the zxid up to which something may be missing. A client that was away and has had
every event up to a later zxid is told all it has missed; with the value, if it asked for that and
the znode still is what the event tells of.

ZooKeeper has no counterpart: `DataTree.setWatches` compares zxids of the state, which lose what was
overwritten, and says nothing to persistent watches.
"""

from collections import deque
from collections.abc import Container, Iterable, Iterator
from itertools import chain
from typing import Final

from msgspec import Struct

from raykeeper.zab.ids import Zxid
from raykeeper.znodes.paths import parent_of
from raykeeper.znodes.replies import Content
from raykeeper.znodes.tree import CHANGED, DELETED, Znode, ZnodeChange, stat_of

CHANGE_OVERHEAD_BYTES: Final = 250
"""Of one happening, besides its path."""
SEGMENT_MAX: Final = 500
"""A run is full with so many happenings; what is settled at once can make it twice as long."""
SEGMENTS_MIN: Final = 50
"""A run is full with this part of either bound, too."""
EVENT_VALUES_BYTES_MAX: Final = 1 << 20
"""Of values in the events of one transaction; the values above it are left out."""


class _Segment(Struct):
    """What successive transactions did, each of them whole, and what that takes."""

    happened: list[ZnodeChange]
    bytes: int = 0


class ChangeLog:
    """The happenings of (floor, now], oldest first.

    The bounds hold once settled. To stay within, up to three runs more are forgotten than need be;
    and what is in one run with a transaction that is too large is forgotten with it.
    """

    def __init__(self, floor: Zxid, count_max: int, bytes_max: int) -> None:
        self.floor = floor
        self.bytes = 0
        self.pending: list[ZnodeChange] = []
        """Where the tree puts what happens, until `keep_pending` takes it over."""
        self._count = 0
        self._run_max = min(max(1, count_max // SEGMENTS_MIN), SEGMENT_MAX)
        self._run_bytes_max = bytes_max // SEGMENTS_MIN
        # Of the full ones; there is always room for one that is not.
        self._count_room = count_max - self._run_max + 1
        self._bytes_room = bytes_max - self._run_bytes_max
        self._runs: deque[_Segment] = deque()
        self._newest = _Segment([])

    def __len__(self) -> int:
        return self._count + len(self._newest.happened)

    def keep_pending(self) -> None:
        """Keep what is fresh, for which all watches have been triggered, without its contents."""
        fresh, run_max = self.pending, self._run_max
        if len(fresh) > run_max:
            for happened in _in_segments(fresh, run_max):
                self._keep(happened)
        elif fresh:
            self._keep(fresh)
        fresh.clear()

    def _keep(self, happened: list[ZnodeChange]) -> None:
        """Take over whole transactions, not many more happenings than fill a run."""
        size = 0
        for each in happened:
            each.old = each.new = None
            size += CHANGE_OVERHEAD_BYTES + len(each.path)
        newest = self._newest
        newest.happened += happened
        newest.bytes += size
        self.bytes += size
        if len(newest.happened) >= self._run_max or newest.bytes >= self._run_bytes_max:
            self._close()

    def _close(self) -> None:
        """The newest run is full: begin another, and forget the oldest if there are too many."""
        self._runs.append(self._newest)
        self._count += len(self._newest.happened)
        self._newest = _Segment([])
        while self.bytes > self._bytes_room or self._count > self._count_room:
            oldest = self._runs.popleft()
            self.floor = oldest.happened[-1].zxid
            self.bytes -= oldest.bytes
            self._count -= len(oldest.happened)

    def reset(self, floor: Zxid) -> None:
        """What led to the state at `floor` is not known."""
        self._runs.clear()
        self._newest = _Segment([])
        self.pending.clear()
        self.bytes = self._count = 0
        self.floor = floor

    def changes_after(
        self, zxid: Zxid, paths: Container[str], below: tuple[str, ...]
    ) -> list[list[ZnodeChange]] | None:
        """What each later transaction did to some znodes, in order; None when that is not known.

        They are the znodes at `paths`, the children of these (but not their values), and those
        whose paths begin with one of `below`. What concerns nobody is passed over quickly: after
        a server's end, all its clients ask for this at once.
        """
        self.keep_pending()
        if zxid < self.floor:
            return None
        txns: list[list[ZnodeChange]] = []
        at = None
        runs = chain((self._newest,), reversed(self._runs))
        for each in chain.from_iterable(reversed(run.happened) for run in runs):
            if each.zxid <= zxid:
                break
            path = each.path
            if not (
                path in paths
                or path.startswith(below)
                or (each.kind is not CHANGED and parent_of(path) in paths)
            ):
                continue
            if each.zxid != at:
                at = each.zxid
                txns.append([])
            txns[-1].append(each)
        for txn in txns:
            txn.reverse()
        txns.reverse()
        return txns


def _in_segments(happened: list[ZnodeChange], run_max: int) -> Iterator[list[ZnodeChange]]:
    """Whole transactions together, no more than a run needs to be full."""
    start, count = 0, len(happened)
    while start < count:
        end = start + run_max
        while end < count and happened[end].zxid == happened[end - 1].zxid:
            end += 1
        yield happened[start:end]
        start = end


class EventContents:
    """What znodes were before and after, for the events of one transaction.

    Together the values stay within a bound.
    """

    def __init__(self, happened: list[ZnodeChange], znodes: dict[str, Znode]) -> None:
        """`znodes` are the present ones, which may still be as `happened` left them long ago."""
        self._happened = happened
        self._znodes = znodes
        self._room = EVENT_VALUES_BYTES_MAX
        self._last: dict[str, ZnodeChange] | None = None

    def before_and_after(self, happening: ZnodeChange) -> tuple[Content | None, Content | None]:
        """Before and after; None where there is no znode, or where it is not known any more."""
        new = happening.new
        if new is None and happening.kind is not DELETED:
            znode = self._znodes.get(happening.path)
            if znode is not None and self._is_as_of(znode, happening):
                new = Content(znode.value, stat_of(znode))
        return self._bounded(happening.old), self._bounded(new)

    def _is_as_of(self, znode: Znode, happening: ZnodeChange) -> bool:
        """Whether neither value nor children nor ACL have changed since: the Stat speaks of all."""
        zxid = happening.zxid
        if (
            znode.mzxid != zxid
            or znode.pzxid > zxid
            or znode.attributes is not happening.attributes
        ):
            return False
        if self._last is None:
            self._last = _last_of(self._happened)
        return self._last[happening.path] is happening

    def _bounded(self, content: Content | None) -> Content | None:
        if content is None or content.value is None:
            return content
        if len(content.value) > self._room:
            return Content(None, content.stat)
        self._room -= len(content.value)
        return content


def _last_of(happened: list[ZnodeChange]) -> dict[str, ZnodeChange]:
    """The last thing that a transaction did to each znode or its children."""
    last: dict[str, ZnodeChange] = {}
    for each in happened:
        last[each.path] = each
        if each.kind is not CHANGED:
            last[parent_of(each.path)] = each
    return last


def values_size(contents: Iterable[Content | None]) -> int:
    """Bytes of the values in them."""
    return sum(len(each.value) for each in contents if each is not None and each.value is not None)
