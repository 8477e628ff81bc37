"""Visits the znodes of a subtree in batches, each parent before its children, depth first.

Paths are relative to the subtree, "" for its own znode. The names are held that are still to be
visited on the way down to the present batch; a list of children has all names at once, so a parent
with a million children takes the memory of a million names, and a subtree of a million znodes with
shorter lists far less.
"""

from collections.abc import Callable, Collection, Iterator
from typing import Final

BATCH_ZNODES: Final = 250
"""Znodes of a batch."""

ListChildren = Callable[[list[str]], list[list[str]]]
"""Return the names of the children of each znode, none for one that is missing."""


class SubtreeWalk:
    """One walk. Whoever takes a batch reports the parents in it before taking the next one."""

    def __init__(self, list_children: ListChildren, left_out: Collection[str] = ()) -> None:
        self._list_children = list_children
        self._left_out = left_out
        self._levels: list[tuple[str, list[str]]] = []
        """Parents with the names of children still to visit, the next ones last."""
        self._parents: list[tuple[str, int]] = []
        """Still to list, with the number of their children."""
        self.waiting = 1
        """Znodes that are known, listed or not, and still to be visited."""

    def add_parent(self, relative: str, children: int) -> None:
        """Visit the children of this znode, which has about so many, too."""
        self._parents.append((relative, children))
        self.waiting += children

    def batches(self) -> Iterator[list[str]]:
        """Yield the paths of all znodes, at most BATCH_ZNODES at a time."""
        self.waiting -= 1
        yield [""]
        while self._parents or self._levels:
            if self._parents:
                self._list_some()
            if batch := self._take():
                self.waiting -= len(batch)
                yield batch

    def _take(self) -> list[str]:
        batch: list[str] = []
        while self._levels and len(batch) < BATCH_ZNODES:
            parent, names = self._levels[-1]
            left = BATCH_ZNODES - len(batch)
            batch += [f"{parent}/{name}" for name in names[-left:]]
            del names[-left:]
            if not names:
                self._levels.pop()
        return batch

    def _list_some(self) -> None:
        """List the children of a few parents, or of one with many."""
        parents: list[str] = []
        left, expected = BATCH_ZNODES, 0
        while self._parents and (not parents or self._parents[-1][1] <= left):
            relative, children = self._parents.pop()
            parents.append(relative)
            left -= children
            expected += children
        for relative, names in zip(parents, self._list_children(parents), strict=True):
            if any(each.startswith(f"{relative}/") for each in self._left_out):
                names = [each for each in names if f"{relative}/{each}" not in self._left_out]
            expected -= len(names)
            if names:
                self._levels.append((relative, names))
        self.waiting -= expected
