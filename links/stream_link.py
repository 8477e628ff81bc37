"""One end of a link over a stream, whichever end dialed.

What is sent in one turn of the loop leaves together: at its end, or with the frame that is sent as
its last. A stream that ends or breaks is known at once, which makes it the quickest sign that a
process has died; what a cut network keeps from both ends is noticed by silence, for an idle end
gives a sign of life twice as often as is expected of it.

All of it happens on one loop, with one exception. A thread that waits for an answer may borrow the
link and use the socket itself, which saves the loop's two hops from thread to thread
(`enable_thread_io`, `acquire_io`). While it is lent, and for moments after, the loop does not
listen to the socket; what comes then waits `IO_IDLE_S` at most.
"""

import asyncio
import select
import threading
from collections import deque
from collections.abc import Callable
from contextlib import AbstractContextManager
from typing import Final

from raykeeper.links.contract import STREAM, LinkEvents
from raykeeper.links.idle_timer import IdleTimer
from raykeeper.links.limits import (
    CLOSE_MS,
    FRAME_BYTES_MAX,
    IO_IDLE_S,
    READS_MAX,
    WRITE_BYTES,
    WRITES_MAX,
)
from raykeeper.links.stream_frames import KEEPALIVE, FrameDecoder, close_frame, encode_head
from raykeeper.links.stream_socket import StreamSocket

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
        keepalive_s: float,
        grace_s: float,
        frame_bytes_max: int = FRAME_BYTES_MAX,
    ) -> None:
        """Take over a socket on which both ends know each other.

        Args:
            stream: The socket.
            incarnation: Of the other end.
            queue_bytes_max: What may wait here before the link breaks.
            keepalive_s: Within this time each end gives a sign of life.
            grace_s: How much later than that it may come.
            frame_bytes_max: How large a frame the other end may announce.
        """
        self.incarnation = incarnation
        self._loop = asyncio.get_running_loop()
        self._stream = stream
        self._incoming = FrameDecoder(frame_bytes_max)
        self._queue_bytes_max = queue_bytes_max
        self._queue: deque[bytes] = deque()
        self._queued_bytes = 0  # of the frames that have not left whole
        self._partial_write = _NOTHING  # the rest of a group of frames, which leaves in part
        self._partial_frame_bytes = 0  # of the frames of that group
        self._on_bytes_sent: Callable[[int], None] | None = None
        self._is_begun = False
        self._is_flushing = False
        self._is_blocked = False
        self._has_written = False
        self._closing: str | None = None
        self._is_close_frame_sent = False
        self._is_over = False
        self._keepalive_pause_s = keepalive_s / 2
        self._idle_timeout_s = keepalive_s + grace_s
        self._idle_timer: IdleTimer | None = None
        self._keepalive_timer: asyncio.TimerHandle | None = None
        self._lock: AbstractContextManager[object] = threading.RLock()
        self._poll: select.poll | None = None
        self._is_io_acquired = False
        self._was_io_acquired = False  # since the loop last looked
        self._is_reading_paused = False  # the loop does not listen
        self._is_resume_scheduled = False  # whether a timer runs for that
        self.released: asyncio.Future[None] = self._loop.create_future()
        """Done when the loop let go of the socket; at the latest `CLOSE_MS` after `close`."""

    def begin(self) -> None:
        """Carry frames from now on, in both directions."""
        self._is_begun = True
        self._idle_timer = IdleTimer(self._loop, self._idle_timeout_s, self._on_idle_timeout)
        self._idle_timer.restart()
        self._keepalive_timer = self._loop.call_later(self._keepalive_pause_s, self._send_keepalive)
        self._loop.add_reader(self._stream.fileno(), self._read)
        self._flush_soon()

    def send(self, frame: bytes) -> None:
        """Queue a frame; it leaves at the end of this turn of the loop."""
        if self._enqueue(frame):
            self._flush_soon()

    def send_last(self, frame: bytes) -> None:
        """Send a frame, the last of this turn of the loop, and all that waits before it."""
        if self._enqueue(frame) and self._is_begun:
            self._flush()

    def on_bytes_sent(self, callback: Callable[[int], None]) -> None:
        """Have `callback` called with the number of bytes that have left, from now on."""
        self._on_bytes_sent = callback

    def close(self, reason: str) -> None:
        """End the link after what was sent before. Closing again does nothing."""
        if self._closing is not None:
            return
        self._closing = reason
        if self._is_over:
            return
        self._loop.call_later(CLOSE_MS / 1000, self._release)
        self._flush_soon()

    def enable_thread_io(self, lock: AbstractContextManager[object]) -> None:
        """Let threads that hold `lock`, which must be reentrant, borrow the link."""
        self._lock = lock
        self._poll = select.poll()
        self._poll.register(self._stream.fileno(), select.POLLIN)

    def acquire_io(self) -> bool:
        """Lend the link to this thread, which holds the lock; False if there is nothing to lend."""
        if self._is_over or self._closing is not None or self._poll is None:
            return False
        self._is_io_acquired = self._was_io_acquired = True
        return True

    def release_io(self, *, at_once: bool) -> None:
        """The thread that borrowed the link, and holds the lock, needs it no more.

        With `at_once` the loop listens as soon as it can, else after a moment.
        """
        self._is_io_acquired = False
        if self._is_over:
            self._stream.close()
        elif at_once:
            self.resume_reading_threadsafe()

    def send_from_thread(self, frame: bytes) -> None:
        """Send from the thread that holds the lock; what cannot leave at once is the loop's."""
        if self._is_over or self._closing is not None:
            return
        self._queue.append(frame)
        self._queued_bytes += len(frame)
        if self._is_blocked or not self._try_in_thread(self._write_some) or self._has_unsent():
            self._loop.call_soon_threadsafe(self._flush)

    def wait_readable(self, timeout_s: float) -> None:
        """Wait until there is something to read, without the lock."""
        assert self._poll is not None, "not shared"
        self._poll.poll(timeout_s * 1000)

    def read_in_thread(self) -> None:
        """Read what is there, in the thread that borrowed the link and holds the lock."""
        if self._is_over:
            return
        ready: list[bytes] = []
        if self._try_in_thread(lambda: ready.extend(self._read_frames())):
            self._deliver_frames(ready)
        if self._incoming.end is not None:
            self._loop.call_soon_threadsafe(self.fail, self._incoming.end)

    def resume_reading_threadsafe(self) -> None:
        """Have the loop listen, from the thread that holds the lock."""
        if self._is_reading_paused and not self._is_io_acquired:
            self._loop.call_soon_threadsafe(self.resume_reading)

    def resume_reading(self) -> None:
        """Have the loop listen again, unless the link is lent; on the loop."""
        with self._lock:
            if self._is_reading_paused and not self._is_io_acquired and not self._is_over:
                self._is_reading_paused = False
                self._loop.add_reader(self._stream.fileno(), self._read)

    def _enqueue(self, frame: bytes) -> bool:
        if self._is_over or self._closing is not None:
            return False
        size = len(frame)
        if size > FRAME_BYTES_MAX or self._queued_bytes + size > self._queue_bytes_max:
            self.fail("more waits for the other end than the link may hold")
            return False
        self._queue.append(frame)
        self._queued_bytes += size
        return True

    def _try_in_thread(self, use: Callable[[], object]) -> bool:
        try:
            use()
        except OSError as error:
            self._loop.call_soon_threadsafe(self.fail, f"the stream broke: {error}")
            return False
        return True

    def _resume_when_idle(self) -> None:
        with self._lock:
            if self._is_io_acquired or self._was_io_acquired:
                self._was_io_acquired = self._is_io_acquired
                self._loop.call_later(IO_IDLE_S, self._resume_when_idle)
                return
            self._is_resume_scheduled = False
        self.resume_reading()

    def _flush_soon(self) -> None:
        if self._is_begun and not self._is_flushing:
            self._is_flushing = True
            self._loop.call_soon(self._flush)

    def _flush(self) -> None:
        with self._lock:
            self._is_flushing = False
            if self._is_blocked or self._is_over:
                return
            try:
                self._write_some()
            except OSError as error:
                self.fail(f"the stream broke: {error}")
                return
            if self._partial_write:
                self._is_blocked = True
                self._loop.add_writer(self._stream.fileno(), self._unblock)
            elif self._has_unsent():
                self._flush_soon()

    def _write_some(self) -> None:
        """Hand over up to `WRITES_MAX` groups of what is taken; `_partial_write` is a rest."""
        for _ in range(WRITES_MAX):
            self._partial_write = self._partial_write or self._next_group()
            if not self._partial_write:
                return
            self._has_written = True
            self._partial_write = self._partial_write[self._stream.send(self._partial_write) :]
            if self._partial_write:
                return
            left, self._partial_frame_bytes = self._partial_frame_bytes, 0
            self._queued_bytes -= left
            if left and self._on_bytes_sent is not None:
                self._on_bytes_sent(left)

    def _has_unsent(self) -> bool:
        is_to_say_farewell = self._closing is not None and not self._is_close_frame_sent
        return bool(self._partial_write or self._queue) or is_to_say_farewell

    def _next_group(self) -> memoryview:
        waiting, size = self._queue, 0
        group: list[bytes] = []
        if not waiting and self._closing is not None and not self._is_close_frame_sent:
            # The socket stays until the other end lets go of it: to close it while something was
            # not read would take from the other end what it has not read yet.
            self._is_close_frame_sent = True
            self._stop_timers()
            return memoryview(close_frame(self._closing))
        while waiting and size < WRITE_BYTES:
            frame = waiting.popleft()
            group += (encode_head(frame), frame)
            size += len(frame)
        self._partial_frame_bytes = size
        return memoryview(b"".join(group))

    def _unblock(self) -> None:
        with self._lock:
            self._loop.remove_writer(self._stream.fileno())
            self._is_blocked = False
            self._flush()

    def _read(self) -> None:
        with self._lock:
            if self._is_over:
                return
            if self._is_io_acquired:
                self._is_reading_paused = True
                self._loop.remove_reader(self._stream.fileno())
                if not self._is_resume_scheduled:
                    self._is_resume_scheduled = True
                    self._loop.call_later(IO_IDLE_S, self._resume_when_idle)
                return
            try:
                ready = self._read_frames()
            except OSError as error:
                self.fail(f"the stream broke: {error}")
                return
            self._deliver_frames(ready)
            if self._incoming.end is not None:
                self.fail(self._incoming.end)

    def _deliver_frames(self, ready: list[bytes]) -> None:
        if self._idle_timer is not None:
            self._idle_timer.restart()
        if ready and self._closing is None:
            self.events.frames(ready)

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

    def _send_keepalive(self) -> None:
        self._keepalive_timer = self._loop.call_later(self._keepalive_pause_s, self._send_keepalive)
        with self._lock:
            was_heard, self._has_written = self._has_written, False
            if not was_heard and not self._partial_write:
                self._partial_write = memoryview(KEEPALIVE)
                self._flush_soon()

    def _stop_timers(self) -> None:
        if self._idle_timer is not None:
            self._idle_timer.cancel()
        if self._keepalive_timer is not None:
            self._keepalive_timer.cancel()

    def _on_idle_timeout(self) -> None:
        self.fail("nothing was heard in time")

    def fail(self, reason: str) -> None:
        """The link is broken."""
        with self._lock:
            if self._is_over:
                return
            if self._closing is None:
                self._loop.call_soon(self._deliver_closed, reason)
            self._release()

    def _deliver_closed(self, reason: str) -> None:
        if self._closing is None:  # else its owner has closed it in the same turn
            self.events.closed(reason)

    def _release(self) -> None:
        with self._lock:
            self._let_go()

    def _let_go(self) -> None:
        if self._is_over:
            return
        self._is_over = True
        self._stop_timers()
        self._queue.clear()
        self._partial_write = _NOTHING
        if self._is_begun:
            self._loop.remove_reader(self._stream.fileno())
            self._loop.remove_writer(self._stream.fileno())
        if self._is_io_acquired:
            self._stream.shutdown()  # wakes whoever waits for it, and closes it
        else:
            self._stream.close()
        self.released.set_result(None)
