"""How large the parts of the tree are: a walk that looks at a thousand znodes a step.

It visits the children of one znode after the other, so of a million siblings it keeps only the
largest. What is created or deleted meanwhile may count or not; everything else counts once.
"""

from collections.abc import Callable, Generator
from heapq import heappush, heapreplace
from typing import Final

from raykeeper.server.admin_queries import ROWS_MAX, MeasureTree, TreePage, TreeRow
from raykeeper.znodes.children import view_of
from raykeeper.znodes.state import State
from raykeeper.znodes.znode import Znode

VISITS_MAX: Final = 1_000
"""Znodes that one step looks at: about a millisecond."""
DEPTH_MAX: Final = 20
TREE_ROWS_MAX: Final = 10 * ROWS_MAX
"""Rows of one answer, on all levels together. A deep table shows fewer children of each znode."""


class TreeSizes:
    """The answer to one `MeasureTree`."""

    def __init__(self, state_of: Callable[[], State], query: MeasureTree) -> None:
        """`state_of` returns the present state, which a received snapshot may have replaced."""
        self._state_of = state_of
        self._path = query.path
        self._depth = max(0, min(query.depth, DEPTH_MAX))
        self._rows_max = max(1, min(query.rows_max, ROWS_MAX))
        while self._rows_max > 1 and self._rows_max**self._depth > TREE_ROWS_MAX:
            self._rows_max -= 1

    def answer(self) -> Generator[None, None, TreePage]:
        """Walk the subtree, in steps; no row if there is no such znode."""
        begun_at = self._state_of().zxid
        znode = self._state_of().tree.znodes.get(self._path)
        if znode is None:
            return TreePage(None, begun_at)
        root = _Subtree(self._path, znode)
        under_way = [root]
        visits = 0
        while under_way:
            subtree = under_way[-1]
            path = subtree.next_path()
            if path is None:
                under_way.pop()
                if under_way:
                    under_way[-1].add_child(subtree, self._rows_max)
                continue
            visits += 1
            if visits % VISITS_MAX == 0:
                yield
            znode = self._state_of().tree.znodes.get(path)
            if znode is None:
                continue  # it was deleted meanwhile
            if len(under_way) > self._depth:
                subtree.add_znode(path, znode)
            elif znode.children:
                under_way.append(_Subtree(path, znode))
            else:
                subtree.add_leaf(path, znode, self._rows_max)
        return TreePage(root.row(), begun_at)


class _Subtree:
    """A znode with a row, and what is counted of all below it."""

    def __init__(self, path: str, znode: Znode) -> None:
        self.path = path
        self.znodes = self.data_bytes = self.ephemerals = 0
        self._value_bytes = len(znode.value or b"")
        self._children = len(znode.children or ())
        self._to_visit: list[str] = []
        self._shards = view_of(None)  # to be listed
        self._kept: list[tuple[int, int, str, TreeRow]] = []
        self._left_out = self._left_out_znodes = self._left_out_bytes = 0
        self.add_znode(path, znode)

    def next_path(self) -> str | None:
        """Return the next znode to visit; None when all are."""
        while not self._to_visit:
            if not self._shards:
                return None
            self._to_visit += self._shards.pop()
        return self._to_visit.pop()

    def add_znode(self, path: str, znode: Znode) -> None:
        """Count a znode, and visit its children later."""
        self.znodes += 1
        self.data_bytes += len(path) + len(znode.value or b"")
        self.ephemerals += znode.ephemeral_owner != 0
        if znode.children:
            self._shards += view_of(znode.children)

    def add_child(self, child: "_Subtree", rows_max: int) -> None:
        """Count a child that is visited with all below it; keep its row if it is a large one."""
        self.znodes += child.znodes
        self.data_bytes += child.data_bytes
        self.ephemerals += child.ephemerals
        self._keep((child.data_bytes, child.znodes, child.path), child.row, rows_max)

    def add_leaf(self, path: str, znode: Znode, rows_max: int) -> None:
        """Count a child without children, as `add_child` does."""
        size = len(path) + len(znode.value or b"")
        self.znodes += 1
        self.data_bytes += size
        self.ephemerals += znode.ephemeral_owner != 0
        self._keep((size, 1, path), lambda: _Subtree(path, znode).row(), rows_max)

    def _keep(
        self, size: tuple[int, int, str], make_row: Callable[[], TreeRow], rows_max: int
    ) -> None:
        if len(self._kept) < rows_max:
            heappush(self._kept, (*size, make_row()))
            return
        smallest = self._kept[0][:3]
        if size > smallest:
            heapreplace(self._kept, (*size, make_row()))
            size = smallest
        self._left_out += 1
        self._left_out_znodes += size[1]
        self._left_out_bytes += size[0]

    def row(self) -> TreeRow:
        """Return the row, the largest child first."""
        return TreeRow(
            path=self.path,
            znodes=self.znodes,
            data_bytes=self.data_bytes,
            ephemerals=self.ephemerals,
            value_bytes=self._value_bytes,
            children=self._children,
            rows=[row for _, _, _, row in sorted(self._kept, reverse=True)],
            left_out=self._left_out,
            left_out_znodes=self._left_out_znodes,
            left_out_bytes=self._left_out_bytes,
        )
