"""How fast a backup reads: a rate in bytes per second, which an archive exceeds if the log does.

A backup competes with the servers for processors, disk and network. At a rate it takes a part of
them for longer, in place of all that is left of them for a moment, in which writes wait.

An archive must not fall behind its log. So it reads the log twice as fast as the log grows, and by
the rate more: what a pause has left is caught up, however fast the log grows.
"""

import time
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from typing import Final, TypeVar

from raykeeper.actors.disk.backup_frames import LogBody
from raykeeper.zab.ids import Zxid, counter_of, epoch_of

MB: Final = 1_000_000
_CREDIT_S: Final = 0.1
"""What is late by up to so much is made up for: the time of a write does not lower the rate."""
_PIECE_MIN, _PIECE_MAX = 64 << 10, 1 << 20
_PIECE_S: Final = 0.125
"""A piece is read at once. It takes so long at the rate, at most, if it is not the smallest."""

A = TypeVar("A")
B = TypeVar("B")


class Pace:
    """A rate that is kept by waiting."""

    def __init__(self, mb_per_s: float) -> None:
        """Keep a rate of so many megabytes (of 1 000 000 bytes) per second."""
        assert mb_per_s > 0, mb_per_s
        self.bytes_per_s = mb_per_s * MB
        self._free_at = 0.0

    @property
    def piece_bytes(self) -> int:
        """How much to read at once."""
        return round(max(_PIECE_MIN, min(_PIECE_MAX, self.bytes_per_s * _PIECE_S)))

    def delay_s(self, size: int, now: float) -> float:
        """Return how long to wait at `now`, in monotonic seconds, after `size` bytes."""
        self._free_at = max(self._free_at, now - _CREDIT_S) + size / self.bytes_per_s
        return max(0.0, self._free_at - now)

    def keep(self, size: int) -> None:
        """Wait as long as `size` bytes take."""
        time.sleep(self.delay_s(size, time.monotonic()))


def read_ahead(ask: Callable[[], A], get: Callable[[A], list[B]], ahead: int) -> Iterator[list[B]]:
    """Yield what calls return, with `ahead` calls under way, until one returns nothing.

    What the calls behind that one return is yielded, too. A log may have grown in between, and what
    they return comes only once.
    """
    waiting: deque[A] = deque()
    is_more = True
    while is_more or waiting:
        while is_more and len(waiting) < ahead:
            waiting.append(ask())
        found = get(waiting.popleft())
        is_more = is_more and bool(found)
        if found:
            yield found


class LogGrowth:
    """How fast the log of an ensemble grows, from where it is and what its transactions take."""

    def __init__(self) -> None:
        self.bytes_per_s = 0.0
        """Since the last two looks; 0 before anything was read."""
        self._txns_per_s = 0.0
        self._looked: tuple[float, Zxid] | None = None
        self._bytes_per_txn = 0.0

    def look(self, applied: Zxid, now: float) -> None:
        """Note what a server has applied at `now`, in monotonic seconds."""
        if self._looked is not None:
            then, before = self._looked
            # A counter of another epoch tells nothing of the time between.
            if epoch_of(applied) == epoch_of(before) and now > then:
                grown = max(0, counter_of(applied) - counter_of(before))
                self._txns_per_s = grown / (now - then)
        self._looked = now, applied
        self.bytes_per_s = self._txns_per_s * self._bytes_per_txn

    def counted(self, bodies: Iterable[LogBody]) -> Iterator[LogBody]:
        """Yield what is read of the log, and note how large its transactions are."""
        txns = size = 0
        for body in bodies:
            txns, size = txns + body.txns, size + body.txn_bytes
            yield body
        if txns:
            self._bytes_per_txn = size / txns
