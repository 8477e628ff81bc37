"""Links inside one process, for tests: what `contract` promises, and cuts on demand."""

import asyncio
from collections import deque
from collections.abc import Callable

from raykeeper.links.contract import Acceptor, LinkEvents, LinkRefused, LinkUnreachable
from raykeeper.links.hello import Fence, Hello
from raykeeper.links.limits import QUEUE_BYTES_MAX
from raykeeper.zab.ids import ServerId


class MemoryNetwork:
    """Acceptors by server id, and the links between them and their dialers."""

    def __init__(self, deadline_s: float = 0.05, queue_bytes_max: int = QUEUE_BYTES_MAX) -> None:
        """Each end of a cut link learns of it `deadline_s` later."""
        self.deadline_s = deadline_s
        self.queue_bytes_max = queue_bytes_max
        self._acceptors: dict[ServerId, Acceptor] = {}
        self._dialer_ends: list[_End] = []

    def listen(self, acceptor: Acceptor) -> None:
        """Offer links to `acceptor` from now on, in the place of an earlier one."""
        self._acceptors[acceptor.server_id] = acceptor

    def remove(self, server: ServerId) -> None:
        """The server cannot be reached for new links."""
        self._acceptors.pop(server, None)

    def dialer(self, hello: Hello, fence: Fence | None = None) -> "MemoryDialer":
        """A dialer that introduces itself with `hello`."""
        return MemoryDialer(self, hello, fence or Fence())

    def cut_to_acceptors(self) -> None:
        """Lose, from now on, what the dialers of the open links send."""
        for end in self._dialer_ends:
            end.cut()

    def cut_to_dialers(self) -> None:
        """Lose, from now on, what the acceptors of the open links send."""
        for end in self._dialer_ends:
            end.other.cut()

    def join(self, server: ServerId, hello: Hello, fence: Fence, events: LinkEvents) -> "_End":
        """Open a link from a dialer; for `MemoryDialer`.

        Raises:
            LinkRefused: the acceptor said no, or it is an incarnation that was fenced.
            LinkUnreachable: nobody listens.
        """
        acceptor = self._acceptors.get(server)
        if acceptor is None:
            raise LinkUnreachable(f"server {server} does not listen")
        objection = fence.objection_to(server, acceptor.incarnation)
        if objection:
            raise LinkRefused(objection)
        near, far = _End(self, acceptor.incarnation), _End(self, hello.incarnation)
        near.other, far.other = far, near
        near.events, far.events = events, acceptor.accept(hello, far)
        self._dialer_ends.append(near)
        return near


class MemoryDialer:
    """Dials on a `MemoryNetwork`."""

    def __init__(self, network: MemoryNetwork, hello: Hello, fence: Fence) -> None:
        self._network = network
        self._hello = hello
        self._fence = fence

    async def dial(self, server: ServerId, events: LinkEvents) -> "_End":
        """Open a link to `server`.

        Raises:
            LinkRefused: the server said no, or is an incarnation that was fenced.
            LinkUnreachable: nobody listens.
        """
        return self._network.join(server, self._hello, self._fence, events)


class _End:
    """One end of a link."""

    carrier = "memory"
    other: "_End"
    events: LinkEvents

    def __init__(self, network: MemoryNetwork, incarnation: int) -> None:
        self.incarnation = incarnation
        self._network = network
        self._loop = asyncio.get_running_loop()
        self._waiting: deque[bytes] = deque()
        self._bytes = 0
        self._flushing = False
        self._cut = False
        self._closing: str | None = None
        self._ended = False
        self._told: Callable[[int], None] | None = None

    def when_sent(self, told: Callable[[int], None]) -> None:
        self._told = told

    def send(self, frame: bytes) -> None:
        if self._ended or self._closing is not None:
            return
        self._bytes += len(frame)
        if self._bytes > self._network.queue_bytes_max:
            self._end("more waits than the link may hold")
            self.other.fail("the other end broke the link")
            return
        self._waiting.append(frame)
        self._flush_soon()

    def send_last(self, frame: bytes) -> None:
        self.send(frame)

    def close(self, reason: str) -> None:
        if self._closing is not None:
            return
        self._closing = reason
        if not self._ended:
            self._flush_soon()

    def cut(self) -> None:
        """Lose what this end sends; both ends learn of it by their deadlines."""
        if not self._cut:
            self._cut = True
            for end in (self, self.other):
                self._loop.call_later(
                    self._network.deadline_s, end.fail, "nothing was heard in time"
                )

    def fail(self, reason: str) -> None:
        """The link is broken as far as this end can tell."""
        if self._closing is not None:
            self._ended = True
        self._end(reason)

    def _flush_soon(self) -> None:
        if not self._flushing:
            self._flushing = True
            self._loop.call_soon(self._flush)

    def _flush(self) -> None:
        self._flushing = False
        frames = list(self._waiting)
        self._waiting.clear()
        sent, self._bytes = self._bytes, 0
        if sent and self._told is not None:
            self._told(sent)
        other = self.other
        if not self._cut:
            if frames and not other._ended and other._closing is None:
                other.events.frames(frames)
            if self._closing is not None:
                other.fail(self._closing)
        if self._closing is not None:
            self._ended = True

    def _end(self, reason: str) -> None:
        if not self._ended:
            self._ended = True
            self._loop.call_soon(self._tell_end, reason)
            self._waiting.clear()

    def _tell_end(self, reason: str) -> None:
        if self._closing is None:
            self.events.closed(reason)
