"""The children of a large znode in shards, so that no single step has to look at all of them.

Listing a million children takes some 20 ms, in which the server would do nothing else. A fuzzy
walk needs no list as of one moment, so it lists one shard at a time (see `snapshot`). A client
wants a list of one moment and gets it in pages from a view (see `pages`). Making a view touches no
child: it takes references to the shards, and a shard that is in a view is copied before it changes.

A shard holds the children of one range of czxids. So siblings of the same age, which lie together
in memory, are visited together: shards chosen by a hash made the walk three times slower.
"""

from bisect import bisect_right
from collections.abc import Collection, Iterable, Iterator
from typing import Final

from raykeeper.zab.ids import Zxid

SHARDED_FROM: Final = 4_096
"""A znode with more children than this keeps them in shards; fewer stay in one dict."""

SHARD_SIZE: Final = 4_096


class ShardedChildren:
    """A set of paths, each with its czxid.

    Part i holds the czxids in [starts[i], starts[i + 1]), the first also what is older, the last
    all that is newer. Children mostly come in the order of their czxids, so a full last shard is
    followed by a new one; others are never split.
    """

    __slots__ = ("_copied", "_newest", "_starts", "_views", "count", "shards")

    def __init__(self, children: Iterable[tuple[Zxid, str]]) -> None:
        self.count = 0
        self.shards: list[dict[str, None]] = [{}]
        self._starts: list[Zxid] = [Zxid(0)]
        self._newest = Zxid(0)
        self._views = 0
        self._copied = [0]  # how many views there were when each shard was made or copied
        for czxid, path in sorted(children):
            self.add(path, czxid)

    def __len__(self) -> int:
        return self.count

    def __iter__(self) -> Iterator[str]:
        for shard in self.shards:
            yield from shard

    def add(self, path: str, czxid: Zxid) -> None:
        """Add `path`; a path that is there already changes nothing."""
        if czxid > self._newest:
            self._newest = czxid
            if len(self.shards[-1]) >= SHARD_SIZE:
                self.shards.append({})
                self._starts.append(czxid)
                self._copied.append(self._views)
            self._writable(-1)[path] = None
            self.count += 1
            return
        shard = self._writable(self._index(czxid))
        before = len(shard)
        shard[path] = None
        self.count += len(shard) - before

    def remove(self, path: str, czxid: Zxid) -> None:
        """Remove `path`, which is there."""
        index = self._index(czxid)
        shard = self._writable(index)
        del shard[path]
        self.count -= 1
        if not shard and len(self.shards) > 1:
            del self.shards[index]
            del self._starts[index]
            del self._copied[index]

    def view(self) -> "ChildrenView":
        """Return the children as of now, whatever happens later: for a million, 250 references."""
        self._views += 1
        return list(self.shards)

    def _writable(self, index: int) -> dict[str, None]:
        """Return the shard at `index`, copied first if a view holds it."""
        if self._copied[index] < self._views:
            self._copied[index] = self._views
            self.shards[index] = dict(self.shards[index])
        return self.shards[index]

    def _index(self, czxid: Zxid) -> int:
        return max(0, bisect_right(self._starts, czxid) - 1)


Children = dict[str, None] | ShardedChildren

ChildrenView = list[Collection[str]]
"""Paths as of one moment, in shards, none of which is ever changed."""


def view_of(children: Children | None) -> ChildrenView:
    """Return the children as of now. One dict holds few of them, so it is copied."""
    if not children:
        return []
    return [list(children)] if isinstance(children, dict) else children.view()
