"""The eleven fields that describe a znode to a client (`org.apache.zookeeper.data.Stat`)."""

from msgspec import Struct

from raykeeper.zab.ids import Millis, Zxid


class Stat(Struct, frozen=True, array_like=True, gc=False):
    """The Stat of a znode. Times are the leader's wall milliseconds."""

    czxid: Zxid
    """Zxid of the creation."""
    mzxid: Zxid
    """Zxid of the last change of the value; czxid until then."""
    ctime: Millis
    mtime: Millis
    version: int
    """Changes of the value; wraps as a signed 32-bit number."""
    cversion: int
    """Creations plus deletions of children."""
    aversion: int
    """Changes of the ACL."""
    ephemeral_owner: int
    """Session id of the owner; 0 for a persistent znode."""
    data_length: int
    """Bytes of the value."""
    num_children: int
    pzxid: Zxid
    """Zxid of the last creation or deletion of a child; czxid until then."""
