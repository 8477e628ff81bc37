"""Numbered batches of frames, for a carrier whose calls overtake each other.

Each direction of a link numbers its batches from 0. A batch is made of portions, of a size that
Ray carries inside its own message; a frame that does not fit continues in the next portion.
`OutgoingBatches` makes batches, `IncomingBatches` puts them back in order and joins the
frames; it owns the invariant that batch n is handed on exactly once and only after batch n - 1.
"""

from collections import deque
from collections.abc import Callable

from raykeeper.links.limits import (
    BATCH_BYTES_MAX,
    EARLY_BATCHES_MAX,
    EARLY_BYTES_MAX,
    FRAME_BYTES_MAX,
    FRAMES_MAX,
    PORTION_BYTES,
)

Portion = tuple[list[bytes], bool]
"""Frames, and whether the last one continues in the next portion."""


class OutgoingBatches:
    """Frames that wait to leave, bounded by their bytes; they leave in batches."""

    __slots__ = (
        "_bytes",
        "_bytes_max",
        "_frames",
        "_on_bytes_taken",
        "_sent_of_first",
        "next_number",
    )

    def __init__(self, bytes_max: int) -> None:
        self.next_number = 0
        """The number of the next batch."""
        self._frames: deque[bytes] = deque()
        self._sent_of_first = 0  # of the first frame, which has left in part
        self._bytes = 0
        self._bytes_max = bytes_max
        self._on_bytes_taken: Callable[[int], None] | None = None

    def on_bytes_taken(self, callback: Callable[[int], None]) -> None:
        """Call `callback` with the number of bytes of each batch."""
        self._on_bytes_taken = callback

    def __bool__(self) -> bool:
        return bool(self._frames)

    def add(self, frame: bytes) -> bool:
        """Queue a frame; False if it goes over the bound and was not queued."""
        size = len(frame)
        if size > FRAME_BYTES_MAX or self._bytes + size > self._bytes_max:
            return False
        self._frames.append(frame)
        self._bytes += size
        return True

    def take(self, portions_max: int) -> tuple[int, list[Portion]]:
        """Return the number and the portions of the next batch; some frame must wait.

        Ray carries a value of up to 100 KiB inside its message and a larger one through the
        object store, at a fixed price of more than a call. So small portions carry what fits,
        and a large one only what is worth that price.
        """
        assert self._frames, "a batch of nothing would use up a number"
        number = self.next_number
        self.next_number += 1
        before = self._bytes
        portions = self._portions(portions_max)
        if self._on_bytes_taken is not None:
            self._on_bytes_taken(before - self._bytes)
        return number, portions

    def _portions(self, portions_max: int) -> list[Portion]:
        small = portions_max * PORTION_BYTES
        if self._bytes >= 2 * small:
            return [self._portion(BATCH_BYTES_MAX)]
        portions = [self._portion(PORTION_BYTES)]
        while self._frames and len(portions) < portions_max:
            portions.append(self._portion(PORTION_BYTES))
        return portions

    def clear(self) -> None:
        """Drop what waits, as the link is gone."""
        self._frames.clear()
        self._bytes = self._sent_of_first = 0

    def _portion(self, bytes_left: int) -> Portion:
        frames = self._frames
        if self._bytes <= bytes_left and len(frames) <= FRAMES_MAX and not self._sent_of_first:
            whole = list(frames)
            self.clear()
            return whole, False
        portion: list[bytes] = []
        while frames and len(portion) < FRAMES_MAX:
            frame = frames[0]
            left = len(frame) - self._sent_of_first
            if left > bytes_left:
                if bytes_left:
                    portion.append(frame[self._sent_of_first : self._sent_of_first + bytes_left])
                    self._sent_of_first += bytes_left
                    self._bytes -= bytes_left
                return portion, bytes_left > 0
            portion.append(frame[self._sent_of_first :] if self._sent_of_first else frame)
            frames.popleft()
            self._sent_of_first = 0
            self._bytes -= left
            bytes_left -= left
        return portion, False


class IncomingBatches:
    """Puts batches in order that overtook each other."""

    __slots__ = ("_early", "_early_bytes", "_unfinished", "_unfinished_bytes", "expected")

    def __init__(self) -> None:
        self.expected = 0
        """The number of the batch that comes next."""
        self._early: dict[int, list[Portion]] = {}
        self._early_bytes = 0
        self._unfinished: list[bytes] = []
        self._unfinished_bytes = 0

    def put(self, number: int, portions: list[Portion]) -> list[bytes] | None:
        """Take a batch; return the frames that are now complete and in order, perhaps none.

        None means that nothing on this link can be trusted: the number came before, a frame is
        larger than allowed, or more has overtaken the expected batch than may wait.
        """
        if number != self.expected:
            if number < self.expected or number in self._early:
                return None
            self._early[number] = portions
            self._early_bytes += _bytes_of(portions)
            if self._early_bytes > EARLY_BYTES_MAX or len(self._early) > EARLY_BATCHES_MAX:
                return None
            return []
        ready: list[bytes] = []
        while True:
            self.expected += 1
            for pieces, goes_on in portions:
                self._join(pieces, goes_on, ready)
            if self._unfinished_bytes > FRAME_BYTES_MAX:
                return None
            if self.expected not in self._early:
                return ready
            portions = self._early.pop(self.expected)
            self._early_bytes -= _bytes_of(portions)

    def _join(self, pieces: list[bytes], goes_on: bool, ready: list[bytes]) -> None:
        if not self._unfinished and not goes_on:
            ready += pieces
            return
        last = len(pieces) - 1
        for index, piece in enumerate(pieces):
            self._unfinished.append(piece)
            if index == last and goes_on:
                self._unfinished_bytes += len(piece)
            else:
                ready.append(b"".join(self._unfinished))
                self._unfinished.clear()
                self._unfinished_bytes = 0


def _bytes_of(portions: list[Portion]) -> int:
    return sum(len(piece) for pieces, _ in portions for piece in pieces)
