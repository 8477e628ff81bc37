"""A znode with its attributes and its Stat.

Few znodes have attributes: an ACL of their own, a count of its changes, a TTL or the mark of a
container. A znode holds one reference to all of them, None for most. Equal attributes share one
object, so a million znodes of one restricted subtree cost one list. They are never part of an id
table, as ZooKeeper's ACLs are: transactions and snapshots name them whole, so nothing can refer to
a list that is gone.

ZooKeeper: `DataNode`, `ReferenceCountedACLCache`, `EphemeralType`, `StatPersisted`.
"""

from typing import Final
from weakref import WeakValueDictionary

import msgspec
from msgspec import Struct

from raykeeper.zab.ids import Millis, Zxid
from raykeeper.znodes.acl import Acls, Identities, allows
from raykeeper.znodes.children import Children
from raykeeper.znodes.requests import SessionId
from raykeeper.znodes.stat import Stat

CONTAINER: Final = -1
"""As `ttl_ms`: the znode goes once it has no children any more."""
TTL_MS_MAX: Final = (1 << 40) - 1
"""ZooKeeper's bound: some 34 years."""

_encode = msgspec.msgpack.Encoder().encode


class ZnodeAttributes(Struct, frozen=True, array_like=True, weakref=True):
    """The rare attributes of a znode. `ttl_ms`: CONTAINER, 0 for none, else milliseconds."""

    acls: Acls | None
    aversion: int
    ttl_ms: int


class Znode(Struct, gc=False):
    """One znode. Not tracked by the garbage collector: it cannot be part of a cycle.

    `value` None is null data: ZooKeeper's clients can write it, and tell it from an empty value.
    For everybody else it is an empty value.
    """

    value: bytes | None
    czxid: Zxid
    mzxid: Zxid
    ctime: Millis
    mtime: Millis
    version: int
    ephemeral_owner: SessionId
    child_create_count: int
    """Children ever created: the next sequential number."""
    pzxid: Zxid
    digest_hash: int
    """`data_hash` of the fields above but for the last two."""
    children: Children | None = None
    """Paths of the children, None before the first: most znodes never have one."""
    attributes: ZnodeAttributes | None = None


_shared: WeakValueDictionary[tuple[Acls | None, int, int], ZnodeAttributes] = WeakValueDictionary()


def attributes_of(acls: Acls | None, aversion: int, ttl_ms: int) -> ZnodeAttributes | None:
    """Return the shared attributes of a znode, None when it has none."""
    if acls is None and not aversion and not ttl_ms:
        return None
    key = (acls, aversion, ttl_ms)
    attributes = _shared.get(key)
    if attributes is None:
        attributes = _shared[key] = ZnodeAttributes(*key)
    return attributes


def encode_attributes(attributes: ZnodeAttributes) -> bytes:
    """Encode attributes for the digest."""
    return _encode(attributes)


def is_allowed(attributes: ZnodeAttributes | None, identities: Identities, permission: int) -> bool:
    """Return whether the ACL of a znode with these attributes grants any bit of `permission`."""
    return attributes is None or allows(attributes.acls, identities, permission)


def stat_of(znode: Znode) -> Stat:
    """Return the Stat a client is shown."""
    children = znode.children
    count = len(children) if children else 0
    return Stat(
        znode.czxid,
        znode.mzxid,
        znode.ctime,
        znode.mtime,
        znode.version,
        cversion_of(znode.child_create_count, count),
        0 if znode.attributes is None else znode.attributes.aversion,
        znode.ephemeral_owner,
        len(znode.value or b""),
        count,
        znode.pzxid,
    )


def cversion_of(creates: int, num_children: int) -> int:
    """Return creations plus deletions of children, as a signed 32-bit number that wraps."""
    cversion = 2 * creates - num_children
    if cversion > 0x7FFF_FFFF:
        cversion = (cversion + 0x8000_0000 & 0xFFFF_FFFF) - 0x8000_0000
    return cversion
