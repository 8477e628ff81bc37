"""Links inside one process, for tests: they keep the promises of `contract`, and can be cut."""

from collections import deque
from collections.abc import Callable

from raykeeper.links.contract import Acceptor, LinkEvents, LinkRefused, LinkUnreachable
from raykeeper.links.hello import Fence, Hello
from raykeeper.links.limits import QUEUE_BYTES_MAX
from raykeeper.links.link_end import LinkEnd, LinkState
from raykeeper.zab.ids import ServerId


class MemoryNetwork:
    """Acceptors by server id, and the links between them and their dialers."""

    def __init__(self, deadline_s: float = 0.05, queue_bytes_max: int = QUEUE_BYTES_MAX) -> None:
        """Create a network on which each end of a cut link learns of it `deadline_s` later."""
        self.deadline_s = deadline_s
        self.queue_bytes_max = queue_bytes_max
        self._acceptors: dict[ServerId, Acceptor] = {}
        self._dialer_ends: list[_MemoryLink] = []

    def listen(self, acceptor: Acceptor) -> None:
        """Offer links to `acceptor` from now on, in the place of an earlier one."""
        self._acceptors[acceptor.server_id] = acceptor

    def remove(self, server: ServerId) -> None:
        """Make the server unreachable for new links."""
        self._acceptors.pop(server, None)

    def dialer(self, hello: Hello, fence: Fence | None = None) -> "MemoryDialer":
        """Return a dialer that introduces itself with `hello`."""
        return MemoryDialer(self, hello, fence or Fence())

    def cut_to_acceptors(self) -> None:
        """Lose, from now on, what the dialers of the open links send."""
        for end in self._dialer_ends:
            end.cut()

    def cut_to_dialers(self) -> None:
        """Lose, from now on, what the acceptors of the open links send."""
        for end in self._dialer_ends:
            end.other.cut()

    def open_link(
        self, server: ServerId, hello: Hello, fence: Fence, events: LinkEvents
    ) -> "_MemoryLink":
        """Open a link from a dialer; for `MemoryDialer`.

        Raises:
            LinkRefused: the acceptor said no, or its incarnation was fenced.
            LinkUnreachable: no acceptor listens.
        """
        acceptor = self._acceptors.get(server)
        if acceptor is None:
            raise LinkUnreachable(f"server {server} does not listen")
        if reason := fence.refusal_reason(server, acceptor.incarnation):
            raise LinkRefused(reason)
        near, far = _MemoryLink(self, acceptor.incarnation), _MemoryLink(self, hello.incarnation)
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

    async def dial(self, server: ServerId, events: LinkEvents) -> "_MemoryLink":
        """Open a link to `server`.

        Raises:
            LinkRefused: the server said no, or its incarnation was fenced.
            LinkUnreachable: no acceptor listens.
        """
        return self._network.open_link(server, self._hello, self._fence, events)


class _MemoryLink(LinkEnd):
    """One end of a link."""

    carrier = "memory"
    other: "_MemoryLink"

    def __init__(self, network: MemoryNetwork, incarnation: int) -> None:
        super().__init__(incarnation)
        self._network = network
        self._queue: deque[bytes] = deque()
        self._queued_bytes = 0
        self._is_flushing = False
        self._is_cut = False
        self._on_bytes_sent: Callable[[int], None] | None = None

    def on_bytes_sent(self, callback: Callable[[int], None]) -> None:
        self._on_bytes_sent = callback

    def send(self, frame: bytes) -> None:
        if not self.is_open:
            return
        self._queued_bytes += len(frame)
        if self._queued_bytes > self._network.queue_bytes_max:
            self.fail("the queue of the link is full")
            self.other.fail("the other end broke the link")
            return
        self._queue.append(frame)
        self._flush_soon()

    def send_last(self, frame: bytes) -> None:
        self.send(frame)

    def cut(self) -> None:
        """Lose what this end sends; both ends learn of it by their deadlines."""
        if not self._is_cut:
            self._is_cut = True
            for end in (self, self.other):
                self._loop.call_later(
                    self._network.deadline_s, end.fail, "nothing was heard in time"
                )

    def _on_closing(self) -> None:
        self._flush_soon()

    def _on_over(self) -> None:
        self._queue.clear()
        self._queued_bytes = 0

    def _flush_soon(self) -> None:
        if not self._is_flushing:
            self._is_flushing = True
            self._loop.call_soon(self._flush)

    def _flush(self) -> None:
        self._is_flushing = False
        frames = list(self._queue)
        self._queue.clear()
        sent, self._queued_bytes = self._queued_bytes, 0
        if sent and self._on_bytes_sent is not None:
            self._on_bytes_sent(sent)
        if not self._is_cut:
            self.other._deliver_frames(frames)
        if self._state is LinkState.CLOSING:
            if not self._is_cut:
                self.other.fail(self._end_reason)
            self.fail("closed")
