"""The children of a znode in the order of their names, a part at a time.

A list that is sorted needs a look at all children, so it is made in steps, one shard each, and
keeps no more names than a page has. Of a million children a page costs some 250 steps. The names
are as of the moment when the list was begun; a child that was deleted since has no row.
"""

from collections.abc import Callable, Generator

from raykeeper.server.admin_queries import ROWS_MAX, ChildrenPage, ChildRow, ListChildren
from raykeeper.znodes.children import view_of
from raykeeper.znodes.paths import name_start
from raykeeper.znodes.state import State
from raykeeper.znodes.znode import Znode


class ChildList:
    """The answer to one `ListChildren`."""

    def __init__(self, state_of: Callable[[], State], query: ListChildren) -> None:
        """`state_of` returns the present state, which a received snapshot may have replaced."""
        self._state_of = state_of
        self._path = query.path
        self._start = name_start(query.path)
        self._after = ("/" if query.path == "/" else f"{query.path}/") + query.after
        self._rows_max = max(1, min(query.rows_max, ROWS_MAX))

    def answer(self) -> Generator[None, None, ChildrenPage]:
        """Look at all names, in steps; nothing is there if there is no such znode."""
        parent = self._state_of().tree.znodes.get(self._path)
        if parent is None:
            return ChildrenPage([], "", 0, 0, is_there=False)
        total = behind = 0
        first: list[str] = []
        for shard in view_of(parent.children):
            total += len(shard)
            found = [path for path in shard if path > self._after]
            behind += len(found)
            if len(first) == self._rows_max:
                found = [path for path in found if path < first[-1]]
            first = sorted(first + found)[: self._rows_max]
            yield
        znodes = self._state_of().tree.znodes
        rows = [
            _child_row(path[self._start :], znode)
            for path in first
            if (znode := znodes.get(path)) is not None
        ]
        last = first[-1][self._start :] if first else ""
        return ChildrenPage(rows, last, total, behind - len(first), is_there=True)


def _child_row(name: str, znode: Znode) -> ChildRow:
    return ChildRow(name, len(znode.children or ()), len(znode.value or b""), znode.ephemeral_owner)
