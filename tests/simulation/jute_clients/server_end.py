"""A server's end of a connection of ZooKeeper's protocol: bytes cut anywhere, pauses of reading.

It notes when each piece was sent: what a client may believe depends on that, not on how long the
piece was on its way.
"""

from collections import deque
from collections.abc import Callable
from itertools import pairwise
from random import Random

from raykeeper.server.events import Event, JuteBytesArrived
from tests.harness.schedule import Schedule
from tests.simulation.network import End, SimLink


def pieces_of(random: Random, data: bytes) -> list[bytes]:
    """Cut bytes at random places: mostly nowhere, rarely everywhere."""
    kind = random.random()
    if kind < 0.7 or len(data) < 2:
        return [data]
    cuts = range(1, len(data))
    if kind < 0.98 or len(data) > 64:
        cuts = sorted(random.sample(cuts, min(len(cuts), random.randint(1, 3))))
    ends = [0, *cuts, len(data)]
    return [data[begin:end] for begin, end in pairwise(ends)]


class ByteEnd:
    """The server's end of connection `number`."""

    def __init__(
        self,
        number: int,
        end: End,
        link: SimLink,
        schedule: Schedule,
        take: Callable[[list[Event]], None],
        taken: Callable[[int], None],
        gone: Callable[[], None],
    ) -> None:
        """`taken` gets the numbers of bytes that the client has read; `gone` ends it."""
        self.number = number
        self._end = end
        self._link = link
        self._schedule = schedule
        self._random = schedule.stream(f"bytes.{end[1]}.{number}")
        self._take = take
        self._taken = taken
        self._gone = gone
        self._is_lost = False
        self._is_reading = True
        self._unread: list[bytes] = []
        self._sent_at: deque[int] = deque()

    def arrived(self, data: bytes) -> None:
        """Read bytes, or leave them unread while reading is paused."""
        if self._is_reading:
            self._take([JuteBytesArrived(self.number, data)])
        else:
            self._unread.append(data)

    def set_reading(self, is_reading: bool) -> None:
        """Pause reading, or resume it."""
        assert self._is_reading is not is_reading, f"Protocol: {self.number} is paused twice"
        self._is_reading = is_reading
        if is_reading:
            unread, self._unread = self._unread, []
            self._take([JuteBytesArrived(self.number, data) for data in unread])
            if self._is_lost:
                self._gone()

    def lost(self) -> None:
        """Learn that the client is gone; whoever does not read sees no end."""
        self._is_lost = True
        if self._is_reading:
            self._gone()

    def send(self, data: bytes) -> None:
        """Send bytes in pieces. Who sends to a client that is gone learns it."""
        if self._is_lost:
            self._schedule.after(1, self._gone)
            return
        for piece in pieces_of(self._random, data):
            self._sent_at.append(self._schedule.now)
            self._link.send(self._end, piece)

    def is_read(self, size: int) -> int:
        """Note that the client has read the oldest piece; return when it was sent."""
        self._taken(size)
        return self._sent_at.popleft()
