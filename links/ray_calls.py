"""Links over Ray actor calls: they work wherever Ray works and inherit its token and TLS.

A driver or a task cannot be called, so the dialer makes every call, for servers as for clients:
one that sends and one that is parked at the acceptor until there is something to receive.

    dialer                                   acceptor
    link_open(hello, park)          ->       accepts; answers with a link id and its welcome
    link_send(id, n, *portions)     ->       answers at once with what waits for the dialer
    link_receive(id)                ->       answers when something waits, or after the park
    link_close(id, reason)          ->

An async actor does not keep the order of calls, so every batch has a number, and only one call of
each kind is under way: whatever waits goes into the next one. The answers of the two kinds may
overtake each other; the dialer puts them in order (`IncomingBatches`). Ray must not retry a call
(`max_task_retries=0`): a call that fails, or is not answered in time, breaks the link.

An answer is `(number, portion, end)`: the batch and its number, or, without a portion, how many
batches were sent so far; `end` is the reason if the acceptor's end is closed after them. Each
portion sent is an argument of its own, because Ray carries small arguments in its message.
"""

import asyncio
from collections.abc import Callable
from contextlib import suppress
from typing import Any

from raykeeper.links.batches import IncomingBatches, OutgoingBatches, Portion
from raykeeper.links.contract import (
    RAY_CALLS,
    Acceptor,
    LinkEvents,
    LinkRefused,
    LinkUnreachable,
    summarize_error,
)
from raykeeper.links.daemon_threads import SharedCall
from raykeeper.links.hello import (
    LINK_VERSION,
    Fence,
    Hello,
    LinkKind,
    Refusal,
    Welcome,
    decode_answer,
    decode_hello,
    encode_hello,
)
from raykeeper.links.idle_timer import IdleTimer
from raykeeper.links.limits import (
    CLOSE_MS,
    GRACE_MS,
    KEEPALIVE_MS_MAX,
    KEEPALIVE_MS_MIN,
    PEER_QUEUE_BYTES_MAX,
    PORTIONS_MAX,
    QUEUE_BYTES_MAX,
)
from raykeeper.zab.errors import DECODE_ERRORS
from raykeeper.zab.ids import ServerId

Answer = tuple[int, Portion | None, str | None]
UNKNOWN_LINK = "the server does not know this link"


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
        self._links: dict[int, _AcceptedLink] = {}
        # Link ids are never used twice, by any incarnation: of two live instances of an actor one
        # must not take the other's calls for its own.
        self._next_id = acceptor.incarnation << 32

    async def link_open(self, hello: bytes, keepalive_ms: int) -> tuple[int, bytes]:
        """Open a link: its id and the encoded `Welcome`, or 0 and a `Refusal`."""
        dialer_hello = decode_hello(hello)
        if dialer_hello is None:
            return 0, encode_hello(Refusal(f"not a hello of version {LINK_VERSION}"))
        self._next_id += 1
        link_id = self._next_id
        park_s = min(max(keepalive_ms, KEEPALIVE_MS_MIN), KEEPALIVE_MS_MAX) / 1000
        link = _AcceptedLink(
            dialer_hello.incarnation,
            OutgoingBatches(
                PEER_QUEUE_BYTES_MAX
                if dialer_hello.kind is LinkKind.PEER
                else self._client_queue_bytes_max
            ),
            park_s,
            self._grace_s,
            lambda: self._links.pop(link_id, None),
        )
        try:
            link.events = self._acceptor.accept(dialer_hello, link)
        except LinkRefused as refusal:
            link.release()
            return 0, encode_hello(Refusal(str(refusal)))
        self._links[link_id] = link
        acceptor = self._acceptor
        welcome = Welcome(LINK_VERSION, acceptor.server_id, acceptor.incarnation)
        return link_id, encode_hello(welcome)

    async def link_send(self, link_id: int, number: int, *portions: Portion) -> Answer:
        """Take a batch; the answer takes along what waits for the dialer."""
        link = self._links.get(link_id)
        return (
            (0, None, UNKNOWN_LINK)
            if link is None
            else await link.take_batch(number, list(portions))
        )

    async def link_receive(self, link_id: int) -> Answer:
        """Wait until there is something for the dialer, at most as long as it asked for."""
        link = self._links.get(link_id)
        return (0, None, UNKNOWN_LINK) if link is None else await link.wait_batch()

    async def link_close(self, link_id: int, reason: str) -> None:
        """The dialer closes its end."""
        link = self._links.get(link_id)
        if link is not None:
            link.closed_by_dialer(reason)


class _AcceptedLink:
    """The acceptor's end of one link.

    Once it has ended it stays known for a while, so that both calls of the dialer learn why.
    """

    carrier = RAY_CALLS
    events: LinkEvents

    def __init__(
        self,
        incarnation: int,
        outgoing: OutgoingBatches,
        keepalive_s: float,
        grace_s: float,
        forgotten: Callable[[], object],
    ) -> None:
        self.incarnation = incarnation
        self._loop = asyncio.get_running_loop()
        self._outgoing = outgoing
        self._incoming = IncomingBatches()
        self._keepalive_s = keepalive_s
        self._on_released = forgotten
        self._end: str | None = None
        self._is_closed = False  # by its owner, who is told nothing more
        self._long_poll: asyncio.Future[None] | None = None
        self._answering_sends = 0
        self._idle_timer = IdleTimer(self._loop, keepalive_s + grace_s, self._on_idle_timeout)
        self._idle_timer.restart()

    def send(self, frame: bytes) -> None:
        if self._end is not None:
            return
        if not self._outgoing.add(frame):
            self._break("more waits for the dialer than the link may hold")
        elif not self._answering_sends:
            self._wake_long_poll()

    def send_last(self, frame: bytes) -> None:
        self.send(frame)  # the call takes it when it returns

    def on_bytes_sent(self, callback: Callable[[int], None]) -> None:
        self._outgoing.on_bytes_taken(callback)

    def close(self, reason: str) -> None:
        self._is_closed = True
        if self._end is None:
            self._end = reason
            self._wake_long_poll()

    def closed_by_dialer(self, reason: str) -> None:
        """The dialer's farewell. It comes after its last batch was answered."""
        self._break(reason)
        self.release()

    async def take_batch(self, number: int, portions: list[Portion]) -> Answer:
        self._idle_timer.restart()
        if self._end is not None:
            return self._answer()
        frames = self._incoming.put(number, portions) if number == self._incoming.expected else None
        if frames is None:
            self._break(
                f"batch {number} came in the place of {self._incoming.expected}, "
                "or with a frame that is too large"
            )
        elif frames:
            # What these frames bring about in this turn of the loop, such as the replies to
            # reads, leaves with this answer and need not wake the parked call.
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
        if not self._outgoing and self._end is None:
            self._wake_long_poll()  # of two parked calls the older one is of no use any more
            self._long_poll = parked = self._loop.create_future()
            timer = self._loop.call_later(self._keepalive_s, self._finish_long_poll, parked)
            await parked
            timer.cancel()
        return self._answer()

    def release(self) -> None:
        """Release everything; a call that is parked returns."""
        self._idle_timer.cancel()
        self._outgoing.clear()
        self._wake_long_poll()
        self._on_released()

    def _answer(self) -> Answer:
        outgoing = self._outgoing
        if not outgoing:
            return outgoing.next_number, None, self._end
        number, portions = outgoing.take(1)
        return number, portions[0], None if outgoing else self._end

    def _on_idle_timeout(self) -> None:
        self._break("nothing was heard in time")
        self.release()

    def _break(self, reason: str) -> None:
        if self._end is None:
            self._end = reason
            self._outgoing.clear()
            self._loop.call_soon(self._deliver_closed, reason)
            self._wake_long_poll()

    def _deliver_closed(self, reason: str) -> None:
        if not self._is_closed:
            self.events.closed(reason)

    def _wake_long_poll(self) -> None:
        if self._long_poll is not None:
            self._finish_long_poll(self._long_poll)

    def _finish_long_poll(self, parked: "asyncio.Future[None]") -> None:
        if self._long_poll is parked:
            self._long_poll = None
        if not parked.done():
            parked.set_result(None)


class RayCallDialer:
    """Dials servers by calls on their actors' handles. Works on any asyncio loop: an async
    actor's own, or one in a thread of a driver or of a task.
    """

    def __init__(
        self,
        find: Callable[[ServerId], Any],
        hello: Hello,
        keepalive_ms: int,
        *,
        fence: Fence | None = None,
        queue_bytes_max: int = QUEUE_BYTES_MAX,
        grace_ms: int = GRACE_MS,
    ) -> None:
        """Introduce every link with `hello`.

        Args:
            find: Looks up a server's actor handle. It may block, so it runs in a thread; any
                exception means that the server cannot be reached.
            hello: Who dials.
            keepalive_ms: How long a receiving call waits at the acceptor, and so how often an idle
                link gives a sign of life.
            fence: Of the dialer's owner; answers of fenced incarnations are refused.
            queue_bytes_max: What may wait on a link before it breaks.
            grace_ms: How much later than that a call may be answered.
        """
        self._find = SharedCall(find)
        self._hello = encode_hello(hello)
        self._keepalive_ms = keepalive_ms
        self._fence = fence or Fence()
        self._queue_bytes_max = queue_bytes_max
        self._grace_s = grace_ms / 1000

    async def dial(
        self, server: ServerId, events: LinkEvents, hello: Hello | None = None
    ) -> "DialedLink":
        """Open a link to `server`, introduced with `hello` if this one shall be special.

        Raises:
            LinkRefused: the server said no, or is an incarnation that was fenced.
            LinkUnreachable: it was not found, its actor failed, or it did not answer in time.
        """
        try:
            handle, (link_id, answer) = await asyncio.wait_for(
                self._open(server, self._hello if hello is None else encode_hello(hello)),
                self._grace_s,
            )
        except TimeoutError:
            raise LinkUnreachable(
                f"server {server} did not answer within {self._grace_s} s"
            ) from None
        # Whatever Ray raises means the same here: no link this time.
        except Exception as error:
            raise LinkUnreachable(f"server {server}: {summarize_error(error)}") from error
        try:
            welcome = decode_answer(answer)
        except DECODE_ERRORS as error:
            raise LinkRefused(f"server {server} cannot be understood: {error}") from error
        if isinstance(welcome, Refusal):
            raise LinkRefused(f"server {server}: {welcome.reason}")
        objection = self._fence.refusal_reason(server, welcome.incarnation)
        if welcome.server_id != server:
            objection = f"server {welcome.server_id} answered in the place of {server}"
        if objection:
            _close_remote(handle, link_id, objection)
            raise LinkRefused(objection)
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


class DialedLink:
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
        """Begin to receive at once."""
        self.incarnation = incarnation
        self._loop = asyncio.get_running_loop()
        self._handle = handle
        self._id = link_id
        self._events: LinkEvents | None = events
        self._outgoing = outgoing
        self._incoming = IncomingBatches()
        self._closing: str | None = None
        self._end: tuple[int, str] | None = None
        self._is_sending = False
        late = "the server did not answer in time"
        self._send_timer = IdleTimer(self._loop, grace_s, lambda: self._break(late))
        self._receive_timer = IdleTimer(
            self._loop, keepalive_s + grace_s, lambda: self._break(late)
        )
        # Nothing is delivered from inside `dial`, and the first call costs nothing here.
        self._loop.call_soon(self._receive)

    def send(self, frame: bytes) -> None:
        """Queue a frame; it leaves in the next turn of the loop unless a call is under way."""
        if self._events is None or self._closing is not None:
            return
        if not self._outgoing.add(frame):
            self._break("more waits for the server than the link may hold")
        elif not self._is_sending:
            self._is_sending = True
            self._loop.call_soon(self._send)

    def send_last(self, frame: bytes) -> None:
        """`send` a frame; a call is too dear to go without what others send in this turn."""
        self.send(frame)

    def close(self, reason: str) -> None:
        """End the link after what was sent before. Closing again does nothing."""
        if self._closing is not None:
            return
        self._closing = reason
        if self._events is None:
            return
        self._loop.call_later(CLOSE_MS / 1000, self._close_remote_end)
        if not self._is_sending:
            self._close_remote_end()

    def on_bytes_sent(self, callback: Callable[[int], None]) -> None:
        """Have `callback` called with the number of bytes that have left, from now on."""
        self._outgoing.on_bytes_taken(callback)

    def _send(self) -> None:
        if self._events is None or not self._outgoing:
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
        if self._closing is not None:
            self._close_remote_end()

    def _receive(self) -> None:
        if self._events is not None:
            self._receive_timer.restart()
            self._call("link_receive", self._on_received, self._id)

    def _on_received(self, answer: Answer) -> None:
        self._take(answer)
        self._receive()

    def _call(self, method: str, answered: Callable[[Answer], None], *args: Any) -> None:
        def done(future: "asyncio.Future[Answer]") -> None:
            if future.cancelled():
                self._break("the loop is ending")
            elif (error := future.exception()) is not None:
                self._break(summarize_error(error))
            elif self._events is not None:
                answered(future.result())

        try:
            call = asyncio.ensure_future(getattr(self._handle, method).remote(*args))
        # Ray refuses a call in many ways, a shutdown among them; each one ends this link.
        except Exception as error:
            self._break(summarize_error(error))
        else:
            call.add_done_callback(done)

    def _take(self, answer: Answer) -> None:
        number, portion, end = answer
        incoming = self._incoming
        if portion is not None:
            ready = incoming.put(number, [portion])
            if ready is None:
                self._break(f"batch {number} came twice, or with a frame that is too large")
                return
            if ready and self._closing is None and self._events is not None:
                self._events.frames(ready)
            number += 1
        if end is not None:
            self._end = (number, end)
        # The answer that told the end may have overtaken one with frames that come before it.
        if self._end is not None and self._end[0] <= incoming.expected:
            self._break(self._end[1])

    def _close_remote_end(self) -> None:
        if self._events is not None:
            assert self._closing is not None, "only close says farewell"
            _close_remote(self._handle, self._id, self._closing)
            self._release()

    def _break(self, reason: str) -> None:
        if self._events is None:
            return
        if self._closing is None:
            self._loop.call_soon(self._deliver_closed, self._events, reason)
        self._release()

    def _deliver_closed(self, events: LinkEvents, reason: str) -> None:
        if self._closing is None:
            events.closed(reason)

    def _release(self) -> None:
        self._events = None
        self._outgoing.clear()
        self._send_timer.cancel()
        self._receive_timer.cancel()


def _close_remote(handle: Any, link_id: int, reason: str) -> None:
    """Tell the acceptor, if it can be told: without it the link ends by silence."""
    with suppress(Exception):
        call = asyncio.ensure_future(handle.link_close.remote(link_id, reason))
        call.add_done_callback(lambda done: done.cancelled() or done.exception())
