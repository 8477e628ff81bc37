"""`links/stream_endpoints.py` under contract: a real listener, and between it and its dialers a
middleman that can cut the network in one direction, which a socket cannot do to itself.
"""

import asyncio
import socket
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest

from raykeeper.links.auto_dialer import AutoDialer
from raykeeper.links.contract import Dialer
from raykeeper.links.hello import Fence, Hello
from raykeeper.links.ray_calls import RayCallAcceptor
from raykeeper.links.server_directory import ServerDirectory
from raykeeper.links.stream_endpoints import StreamAddress, StreamDialer, StreamListener
from raykeeper.links.upgradable_link import UpgradingAcceptor
from raykeeper.zab.ids import ServerId
from tests.contract.link_carriers import QUEUE_BYTES_MAX, SERVER, CallsCarrier, Station
from tests.harness.tls_files import TlsFolder

HOST = "127.0.0.1"
Pipe = tuple[asyncio.StreamReader, asyncio.StreamWriter]


class TlsFiles:
    """Ray's three TLS files: a certificate of the trusted authority, and one of another."""

    def __init__(self, folder: Path) -> None:
        self._files = TlsFolder(folder, "10.0.0.1")  # not where anybody listens in a test

    def use(self, monkeypatch: pytest.MonkeyPatch, name: str = "authority") -> None:
        """Make this process use TLS from now on."""
        monkeypatch.setenv("RAY_USE_TLS", "1")
        monkeypatch.setenv("RAY_TLS_SERVER_CERT", self._files.path(name, "pem"))
        monkeypatch.setenv("RAY_TLS_SERVER_KEY", self._files.path(name, "key"))
        monkeypatch.setenv("RAY_TLS_CA_CERT", self._files.path(name, "ca"))


class Middleman:
    """Passes bytes on between dialers and a listener, unless a direction is cut."""

    def __init__(self, address: StreamAddress) -> None:
        self.bytes_passed = 0
        self._to = address
        self._cut: set[str] = set()
        self._joining: list[asyncio.Task[None]] = []
        self._pipes: list[asyncio.Task[None]] = []
        self._writers: list[asyncio.StreamWriter] = []
        self._socket = socket.create_server((HOST, 0))
        self._socket.setblocking(False)
        asyncio.get_running_loop().add_reader(self._socket.fileno(), self._accept)
        self._passed = asyncio.Event()

        self.address = StreamAddress(HOST, self._socket.getsockname()[1], address.key)
        """The address that dialers use."""

    def cut(self, direction: str) -> None:
        """Lose everything that is sent in that direction."""
        self._cut.add(direction)

    async def passed(self) -> None:
        """Wait until something more has passed."""
        self._passed.clear()
        await asyncio.wait_for(self._passed.wait(), 10)

    async def close(self) -> None:
        """End every connection, and wait until both its ends are closed."""
        if self._socket.fileno() >= 0:
            asyncio.get_running_loop().remove_reader(self._socket.fileno())
            self._socket.close()
        await asyncio.gather(*self._joining, return_exceptions=True)
        self._cut = {"to_acceptor", "to_dialer"}
        for writer in self._writers:
            _end(writer)
        await asyncio.gather(*self._pipes)
        for writer in self._writers:
            writer.close()
        closed = [writer.wait_closed() for writer in self._writers]
        await asyncio.gather(*closed, return_exceptions=True)

    def _accept(self) -> None:
        with suppress(OSError):  # the dialer is gone
            connected, _ = self._socket.accept()
            loop = asyncio.get_running_loop()
            self._joining.append(loop.create_task(self._join(connected)))

    async def _join(self, connected: socket.socket) -> None:
        reader, writer = await asyncio.open_connection(sock=connected)
        self._writers.append(writer)
        there, here = await asyncio.open_connection(self._to.host, self._to.port)
        self._writers.append(here)
        loop = asyncio.get_running_loop()
        for direction, source, sink in (
            ("to_acceptor", reader, here),
            ("to_dialer", there, writer),
        ):
            self._pipes.append(loop.create_task(self._pass_on(direction, source, sink)))

    async def _pass_on(
        self, direction: str, source: asyncio.StreamReader, sink: asyncio.StreamWriter
    ) -> None:
        try:
            while data := await source.read(1 << 16):
                if direction not in self._cut:
                    self.bytes_passed += len(data)
                    self._passed.set()
                    sink.write(data)
        except OSError:
            pass  # one end let go with a reset; the other learns of it by the end
        _end(sink)


class MovingCarrier(CallsCarrier):
    """Links over calls that move to a stream soon after they were opened."""

    deadline_s = 1.3

    def __init__(
        self,
        seed: int = 1,
        pause_ms: int = 1,
        park_ms: int = 40,
        grace_ms: int = 1000,
        station: Any = None,
    ) -> None:
        super().__init__(seed, park_ms, grace_ms, station)
        acceptor = UpgradingAcceptor(self.station)
        self.acceptor = RayCallAcceptor(acceptor, QUEUE_BYTES_MAX, self._grace_ms)
        self.listener = StreamListener(acceptor, HOST, QUEUE_BYTES_MAX, self._grace_ms)
        self.middleman = Middleman(self.listener.address)
        self.opens_streams = False
        self._pause_ms = pause_ms

    def dialer(self, hello: Hello, fence: Fence | None = None) -> Dialer:
        return AutoDialer(
            ServerDirectory(self._find),
            hello,
            self._park_ms,
            fence=fence,
            queue_bytes_max=QUEUE_BYTES_MAX,
            grace_ms=self._grace_ms,
            pause_ms=self._pause_ms,
        )

    def cut_to_acceptor(self) -> None:
        super().cut_to_acceptor()
        self.middleman.cut("to_acceptor")

    def cut_to_dialer(self) -> None:
        super().cut_to_dialer()
        self.middleman.cut("to_dialer")

    async def close(self) -> None:
        self.listener.close()
        await self.middleman.close()

    async def _shuffled(self, method: str, *args: Any) -> Any:
        if method != "link_address":
            return await super()._shuffled(method, *args)
        opens, self.opens_streams = self.opens_streams, True
        return self.middleman.address if opens else None


def _end(writer: asyncio.StreamWriter) -> None:
    with suppress(OSError, RuntimeError):  # it has ended already
        writer.write_eof()


class StreamCarrier:
    """Streams through a middleman."""

    deadline_s = 0.55

    def __init__(self, park_ms: int = 40, grace_ms: int = 400, station: Any = None) -> None:
        self.station: Any = station or Station()
        self.listener = StreamListener(self.station, HOST, QUEUE_BYTES_MAX, grace_ms)
        self.middleman = Middleman(self.listener.address)
        self._park_ms = park_ms
        self._grace_ms = grace_ms

    def dialer(self, hello: Hello, fence: Fence | None = None) -> Dialer:
        return StreamDialer(
            self._find,
            hello,
            self._park_ms,
            fence=fence,
            queue_bytes_max=QUEUE_BYTES_MAX,
            grace_ms=self._grace_ms,
        )

    def cut_to_acceptor(self) -> None:
        self.middleman.cut("to_acceptor")

    def cut_to_dialer(self) -> None:
        self.middleman.cut("to_dialer")

    async def close(self) -> None:
        self.listener.close()
        await self.middleman.close()

    async def _find(self, server: ServerId) -> StreamAddress:
        if server != SERVER:
            raise ValueError(f"no actor of server {server}")
        return self.middleman.address
