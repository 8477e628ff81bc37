"""One 64-bit number that says whether two replicas at the same zxid are identical.

The digest is a sum of terms modulo 2^64, one for each element of the state: so it does not depend
on the order in which the state came about, is kept up to date by adding and subtracting, and can
be computed anew after a load. A term is the square of a CRC-32 over all that the element holds.
The square matters: CRCs are linear, so the same difference in two elements (a clock that is wrong
in the same way) would cancel in a plain sum far more often than once in 2^32.

ZooKeeper: `AdHash` and `DigestCalculator`, there a sum of plain CRC-32s over the tree alone.
"""

from struct import Struct as Layout
from typing import Final
from zlib import crc32

from raykeeper.zab.ids import ZERO, Millis, Zxid

DIGEST_MASK: Final = (1 << 64) - 1

_pack_data = Layout("<6q").pack
_pack_children = Layout("<2q").pack


def data_hash(
    path: str,
    value: bytes | None,
    czxid: Zxid,
    mzxid: Zxid,
    ctime: Millis,
    mtime: Millis,
    version: int,
    owner: int,
) -> int:
    """Return the CRC of a znode without its children; the znode keeps it, to subtract it later."""
    check = crc32(path.encode())
    # Null data has the complement, so that it differs from an empty value.
    check = check ^ 0xFFFF_FFFF if value is None else crc32(value, check)
    return crc32(_pack_data(czxid, mzxid, ctime, mtime, version, owner), check)


def with_attributes(check: int, attributes: bytes) -> int:
    """Return the CRC of a znode that has attributes, here encoded."""
    return crc32(attributes, check)


def children_change(path: str, was_creates: int, was_pzxid: Zxid, creates: int, pzxid: Zxid) -> int:
    """Return what creating or deleting a child adds to the digest on the parent's side.

    The term is 0 before the first child. Apart from `data_hash`, or every creation would hash the
    parent's value.
    """
    seed = crc32(path.encode())
    check = crc32(_pack_children(creates, pzxid), seed)
    if was_creates == 0:
        return check * check
    was_check = crc32(_pack_children(was_creates, was_pzxid), seed)
    return check * check - was_check * was_check


def children_term(path: str, creates: int, pzxid: Zxid) -> int:
    """Return the parent's whole term for its children."""
    return 0 if creates == 0 else children_change(path, 0, ZERO, creates, pzxid)


def record_term(record: bytes) -> int:
    """Return the term of an element that is hashed encoded: a session with its reply cache."""
    check = crc32(record)
    return check * check
