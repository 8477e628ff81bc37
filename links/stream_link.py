"""One end of a link over a stream, whichever end dialed.

What is sent in one turn of the loop leaves together. A stream that ends or breaks is known at once,
which makes it the quickest sign that a process has died; what a cut network keeps from both ends
is noticed by silence, for an idle end gives a sign of life twice as often as is expected of it.
"""

import asyncio
from collections import deque
from collections.abc import Callable
from typing import Final

from raykeeper.links.contract import STREAM, LinkEvents
from raykeeper.links.limits import FAREWELL_MS, FRAME_BYTES_MAX, READS_MAX, WRITE_BYTES
from raykeeper.links.silence import Silence
from raykeeper.links.stream_frames import SIGN_OF_LIFE, IncomingFrames, farewell, head_of
from raykeeper.links.stream_sockets import StreamSocket

_NOTHING: Final = memoryview(b"")


class StreamLink:
    """A link that owns its socket. It carries nothing before `begin`."""

    carrier = STREAM
    events: LinkEvents

    def __init__(
        self,
        stream: StreamSocket,
        incarnation: int,
        queue_bytes_max: int,
        park_s: float,
        grace_s: float,
    ) -> None:
        """Take over a socket on which both ends know each other.

        Args:
            stream: The socket.
            incarnation: Of the other end.
            queue_bytes_max: What may wait here before the link breaks.
            park_s: Within this time each end gives a sign of life.
            grace_s: How much later than that it may come.
        """
        self.incarnation = incarnation
        self._loop = asyncio.get_running_loop()
        self._stream = stream
        self._incoming = IncomingFrames()
        self._queue_bytes_max = queue_bytes_max
        self._waiting: deque[bytes] = deque()
        self._waiting_bytes = 0  # of the frames that have not left whole
        self._leaving = _NOTHING  # the rest of a group of frames, which leaves in part
        self._leaving_bytes = 0  # of the frames of that group
        self._told: Callable[[int], None] | None = None
        self._is_begun = False
        self._is_flushing = False
        self._is_blocked = False
        self._was_heard = False
        self._closing: str | None = None
        self._has_said_farewell = False
        self._is_over = False
        self._sign_s = park_s / 2
        self._span_s = park_s + grace_s
        self._silence: Silence | None = None
        self._sign: asyncio.TimerHandle | None = None

    def begin(self) -> None:
        """Carry frames from now on, in both directions."""
        self._is_begun = True
        self._silence = Silence(self._loop, self._span_s, self._fall_silent)
        self._silence.start()
        self._sign = self._loop.call_later(self._sign_s, self._give_sign)
        self._loop.add_reader(self._stream.fileno(), self._read)
        self._flush_soon()

    def send(self, frame: bytes) -> None:
        """Queue a frame; it leaves at the end of this turn of the loop."""
        if self._is_over or self._closing is not None:
            return
        size = len(frame)
        if size > FRAME_BYTES_MAX or self._waiting_bytes + size > self._queue_bytes_max:
            self.fail("more waits for the other end than the link may hold")
            return
        self._waiting.append(frame)
        self._waiting_bytes += size
        self._flush_soon()

    def when_sent(self, told: Callable[[int], None]) -> None:
        """Have `told` called with the number of bytes that have left, from now on."""
        self._told = told

    def close(self, reason: str) -> None:
        """End the link after what was sent before. Closing again does nothing."""
        if self._is_over or self._closing is not None:
            return
        self._closing = reason
        self._loop.call_later(FAREWELL_MS / 1000, self._release)
        self._flush_soon()

    def _flush_soon(self) -> None:
        if self._is_begun and not self._is_flushing:
            self._is_flushing = True
            self._loop.call_soon(self._flush)

    def _flush(self) -> None:
        self._is_flushing = False
        if self._is_blocked or self._is_over:
            return
        try:
            self._write()
        except OSError as error:
            self.fail(f"the stream broke: {error}")

    def _write(self) -> None:
        while self._leaving or (following := self._next_group()):
            if not self._leaving:
                self._leaving = following
            self._was_heard = True
            self._leaving = self._leaving[self._stream.send(self._leaving) :]
            if self._leaving:
                if not self._is_blocked:
                    self._is_blocked = True
                    self._loop.add_writer(self._stream.fileno(), self._unblock)
                return
            left, self._leaving_bytes = self._leaving_bytes, 0
            self._waiting_bytes -= left
            if left and self._told is not None:
                self._told(left)

    def _next_group(self) -> memoryview:
        waiting, size = self._waiting, 0
        group: list[bytes] = []
        if not waiting and self._closing is not None and not self._has_said_farewell:
            # The socket stays until the other end lets go of it: to close it while something was
            # not read would take from the other end what it has not read yet.
            self._has_said_farewell = True
            self._stop_signs()
            return memoryview(farewell(self._closing))
        while waiting and size < WRITE_BYTES:
            frame = waiting.popleft()
            group += (head_of(frame), frame)
            size += len(frame)
        self._leaving_bytes = size
        return memoryview(b"".join(group))

    def _unblock(self) -> None:
        self._loop.remove_writer(self._stream.fileno())
        self._is_blocked = False
        self._flush()

    def _read(self) -> None:
        try:
            ready = self._read_frames()
        except OSError as error:
            self.fail(f"the stream broke: {error}")
            return
        if self._silence is not None:
            self._silence.start()
        if ready and self._closing is None:
            self.events.frames(ready)
        if self._incoming.end is not None:
            self.fail(self._incoming.end)

    def _read_frames(self) -> list[bytes]:
        stream, incoming = self._stream, self._incoming
        ready: list[bytes] = []
        for _ in range(READS_MAX):
            data = stream.receive()
            if data is None:
                break
            if not data:
                incoming.end = incoming.end or "the other end is gone"
                break
            ready = ready + incoming.feed(data) if ready else incoming.feed(data)
            if incoming.end is not None or len(data) < stream.read_bytes:
                break
        return ready

    def _give_sign(self) -> None:
        self._sign = self._loop.call_later(self._sign_s, self._give_sign)
        was_heard, self._was_heard = self._was_heard, False
        if not was_heard and not self._leaving:
            self._leaving = memoryview(SIGN_OF_LIFE)
            self._flush_soon()

    def _stop_signs(self) -> None:
        if self._silence is not None:
            self._silence.end()
        if self._sign is not None:
            self._sign.cancel()

    def _fall_silent(self) -> None:
        self.fail("nothing was heard in time")

    def fail(self, reason: str) -> None:
        """The link is broken."""
        if self._is_over:
            return
        if self._closing is None:
            self._loop.call_soon(self.events.closed, reason)
        self._release()

    def _release(self) -> None:
        if self._is_over:
            return
        self._is_over = True
        self._stop_signs()
        self._waiting.clear()
        self._leaving = _NOTHING
        if self._is_begun:
            self._loop.remove_reader(self._stream.fileno())
            self._loop.remove_writer(self._stream.fileno())
        self._stream.close()
