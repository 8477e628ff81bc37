"""The tree as it will be when every outstanding transaction is applied.

The leader prepares a write against this future state (ZooKeeper paper, section 4.1): what is in
the tree, overlaid with a record for each path that an outstanding transaction touches. A record
goes when the last transaction that touched its path is applied.

ZooKeeper: `ZooKeeperServer.outstandingChanges`, `ChangeRecord`.
"""

from collections import deque
from collections.abc import Iterable, Iterator

from msgspec import Struct
from msgspec.structs import replace

from raykeeper.zab.ids import ZERO, Millis, Zxid
from raykeeper.znodes.paths import name_start, parent_of
from raykeeper.znodes.quotas import QUOTA_PREFIX, OutstandingQuotas, Usage, count_subtree
from raykeeper.znodes.requests import SessionId
from raykeeper.znodes.tree import Tree
from raykeeper.znodes.znode import ZnodeAttributes


class ChangeRecord(Struct, gc=False):
    """A znode as preparing sees it. `zxid` is the last transaction to touch it."""

    zxid: Zxid
    exists: bool
    czxid: Zxid
    ctime: Millis
    version: int
    ephemeral_owner: SessionId
    child_create_count: int
    num_children: int
    pzxid: Zxid
    value: bytes | None
    mzxid: Zxid
    mtime: Millis
    attributes: ZnodeAttributes | None


class OutstandingChanges:
    """The overlay. `find`, change the record, then `put` it under the transaction's zxid.

    Between `begin` and `commit` or `rollback` every record is a draft: `find` sees it, and a
    rollback undoes it without a trace, counters of the parents included (ZOOKEEPER-1624).
    """

    def __init__(self, tree: Tree) -> None:
        self._tree = tree
        self._znodes = tree.znodes
        self._overlay: dict[str, ChangeRecord] = {}
        self._touched: deque[tuple[Zxid, str]] = deque()
        self._ephemerals: dict[SessionId, dict[str, None]] = {}  # outstanding creations, by owner
        self._last = ZERO
        self._draft: dict[str, ChangeRecord] | None = None
        # The paths of both by parent, from the first `names_of` until there are none: it would take
        # too long to look at all that is outstanding each time, and most ensembles never ask.
        self._below: dict[str, dict[str, None]] | None = None
        self._draft_below: dict[str, dict[str, None]] | None = None
        self.quotas = OutstandingQuotas(tree.quotas, self._usage_of)
        self._limits = self.quotas.limits

    def __len__(self) -> int:
        return len(self._overlay)

    def find(self, path: str) -> ChangeRecord | None:
        """Return the znode, None if it will not exist. Changing it has no effect before `put`."""
        if self._draft is not None:
            return self._find_for_draft(path)
        record = self._overlay.get(path)
        if record is not None:
            return record if record.exists else None
        return self._from_tree(path)

    def _find_for_draft(self, path: str) -> ChangeRecord | None:
        assert self._draft is not None
        record = self._draft.get(path)
        if record is None:
            recorded = self._overlay.get(path)
            if recorded is None:
                return self._from_tree(path)
            record = replace(recorded)
        return record if record.exists else None

    def _from_tree(self, path: str) -> ChangeRecord | None:
        znode = self._znodes.get(path)
        if znode is None:
            return None
        children = znode.children
        return ChangeRecord(
            ZERO,
            True,
            znode.czxid,
            znode.ctime,
            znode.version,
            znode.ephemeral_owner,
            znode.child_create_count,
            len(children) if children else 0,
            znode.pzxid,
            znode.value,
            znode.mzxid,
            znode.mtime,
            znode.attributes,
        )

    def exists(self, path: str) -> bool:
        """Return whether the znode will exist."""
        record = self._overlay.get(path)
        if self._draft is not None:
            record = self._draft.get(path, record)
        return path in self._znodes if record is None else record.exists

    def names_of(self, path: str) -> list[str]:
        """Return the names of the children that the znode at `path` will have."""
        start = name_start(path)
        znode = self._znodes.get(path)
        names = dict.fromkeys(
            child[start:] for child in (znode.children if znode is not None else None) or ()
        )
        for layer, below in self._layers():
            for child in below.get(path, ()):
                if layer[child].exists:
                    names[child[start:]] = None
                else:
                    names.pop(child[start:], None)
        return list(names)

    def put(self, zxid: Zxid, path: str, record: ChangeRecord) -> None:
        """Record that transaction `zxid` leaves `path` as `record` says."""
        if self._draft is not None:
            self._draft[path] = record
            if self._draft_below is not None:
                _put_below(self._draft_below, path)
            return
        if self._below is not None:
            _put_below(self._below, path)
        record.zxid = zxid
        self._overlay[path] = record
        self._touched.append((zxid, path))
        self._last = zxid

    def create(
        self,
        zxid: Zxid,
        time_ms: Millis,
        path: str,
        value: bytes | None,
        owner: SessionId,
        attributes: ZnodeAttributes | None = None,
    ) -> None:
        """Record that transaction `zxid` creates a missing znode; the caller changes the parent."""
        if self._limits or path.startswith(QUOTA_PREFIX):
            self.quotas.changed(path, None, value or b"", time_ms)
        record = ChangeRecord(
            zxid, True, zxid, time_ms, 0, owner, 0, 0, zxid, value, zxid, time_ms, attributes
        )
        self.put(zxid, path, record)
        if owner and self._draft is None:
            self._ephemerals.setdefault(owner, {})[path] = None

    def delete(self, zxid: Zxid, path: str, record: ChangeRecord) -> None:
        """Record that transaction `zxid` deletes a znode and so changes its parent."""
        if self._limits:
            self.quotas.changed(path, record.value or b"", None)
        record.exists = False
        self.put(zxid, path, record)
        if self._draft is None:
            self._forget_ephemeral(path, record)
        parent_path = path[: path.rfind("/")] or "/"
        parent = self.find(parent_path)
        assert parent is not None, path
        parent.num_children -= 1
        parent.pzxid = zxid
        self.put(zxid, parent_path, parent)

    def begin(self) -> None:
        """Begin a draft: `rollback` undoes every later `put`."""
        assert self._draft is None
        self._draft = {}
        self._draft_below = None
        self.quotas.begin()

    def rollback(self) -> None:
        """Undo every `put` since `begin`."""
        self._draft = None
        self.quotas.rollback()

    def commit(self, zxid: Zxid) -> None:
        """Record every `put` since `begin` under transaction `zxid`."""
        drafted, self._draft = self._draft, None
        assert drafted is not None
        self.quotas.commit()
        for path, record in drafted.items():
            before = self._overlay.get(path)
            if before is not None and before.ephemeral_owner:
                self._forget_ephemeral(path, before)
            self.put(zxid, path, record)
            if record.exists and record.ephemeral_owner:
                self._ephemerals.setdefault(record.ephemeral_owner, {})[path] = None

    def ephemerals_of(self, owner: SessionId) -> list[str]:
        """Return the paths of the ephemerals the session will have, sorted."""
        paths = dict.fromkeys(self._tree.ephemerals.get(owner, ()))
        paths.update(self._ephemerals.get(owner, {}))
        mine = []
        for path in paths:
            record = self._overlay.get(path)
            if record is None or (record.exists and record.ephemeral_owner == owner):
                mine.append(path)
        mine.sort()
        return mine

    def applied(self, zxid: Zxid) -> None:
        """Forget the records up to `zxid`: the tree has applied them."""
        if zxid >= self._last:
            self._overlay.clear()
            self._below = None
            self._touched.clear()
            self._ephemerals.clear()
            return
        overlay = self._overlay
        touched = self._touched
        while touched[0][0] <= zxid:  # ends at the last touch at the latest
            _, path = touched.popleft()
            record = overlay.get(path)
            if record is not None and record.zxid <= zxid:
                del overlay[path]
                self._forget_ephemeral(path, record)
                if self._below is not None:
                    _take_below(self._below, path)

    def _layers(self) -> Iterator[tuple[dict[str, ChangeRecord], dict[str, dict[str, None]]]]:
        """Yield the overlay, then the draft; each with its paths by parent."""
        if self._below is None:
            self._below = _by_parent(self._overlay)
        yield self._overlay, self._below
        if self._draft is not None:
            if self._draft_below is None:
                self._draft_below = _by_parent(self._draft)
            yield self._draft, self._draft_below

    def _usage_of(self, path: str) -> Usage:
        """Count a subtree as it will be: the tree's own count, corrected by the overlay."""
        quotas, znodes = self._tree.quotas, self._znodes
        is_kept = path in quotas.limits
        usage = replace(quotas.usage_of(path) if is_kept else count_subtree(znodes, path))
        below = path + "/"
        for each, record in (self._overlay | (self._draft or {})).items():
            if each == path or each.startswith(below):
                znode = znodes.get(each)
                usage.znodes += record.exists - (znode is not None)
                usage.bytes += len(record.value or b"") if record.exists else 0
                usage.bytes -= 0 if znode is None else len(znode.value or b"")
        return usage

    def _forget_ephemeral(self, path: str, record: ChangeRecord) -> None:
        owned = self._ephemerals.get(record.ephemeral_owner)
        if owned is not None:
            owned.pop(path, None)
            if not owned:
                del self._ephemerals[record.ephemeral_owner]


def _by_parent(paths: Iterable[str]) -> dict[str, dict[str, None]]:
    below: dict[str, dict[str, None]] = {}
    for path in paths:
        _put_below(below, path)
    return below


def _put_below(below: dict[str, dict[str, None]], path: str) -> None:
    if path != "/":
        below.setdefault(parent_of(path), {})[path] = None


def _take_below(below: dict[str, dict[str, None]], path: str) -> None:
    if path != "/":
        siblings = below[parent_of(path)]
        del siblings[path]
        if not siblings:
            del below[parent_of(path)]
