"""Long lists of children as bytes, made and kept for all clients of ZooKeeper's protocol that ask.

A list of many names takes a server longer to encode than all else about its reply, and a crowd
often asks for the same one: workers that watch a queue, or clients that mean harm. So the bytes of
a long list stay here until its znode has other children. A list of several pages is made once for
all that wait for it: each adds a page in its turn, and has it whole in the turn after the last one.

All lists together take no more than the longest one may (`zookeeper_list_bytes`); those for which
nobody asked for longest leave first. What a client waits for is counted as its own (`JuteBuffers`).

ZooKeeper: `ResponseCache`, the children's part of it.
"""

from collections import OrderedDict
from collections.abc import Sequence
from typing import Final, final

from raykeeper.jute.archives import OutputArchive
from raykeeper.jute.fields import EncodedStrings
from raykeeper.zab.ids import Zxid
from raykeeper.znodes.pages import ChildrenPages
from raykeeper.znodes.replies import GetChildrenReply
from raykeeper.znodes.stat import Stat
from raykeeper.znodes.state import State

KEPT_FROM: Final = 256
"""Names of the shortest list that is kept: to encode them takes as long as the rest of a reply."""
UNFINISHED_BYTES: Final = 1 << 20
"""What a list counts besides its bytes while it is made: it may keep deleted parts of the tree."""


class PagedNames:
    """The names of a list that comes in pages, for the one frame that a client gets.

    They are encoded page by page: those of a million children would take a step too long.
    """

    __slots__ = ("_archive", "_count")

    def __init__(self) -> None:
        self._archive, self._count = OutputArchive(), 0

    @property
    def bytes(self) -> int:
        """The bytes of the names so far; 0 if no list has begun."""
        return len(self._archive.data)

    def add(self, names: Sequence[str]) -> None:
        """Add a page."""
        self._archive.write_strings(names)
        self._count += len(names)

    def all(self) -> EncodedStrings:
        """Return the names so far."""
        return EncodedStrings(self._count, self._archive.data)

    def take(self) -> EncodedStrings:
        """Return all names, and begin a new list."""
        whole = self.all()
        self._archive, self._count = OutputArchive(), 0
        return whole


class EncodedChildrenReply(GetChildrenReply, frozen=True, array_like=True, kw_only=True):
    """A GetChildrenReply whose names are bytes already; `children` is empty."""

    encoded: EncodedStrings


class _List:
    """The names of the children of one znode, as far as they are encoded."""

    __slots__ = ("_pages", "children_of", "names")

    def __init__(self, stat: Stat, pages: ChildrenPages | None) -> None:
        """`pages` are still to be added."""
        self.children_of = _children_of(stat)
        self.names = PagedNames()
        self._pages = pages

    @property
    def is_whole(self) -> bool:
        return self._pages is None

    @property
    def size(self) -> int:
        return self.names.bytes + (0 if self.is_whole else UNFINISHED_BYTES)

    def add_page(self, state: State) -> None:
        assert self._pages is not None, "nothing follows the last page"
        page = self._pages.next(state)
        self.names.add(page.children)
        if not page.more:
            self._pages = None


@final
class JuteChildren:
    """A list of children in pages, for a client of ZooKeeper, which gets it whole."""

    __slots__ = ("_list", "_lists", "_pages", "_path", "is_over", "zxid")

    def __init__(self, lists: "JuteLists", path: str, pages: ChildrenPages) -> None:
        self.zxid: Zxid = pages.zxid
        self.is_over = False
        """Whether there is nothing to follow."""
        self._lists = lists
        self._path = path
        self._pages = pages
        self._list: _List | None = None

    @property
    def bytes(self) -> int:
        """The bytes of the names so far, which others may wait for as well."""
        return 0 if self._list is None else self._list.names.bytes

    def next(self, state: State) -> EncodedChildrenReply | None:
        """Return the list if it is whole, perhaps with the page that is added now."""
        pages = self._pages
        if self._list is None:
            self._list = self._lists.open(self._path, pages)
        if not self._list.is_whole:
            self._lists.add_page(self._path, self._list, state)
        if not self._list.is_whole:
            return None
        self.is_over = True
        names = self._list.names.all()
        return EncodedChildrenReply(pages.xid, self.zxid, [], pages.stat, encoded=names)


class JuteLists:
    """The lists of one server, by path."""

    def __init__(self, bytes_max: int) -> None:
        self.bytes = 0
        """Those of all lists, with `UNFINISHED_BYTES` of each that is not whole."""
        self._bytes_max = bytes_max
        self._by_path: OrderedDict[str, _List] = OrderedDict()  # the one asked for last is last

    def __contains__(self, path: str) -> bool:
        """Return whether a list of the znode is here, perhaps an old one."""
        return path in self._by_path

    def get(self, path: str, stat: Stat) -> EncodedStrings | None:
        """Return the names of the children of a znode that has this Stat, None if not kept."""
        found = self._find(path, stat)
        return found.names.all() if found is not None and found.is_whole else None

    def names_of(self, path: str, reply: GetChildrenReply) -> EncodedStrings | None:
        """Keep the names in a reply, and return them; None if they are few."""
        if len(reply.children) < KEPT_FROM:
            return None
        made = _List(reply.stat, None)
        made.names.add(reply.children)
        self._put(path, made)
        return made.names.all()

    def open(self, path: str, pages: ChildrenPages) -> _List:
        """Return the list of these pages: one that is kept or made already, or else a new one."""
        found = self._find(path, pages.stat)
        if found is None:
            found = _List(pages.stat, pages)
            self._put(path, found)
        return found

    def add_page(self, path: str, made: _List, state: State) -> None:
        """Add the next page to a list."""
        is_here = self._by_path.get(path) is made
        if is_here:
            self._discard(path)
        made.add_page(state)
        if is_here:
            self._put(path, made)

    def _find(self, path: str, stat: Stat) -> _List | None:
        found = self._by_path.get(path)
        if found is None:
            return None
        if found.children_of != _children_of(stat):
            self._discard(path)
            return None
        self._by_path.move_to_end(path)
        return found

    def _put(self, path: str, made: _List) -> None:
        self._discard(path)
        self._by_path[path] = made
        self.bytes += made.size
        while self.bytes > self._bytes_max:
            self._discard(next(iter(self._by_path)))

    def _discard(self, path: str) -> None:
        found = self._by_path.pop(path, None)
        if found is not None:
            self.bytes -= found.size


def _children_of(stat: Stat) -> tuple[int, ...]:
    """Return what changes whenever the path has other children."""
    return stat.czxid, stat.pzxid, stat.cversion, stat.num_children
