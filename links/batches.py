"""Batches of frames with their numbers: how a carrier whose calls overtake each other keeps order.

Each direction of a link numbers its batches from 0. `OutgoingFrames` makes them, `IncomingBatches`
puts them back in order; it owns the invariant that batch n is handed on exactly once and only
after batch n - 1.
"""

from collections import deque

from raykeeper.links.limits import (
    BATCH_BYTES_MAX,
    BATCH_FRAMES_MAX,
    BATCH_INLINE_BYTES,
    FRAME_BYTES_MAX,
)


class OutgoingFrames:
    """Frames that wait to leave, bounded by their bytes."""

    __slots__ = ("_bytes", "_bytes_max", "_frames", "next")

    def __init__(self, bytes_max: int) -> None:
        self._frames: deque[bytes] = deque()
        self._bytes = 0
        self._bytes_max = bytes_max
        self.next = 0

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

    def take(self) -> tuple[int, list[bytes]]:
        """The number and the frames of the next batch, which may not be empty."""
        assert self._frames, "a batch of nothing would use up a number"
        number = self.next
        self.next += 1
        frames = self._frames
        # Ray carries a small call inside its message and a large one through the object store,
        # at a fixed price that a call a bit too large is not worth.
        bytes_max = BATCH_INLINE_BYTES if self._bytes < 2 * BATCH_INLINE_BYTES else BATCH_BYTES_MAX
        if self._bytes <= bytes_max and len(frames) <= BATCH_FRAMES_MAX:
            batch = list(frames)
            frames.clear()
            self._bytes = 0
            return number, batch
        batch = [frames.popleft()]
        size = len(batch[0])
        while frames and len(batch) < BATCH_FRAMES_MAX and size + len(frames[0]) <= bytes_max:
            size += len(frames[0])
            batch.append(frames.popleft())
        self._bytes -= size
        return number, batch

    def clear(self) -> None:
        """Forget what waits: the link is gone."""
        self._frames.clear()
        self._bytes = 0


class IncomingBatches:
    """Batches that may arrive out of order, as many as there are calls under way."""

    __slots__ = ("_early", "next")

    def __init__(self) -> None:
        self.next = 0
        self._early: dict[int, list[bytes]] = {}

    def put(self, number: int, frames: list[bytes]) -> list[bytes] | None:
        """Take a batch: the frames that are now in order, none while an earlier batch is missing.

        None means that this number came before, so nothing on this link can be trusted.
        """
        if number != self.next:
            if number < self.next or number in self._early:
                return None
            self._early[number] = frames
            return []
        self.next += 1
        while self._early and self.next in self._early:
            frames = frames + self._early.pop(self.next)
            self.next += 1
        return frames
