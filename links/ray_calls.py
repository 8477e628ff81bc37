"""Links over Ray actor calls: they work wherever Ray works and inherit its token and TLS.

A driver or a task cannot be called, so the dialer makes every call, for servers as for clients:
one that sends, and one long poll that waits at the acceptor until there is something to receive.

    dialer                                   acceptor
    link_open(hello, keepalive)     ->       accepts; answers with a link id and its welcome
    link_send(id, n, *portions)     ->       answers at once with what waits for the dialer
    link_receive(id)                ->       answers when something waits, or after the keepalive
    link_close(id, reason)          ->

An async actor does not keep the order of calls. So every batch has a number, and only one call of
each kind is under way: what waits meanwhile goes into the next one. The answers of the two kinds
may overtake each other; the dialer puts them in order (`IncomingBatches`). Ray must not retry a
call (`max_task_retries=0`): a call that fails, or is not answered in time, breaks the link.

An answer is `(number, portion, end)`: the batch and its number, or, without a portion, how many
batches were sent so far; `end` is the reason if the acceptor's end is closed after them. Each
portion sent is an argument of its own, because Ray carries small arguments in its message.
"""

import asyncio
from collections.abc import Callable
from contextlib import suppress
from typing import Any, Final

from raykeeper.links.batches import IncomingBatches, OutgoingBatches, Portion
from raykeeper.links.contract import (
    RAY_CALLS,
    Acceptor,
    LinkEvents,
    LinkRefused,
    summarize_error,
)
from raykeeper.links.handshake import (
    LinkDialer,
    acceptor_queue_bytes,
    allowed_keepalive_s,
    read_hello,
    welcome_from,
)
from raykeeper.links.hello import Hello, Refusal, encode_hello
from raykeeper.links.idle_timer import IdleTimer
from raykeeper.links.limits import CLOSE_MS, GRACE_MS, PORTIONS_MAX, QUEUE_BYTES_MAX
from raykeeper.links.link_end import LinkEnd, LinkState
from raykeeper.links.shared_ticks import SharedTicks, ticks_of_running_loop
from raykeeper.zab.ids import ServerId

Answer = tuple[int, Portion | None, str | None]
UNKNOWN_LINK: Final = "the server does not know this link"


class RayCallAcceptor:
    """The called end, in an async actor that exposes the four `link_…` methods of this class."""

    def __init__(
        self,
        acceptor: Acceptor,
        client_queue_bytes_max: int = QUEUE_BYTES_MAX,
        grace_ms: int = GRACE_MS,
    ) -> None:
        """Accept on the running loop, in the name of `acceptor`."""
        self._acceptor = acceptor
        self._client_queue_bytes_max = client_queue_bytes_max
        self._grace_s = grace_ms / 1000
        self._ticks = ticks_of_running_loop()
        self._links: dict[int, _AcceptedLink] = {}
        # Link ids are never used twice, by any incarnation: of two live instances of an actor one
        # must not take the other's calls for its own.
        self._next_id = acceptor.incarnation << 32

    async def link_open(self, hello: bytes, keepalive_ms: int) -> tuple[int, bytes]:
        """Open a link; return its id and the encoded `Welcome`, or 0 and a `Refusal`."""
        dialer_hello = read_hello(hello)
        if isinstance(dialer_hello, Refusal):
            return 0, encode_hello(dialer_hello)
        self._next_id += 1
        link_id = self._next_id
        link = _AcceptedLink(
            dialer_hello.incarnation,
            OutgoingBatches(acceptor_queue_bytes(dialer_hello.kind, self._client_queue_bytes_max)),
            allowed_keepalive_s(keepalive_ms),
            self._grace_s,
            self._ticks,
            lambda: self._links.pop(link_id, None),
        )
        try:
            link.events = self._acceptor.accept(dialer_hello, link)
        except LinkRefused as refusal:
            link.release()
            return 0, encode_hello(Refusal(str(refusal)))
        self._links[link_id] = link
        return link_id, encode_hello(welcome_from(self._acceptor, dialer_hello))

    async def link_send(self, link_id: int, number: int, *portions: Portion) -> Answer:
        """Take a batch; the answer carries what waits for the dialer."""
        link = self._links.get(link_id)
        if link is None:
            return 0, None, UNKNOWN_LINK
        return await link.take_batch(number, list(portions))

    async def link_receive(self, link_id: int) -> Answer:
        """Wait until there is something for the dialer, at most for the keepalive interval."""
        link = self._links.get(link_id)
        return (0, None, UNKNOWN_LINK) if link is None else await link.wait_batch()

    async def link_close(self, link_id: int, reason: str) -> None:
        """Close the link, as the dialer has closed its end."""
        link = self._links.get(link_id)
        if link is not None:
            link.closed_by_dialer(reason)


class _AcceptedLink(LinkEnd):
    """The acceptor's end of one link.

    Once it has ended it stays known for a while, so that both calls of the dialer learn why.
    """

    carrier = RAY_CALLS

    def __init__(
        self,
        incarnation: int,
        outgoing: OutgoingBatches,
        keepalive_s: float,
        grace_s: float,
        ticks: SharedTicks,
        on_released: Callable[[], object],
    ) -> None:
        super().__init__(incarnation)
        self._outgoing = outgoing
        self._incoming = IncomingBatches()
        self._keepalive_s = keepalive_s
        self._on_released = on_released
        self._long_poll: asyncio.Future[None] | None = None
        self._answering_sends = 0
        self._idle_timer = IdleTimer(ticks, keepalive_s + grace_s, self._on_idle_timeout)
        self._idle_timer.restart()

    def send(self, frame: bytes) -> None:
        if not self.is_open:
            return
        if not self._outgoing.add(frame):
            self.fail("the queue of the link is full")
        elif not self._answering_sends:
            self._wake_long_poll()

    def send_last(self, frame: bytes) -> None:
        self.send(frame)  # the call takes it when it returns

    def on_bytes_sent(self, callback: Callable[[int], None]) -> None:
        self._outgoing.on_bytes_taken(callback)

    def closed_by_dialer(self, reason: str) -> None:
        """End the link at the dialer's close, which comes after its last batch was answered."""
        self.fail(reason)
        self.release()

    async def take_batch(self, number: int, portions: list[Portion]) -> Answer:
        self._idle_timer.restart()
        if not self.is_open:
            return self._answer()
        is_expected = number == self._incoming.expected
        frames = self._incoming.put(number, portions) if is_expected else None
        if frames is None:
            self.fail(
                f"batch {number} came instead of {self._incoming.expected}, "
                "or with a frame that is too large"
            )
        elif frames:
            # The effects of these frames in this turn of the loop, such as the replies to reads,
            # leave with this answer and need not wake the long poll.
            self._answering_sends += 1
            self.events.frames(frames)
            await asyncio.sleep(0)
            self._answering_sends -= 1
        answer = self._answer()
        if self._outgoing:
            self._wake_long_poll()
        return answer

    async def wait_batch(self) -> Answer:
        self._idle_timer.restart()
        if not self._outgoing and self.is_open:
            self._wake_long_poll()  # of two long polls the older one has become useless
            self._long_poll = long_poll = self._loop.create_future()
            timer = self._loop.call_later(self._keepalive_s, self._finish_long_poll, long_poll)
            await long_poll
            timer.cancel()
        return self._answer()

    def release(self) -> None:
        """Release everything; a call that waits returns."""
        self._idle_timer.cancel()
        self._on_over()
        self._on_released()

    def _answer(self) -> Answer:
        outgoing = self._outgoing
        end = None if self.is_open else self._end_reason
        if not outgoing:
            return outgoing.next_number, None, end
        number, portions = outgoing.take(1)
        return number, portions[0], None if outgoing else end

    def _on_idle_timeout(self) -> None:
        self.fail("nothing was heard in time")
        self.release()

    def _on_closing(self) -> None:
        self._wake_long_poll()

    def _on_over(self) -> None:
        self._outgoing.clear()
        self._wake_long_poll()

    def _wake_long_poll(self) -> None:
        if self._long_poll is not None:
            self._finish_long_poll(self._long_poll)

    def _finish_long_poll(self, long_poll: "asyncio.Future[None]") -> None:
        if self._long_poll is long_poll:
            self._long_poll = None
        if not long_poll.done():
            long_poll.set_result(None)


class RayCallDialer(LinkDialer):
    """Dials servers by calls on their actors' handles.

    Works on any asyncio loop: an async actor's own, or one in a thread of a driver or of a task.
    `find` looks up a server's handle. A long poll lasts as long as the keepalive interval.
    """

    async def dial(
        self, server: ServerId, events: LinkEvents, hello: Hello | None = None
    ) -> "DialedLink":
        """Open a link to `server`, introduced with `hello` instead of the usual one if given.

        Raises:
            LinkRefused: the server said no, or is an incarnation that was fenced.
            LinkUnreachable: it was not found, its actor failed, or it did not answer in time.
        """
        opening = self._open(server, self._encode_hello(hello))
        handle, (link_id, answer) = await self._ask(server, opening)
        try:
            welcome = self._check_answer(server, answer)
        except LinkRefused as refusal:
            if link_id:
                _close_remote(handle, link_id, str(refusal))
            raise
        return DialedLink(
            handle,
            link_id,
            welcome.incarnation,
            events,
            OutgoingBatches(self._queue_bytes_max),
            self._keepalive_ms / 1000,
            self._grace_s,
        )

    async def _open(self, server: ServerId, hello: bytes) -> tuple[Any, tuple[int, bytes]]:
        # A lookup asks Ray's GCS and can take long when that is down.
        handle = await self._find(server)
        return handle, await handle.link_open.remote(hello, self._keepalive_ms)


class DialedLink(LinkEnd):
    """The dialer's end of one link."""

    carrier = RAY_CALLS

    def __init__(
        self,
        handle: Any,
        link_id: int,
        incarnation: int,
        events: LinkEvents,
        outgoing: OutgoingBatches,
        keepalive_s: float,
        grace_s: float,
    ) -> None:
        """Begin to receive in the next turn of the loop."""
        super().__init__(incarnation)
        self.events = events
        self._handle = handle
        self._id = link_id
        self._outgoing = outgoing
        self._incoming = IncomingBatches()
        self._remote_end: tuple[int, str] | None = None
        """How many batches come before the acceptor's end, and the reason of the end."""
        self._is_sending = False
        late = "the server did not answer in time"
        ticks = ticks_of_running_loop()
        self._send_timer = IdleTimer(ticks, grace_s, lambda: self.fail(late))
        self._receive_timer = IdleTimer(ticks, keepalive_s + grace_s, lambda: self.fail(late))
        # Nothing is delivered from inside `dial`, and the first call costs nothing here.
        self._loop.call_soon(self._receive)

    def send(self, frame: bytes) -> None:
        """Queue a frame; it leaves in the next turn of the loop unless a call is under way."""
        if not self.is_open:
            return
        if not self._outgoing.add(frame):
            self.fail("the queue of the link is full")
        elif not self._is_sending:
            self._is_sending = True
            self._loop.call_soon(self._send)

    def send_last(self, frame: bytes) -> None:
        """`send` a frame; a call costs too much to leave without what others send this turn."""
        self.send(frame)

    def on_bytes_sent(self, callback: Callable[[int], None]) -> None:
        """Call `callback` with the number of bytes that have left, from now on."""
        self._outgoing.on_bytes_taken(callback)

    def _on_closing(self) -> None:
        self._loop.call_later(CLOSE_MS / 1000, self._close_remote_end)
        if not self._is_sending:
            self._close_remote_end()

    def _on_over(self) -> None:
        self._outgoing.clear()
        self._send_timer.cancel()
        self._receive_timer.cancel()

    def _send(self) -> None:
        if not self._outgoing:
            self._is_sending = False
            return
        number, portions = self._outgoing.take(PORTIONS_MAX)
        self._send_timer.restart()
        self._call("link_send", self._on_sent, self._id, number, *portions)

    def _on_sent(self, answer: Answer) -> None:
        self._send_timer.pause()
        self._take(answer)
        if self._outgoing:
            self._send()
            return
        self._is_sending = False
        self._close_remote_end()

    def _receive(self) -> None:
        if not self.is_over:
            self._receive_timer.restart()
            self._call("link_receive", self._on_received, self._id)

    def _on_received(self, answer: Answer) -> None:
        self._take(answer)
        self._receive()

    def _call(self, method: str, answered: Callable[[Answer], None], *args: Any) -> None:
        def done(future: "asyncio.Future[Answer]") -> None:
            if future.cancelled():
                self.fail("the loop is ending")
            elif (error := future.exception()) is not None:
                self.fail(summarize_error(error))
            elif not self.is_over:
                answered(future.result())

        try:
            call = asyncio.ensure_future(getattr(self._handle, method).remote(*args))
        # Ray refuses a call in many ways, a shutdown among them; each one ends this link.
        except Exception as error:
            self.fail(summarize_error(error))
        else:
            call.add_done_callback(done)

    def _take(self, answer: Answer) -> None:
        number, portion, end = answer
        incoming = self._incoming
        if portion is not None:
            ready = incoming.put(number, [portion])
            if ready is None:
                self.fail(f"batch {number} came twice, or with a frame that is too large")
                return
            self._deliver_frames(ready)
            number += 1
        if end is not None:
            self._remote_end = (number, end)
        # The answer that told the end may have overtaken one with frames that come before it.
        if self._remote_end is not None and self._remote_end[0] <= incoming.expected:
            self.fail(self._remote_end[1])

    def _close_remote_end(self) -> None:
        """Once the owner has closed this end, tell the acceptor; else do nothing."""
        if self._state is LinkState.CLOSING:
            _close_remote(self._handle, self._id, self._end_reason)
            self.fail("closed")


def _close_remote(handle: Any, link_id: int, reason: str) -> None:
    """Tell the acceptor of the end, if possible; if not, its idle timer ends the link."""
    with suppress(Exception):
        call = asyncio.ensure_future(handle.link_close.remote(link_id, reason))
        call.add_done_callback(lambda done: done.cancelled() or done.exception())
