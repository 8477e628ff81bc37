"""Where a program runs: streams of bytes to a server.

A stream gives the payloads of the frames that arrive, None once the server has closed it, and
raises `Silent` when nothing arrives: over TCP after `PATIENCE_S`, in memory at once.
"""

import socket
from collections.abc import Callable
from contextlib import suppress
from functools import cached_property
from typing import Final, Protocol

from raykeeper.jute.frames import FrameReader
from raykeeper.server.events import ClientDisconnected, JuteBytesArrived, JuteClientConnected
from raykeeper.zab.ids import Millis
from raykeeper.znodes.limits import Limits
from tests.harness.pure_servers import PureServer, PureServers

PATIENCE_S: Final = 60.0
LIMITS: Final = Limits(
    session_timeout_min_ms=Millis(60_000), session_timeout_max_ms=Millis(120_000)
)
"""No session expires in a program, however busy the machine is."""
Version = tuple[int, ...]
PORTED: Final[Version] = (3, 9, 5)
"""The version of ZooKeeper that this server is compared with, and says to be."""
_PATIENCE_MS: Final = 300
_FRAME_BYTES_MAX: Final = 1 << 30


class Silent(Exception):
    """A frame was expected and none came."""


class Stream(Protocol):
    """The client's end of one connection."""

    def send(self, data: bytes) -> None:
        """Send bytes, unless the server has closed the stream."""

    def next(self) -> bytes | None:
        """Return the next payload; None when the server has closed the stream."""

    def close(self) -> None:
        """Break the connection."""


class Target(Protocol):
    """A server, or several of one ensemble."""

    @property
    def version(self) -> Version:
        """The version of ZooKeeper that it says to be."""

    def connect(self) -> Stream:
        """Open a connection."""


class PortTarget:
    """One server at `host:port`, or several with commas between, which take turns."""

    def __init__(self, address: str) -> None:
        self._addresses = address.split(",")
        self._count = 0

    @cached_property
    def version(self) -> Version:
        with self._dial() as asking:
            asking.sendall(b"srvr")
            _, _, told = asking.makefile("r").readline().partition("version: ")
        return tuple(map(int, told.partition("-")[0].split(".")))

    def connect(self) -> "_SocketStream":
        return _SocketStream(self._dial())

    def _dial(self) -> socket.socket:
        host, _, port = self._addresses[self._count % len(self._addresses)].rpartition(":")
        self._count += 1
        return socket.create_connection((host, int(port)), PATIENCE_S)


class _SocketStream:
    def __init__(self, connected: socket.socket) -> None:
        connected.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self._socket = connected
        self._reader = FrameReader(_FRAME_BYTES_MAX)

    def send(self, data: bytes) -> None:
        with suppress(BrokenPipeError, ConnectionResetError):  # earlier answers may still be read
            self._socket.sendall(data)

    def next(self) -> bytes | None:
        while (payload := self._reader.next()) is None:
            try:
                data = self._socket.recv(1 << 16)
            except ConnectionResetError:
                data = b""
            except TimeoutError:
                raise Silent from None
            if not data:
                return None
            self._reader.feed(data)
        return payload

    def close(self) -> None:
        self._socket.close()


class PureTarget:
    """Servers in memory; time passes when an answer needs it. Connections take servers in turn."""

    version = PORTED

    def __init__(self, servers: int = 1) -> None:
        self._count = 0
        if servers == 1:
            alone = PureServer(limits=LIMITS)
            self._hosts, self._pass_time = [alone], alone.pass_time
        else:
            ensemble = PureServers(servers, limits=LIMITS)
            self._hosts, self._pass_time = list(ensemble.hosts.values()), ensemble.pass_time

    def connect(self) -> "_PureStream":
        host = self._hosts[self._count % len(self._hosts)]
        self._count += 1
        return _PureStream(self._hosts, host, self._count, self._pass_time)


class _PureStream:
    def __init__(
        self,
        hosts: list[PureServer],
        host: PureServer,
        connection: int,
        pass_time: Callable[[int], None],
    ) -> None:
        self._hosts, self._host, self._connection = hosts, host, connection
        self._pass_time = pass_time
        self._reader = FrameReader(_FRAME_BYTES_MAX)
        self._is_closed = False
        host.streams[connection] = bytearray()
        host.step(JuteClientConnected(connection, "127.0.0.1", connection.to_bytes(16)))

    def send(self, data: bytes) -> None:
        if self._connection in self._host.closed:
            return
        self._host.step(JuteBytesArrived(self._connection, data))
        self._run()

    def next(self) -> bytes | None:
        payload = self._arrived()
        if payload is None and self._connection not in self._host.closed:
            # A ping is answered once the leader has confirmed it.
            self._pass_time(_PATIENCE_MS)
            payload = self._arrived()
            if payload is None:
                raise Silent
        return payload

    def close(self) -> None:
        if self._connection not in self._host.closed and not self._is_closed:
            self._is_closed = True
            self._host.step(ClientDisconnected(self._connection))
            self._run()

    def _arrived(self) -> bytes | None:
        stream = self._host.streams[self._connection]
        self._reader.feed(bytes(stream))
        stream.clear()
        return self._reader.next()

    def _run(self) -> None:
        self._host.run()
        due = [host for host in self._hosts if host.server.deadline() == host.clock.now]
        while due:
            for host in due:
                host.step()
                host.run()
            due = [host for host in self._hosts if host.server.deadline() == host.clock.now]
