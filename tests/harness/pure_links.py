"""Links from real clients to pure servers in the same process and event loop.

A frame is answered in the next turn of the loop, with all that follows from it in the ensemble.
Time passes for the servers only when a test lets it.
"""

from collections import deque
from itertools import count

from raykeeper.client.async_client import AsyncClient
from raykeeper.client.session_options import SessionOptions
from raykeeper.links.contract import LinkEvents, LinkUnreachable
from raykeeper.links.link_end import LinkEnd, LinkState
from raykeeper.server.events import ClientDisconnected, ClientFrameArrived
from raykeeper.zab.ids import ServerId
from raykeeper.znodes.replies import encode_server_frame
from tests.harness.pure_servers import PureServer, PureServers


class PureDialer:
    """Dials the servers of an ensemble."""

    def __init__(self, servers: PureServers) -> None:
        self.servers = servers
        self._numbers = count(10_000)  # apart from those of a test's own callers
        self._links: list[_PureLink] = []

    async def connect(self, *, timeout_s: float = 5.0, identity: bytes = b"") -> AsyncClient:
        """Return a client with a session, of read-only mode if there is no other."""
        options = SessionOptions(timeout_s=timeout_s, read_only=True, identity=identity)
        return await AsyncClient.open([*self.servers.hosts], self, options)  # type: ignore[list-item]

    async def dial(self, server: ServerId, events: LinkEvents) -> "_PureLink":
        host = self.servers.hosts.get(server)
        if host is None:
            raise LinkUnreachable(f"server {server} does not run")
        link = _PureLink(self, host, next(self._numbers), events)
        self._links.append(link)
        return link

    def rest(self) -> None:
        """Run the ensemble until nothing moves, and deliver what it sent."""
        self.servers.run()
        for link in list(self._links):
            link.deliver()
        self._links = [each for each in self._links if not each.is_over]


class _PureLink(LinkEnd):
    """The end of a client."""

    carrier = "memory"

    def __init__(
        self, dialer: PureDialer, host: PureServer, connection: int, events: LinkEvents
    ) -> None:
        super().__init__(0)
        self.events = events
        self._dialer = dialer
        self._host = host
        self._connection = connection
        self._queue: deque[bytes] = deque()
        self._taken = 0

    def send(self, frame: bytes) -> None:
        if self.is_open:
            self._queue.append(frame)
            self._loop.call_soon(self._flush)

    send_last = send

    def on_bytes_sent(self, callback: object) -> None:
        """A client does not ask."""

    def deliver(self) -> None:
        frames = self._host.frames.get(self._connection, [])
        new, self._taken = frames[self._taken :], len(frames)
        self._deliver_frames([encode_server_frame(each) for each in new])
        is_gone = self._dialer.servers.hosts.get(self._host.server_id) is not self._host
        if is_gone or self._connection in self._host.closed:
            self.fail("the server closed it")

    def _flush(self) -> None:
        is_there = self._dialer.servers.hosts.get(self._host.server_id) is self._host
        while self._queue and is_there:
            frame = ClientFrameArrived(self._connection, self._queue.popleft(), "127.0.0.1")
            self._host.step(frame)
        self._dialer.rest()
        if self._state is LinkState.CLOSING:
            if is_there:
                self._host.step(ClientDisconnected(self._connection))
            self.fail("closed")

    def _on_closing(self) -> None:
        self._loop.call_soon(self._flush)

    def _on_over(self) -> None:
        self._queue.clear()
