"""The tree of znodes: a flat dict from path to znode, changed only by transactions.

Every change is idempotent, and correct when replayed over a fuzzy snapshot, whose znodes are each
from another moment between two zxids Z0 and Z1. Three facts make it so; all rest on comparing
zxids, and all differences are gone once Z1 is replayed:

    a znode in the snapshot that is newer than a replayed txn is left alone;
    a znode that the snapshot lacks was deleted before the walk came by, so whatever a replay
    makes of it in between, a later replayed txn deletes;
    a parent deleted and created again has its newer children in the dict already: replaying their
    creation links them again.

The counter of created children and pzxid only rise within one life of a znode (ZOOKEEPER-3145).

ZooKeeper: `DataTree`, `DataNode`.
"""

from collections.abc import Iterable, Sized
from typing import Final

from raykeeper.zab.ids import ZERO, Millis, Zxid
from raykeeper.znodes.acl import READ_ONLY_ACL
from raykeeper.znodes.change_log import CHANGED, CREATED, DELETED, ZnodeChange
from raykeeper.znodes.children import SHARDED_FROM, Children, ShardedChildren
from raykeeper.znodes.digest import children_change, children_term, data_hash, with_attributes
from raykeeper.znodes.paths import CONFIG_PATH, QUOTA_PATH, SYSTEM_PATHS
from raykeeper.znodes.quotas import QUOTA_PREFIX, Quotas
from raykeeper.znodes.replies import Content
from raykeeper.znodes.requests import SessionId
from raykeeper.znodes.txns import CreateTxn, SetAclTxn, SetDataTxn
from raykeeper.znodes.znode import Znode, attributes_of, encode_attributes, stat_of

_QUOTA_CHARS: Final = len(QUOTA_PREFIX)


class Tree:
    """The znodes by path, the ephemerals by owner, and the part of the digest that covers them."""

    def __init__(self) -> None:
        self.changes: list[ZnodeChange] | None = None
        """Each change of a znode, in order, for the owner that drains it; None: no owner."""
        self.value_watches: Sized = ()
        """Not empty while a watch wants the values of changes, too."""
        self.znodes: dict[str, Znode] = {}
        self.ephemerals: dict[SessionId, Children] = {}
        self.expiring_paths: dict[str, None] = {}
        """Containers and znodes with a TTL."""
        self.quotas = Quotas(self.znodes)
        self._limits = self.quotas.limits
        self.usage_paths = self.quotas.stats
        """Of the znodes that show the usage of a quota. Here too, for each read asks for it."""
        self.digest = 0
        """The sum of all terms but those of `unhashed`; `State.digest` takes it modulo 2^64."""
        self.unhashed: list[str] = []
        """Paths of loaded znodes whose data are not part of `digest` yet, see `hash_loaded`."""
        self.data_bytes = 0
        """Bytes of all values and characters of all paths."""

    def create_system_znodes(self) -> None:
        """Create the znodes that exist before the first transaction."""
        for path in SYSTEM_PATHS:
            znode = Znode(b"", ZERO, ZERO, Millis(0), Millis(0), 0, SessionId(0), 0, ZERO, 0)
            if path == CONFIG_PATH:
                znode.attributes = attributes_of(READ_ONLY_ACL, 0, 0)
            self.add_all([(path, znode)])
        self.hash_loaded(len(SYSTEM_PATHS))

    def get(self, path: str) -> Znode | None:
        """Return the znode at `path`, None when it is missing; a malformed path has none."""
        return self.znodes.get(path)

    def add_all(self, added: Iterable[tuple[str, Znode]]) -> None:
        """Add znodes as they are, each behind its parent; they are not hashed yet.

        Raises:
            ValueError: one is there already, or comes before its parent. Those before it are added.
        """
        setdefault, unhashed = self.znodes.setdefault, self.unhashed.append
        parent: Znode | None = None
        siblings_of, is_quota = "", False  # of the znode before
        data_bytes = 0
        for path, znode in added:
            parent_path = path[: path.rfind("/")] or "/"
            if parent_path != siblings_of:  # siblings mostly come one after the other
                parent = self.znodes.get(parent_path)
                if parent is None and path != "/":
                    raise ValueError(f"znode {path} comes before its parent")
                siblings_of = "" if parent is None else parent_path
                is_quota = parent_path.startswith(QUOTA_PATH)
            if setdefault(path, znode) is not znode:
                raise ValueError(f"znode {path} comes twice")
            unhashed(path)
            data_bytes += len(path) + len(znode.value or b"")
            if parent is not None:
                children = parent.children
                if type(children) is dict and len(children) < SHARDED_FROM:
                    children[path] = None
                else:
                    self._link(parent, path, znode.czxid)
            if znode.child_create_count or znode.ephemeral_owner or znode.attributes is not None:
                self._count_rare(path, znode)
            if self._limits or is_quota:
                self.quotas.changed(path, None, znode.value or b"")
        self.data_bytes += data_bytes

    def hash_loaded(self, count: int) -> None:
        """Make up to `count` of the loaded znodes a part of the digest.

        Hashing would take a third of the time of loading, and only the comparison of digests needs
        it. So a server does it once it serves. In between, a `digest_hash` of 0 stands for a znode
        that no term of the digest covers: whatever changes the znode adds the whole term.
        """
        start = max(0, len(self.unhashed) - count)
        paths = self.unhashed[start:]
        del self.unhashed[start:]
        for path in paths:
            znode = self.znodes.get(path)
            if znode is not None and not znode.digest_hash:
                check = znode.digest_hash = _hash_of(path, znode)
                self.digest += check * check

    def full_digest(self) -> int:
        """Return what `digest` is once all znodes are hashed, as a plain sum; changes nothing."""
        loaded = [(path, self.znodes.get(path)) for path in self.unhashed]
        return self.digest + sum(
            _hash_of(path, znode) ** 2
            for path, znode in loaded
            if znode is not None and not znode.digest_hash
        )

    def create(self, zxid: Zxid, time_ms: Millis, change: CreateTxn) -> None:
        """Apply a creation."""
        path = change.path
        znodes = self.znodes
        parent_path = path[: path.rfind("/")] or "/"
        parent = znodes.get(parent_path)
        if parent is None or parent.czxid > zxid:
            return  # a replay: the parent this znode lived under was deleted before Z1, so was it
        znode = znodes.get(path)
        if znode is None:
            value = change.value
            owner = change.ephemeral_owner
            acls = change.acls
            ttl_ms = change.ttl_ms
            if acls is None and not ttl_ms:
                check = data_hash(path, value, zxid, zxid, time_ms, time_ms, 0, owner)
                znode = Znode(value, zxid, zxid, time_ms, time_ms, 0, owner, 0, zxid, check)
                znodes[path] = znode
                self.digest += check * check
                self.data_bytes += len(path) + len(value or b"")
                if owner:
                    self._count_owned(owner, path, zxid)
            else:
                znode = Znode(value, zxid, zxid, time_ms, time_ms, 0, owner, 0, zxid, 0)
                znodes[path] = znode
                znode.attributes = attributes_of(acls, 0, ttl_ms)
                check = znode.digest_hash = _hash_of(path, znode)
                self.digest += check * check
                self.data_bytes += len(path) + len(value or b"")
                self._count_rare(path, znode)
            if self._limits or path[:_QUOTA_CHARS] == QUOTA_PREFIX:
                self.quotas.changed(path, None, value or b"")
            if self.changes is not None:
                new = Content(value or b"", stat_of(znode)) if self.value_watches else None
                self.changes.append(
                    ZnodeChange(CREATED, zxid, path, znode.attributes, parent.attributes, None, new)
                )
        else:
            assert znode.czxid >= zxid, (path, znode.czxid, zxid)  # else its deletion is missing
        self._link(parent, path, znode.czxid)
        self._raise_children(parent_path, parent, change.child_create_count, zxid)

    def delete(self, zxid: Zxid, path: str) -> None:
        """Apply a deletion."""
        znodes = self.znodes
        parent_path = path[: path.rfind("/")] or "/"
        parent = znodes.get(parent_path)
        znode = znodes.get(path)
        if znode is not None and znode.czxid <= zxid:
            del znodes[path]
            self._count_out(path, znode)
            if self._limits:
                self.quotas.changed(path, znode.value or b"", None)
            # Its creation was replayed or loaded, and either linked it.
            assert parent is not None and parent.children is not None, path
            if isinstance(parent.children, dict):
                del parent.children[path]
            else:
                parent.children.remove(path, znode.czxid)
            if self.changes is not None:
                old = Content(znode.value or b"", stat_of(znode)) if self.value_watches else None
                self.changes.append(
                    ZnodeChange(DELETED, zxid, path, znode.attributes, parent.attributes, old)
                )
        if parent is not None:
            self._raise_children(parent_path, parent, parent.child_create_count, zxid)

    def set_data(self, zxid: Zxid, time_ms: Millis, change: SetDataTxn) -> None:
        """Apply a change of the value."""
        path = change.path
        znode = self.znodes.get(path)
        if znode is None or znode.mzxid > zxid:
            return  # a replay: the znode, or its value, is already a later one
        value = change.value
        stat = change.stat
        version = stat.version
        old = znode.digest_hash
        attributes = znode.attributes
        new = data_hash(
            path,
            value,
            znode.czxid,
            zxid,
            znode.ctime,
            time_ms,
            version,
            znode.ephemeral_owner,
        )
        if attributes is not None:
            new = with_attributes(new, encode_attributes(attributes))
        self.digest += new * new - old * old
        if self._limits:
            self.quotas.changed(path, znode.value or b"", value or b"")
        if self.changes is not None:
            znode_change = ZnodeChange(CHANGED, zxid, path, attributes)
            if self.value_watches:
                znode_change.old = Content(znode.value or b"", stat_of(znode))
                znode_change.new = Content(value or b"", stat)
            self.changes.append(znode_change)
        was = znode.value
        if was is None or len(was) != stat.data_length:
            self.data_bytes += stat.data_length - len(was or b"")
        znode.value = value
        znode.mzxid = zxid
        znode.mtime = time_ms
        znode.version = version
        znode.digest_hash = new

    def set_acls(self, zxid: Zxid, change: SetAclTxn) -> None:
        """Apply a change of the ACL, which no zxid of the znode tells."""
        path = change.path
        znode = self.znodes.get(path)
        if znode is None or znode.czxid > zxid:
            return  # a replay over a later life of the znode
        was = znode.attributes
        aversion = change.stat.aversion
        if was is not None and _is_before(aversion, was.aversion):
            return  # a replay: the ACL is already a later one
        old = znode.digest_hash
        znode.attributes = attributes_of(change.acls, aversion, 0 if was is None else was.ttl_ms)
        new = _hash_of(path, znode)
        self.digest += new * new - old * old
        znode.digest_hash = new

    def _link(self, parent: Znode, path: str, czxid: Zxid) -> None:
        children = parent.children
        if children is None:
            parent.children = {path: None}
        elif isinstance(children, dict):
            children[path] = None
            if len(children) > SHARDED_FROM:
                parent.children = self._sharded(children)
        else:
            children.add(path, czxid)

    def _sharded(self, paths: dict[str, None]) -> ShardedChildren:
        znodes = self.znodes
        return ShardedChildren((znodes[path].czxid, path) for path in paths)

    def _count_rare(self, path: str, znode: Znode) -> None:
        """Count what few new znodes have."""
        if znode.child_create_count:
            self.digest += children_term(path, znode.child_create_count, znode.pzxid)
        if znode.ephemeral_owner:
            self._count_owned(znode.ephemeral_owner, path, znode.czxid)
        if znode.attributes is not None and znode.attributes.ttl_ms:
            self.expiring_paths[path] = None

    def _count_owned(self, owner: SessionId, path: str, czxid: Zxid) -> None:
        owned = self.ephemerals.setdefault(owner, {})
        if isinstance(owned, dict):
            owned[path] = None
            if len(owned) > SHARDED_FROM:
                self.ephemerals[owner] = self._sharded(owned)
        else:
            owned.add(path, czxid)

    def _count_out(self, path: str, znode: Znode) -> None:
        check = znode.digest_hash
        self.digest -= check * check + children_term(path, znode.child_create_count, znode.pzxid)
        self.data_bytes -= len(path) + len(znode.value or b"")
        owner = znode.ephemeral_owner
        if owner:
            owned = self.ephemerals[owner]
            if isinstance(owned, dict):
                del owned[path]
            else:
                owned.remove(path, znode.czxid)
            if not owned:
                del self.ephemerals[owner]
        if znode.attributes is not None:
            self.expiring_paths.pop(path, None)

    def _raise_children(self, path: str, parent: Znode, creates: int, zxid: Zxid) -> None:
        """Raise the parent's counter and pzxid; the old values of a replay change nothing."""
        was_creates = parent.child_create_count
        was_pzxid = parent.pzxid
        if creates < was_creates:
            creates = was_creates
        if zxid < was_pzxid:
            zxid = was_pzxid
        if creates:  # else a deletion of the parent's earlier life is replayed
            self.digest += children_change(path, was_creates, was_pzxid, creates, zxid)
        parent.child_create_count = creates
        parent.pzxid = zxid


def _hash_of(path: str, znode: Znode) -> int:
    check = data_hash(
        path,
        znode.value,
        znode.czxid,
        znode.mzxid,
        znode.ctime,
        znode.mtime,
        znode.version,
        znode.ephemeral_owner,
    )
    return (
        check
        if znode.attributes is None
        else with_attributes(check, encode_attributes(znode.attributes))
    )


def _is_before(one: int, other: int) -> bool:
    """Compare two versions that wrap as signed 32-bit numbers and were never far apart."""
    return (one - other) & 0xFFFF_FFFF > 0x7FFF_FFFF
