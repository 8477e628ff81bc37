"""The links of clients to one running server, whatever they speak, by connection number.

Invariants: a connection number is never used twice, by any incarnation of the server; there are
never more than `CLIENTS_MAX_CEILING` client links, so that Ray always has a free slot for calls of
peers.
"""

import os
from collections import Counter
from collections.abc import Callable
from typing import Final

from raykeeper.actors.client_limit import ClientLimit, next_free_file
from raykeeper.links.contract import RAY_CALLS, Link, LinkEvents, LinkRefused
from raykeeper.links.jute_listener import WRITE_BUFFER_BYTES, JuteEvents, JuteStream
from raykeeper.links.processes import Process
from raykeeper.links.stream_link import StreamLink
from raykeeper.server.events import (
    JUTE_SENT_REPORT_BYTES,
    JUTE_WRITE_BUFFER_BYTES,
    SENT_REPORT_BYTES,
    ClientBytesSent,
    ClientDisconnected,
    ClientFrameArrived,
    Event,
    JuteBytesArrived,
    JuteClientConnected,
)
from raykeeper.znodes.requests import PASSWORD_BYTES

assert WRITE_BUFFER_BYTES <= JUTE_WRITE_BUFFER_BYTES, "more may have left, and is not reported"
_NUMBER_BITS: Final = 30
"""A billion connections for one incarnation. Incarnations that begin at the time in seconds then
have connection numbers below 2**63 until the year 2242."""


class ClientLinks:
    """The links of clients to one incarnation of a server, by connection number."""

    def __init__(
        self,
        incarnation: int,
        limit: ClientLimit,
        deliver: Callable[[Event], None],
        next_file: Callable[[], int] = next_free_file,
    ) -> None:
        """`deliver` takes the events.

        `next_file` returns the lowest file descriptor that is free, which a client over Ray calls
        would take when its link moves to a stream.
        """
        self.limit = limit
        self._next_file = next_file
        self._deliver = deliver
        self._links: dict[int, Link] = {}
        self._processes: dict[int, Process] = {}
        self._began_on_calls: dict[int, Process] = {}  # some may have moved to a stream since
        self._last_connection = incarnation << _NUMBER_BITS
        self.on_link_lost: Callable[[int, Process], None] = lambda _connection, _process: None
        """Called when a link is gone that was not closed here, if its process is known."""

    def __len__(self) -> int:
        return len(self._links)

    def carriers(self) -> dict[str, int]:
        """Return how many links each carrier has."""
        return dict(Counter(link.carrier for link in self._links.values()))

    def over_calls(self) -> list[tuple[int, Process]]:
        """Return the clients over Ray calls, whose link stays when they die: it falls silent."""
        links = self._links
        return [
            (connection, process)
            for connection, process in self._began_on_calls.items()
            if links[connection].carrier == RAY_CALLS
        ]

    def accept(self, link: Link, host: str = "", process: Process | None = None) -> LinkEvents:
        """Take the link of a client at `host`; `process` is None if the client cannot tell it.

        Raises:
            LinkRefused: the server has as many clients as it may have, or too many open files.
        """
        # A stream has taken the lowest number that was free.
        file = link.fileno() if isinstance(link, StreamLink) else self._next_file()
        connection = self._register(link, file)
        if process is not None:
            self._processes[connection] = process
            if link.carrier == RAY_CALLS:
                self._began_on_calls[connection] = process
        events = _ClientLinkEvents(self, connection, host)
        link.on_bytes_sent(events.bytes_sent)
        return events

    def accept_jute(self, stream: JuteStream, host: str) -> JuteEvents:
        """Take the connection of a client of ZooKeeper.

        Raises:
            LinkRefused: the server has as many clients as it may have, or too many open files.
        """
        connection = self._register(stream, stream.fileno())
        events = _JuteClientEvents(self, connection)
        stream.on_bytes_sent(events.bytes_sent)
        password = os.urandom(PASSWORD_BYTES)
        self._deliver(JuteClientConnected(connection, host, password, stream.port))
        return events

    def set_reading(self, connection: int, is_reading: bool) -> None:
        """Pause reading from a client of ZooKeeper, or resume it."""
        stream = self._links.get(connection)
        if isinstance(stream, JuteStream):
            stream.set_reading(is_reading)

    def send(self, connection: int, data: bytes) -> None:
        """Send a frame; a client that is gone gets nothing."""
        link = self._links.get(connection)
        if link is not None:
            link.send_last(data)

    def close(self, connection: int, reason: str) -> None:
        """Close the link after what was sent before."""
        self._take_process(connection)
        link = self._links.pop(connection, None)
        if link is not None:
            link.close(reason)

    def close_dead(self, connection: int, reason: str) -> None:
        """Close the link of a client that has died without closing it."""
        if connection in self._links:
            self.close(connection, reason)
            self._deliver(ClientDisconnected(connection))

    def close_all(self, reason: str) -> None:
        """Close all links, as the server stops."""
        for connection in list(self._links):
            self.close(connection, reason)

    def on_frames(self, connection: int, frames: list[bytes], host: str) -> None:
        """Deliver frames of a client; for `_ClientLinkEvents`."""
        if connection in self._links:
            deliver = self._deliver
            for frame in frames:
                deliver(ClientFrameArrived(connection, frame, host))

    def on_jute_bytes(self, connection: int, data: bytes) -> None:
        """Deliver bytes of a client of ZooKeeper; for `_JuteClientEvents`."""
        if connection in self._links:
            self._deliver(JuteBytesArrived(connection, data))

    def on_bytes_sent(self, connection: int, size: int) -> None:
        """Deliver how many bytes have left for a client; for `_ClientLinkEvents`."""
        if connection in self._links:
            self._deliver(ClientBytesSent(connection, size))

    def on_closed(self, connection: int) -> None:
        """Deliver that a link is gone; for `_ClientLinkEvents`."""
        if self._links.pop(connection, None) is not None:
            self._deliver(ClientDisconnected(connection))
            process = self._take_process(connection)
            if process is not None:
                self.on_link_lost(connection, process)

    def _register(self, link: Link, file: int) -> int:
        """Give the link a connection number; `file` is a file descriptor that it takes."""
        if reason := self.limit.refusal_reason(len(self._links), file):
            raise LinkRefused(reason)
        self._last_connection += 1
        self._links[self._last_connection] = link
        return self._last_connection

    def _take_process(self, connection: int) -> Process | None:
        self._began_on_calls.pop(connection, None)
        return self._processes.pop(connection, None)


class _ClientEvents:
    """Passes on the events of one client, whatever it speaks."""

    __slots__ = ("_connection", "_links", "_sent")
    report_bytes = SENT_REPORT_BYTES

    def __init__(self, links: ClientLinks, connection: int) -> None:
        self._links = links
        self._connection = connection
        self._sent = 0

    def bytes_sent(self, size: int) -> None:
        """Report in portions: a step for each frame would cost more than the frame."""
        self._sent += size
        if self._sent >= self.report_bytes:
            self._links.on_bytes_sent(self._connection, self._sent)
            self._sent = 0

    def closed(self, _reason: str) -> None:
        self._links.on_closed(self._connection)


class _ClientLinkEvents(_ClientEvents):
    """Passes on the events of one client's link."""

    __slots__ = ("_host",)

    def __init__(self, links: ClientLinks, connection: int, host: str) -> None:
        super().__init__(links, connection)
        self._host = host

    def frames(self, frames: list[bytes]) -> None:
        self._links.on_frames(self._connection, frames, self._host)


class _JuteClientEvents(_ClientEvents):
    """Passes on the events of the connection of a client of ZooKeeper."""

    __slots__ = ()
    report_bytes = JUTE_SENT_REPORT_BYTES

    def bytes_arrived(self, data: bytes) -> None:
        self._links.on_jute_bytes(self._connection, data)
