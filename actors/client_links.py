"""The links of clients to one server, by connection number.

Invariants: a connection number is never used twice, by any incarnation of the server; there are
never more than `clients_max` links, so that Ray always has a free slot for calls of peers.
"""

from collections import Counter
from collections.abc import Callable
from typing import Final

from raykeeper.links.contract import RAY_CALLS, Link, LinkEvents, LinkRefused
from raykeeper.links.processes import Process
from raykeeper.server.events import (
    SENT_REPORT_BYTES,
    ClientBytesSent,
    ClientDisconnected,
    ClientFrameArrived,
    Event,
)

_NUMBER_BITS: Final = 30
"""A billion connections for one incarnation. Incarnations that begin at the time in seconds then
have connection numbers below 2**63 until the year 2242."""


class ClientLinks:
    """The connections of one incarnation of a server."""

    def __init__(
        self, incarnation: int, clients_max: int, deliver: Callable[[Event], None]
    ) -> None:
        """`deliver` takes the events."""
        self._clients_max = clients_max
        self._deliver = deliver
        self._links: dict[int, Link] = {}
        self._processes: dict[int, Process] = {}
        self._last_connection = incarnation << _NUMBER_BITS
        self.on_link_lost: Callable[[int, Process], None] = lambda _connection, _process: None
        """Called when a link is gone that was not closed here, and its process is known."""

    def __len__(self) -> int:
        return len(self._links)

    def carriers(self) -> dict[str, int]:
        """How many links each carrier has."""
        return dict(Counter(link.carrier for link in self._links.values()))

    def over_calls(self) -> list[tuple[int, Process]]:
        """The clients whose end does not end their link: over Ray calls they just fall silent."""
        links = self._links
        return [
            (connection, process)
            for connection, process in self._processes.items()
            if links[connection].carrier == RAY_CALLS
        ]

    def accept(self, link: Link, host: str = "", process: Process | None = None) -> LinkEvents:
        """Take the link of a client, which is at `host`, and is `process` if it can tell.

        Raises:
            LinkRefused: the server has as many as it can bear.
        """
        if len(self._links) >= self._clients_max:
            raise LinkRefused(f"the server has {self._clients_max} clients already")
        self._last_connection += 1
        self._links[self._last_connection] = link
        if process is not None:
            self._processes[self._last_connection] = process
        end = _ClientLinkEvents(self, self._last_connection, host)
        link.on_bytes_sent(end.bytes_sent)
        return end

    def send(self, connection: int, data: bytes) -> None:
        """Send a frame; a client that is gone gets nothing."""
        link = self._links.get(connection)
        if link is not None:
            link.send_last(data)

    def close(self, connection: int, reason: str) -> None:
        """Close the link after what was sent before."""
        self._processes.pop(connection, None)
        link = self._links.pop(connection, None)
        if link is not None:
            link.close(reason)

    def close_dead(self, connection: int, reason: str) -> None:
        """Close the link to a client that is gone without it."""
        if connection in self._links:
            self.close(connection, reason)
            self._deliver(ClientDisconnected(connection))

    def close_all(self, reason: str) -> None:
        """The server stops."""
        for connection in list(self._links):
            self.close(connection, reason)

    def on_frames(self, connection: int, frames: list[bytes], host: str) -> None:
        """Frames of a client; for `_ClientLinkEvents`."""
        if connection in self._links:
            deliver = self._deliver
            for frame in frames:
                deliver(ClientFrameArrived(connection, frame, host))

    def on_bytes_sent(self, connection: int, size: int) -> None:
        """So much has left for a client; for `_ClientLinkEvents`."""
        if connection in self._links:
            self._deliver(ClientBytesSent(connection, size))

    def on_closed(self, connection: int) -> None:
        """A link is gone; for `_ClientLinkEvents`."""
        if self._links.pop(connection, None) is not None:
            self._deliver(ClientDisconnected(connection))
            process = self._processes.pop(connection, None)
            if process is not None:
                self.on_link_lost(connection, process)


class _ClientLinkEvents:
    """Our end of one link."""

    __slots__ = ("_connection", "_host", "_links", "_sent")

    def __init__(self, links: ClientLinks, connection: int, host: str) -> None:
        self._links = links
        self._connection = connection
        self._host = host
        self._sent = 0

    def frames(self, frames: list[bytes]) -> None:
        self._links.on_frames(self._connection, frames, self._host)

    def bytes_sent(self, size: int) -> None:
        """A step for each frame would cost more than the frame."""
        self._sent += size
        if self._sent >= SENT_REPORT_BYTES:
            self._links.on_bytes_sent(self._connection, self._sent)
            self._sent = 0

    def closed(self, _reason: str) -> None:
        self._links.on_closed(self._connection)
