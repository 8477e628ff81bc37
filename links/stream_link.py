"""One end of a link over a stream, whichever end dialed.

All frames of one turn of the loop leave together: at the turn's end, or with the frame that is
sent as its last. A stream that ends or breaks is known at once, which makes it the quickest sign
that a process has died. A cut network shows as silence, for an idle end sends a keepalive twice as
often as is expected of it.

All of it happens on one loop, with one exception. A thread that waits for an answer may acquire
the socket (`enable_thread_io`, `acquire_io`) and use it itself, which saves the loop's two hops
from thread to thread. Until `release_io`, and for moments after, the loop does not read from the
socket; what comes then waits `IO_IDLE_S` at most.
"""

import asyncio
import select
import threading
from collections import deque
from collections.abc import Callable
from contextlib import AbstractContextManager
from typing import Final

from raykeeper.links.contract import STREAM
from raykeeper.links.idle_timer import IdleTimer
from raykeeper.links.limits import (
    CLOSE_MS,
    FRAME_BYTES_MAX,
    IO_IDLE_S,
    READS_MAX,
    WRITE_BYTES,
    WRITES_MAX,
)
from raykeeper.links.link_end import LinkEnd
from raykeeper.links.shared_ticks import SharedTicks, TickGroup
from raykeeper.links.stream_frames import (
    KEEPALIVE,
    FrameDecoder,
    close_frame,
    encode_head,
)
from raykeeper.links.stream_socket import StreamSocket

_NOTHING: Final = memoryview(b"")


class StreamLink(LinkEnd):
    """A link that owns its socket. It carries nothing before `begin`."""

    carrier = STREAM

    def __init__(
        self,
        stream: StreamSocket,
        incarnation: int,
        queue_bytes_max: int,
        keepalive_s: float,
        grace_s: float,
        ticks: SharedTicks,
        frame_bytes_max: int = FRAME_BYTES_MAX,
    ) -> None:
        """Take over a socket whose two ends have proved who they are.

        Args:
            stream: The socket.
            incarnation: Of the other end.
            queue_bytes_max: How many bytes may wait here before the link breaks.
            keepalive_s: Within this time each end shows that it is alive.
            grace_s: How much later than that a keepalive may come.
            ticks: The timers of the loop's links.
            frame_bytes_max: How large a frame the other end may announce.
        """
        super().__init__(incarnation)
        self._stream = stream
        self._incoming = FrameDecoder(frame_bytes_max)
        self._queue_bytes_max = queue_bytes_max
        self._queue: deque[bytes] = deque()
        self._queued_bytes = 0  # of the frames that have not left whole
        self._partial_write = _NOTHING  # the rest of a group of frames
        self._partial_frame_bytes = 0  # of the frames of that group
        self._on_bytes_sent: Callable[[int], None] | None = None
        self._is_begun = False
        self._is_flushing = False  # `_flush` is scheduled
        self._is_blocked = False  # the socket takes no more for now
        self._has_written = False  # since the last keepalive was due
        self._is_close_frame_sent = False
        self._keepalive_pause_s = keepalive_s / 2
        self._idle_timeout_s = keepalive_s + grace_s
        self._ticks = ticks
        self._idle_timer: IdleTimer | None = None
        self._keepalives: TickGroup | None = None
        self._lock: AbstractContextManager[object] = threading.RLock()
        self._poll: select.poll | None = None
        self._is_io_acquired = False  # by a thread
        self._was_io_acquired = False  # since `_resume_when_idle` last looked
        self._is_reading_paused = False  # the loop does not watch the socket
        self._is_resume_scheduled = False
        self.released: asyncio.Future[None] = self._loop.create_future()
        """Done when the loop has released the socket; at the latest `CLOSE_MS` after `close`."""

    def fileno(self) -> int:
        """Return the number of the socket, also when it is closed."""
        return self._stream.fileno()

    def begin(self) -> None:
        """Carry frames from now on, in both directions."""
        self._is_begun = True
        self._idle_timer = IdleTimer(self._ticks, self._idle_timeout_s, self._on_idle_timeout)
        self._idle_timer.restart()
        self._keepalives = self._ticks.add(self._keepalive_pause_s, self._send_keepalive)
        self._stream.end_handshake()
        self._loop.add_reader(self._stream.fileno(), self._read)
        self._flush_soon()

    def send(self, frame: bytes) -> None:
        """Queue a frame; it leaves at the end of this turn of the loop."""
        if self._enqueue(frame):
            self._flush_soon()

    def send_last(self, frame: bytes) -> None:
        """Send the last frame of this turn of the loop, and all that is queued before it."""
        if self._enqueue(frame) and self._is_begun:
            self._flush()

    def on_bytes_sent(self, callback: Callable[[int], None]) -> None:
        """Call `callback` with the number of bytes that have left, from now on."""
        self._on_bytes_sent = callback

    def fail(self, reason: str) -> None:
        """End the link now, because it is broken or because nothing is left to send."""
        with self._lock:
            super().fail(reason)

    def enable_thread_io(self, lock: AbstractContextManager[object]) -> None:
        """Let threads that hold `lock`, which must be reentrant, acquire the socket."""
        self._lock = lock
        self._poll = select.poll()
        self._poll.register(self._stream.fileno(), select.POLLIN)

    def acquire_io(self) -> bool:
        """Give the socket to this thread, which holds the lock; False if there is none to give."""
        if not self.is_open or self._poll is None:
            return False
        self._is_io_acquired = self._was_io_acquired = True
        return True

    def release_io(self, *, at_once: bool) -> None:
        """Give the socket back, from the thread that acquired it and holds the lock.

        With `at_once` the loop reads again as soon as it can, else after a moment.
        """
        self._is_io_acquired = False
        if self.is_over:
            self._stream.close()
        elif at_once:
            self.resume_reading_threadsafe()

    def send_from_thread(self, frame: bytes) -> None:
        """Send from the thread that holds the lock; the loop sends what cannot leave at once."""
        if not self.is_open:
            return
        self._queue.append(frame)
        self._queued_bytes += len(frame)
        if self._is_blocked or not self._try_in_thread(self._write_some) or self._has_unsent():
            self._loop.call_soon_threadsafe(self._flush)

    def wait_readable(self, timeout_s: float) -> None:
        """Wait in a thread, without the lock, until there is something to read."""
        assert self._poll is not None, "thread I/O is not enabled"
        self._poll.poll(timeout_s * 1000)

    def read_in_thread(self) -> None:
        """Read what is there, in the thread that acquired the socket and holds the lock."""
        if self.is_over:
            return
        ready: list[bytes] = []
        if self._try_in_thread(lambda: ready.extend(self._read_frames())):
            self._take(ready)
        if self._incoming.end is not None:
            self._loop.call_soon_threadsafe(self.fail, self._incoming.end)

    def resume_reading_threadsafe(self) -> None:
        """Have the loop read again, from the thread that holds the lock."""
        if self._is_reading_paused and not self._is_io_acquired:
            self._loop.call_soon_threadsafe(self.resume_reading)

    def resume_reading(self) -> None:
        """On the loop, read again unless a thread has the socket."""
        with self._lock:
            if self._is_reading_paused and not self._is_io_acquired and not self.is_over:
                self._is_reading_paused = False
                self._loop.add_reader(self._stream.fileno(), self._read)

    def _resume_when_idle(self) -> None:
        with self._lock:
            if self._is_io_acquired or self._was_io_acquired:
                self._was_io_acquired = self._is_io_acquired
                self._loop.call_later(IO_IDLE_S, self._resume_when_idle)
                return
            self._is_resume_scheduled = False
            # Under the lock: a thread that acquires the socket in between would leave it unread.
            self.resume_reading()

    def _on_closing(self) -> None:
        self._loop.call_later(CLOSE_MS / 1000, self.fail, "closed")
        self._flush_soon()

    def _on_over(self) -> None:
        self._stop_timers()
        self._queue.clear()
        self._partial_write = _NOTHING
        if self._is_begun:
            self._loop.remove_reader(self._stream.fileno())
            self._loop.remove_writer(self._stream.fileno())
        if self._is_io_acquired:
            self._stream.shutdown()  # wakes the thread, which closes it in `release_io`
        else:
            self._stream.close()
        self.released.set_result(None)

    def _enqueue(self, frame: bytes) -> bool:
        if not self.is_open:
            return False
        size = len(frame)
        if size > FRAME_BYTES_MAX or self._queued_bytes + size > self._queue_bytes_max:
            self.fail("the queue of the link is full")
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

    def _flush_soon(self) -> None:
        if self._is_begun and not self._is_flushing:
            self._is_flushing = True
            self._loop.call_soon(self._flush)

    def _flush(self) -> None:
        with self._lock:
            self._is_flushing = False
            if self._is_blocked or self.is_over:
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
        """Write up to `WRITES_MAX` groups of frames, or until the socket takes no more."""
        for _ in range(WRITES_MAX):
            self._partial_write = self._partial_write or self._next_group()
            if not self._partial_write:
                return
            self._has_written = True
            self._partial_write = self._partial_write[self._stream.send(self._partial_write) :]
            if self._partial_write:
                return
            sent, self._partial_frame_bytes = self._partial_frame_bytes, 0
            self._queued_bytes -= sent
            if sent and self._on_bytes_sent is not None:
                self._on_bytes_sent(sent)
            if not self._queue and self.is_open:
                return

    def _has_unsent(self) -> bool:
        if self._partial_write or self._queue:
            return True
        return not self.is_open and not self.is_over and not self._is_close_frame_sent

    def _next_group(self) -> memoryview:
        queue, size = self._queue, 0
        group: list[bytes] = []
        if not queue and not self.is_open and not self._is_close_frame_sent:
            # The socket stays open until the other end closes its own: closing it while something
            # is unread here would take from the other end what it has not read yet.
            self._is_close_frame_sent = True
            self._stop_timers()
            return memoryview(close_frame(self._end_reason))
        while queue and size < WRITE_BYTES:
            frame = queue.popleft()
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
            if self.is_over:
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
            self._take(ready)
            if self._incoming.end is not None:
                self.fail(self._incoming.end)

    def _take(self, ready: list[bytes]) -> None:
        if self._idle_timer is not None:
            self._idle_timer.restart()
        self._deliver_frames(ready)

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
        with self._lock:
            has_written, self._has_written = self._has_written, False
            if not has_written and not self._partial_write:
                self._partial_write = memoryview(KEEPALIVE)
                self._flush_soon()

    def _stop_timers(self) -> None:
        if self._idle_timer is not None:
            self._idle_timer.cancel()
        if self._keepalives is not None:
            self._keepalives.remove(self._send_keepalive)

    def _on_idle_timeout(self) -> None:
        self.fail("nothing was heard in time")
