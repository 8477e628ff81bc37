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

from collections.abc import Sized
from typing import Final

from msgspec import Struct

from raykeeper.zab.ids import ZERO, Millis, Zxid
from raykeeper.znodes.acl import READ_ONLY
from raykeeper.znodes.children import PARTED_FROM, Children, PartedChildren
from raykeeper.znodes.digest import children_change, children_term, data_check, with_traits
from raykeeper.znodes.paths import CONFIG, UNDELETABLE, parent_of
from raykeeper.znodes.quotas import QUOTA_PREFIX, Quotas
from raykeeper.znodes.replies import Content, EventType
from raykeeper.znodes.requests import SessionId
from raykeeper.znodes.stat import Stat
from raykeeper.znodes.traits import Traits, encoded, traits_of
from raykeeper.znodes.txns import AclsSet, Created, DataSet

_QUOTA_CHARS: Final = len(QUOTA_PREFIX)
# Read once: an attribute of an enum takes longer than all else that is told of a change.
CREATED, CHANGED, DELETED = EventType.CREATED, EventType.CHANGED, EventType.DELETED


class Znode(Struct, gc=False):
    """One znode. Not tracked by the garbage collector: it cannot be part of a cycle."""

    value: bytes
    czxid: Zxid
    mzxid: Zxid
    ctime: Millis
    mtime: Millis
    version: int
    owner: SessionId
    creates: int
    """Children ever created: the next sequential number."""
    pzxid: Zxid
    check: int
    """`data_check` of the fields above but for the last two."""
    children: Children | None = None
    """Paths of the children, None before the first: most znodes never have one."""
    traits: Traits | None = None


class Happening(Struct, gc=False):
    """What a transaction did to one znode: CREATED, CHANGED or DELETED.

    `traits` are those of the znode, `above` those of the parent whose children it changed. `old`
    and `new` are what the znode was before and after, as far as that was wanted and is kept.
    """

    kind: EventType
    zxid: Zxid
    path: str
    traits: Traits | None
    above: Traits | None = None
    old: Content | None = None
    new: Content | None = None


class Tree:
    """Znodes by path, the ephemerals by owner, and the part of the digest that covers them."""

    def __init__(self) -> None:
        self.happened: list[Happening] | None = None
        """What each change of a znode did, in order, for whoever takes it away; None: nobody."""
        self.wanted: Sized = ()
        """Not empty while somebody wants to know the values there, too."""
        self.znodes: dict[str, Znode] = {}
        self.ephemerals: dict[SessionId, Children] = {}
        self.mortals: dict[str, None] = {}
        """Containers and znodes with a TTL."""
        self.quotas = Quotas(self.znodes)
        self._limits = self.quotas.limits
        self.digest = 0  # a plain sum; whoever shows it takes it modulo 2^64

    def plant(self) -> None:
        """Make the znodes that are there before the first transaction."""
        for path in UNDELETABLE:
            znode = Znode(b"", ZERO, ZERO, Millis(0), Millis(0), 0, SessionId(0), 0, ZERO, 0)
            if path == CONFIG:
                znode.traits = traits_of(READ_ONLY, 0, 0)
            self.add(path, znode, self.znodes.get(parent_of(path)))

    def get(self, path: str) -> Znode | None:
        """The znode at `path`, None when there is none; a malformed path has none."""
        return self.znodes.get(path)

    def add(self, path: str, znode: Znode, parent: Znode | None) -> bool:
        """Put in a znode as it is, under `parent`; its `check` is set here. Only "/" has none.

        Returns False, and changes nothing, when there is one already.
        """
        if self.znodes.setdefault(path, znode) is not znode:
            return False
        if parent is not None:
            self._link(parent, path, znode.czxid)
        self._count_in(path, znode)
        if self._limits or path[:_QUOTA_CHARS] == QUOTA_PREFIX:
            self.quotas.changed(path, None, znode.value)
        return True

    def create(self, zxid: Zxid, time_ms: Millis, change: Created) -> None:
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
            owner = change.owner
            acls = change.acls
            ttl_ms = change.ttl_ms
            if acls is None and not ttl_ms:
                check = data_check(path, value, zxid, zxid, time_ms, time_ms, 0, owner)
                znode = Znode(value, zxid, zxid, time_ms, time_ms, 0, owner, 0, zxid, check)
                znodes[path] = znode
                self.digest += check * check
                if owner:
                    self._count_owned(owner, path, zxid)
            else:
                znode = Znode(value, zxid, zxid, time_ms, time_ms, 0, owner, 0, zxid, 0)
                znodes[path] = znode
                znode.traits = traits_of(acls, 0, ttl_ms)
                self._count_in(path, znode)
            if self._limits or path[:_QUOTA_CHARS] == QUOTA_PREFIX:
                self.quotas.changed(path, None, value)
            if self.happened is not None:
                new = Content(value, stat_of(znode)) if self.wanted else None
                self.happened.append(
                    Happening(CREATED, zxid, path, znode.traits, parent.traits, None, new)
                )
        else:
            assert znode.czxid >= zxid, (path, znode.czxid, zxid)  # else its deletion is missing
        self._link(parent, path, znode.czxid)
        self._raise_children(parent_path, parent, change.creates, zxid)

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
                self.quotas.changed(path, znode.value, None)
            # Its creation was replayed or loaded, and either linked it.
            assert parent is not None and parent.children is not None, path
            if isinstance(parent.children, dict):
                del parent.children[path]
            else:
                parent.children.remove(path, znode.czxid)
            if self.happened is not None:
                old = Content(znode.value, stat_of(znode)) if self.wanted else None
                self.happened.append(
                    Happening(DELETED, zxid, path, znode.traits, parent.traits, old)
                )
        if parent is not None:
            self._raise_children(parent_path, parent, parent.creates, zxid)

    def set_data(self, zxid: Zxid, time_ms: Millis, change: DataSet) -> None:
        """Apply a change of the value."""
        path = change.path
        znode = self.znodes.get(path)
        if znode is None or znode.mzxid > zxid:
            return  # a replay: the znode, or its value, is already a later one
        value = change.value
        version = change.stat.version
        old = znode.check
        traits = znode.traits
        new = data_check(
            path,
            value,
            znode.czxid,
            zxid,
            znode.ctime,
            time_ms,
            version,
            znode.owner,
        )
        if traits is not None:
            new = with_traits(new, encoded(traits))
        self.digest += new * new - old * old
        if self._limits:
            self.quotas.changed(path, znode.value, value)
        if self.happened is not None:
            happening = Happening(CHANGED, zxid, path, traits)
            if self.wanted:
                happening.old = Content(znode.value, stat_of(znode))
                happening.new = Content(value, change.stat)
            self.happened.append(happening)
        znode.value = value
        znode.mzxid = zxid
        znode.mtime = time_ms
        znode.version = version
        znode.check = new

    def set_acls(self, zxid: Zxid, change: AclsSet) -> None:
        """Apply a change of the ACL, which no zxid of the znode tells."""
        path = change.path
        znode = self.znodes.get(path)
        if znode is None or znode.czxid > zxid:
            return  # a replay over a later life of the znode
        was = znode.traits
        aversion = change.stat.aversion
        if was is not None and _is_before(aversion, was.aversion):
            return  # a replay: the ACL is already a later one
        old = znode.check
        znode.traits = traits_of(change.acls, aversion, 0 if was is None else was.ttl_ms)
        new = _check_of(path, znode)
        self.digest += new * new - old * old
        znode.check = new

    def _link(self, parent: Znode, path: str, czxid: Zxid) -> None:
        children = parent.children
        if children is None:
            parent.children = {path: None}
        elif isinstance(children, dict):
            children[path] = None
            if len(children) > PARTED_FROM:
                parent.children = self._parted(children)
        else:
            children.add(path, czxid)

    def _parted(self, paths: dict[str, None]) -> PartedChildren:
        znodes = self.znodes
        return PartedChildren((znodes[path].czxid, path) for path in paths)

    def _count_in(self, path: str, znode: Znode) -> None:
        check = znode.check = _check_of(path, znode)
        self.digest += check * check
        if znode.creates:
            self.digest += children_term(path, znode.creates, znode.pzxid)
        if znode.owner:
            self._count_owned(znode.owner, path, znode.czxid)
        if znode.traits is not None and znode.traits.ttl_ms:
            self.mortals[path] = None

    def _count_owned(self, owner: SessionId, path: str, czxid: Zxid) -> None:
        owned = self.ephemerals.setdefault(owner, {})
        if isinstance(owned, dict):
            owned[path] = None
            if len(owned) > PARTED_FROM:
                self.ephemerals[owner] = self._parted(owned)
        else:
            owned.add(path, czxid)

    def _count_out(self, path: str, znode: Znode) -> None:
        check = znode.check
        self.digest -= check * check + children_term(path, znode.creates, znode.pzxid)
        owner = znode.owner
        if owner:
            owned = self.ephemerals[owner]
            if isinstance(owned, dict):
                del owned[path]
            else:
                owned.remove(path, znode.czxid)
            if not owned:
                del self.ephemerals[owner]
        if znode.traits is not None:
            self.mortals.pop(path, None)

    def _raise_children(self, path: str, parent: Znode, creates: int, zxid: Zxid) -> None:
        """Both numbers only rise: a replay comes with old ones."""
        was_creates = parent.creates
        was_pzxid = parent.pzxid
        if creates < was_creates:
            creates = was_creates
        if zxid < was_pzxid:
            zxid = was_pzxid
        if creates:  # else a deletion of the parent's earlier life is replayed
            self.digest += children_change(path, was_creates, was_pzxid, creates, zxid)
        parent.creates = creates
        parent.pzxid = zxid


def _check_of(path: str, znode: Znode) -> int:
    check = data_check(
        path,
        znode.value,
        znode.czxid,
        znode.mzxid,
        znode.ctime,
        znode.mtime,
        znode.version,
        znode.owner,
    )
    return check if znode.traits is None else with_traits(check, encoded(znode.traits))


def _is_before(one: int, other: int) -> bool:
    """Of two versions that wrap as signed 32-bit numbers and were never far apart."""
    return (one - other) & 0xFFFF_FFFF > 0x7FFF_FFFF


def stat_of(znode: Znode) -> Stat:
    """The Stat a client is shown."""
    children = znode.children
    count = len(children) if children else 0
    return Stat(
        znode.czxid,
        znode.mzxid,
        znode.ctime,
        znode.mtime,
        znode.version,
        cversion_of(znode.creates, count),
        0 if znode.traits is None else znode.traits.aversion,
        znode.owner,
        len(znode.value),
        count,
        znode.pzxid,
    )


def cversion_of(creates: int, num_children: int) -> int:
    """Creations plus deletions of children, as a signed 32-bit number that wraps."""
    cversion = 2 * creates - num_children
    if cversion > 0x7FFF_FFFF:
        cversion = (cversion + 0x8000_0000 & 0xFFFF_FFFF) - 0x8000_0000
    return cversion
