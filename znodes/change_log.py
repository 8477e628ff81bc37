"""The latest changes of znodes: the source of watch events for clients that were away.

Every server keeps the changes that its last transactions made, as the tree reports them, but no
values and Stats: keeping those of a busy ensemble takes time, and few clients ask for them. The log
is bounded by count and by bytes, and forgets segments of whole transactions: dropping each change
by itself would cost every write. `floor` is the zxid up to which changes may be missing. A client
that was away, and has had every event up to a later zxid, gets all the events it has missed; with
the value, if it asked for values and the znode is still what the event tells of.

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
from raykeeper.znodes.replies import Content, EventType
from raykeeper.znodes.znode import Znode, ZnodeAttributes, stat_of

# Read once: an attribute of an enum takes longer than all the rest of a change.
CREATED, CHANGED, DELETED = EventType.CREATED, EventType.CHANGED, EventType.DELETED

CHANGE_OVERHEAD_BYTES: Final = 250
"""The size of one change, besides its path."""
SEGMENT_MAX: Final = 500
"""A segment is full with so many changes; one call of `keep_pending` can make it twice as long."""
SEGMENTS_MIN: Final = 50
"""A segment is also full when it takes this fraction of either bound."""
EVENT_VALUES_BYTES_MAX: Final = 1 << 20
"""The bytes of values in the events of one transaction; the values above it are left out."""


class ZnodeChange(Struct, gc=False):
    """The effect of a transaction on one znode: CREATED, CHANGED or DELETED.

    `attributes` are those of the znode, `parent_attributes` those of the parent whose children it
    changed. `old` and `new` are the contents before and after, if a watch wants values and they
    are still kept.
    """

    kind: EventType
    zxid: Zxid
    path: str
    attributes: ZnodeAttributes | None
    parent_attributes: ZnodeAttributes | None = None
    old: Content | None = None
    new: Content | None = None


class _Segment(Struct):
    """The changes of successive whole transactions, and the bytes they take."""

    changes: list[ZnodeChange]
    bytes: int = 0


class ChangeLog:
    """The changes of (floor, now], oldest first.

    The bounds hold after `keep_pending`. To stay within them it may forget up to three segments
    more than needed, and everything in one segment with a transaction that is too large.
    """

    def __init__(self, floor: Zxid, count_max: int, bytes_max: int) -> None:
        self.floor = floor
        self.bytes = 0
        self.pending: list[ZnodeChange] = []
        """Where the tree puts what happens, until `keep_pending` takes it over."""
        self._count = 0
        self._segment_max = min(max(1, count_max // SEGMENTS_MIN), SEGMENT_MAX)
        self._segment_bytes_max = bytes_max // SEGMENTS_MIN
        # The bounds of the full segments; one that is not full always fits beside them.
        self._count_room = count_max - self._segment_max + 1
        self._bytes_room = bytes_max - self._segment_bytes_max
        self._segments: deque[_Segment] = deque()
        self._newest = _Segment([])

    def __len__(self) -> int:
        return self._count + len(self._newest.changes)

    def keep_pending(self) -> None:
        """Keep the pending changes, which have triggered their watches, without contents."""
        pending, segment_max = self.pending, self._segment_max
        if len(pending) > segment_max:
            for changes in _in_segments(pending, segment_max):
                self._keep(changes)
        elif pending:
            self._keep(pending)
        pending.clear()

    def _keep(self, changes: list[ZnodeChange]) -> None:
        """Take over whole transactions, not many more changes than fill a segment."""
        size = 0
        for each in changes:
            each.old = each.new = None
            size += CHANGE_OVERHEAD_BYTES + len(each.path)
        newest = self._newest
        newest.changes += changes
        newest.bytes += size
        self.bytes += size
        if len(newest.changes) >= self._segment_max or newest.bytes >= self._segment_bytes_max:
            self._close()

    def _close(self) -> None:
        """Begin a new segment after a full one, and forget the oldest if there are too many."""
        self._segments.append(self._newest)
        self._count += len(self._newest.changes)
        self._newest = _Segment([])
        while self.bytes > self._bytes_room or self._count > self._count_room:
            oldest = self._segments.popleft()
            self.floor = oldest.changes[-1].zxid
            self.bytes -= oldest.bytes
            self._count -= len(oldest.changes)

    def reset(self, floor: Zxid) -> None:
        """Forget all changes: those that led to the state at `floor` are not known."""
        self._segments.clear()
        self._newest = _Segment([])
        self.pending.clear()
        self.bytes = self._count = 0
        self.floor = floor

    def changes_after(
        self, zxid: Zxid, paths: Container[str], below: tuple[str, ...]
    ) -> list[list[ZnodeChange]] | None:
        """Return what each later transaction did to some znodes, in order; None if unknown.

        They are the znodes at `paths`, the children of these (but not their values), and those
        whose paths begin with one of `below`. Other changes are passed over quickly: after
        a server's end, all its clients ask for this at once.
        """
        self.keep_pending()
        if zxid < self.floor:
            return None
        txns: list[list[ZnodeChange]] = []
        at = None
        segments = chain((self._newest,), reversed(self._segments))
        for each in chain.from_iterable(reversed(segment.changes) for segment in segments):
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


def _in_segments(changes: list[ZnodeChange], segment_max: int) -> Iterator[list[ZnodeChange]]:
    """Yield whole transactions together, no more than fill a segment."""
    start, count = 0, len(changes)
    while start < count:
        end = start + segment_max
        while end < count and changes[end].zxid == changes[end - 1].zxid:
            end += 1
        yield changes[start:end]
        start = end


class EventContents:
    """The contents of znodes before and after, for the events of one transaction.

    Together the values stay within a bound.
    """

    def __init__(self, changes: list[ZnodeChange], znodes: dict[str, Znode]) -> None:
        """Take the present `znodes`, which may still be as `changes` left them long ago."""
        self._happened = changes
        self._znodes = znodes
        self._room = EVENT_VALUES_BYTES_MAX
        self._last: dict[str, ZnodeChange] | None = None

    def before_and_after(self, change: ZnodeChange) -> tuple[Content | None, Content | None]:
        """Return both contents; None for a missing znode or an unknown content."""
        new = change.new
        if new is None and change.kind is not DELETED:
            znode = self._znodes.get(change.path)
            if znode is not None and self._is_as_of(znode, change):
                new = Content(znode.value or b"", stat_of(znode))
        return self._bounded(change.old), self._bounded(new)

    def _is_as_of(self, znode: Znode, change: ZnodeChange) -> bool:
        """Return whether value, children and ACL are unchanged since: the Stat tells of all."""
        zxid = change.zxid
        if znode.mzxid != zxid or znode.pzxid > zxid or znode.attributes is not change.attributes:
            return False
        if self._last is None:
            self._last = _last_of(self._happened)
        return self._last[change.path] is change

    def _bounded(self, content: Content | None) -> Content | None:
        if content is None or content.value is None:
            return content
        if len(content.value) > self._room:
            return Content(None, content.stat)
        self._room -= len(content.value)
        return content


def _last_of(changes: list[ZnodeChange]) -> dict[str, ZnodeChange]:
    """Return the last change by a transaction to each znode or its children."""
    last: dict[str, ZnodeChange] = {}
    for each in changes:
        last[each.path] = each
        if each.kind is not CHANGED:
            last[parent_of(each.path)] = each
    return last


def values_size(contents: Iterable[Content | None]) -> int:
    """Return bytes of the values in them."""
    size = 0
    for each in contents:  # a loop, for thousands of events: a generator takes twice as long
        if each is not None and each.value is not None:
            size += len(each.value)
    return size
