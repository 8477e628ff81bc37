"""Replies too long for one step of the server: made page by page, while transactions are applied.

ZooKeeper answers such a read in one go: the server does nothing else meanwhile, and a list over
`jute.maxbuffer` breaks the connection.

Invariant: all pages of a list are as of the zxid at which it was begun, for they come from a view.
"""

from typing import Final, final

from raykeeper.zab.ids import ZERO, Zxid
from raykeeper.znodes.children import SHARDED_FROM, Children, ChildrenView, view_of
from raykeeper.znodes.replies import CountDescendantsReply, GetChildrenReply, GetEphemeralsReply
from raykeeper.znodes.stat import Stat
from raykeeper.znodes.state import State
from raykeeper.znodes.znode import Znode

PAGE_NAMES: Final = SHARDED_FROM
"""Names of one page. A znode takes longer to look at: a count looks at a quarter as many a step."""
PAGE_CHARS: Final = 256 << 10


class _Names:
    """The paths of a view that begin with a prefix, without their first `start` characters."""

    __slots__ = ("_names", "_names_max", "_prefix", "_shards", "_start")

    def __init__(self, view: ChildrenView, prefix: str, start: int, names_max: int) -> None:
        self._shards = view[::-1]  # the next one last
        self._prefix = prefix
        self._start = start
        self._names_max = names_max
        self._names: list[str] = []  # of the shard begun, the next one last

    @property
    def is_over(self) -> bool:
        return not self._names and not self._shards

    def take(self) -> list[str]:
        """Return at most a page, of one shard only; perhaps an empty one when no name matches."""
        if not self._names and self._shards:
            prefix, start = self._prefix, self._start
            shard = self._shards.pop()
            if prefix:
                self._names = [path[start:] for path in shard if path.startswith(prefix)]
            else:
                self._names = [path[start:] for path in shard]
            self._names.reverse()
        names = self._names
        page = names[: -self._names_max - 1 : -1]
        if sum(map(len, page)) <= PAGE_CHARS:
            del names[len(names) - len(page) :]
            return page
        page = []
        room = PAGE_CHARS
        while names and len(page) < self._names_max and room > 0:
            name = names.pop()
            page.append(name)
            room -= len(name)
        return page


@final
class ChildrenPages:
    """A list of children, as of `zxid`."""

    __slots__ = ("_names", "stat", "xid", "zxid")

    def __init__(
        self, xid: int, zxid: Zxid, stat: Stat, children: Children | None, start: int, page: int
    ) -> None:
        """Begin a list; names begin at `start` in a path, a page has at most `page` names."""
        self.zxid = zxid
        self.xid = xid
        self.stat = stat
        self._names = _Names(view_of(children), "", start, page)

    @property
    def is_over(self) -> bool:
        """Whether there is nothing to follow."""
        return self._names.is_over

    def next(self, _state: State) -> GetChildrenReply:
        """Return the next page."""
        names = self._names.take()
        return GetChildrenReply(self.xid, self.zxid, names, self.stat, not self.is_over)


class PathsPages:
    """The ephemerals of a session that begin with a prefix, as of `zxid`."""

    __slots__ = ("_names", "_xid", "zxid")

    def __init__(self, xid: int, zxid: Zxid, owned: Children, prefix: str, page: int) -> None:
        self.zxid = zxid
        self._xid = xid
        self._names = _Names(view_of(owned), prefix, 0, page)

    @property
    def is_over(self) -> bool:
        """Whether there is nothing to follow."""
        return self._names.is_over

    def next(self, _state: State) -> GetEphemeralsReply | None:
        """Return the next page, None when nothing of it matches."""
        paths = self._names.take()
        more = not self.is_over
        return GetEphemeralsReply(self._xid, self.zxid, paths, more) if paths or not more else None


class DescendantCount:
    """A count of the znodes below one, step by step.

    Exact when nothing was applied until its end. Else it counts each
    znode that lives all through the walk once, none that does not live during it, and of those that
    come or go meanwhile some. An exact one would have to be kept for every znode, at a price for
    every creation.
    """

    __slots__ = ("_count", "_paths", "_shards", "_step", "_xid", "zxid")

    def __init__(self, xid: int, zxid: Zxid, children: Children | None, page: int) -> None:
        self.zxid = zxid
        self._xid = xid
        self._step = max(1, page // 4)
        self._count = 0
        self._paths: list[str] = []  # still to visit
        self._shards = view_of(children)  # still to list

    @property
    def is_over(self) -> bool:
        """Whether nothing is left to count."""
        return not self._paths and not self._shards

    def next(self, state: State) -> CountDescendantsReply | None:
        """Continue in the present state; return the count once it is complete."""
        znodes, paths, shards = state.tree.znodes, self._paths, self._shards
        left = self._step
        while left > 0 and not self.is_over:
            if not paths:
                paths += shards.pop()
            left -= 1
            znode = znodes.get(paths.pop())
            if znode is not None:
                self._count += 1
                left -= self._enter(znode)
        if not self.is_over:
            return None
        until = ZERO if state.zxid == self.zxid else state.zxid
        return CountDescendantsReply(self._xid, self.zxid, self._count, until)

    def _enter(self, znode: Znode) -> int:
        """Visit the children later; return how many were copied for that.

        A view, so that one that is deleted and created again meanwhile is not met twice.
        """
        children = znode.children
        if not children:
            return 0
        if isinstance(children, dict):
            self._paths += children
            return len(children)
        self._shards += children.view()
        return 0


PagedReply = ChildrenPages | PathsPages | DescendantCount
