"""What few znodes have: an ACL of their own, changes of it, an end by itself.

A znode holds one reference to all of it, None for most. Equal traits share one object, so a million
znodes of one restricted subtree cost one list. They are never part of an id table, as ZooKeeper's
ACLs are: transactions and snapshots name them whole, so nothing can refer to a list that is gone.

ZooKeeper: `ReferenceCountedACLCache`, `EphemeralType`, `StatPersisted.aversion`.
"""

from typing import Final
from weakref import WeakValueDictionary

import msgspec
from msgspec import Struct

from raykeeper.znodes.acl import Acls

CONTAINER: Final = -1
"""As `ttl_ms`: the znode goes once it has no children any more."""
TTL_MS_MAX: Final = (1 << 40) - 1
"""ZooKeeper's bound: some 34 years."""

_encode = msgspec.msgpack.Encoder().encode


class ZnodeAttributes(Struct, frozen=True, array_like=True, weakref=True):
    """`acls` None: open to all. `ttl_ms`: CONTAINER, 0 for none, else milliseconds."""

    acls: Acls | None
    aversion: int
    ttl_ms: int


_shared: WeakValueDictionary[tuple[Acls | None, int, int], ZnodeAttributes] = WeakValueDictionary()


def attributes_of(acls: Acls | None, aversion: int, ttl_ms: int) -> ZnodeAttributes | None:
    """The traits of a znode, None when it has none."""
    if acls is None and not aversion and not ttl_ms:
        return None
    key = (acls, aversion, ttl_ms)
    traits = _shared.get(key)
    if traits is None:
        traits = _shared[key] = ZnodeAttributes(*key)
    return traits


def encode_attributes(traits: ZnodeAttributes) -> bytes:
    """For the digest."""
    return _encode(traits)
