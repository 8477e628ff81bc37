"""A port on which a server takes ZooKeeper's own clients: TCP or TLS, bytes in and out.

Nothing of a link's hello is spoken here, for these clients know none; what arrives goes to the
server as it is. Bounds: connections of one address, connections without a session, and how long
they may be without one. One connection more takes the place of the one that has been without a
session for longest, so that connections that never speak keep nobody out.

A port that is taken is tried again (`retried_port.py`), and so are files of TLS (`jute_tls.py`)
that cannot be used. Files that change are read again: renewed certificates need no restart.

ZooKeeper: `NIOServerCnxnFactory`; its settings `maxClientCnxns`, `clientPortAddress`,
`secureClientPort`.
"""

import asyncio
import socket
import ssl
from collections import Counter
from collections.abc import Callable
from typing import Final, Protocol, cast

from msgspec import Struct

from raykeeper.links.contract import LinkRefused
from raykeeper.links.jute_tls import TlsAcceptor, TlsEnd, TlsFiles
from raykeeper.links.retried_port import RetriedPort

ZOOKEEPER: Final = "zookeeper"
"""The carrier of these connections, for log lines and status."""
ZOOKEEPER_TLS: Final = "zookeeper-tls"
RENEW_S: Final = 10.0
"""How often it is checked whether a file of TLS has changed."""
BACKLOG: Final = 1024
LINGER_S: Final = 10.0
"""How long a closed connection may take to send what is left."""
WRITE_BUFFER_BYTES: Final = 32 << 10
"""Of a connection with less on its way it is not told when that has left."""
SEND_BUFFER_BYTES: Final = 256 << 10
"""Of the system for each connection, which else takes megabytes for a client that reads nothing."""
LINGER_BYTES: Final = 64 << 20
"""What all closed connections together may still have to send; the newest may have more alone."""
_MAPPED_V4: Final = "::ffff:"


class PortSettings(Struct, frozen=True):
    """Where to listen, and the bounds of connections."""

    address: str
    port: int
    per_address_max: int
    without_session_max: int
    without_session_s: float
    tls: TlsFiles | None = None
    """None: nothing is encrypted."""


class JuteEvents(Protocol):
    """The events of a connection, for its owner."""

    def bytes_arrived(self, data: bytes) -> None:
        """Take bytes, cut anywhere."""

    def closed(self, reason: str) -> None:
        """Learn that the connection is gone. Called at most once, and nothing after it."""


class JuteAcceptor(Protocol):
    """The owner of the connections."""

    def accept_jute(self, stream: "JuteStream", host: str) -> JuteEvents:
        """Take a connection from `host`.

        Raises:
            LinkRefused: the server has as many as it may have.
        """


class JuteStream(asyncio.Protocol):
    """One connection; it has the parts of a `Link` that an acceptor of clients needs."""

    carrier = ZOOKEEPER
    incarnation = 0

    def __init__(self, listener: "JuteListener") -> None:
        self.host = ""
        self.port = 0
        self._listener = listener
        self._events: JuteEvents | None = None
        self._transport: asyncio.Transport | None = None
        self._on_bytes_sent: Callable[[int], None] = lambda _size: None
        self._unreported = 0  # bytes that were written and not reported as sent
        self._has_asked = False
        self._has_answer = False
        self._tls: TlsEnd | None = None

    # Called by the loop.

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Offer the new connection to the listener."""
        # uvloop has transports of its own.
        self._transport = transport = cast("asyncio.Transport", transport)
        transport.set_write_buffer_limits(WRITE_BUFFER_BYTES)
        connected: socket.socket = transport.get_extra_info("socket")
        connected.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, SEND_BUFFER_BYTES)
        peer = transport.get_extra_info("peername")
        self.host = str(peer[0]).removeprefix(_MAPPED_V4) if peer else ""
        self.port = int(peer[1]) if peer else 0
        tls = self._listener.tls
        if tls is not None:
            self._tls, self.carrier = tls.accept(), ZOOKEEPER_TLS
        self._events = self._listener.on_connected(self)

    def data_received(self, data: bytes) -> None:
        """Pass bytes on."""
        if self._tls is not None:
            data = self._decrypted(self._tls, data)
        self._has_asked = self._has_asked or bool(data)
        if data and self._events is not None:
            self._events.bytes_arrived(data)

    def eof_received(self) -> bool:
        """Keep the connection for what is still to be answered: a four-letter word may end so.

        One that ends without a word, as of a balancer that looks whether the port is open, would
        have its place among those of its address until it got no session in time.
        """
        return self._has_asked and not self._has_answer

    def resume_writing(self) -> None:
        """Report what has left since the buffer was full."""
        self._report_sent()

    def connection_lost(self, error: Exception | None) -> None:
        """Pass on that the connection is gone."""
        self._transport = None
        self._listener.on_lost(self)
        events, self._events = self._events, None
        if events is not None:
            events.closed("the client ended the connection" if error is None else str(error))

    # Called by the owner.

    def send(self, frame: bytes) -> None:
        """Send bytes; a connection that is gone sends nothing."""
        transport = self._transport
        if transport is None or transport.is_closing():
            return
        if not self._has_answer:
            self._has_answer = True
            self._listener.on_answered(self)
        self._unreported += len(frame)
        transport.write(frame if self._tls is None else self._tls.encrypt(frame))
        self._report_sent()

    def send_last(self, frame: bytes) -> None:
        """`send`: the loop has no turn to wait for."""
        self.send(frame)

    def close(self, reason: str) -> None:
        """End the connection after what was sent before; `reason` cannot be told to the client."""
        self._events = None
        if self._transport is not None:
            if self._tls is not None and not self._transport.is_closing():
                self._transport.write(self._tls.end())
            self._transport.close()
            if left := self._transport.get_write_buffer_size():
                self._listener.on_lingering(self, left)

    def abort(self) -> None:
        """End the connection at once."""
        if self._transport is not None:
            self._transport.abort()

    def set_reading(self, is_reading: bool) -> None:
        """Pause reading, or resume it."""
        transport = self._transport
        if transport is None or transport.is_closing():
            return
        if is_reading:
            transport.resume_reading()
        else:
            transport.pause_reading()

    def on_bytes_sent(self, callback: Callable[[int], None]) -> None:
        """Call `callback` with the number of bytes that have left, from now on."""
        self._on_bytes_sent = callback

    def fileno(self) -> int:
        """Return the number of the socket, -1 when it is closed."""
        transport = self._transport
        connected = None if transport is None else transport.get_extra_info("socket")
        return -1 if connected is None else int(connected.fileno())

    def _decrypted(self, tls: TlsEnd, data: bytes) -> bytes:
        """Return what the client says; tell it what the handshake says, or why it failed."""
        assert self._transport is not None, "the loop ends it with connection_lost"
        try:
            said = tls.feed(data)
        except ssl.SSLError as error:
            self._listener.on_tls_failed(self, error)
            self._transport.write(tls.outgoing())
            self._transport.close()
            return b""
        if reply := tls.outgoing():
            self._transport.write(reply)
        self._has_asked = self._has_asked or bool(said)
        if tls.is_over and (self._has_answer or not self._has_asked):
            self._transport.write(tls.end())
            self._transport.close()
        return said

    def _report_sent(self) -> None:
        assert self._transport is not None, "the loop ends it with connection_lost"
        # Encrypted they are some more.
        left = min(self._transport.get_write_buffer_size(), self._unreported)
        sent, self._unreported = self._unreported - left, left
        if sent > 0:
            self._on_bytes_sent(sent)


class JuteListener:
    """Listens on one port, on the running loop, from its construction on."""

    def __init__(
        self, acceptor: JuteAcceptor, settings: PortSettings, log: Callable[..., None]
    ) -> None:
        """`log` takes a name and fields for a log line."""
        self.tls: TlsAcceptor | None = None
        """The files of TLS as they were read last, for `JuteStream`; None without TLS."""
        self._renewing: asyncio.TimerHandle | None = None
        self._acceptor = acceptor
        self._settings = settings
        self._log = log
        self._loop = asyncio.get_running_loop()
        self._port = RetriedPort(ZOOKEEPER, settings.address, settings.port, log)
        self._by_host: Counter[str] = Counter()
        # Connections without a session, the oldest first, with what ends them.
        self._unanswered: dict[JuteStream, asyncio.TimerHandle] = {}
        # Connections that were closed here, with bytes that have not left and what ends them.
        self._lingering: dict[JuteStream, tuple[int, asyncio.TimerHandle]] = {}
        self._listening = self._loop.create_task(self._listen())

    @property
    def port(self) -> int:
        """The port that it listens on, 0 while it does not."""
        return self._port.number

    @property
    def problem(self) -> str:
        """Why nothing listens, "" if it does, or has not been tried yet."""
        return self._port.problem

    async def listening(self) -> None:
        """Wait until it listens."""
        await self._listening

    def close(self) -> None:
        """Take no more connections; those that there are belong to the acceptor."""
        self._listening.cancel()
        if self._renewing is not None:
            self._renewing.cancel()
        self._port.close()
        for end in self._unanswered.values():
            end.cancel()

    def on_connected(self, stream: JuteStream) -> JuteEvents | None:
        """Take a connection, or end it; for `JuteStream`."""
        settings, host = self._settings, stream.host
        self._by_host[host] += 1
        if self._by_host[host] > settings.per_address_max:
            self._refuse(stream, f"{settings.per_address_max} connections of one address")
            return None
        if len(self._unanswered) >= settings.without_session_max:
            self._end_unanswered(next(iter(self._unanswered)))
        try:
            events = self._acceptor.accept_jute(stream, host)
        except LinkRefused as error:
            self._refuse(stream, str(error))
            return None
        end = self._loop.call_later(settings.without_session_s, self._end_unanswered, stream)
        self._unanswered[stream] = end
        return events

    def on_answered(self, stream: JuteStream) -> None:
        """Note that a connection was told something, so it has a session; for `JuteStream`."""
        end = self._unanswered.pop(stream, None)
        if end is not None:
            end.cancel()

    def on_tls_failed(self, stream: JuteStream, error: ssl.SSLError) -> None:
        """Note that a connection ends because it is no TLS, or not allowed; for `JuteStream`."""
        self._log("zookeeper.tls_failed", host=stream.host, reason=error)

    def on_lingering(self, stream: JuteStream, left: int) -> None:
        """Give a closed connection time to send the rest; for `JuteStream`.

        The oldest ones are ended if all of them together have too much.
        """
        lingering = self._lingering
        if stream in lingering:
            return
        lingering[stream] = (left, self._loop.call_later(LINGER_S, stream.abort))
        excess = sum(each for each, _ in lingering.values()) - LINGER_BYTES
        for other, (size, end) in list(lingering.items())[:-1]:
            if excess <= 0:
                break
            excess -= size
            del lingering[other]
            end.cancel()
            other.abort()

    def on_lost(self, stream: JuteStream) -> None:
        """Forget a connection that is gone; for `JuteStream`."""
        _, end = self._lingering.pop(stream, (0, None))
        if end is not None:
            end.cancel()
        self.on_answered(stream)
        self._by_host[stream.host] -= 1
        if not self._by_host[stream.host]:
            del self._by_host[stream.host]

    async def _listen(self) -> None:
        await self._port.open(self._create_server)
        self._renew_later()

    async def _create_server(self) -> asyncio.Server:
        settings = self._settings
        if settings.tls is not None:
            self.tls = TlsAcceptor(settings.tls)
        return await self._loop.create_server(
            lambda: JuteStream(self), settings.address, settings.port, backlog=BACKLOG
        )

    def _renew_later(self) -> None:
        if self.tls is not None:
            self._renewing = self._loop.call_later(RENEW_S, self._renew, self.tls)

    def _renew(self, tls: TlsAcceptor) -> None:
        try:
            if tls.renew():
                self._log("zookeeper.tls_renewed", port=self.port)
        except OSError as error:
            self._log("zookeeper.tls_kept", port=self.port, reason=error)
        self._renew_later()

    def _refuse(self, stream: JuteStream, reason: str) -> None:
        self._log("zookeeper.refused", host=stream.host, reason=reason)
        stream.abort()

    def _end_unanswered(self, stream: JuteStream) -> None:
        """End a connection that got no session in time, or whose place is needed."""
        self.on_answered(stream)
        stream.abort()
