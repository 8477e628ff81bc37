"""A copy of a part of the tree, which other threads read while it is changed.

It knows nothing of how it is kept current (subtree_follower.py). The invariant of this file: who
reads it sees each step whole, and never more znodes than it may hold.
"""

import threading
from collections.abc import Mapping
from enum import Enum

from msgspec import Struct

from raykeeper.client.errors import CacheFullError
from raykeeper.znodes.paths import join, parent_of
from raykeeper.znodes.stat import Stat


class CachedZnode(Struct, frozen=True):
    """One znode of a mirror."""

    value: bytes
    stat: Stat
    """It need not show changes of the children or of the ACL since the value was set."""


class ChangeKind(Enum):
    """The kinds of changes of a znode."""

    ADDED = "added"
    CHANGED = "changed"
    REMOVED = "removed"


class TreeChange(Struct, frozen=True):
    """One change of one znode."""

    kind: ChangeKind
    path: str
    new: CachedZnode | None
    """None if the znode is removed."""
    old: CachedZnode | None
    """None if the znode is added."""


class TreeMirror:
    """Znodes by path, safe for readers in other threads."""

    def __init__(self, znodes_max: int | None = None) -> None:
        self._znodes_max = znodes_max
        self._lock = threading.Lock()
        self._znodes: dict[str, CachedZnode] = {}
        self._names: dict[str, dict[str, None]] = {}  # of children, by the path of the parent

    def __len__(self) -> int:
        return len(self._znodes)

    def get(self, path: str) -> CachedZnode | None:
        """Return a znode; None if it is missing."""
        return self._znodes.get(path)

    def children(self, path: str) -> list[str]:
        """Return the names of the children, sorted."""
        with self._lock:
            return sorted(self._names.get(path, ()))

    def children_of(self, path: str) -> dict[str, CachedZnode]:
        """Return the children by their names, at one moment."""
        with self._lock:
            names = self._names.get(path, ())
            return {name: self._znodes[join(path, name)] for name in names}

    def snapshot(self) -> dict[str, CachedZnode]:
        """Return all znodes at one moment, by path, parents first."""
        with self._lock:
            return dict(sorted(self._znodes.items()))

    def check_limit(self, count: int) -> None:
        """Check that the mirror may hold so many znodes.

        Raises:
            CacheFullError: it may not.
        """
        if self._znodes_max is not None and count > self._znodes_max:
            raise CacheFullError(f"more than {self._znodes_max} znodes, see znodes_max")

    def replace(self, znodes: Mapping[str, CachedZnode | None]) -> list[TreeChange]:
        """Commit the whole content: a znode that is not in `znodes` is removed."""
        gone = dict.fromkeys(path for path in self._znodes if path not in znodes)
        return self.commit({**gone, **dict(sorted(znodes.items()))})

    def commit(self, written: Mapping[str, CachedZnode | None]) -> list[TreeChange]:
        """Change several znodes in one step; None removes one.

        Return the changes: removals first, children before parents.

        Raises:
            CacheFullError: there would be too many znodes; nothing has changed.
        """
        changes = self._changes(written)
        growth = sum(_GROWTH[change.kind] for change in changes)
        if growth > 0:
            self.check_limit(len(self._znodes) + growth)
        with self._lock:
            for change in changes:
                self._apply(change)
        return changes

    def _changes(self, written: Mapping[str, CachedZnode | None]) -> list[TreeChange]:
        removed: list[TreeChange] = []
        others: list[TreeChange] = []
        for path, new in written.items():
            old = self._znodes.get(path)
            is_same = old is not None and new is not None and old.stat.czxid == new.stat.czxid
            if is_same and old is not None and new is not None:
                if old.stat.mzxid != new.stat.mzxid:
                    others.append(TreeChange(ChangeKind.CHANGED, path, new, old))
                continue
            if old is not None:
                removed.append(TreeChange(ChangeKind.REMOVED, path, None, old))
            if new is not None:
                others.append(TreeChange(ChangeKind.ADDED, path, new, None))
        removed.sort(key=lambda change: change.path, reverse=True)
        return removed + others

    def _apply(self, change: TreeChange) -> None:
        path, new = change.path, change.new
        if new is not None:
            self._znodes[path] = new
        else:
            del self._znodes[path]
        if path == "/" or change.kind is ChangeKind.CHANGED:
            return
        parent, name = parent_of(path), path.rpartition("/")[2]
        if new is not None:
            self._names.setdefault(parent, {})[name] = None
        else:
            names = self._names[parent]
            del names[name]
            if not names:
                del self._names[parent]


_GROWTH = {ChangeKind.ADDED: 1, ChangeKind.CHANGED: 0, ChangeKind.REMOVED: -1}
