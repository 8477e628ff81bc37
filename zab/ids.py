"""Identifiers of the protocol: servers, epochs, zxids and the time that comes with an event.

A zxid orders every transaction: the epoch of the leader that proposed it above a counter that
starts at 1 in each epoch. Counter 0 is the zxid of the new epoch itself and has no transaction.

Rule Z6: sign 0, epoch 21 bits, counter 42 bits, so a zxid stays a signed 64-bit number and one
epoch holds 4.4e12 transactions. ZooKeeper splits 32/32 (`ZxidUtils`) and must elect anew after
4.3e9 writes (ZOOKEEPER-1277); here exhaustion starts a new epoch too, a thousand times later.
"""

from typing import Final, NamedTuple, NewType

ServerId = NewType("ServerId", int)
"""Number of a server in its ensemble, from 1 to `SERVER_ID_MAX`."""

Epoch = NewType("Epoch", int)
"""The period of one leader, from 0 (before the first leader) to `EPOCH_MAX`."""

Zxid = NewType("Zxid", int)
"""Transaction identifier; 0 is the zxid of an empty history."""

Millis = NewType("Millis", int)
"""A span or a point of time in whole milliseconds."""

DiskId = NewType("DiskId", str)
"""The disk a server's promises are on; a vote rests on the disk that the member list names (D3)."""

FOUNDING_DISK: Final = DiskId("")
"""The disk a voter was given when its ensemble was founded, which happens once (rule D2)."""

EPOCH_BITS: Final = 21
COUNTER_BITS: Final = 42
EPOCH_MAX: Final = (1 << EPOCH_BITS) - 1
COUNTER_MAX: Final = (1 << COUNTER_BITS) - 1
ZXID_MAX: Final = (1 << EPOCH_BITS + COUNTER_BITS) - 1
SERVER_ID_MAX: Final = 254  # ZooKeeper's bound with TTL znodes enabled
ZERO: Final = Zxid(0)

assert EPOCH_BITS + COUNTER_BITS == 63, "a zxid must stay positive as a signed 64-bit number"


class Now(NamedTuple):
    """The time of an event, told by the shell; the pure rooms have no clock of their own."""

    mono: Millis
    """Monotonic milliseconds: spans and deadlines."""
    wall: Millis
    """Milliseconds since 1970: what ctime and mtime show; may jump."""


def make_zxid(epoch: Epoch, counter: int) -> Zxid:
    """Return the zxid of transaction `counter` of `epoch`."""
    assert 0 <= epoch <= EPOCH_MAX, epoch
    assert 0 <= counter <= COUNTER_MAX, counter
    return Zxid(epoch << COUNTER_BITS | counter)


def epoch_of(zxid: Zxid) -> Epoch:
    """Return the epoch of the leader that proposed `zxid`."""
    return Epoch(zxid >> COUNTER_BITS)


def counter_of(zxid: Zxid) -> int:
    """Return the place of `zxid` in its epoch; 0 is the epoch itself, without a transaction."""
    return zxid & COUNTER_MAX


def next_zxid(zxid: Zxid) -> Zxid:
    """Return the zxid after `zxid` in the same epoch. The caller checks `has_next` first."""
    assert has_next(zxid), f"the counter of {zxid:#x} is exhausted"
    return Zxid(zxid + 1)


def has_next(zxid: Zxid) -> bool:
    """Return whether the epoch of `zxid` has room for one more transaction."""
    return zxid & COUNTER_MAX != COUNTER_MAX


def format_zxid(zxid: Zxid) -> str:
    """Return `epoch:counter`, the form in trace events, logs and traces."""
    return f"{epoch_of(zxid)}:{counter_of(zxid)}"
