"""More dialers than a listener handles: they wait or come again, over a stream; silence is no bar.

The Ray calls that a dialer could take instead are recorded; nothing here may use them.
"""

import asyncio
import errno
import socket
import time
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager, suppress
from pathlib import Path
from random import Random
from typing import Any

import pytest

from raykeeper.links.auto_dialer import AutoDialer
from raykeeper.links.contract import RAY_CALLS, STREAM, Link, LinkEvents, LinkRefused
from raykeeper.links.hello import Hello, client_hello, peer_hello
from raykeeper.links.ray_calls import RayCallAcceptor
from raykeeper.links.server_directory import ServerDirectory
from raykeeper.links.stream_auth import MAGIC, Role, busy_notice, new_nonce, proof
from raykeeper.links.stream_endpoints import (
    StreamAddress,
    StreamBusy,
    StreamDialer,
    StreamListener,
    StreamUnavailable,
)
from raykeeper.zab.ids import ServerId
from tests.contract.link_carriers import ENSEMBLE, SERVER, Calls, Recorder, Station
from tests.contract.stream_carrier import HOST, TlsFiles

CLIENT = client_hello(ENSEMBLE)
PEER = peer_hello(ENSEMBLE, ServerId(2), 1)
LONG_KEEPALIVE_MS = 20_000
"""A loop with a thousand dialers is no place to notice silence."""


class Crowded:
    """A listener with little room, and the actor that tells its address and takes Ray calls."""

    def __init__(self, station: Station, **options: Any) -> None:
        self.station = station
        self.lines: list[dict[str, Any]] = []
        self.calls_used = 0
        self._logged = asyncio.Event()
        self.listener = StreamListener(station, HOST, log=self._log, **options)
        self.address = self.listener.address
        self._calls = RayCallAcceptor(station)
        handle = Calls(self._call)
        self._directory = ServerDirectory(lambda _: handle)
        self._links: list[Link] = []
        self._sockets: list[socket.socket] = []

    async def dial(self, seed: int = 0, hello: Hello = CLIENT) -> Link:
        dialer = AutoDialer(
            self._directory, hello, LONG_KEEPALIVE_MS, rng=Random(seed), grace_ms=60_000
        )
        link = await dialer.dial(SERVER, Recorder())
        self._links.append(link)
        return link

    async def connect(self, said: bytes = b"") -> socket.socket:
        """Connect as somebody who has no key, and say that."""
        stranger = socket.socket()
        stranger.setblocking(False)
        self._sockets.append(stranger)
        loop = asyncio.get_running_loop()
        await loop.sock_connect(stranger, (HOST, self.address.port))
        await loop.sock_sendall(stranger, said)
        return stranger

    async def hold_turn(self) -> socket.socket:
        """Take a turn, and keep the handshake waiting."""
        stranger = await self.connect(MAGIC + new_nonce())
        await asyncio.wait_for(asyncio.get_running_loop().sock_recv(stranger, 64), 10)
        return stranger

    async def wait_held(self, count: int) -> None:
        async with asyncio.timeout(10):
            while len(self.listener._queue) != count:
                await asyncio.sleep(0)

    async def wait_lines(self, count: int) -> None:
        async with asyncio.timeout(10):
            while len(self.lines) < count:
                self._logged.clear()
                await self._logged.wait()

    async def close(self) -> None:
        for stranger in self._sockets:
            stranger.close()
        for link in self._links:
            link.close("done")
        self.listener.close()
        for number in range(await self.station.accepted()):
            await self.station.wait_closed(number)

    def _log(self, name: str, **fields: Any) -> None:
        assert name == "streams.busy"
        self.lines.append(fields)
        self._logged.set()

    async def _call(self, method: str, *args: Any) -> Any:
        if method == "link_address":
            return self.address
        self.calls_used += 1
        return await getattr(self._calls, method)(*args)


@asynccontextmanager
async def crowded(station: Station | None = None, **options: Any) -> AsyncIterator[Crowded]:
    place = Crowded(station or Station(), **options)
    try:
        yield place
    finally:
        await place.close()


def patience(monkeypatch: pytest.MonkeyPatch, open_ms: int, turn_ms: int) -> None:
    monkeypatch.setattr("raykeeper.links.stream_endpoints.STREAM_OPEN_MS", open_ms)
    monkeypatch.setattr("raykeeper.links.stream_endpoints.STREAM_TURN_MS", turn_ms)


async def rest(stranger: socket.socket) -> bytes:
    """Return what the listener says until it closes."""
    heard, loop = b"", asyncio.get_running_loop()
    with suppress(ConnectionResetError):
        while piece := await asyncio.wait_for(loop.sock_recv(stranger, 4096), 10):
            heard += piece
    return heard


def open_files() -> int:
    return len(list(Path("/proc/self/fd").iterdir()))


async def test_a_thousand_dialers_at_once_all_get_a_stream(monkeypatch: pytest.MonkeyPatch) -> None:
    patience(monkeypatch, 60_000, 60_000)
    async with crowded(handshakes_max=16, waiting_max=200, handshake_ms=60_000) as place:
        async with asyncio.timeout(60):
            links = await asyncio.gather(*(place.dial(seed) for seed in range(1_000)))
        assert {link.carrier for link in links} == {STREAM}
        assert await place.station.accepted() == 1_000
        assert place.calls_used == 0


async def test_a_server_without_room_for_a_client_refuses_it_over_streams() -> None:
    class Full(Station):
        def accept(self, hello: Hello, link: Link) -> LinkEvents:
            raise LinkRefused("the server has 0 clients already")

    async with crowded(Full()) as place:
        with pytest.raises(LinkRefused, match="the server has 0 clients already"):
            await place.dial()
        assert place.calls_used == 0


@pytest.mark.parametrize("said", [b"", b"GET / HTTP/1.1\r\n"], ids=["nothing", "too little"])
async def test_connections_that_never_speak_keep_nobody_out(said: bytes) -> None:
    async with crowded(handshakes_max=2, waiting_max=8, handshake_ms=60_000) as place:
        silent = [await place.connect(said) for _ in range(40)]
        links = [await place.dial(seed) for seed in range(20)]
        assert {link.carrier for link in links} == {STREAM}
        notice = busy_notice(place.address.key)
        assert [await rest(stranger) for stranger in silent[:32]] == [notice] * 32


async def test_what_dialers_without_a_proof_hold_is_bounded() -> None:
    async with crowded(handshakes_max=2, waiting_max=8, handshake_ms=60_000) as place:
        before = open_files()
        for _ in range(50):
            await place.connect()
            await place.connect(MAGIC + new_nonce())
        await place.wait_held(10)
        assert open_files() - before == 100 + 10


async def test_a_silent_connection_is_told_to_come_again_in_time() -> None:
    async with crowded(handshake_ms=30) as place:
        assert await rest(await place.connect()) == busy_notice(place.address.key)
        assert place.lines == []


async def test_the_time_of_a_handshake_begins_at_its_turn() -> None:
    async with crowded(handshakes_max=1, waiting_max=8, handshake_ms=300) as place:
        holders = [await place.connect(MAGIC + new_nonce()) for _ in range(3)]
        link = await place.dial()  # after three handshakes that took all their time
        assert link.carrier == STREAM
        assert [len(await rest(holder)) for holder in holders] == [64, 64, 64]
        assert place.lines == []


async def test_a_connection_that_waits_no_longer_takes_no_time() -> None:
    async with crowded(handshakes_max=1, waiting_max=8, handshake_ms=60_000) as place:
        holder = await place.hold_turn()
        gone = [await place.connect(MAGIC + new_nonce()) for _ in range(4)]
        await place.wait_held(5)
        for stranger in (*gone, holder):
            stranger.close()
        assert (await place.dial()).carrier == STREAM
        await place.wait_held(0)


async def test_a_full_queue_is_told_with_a_count_and_not_each_time(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("raykeeper.links.stream_endpoints.BUSY_REPORT_S", 0.5)
    async with crowded(handshakes_max=1, waiting_max=2, handshake_ms=60_000) as place:
        await place.hold_turn()
        for _ in range(2):
            await place.connect(MAGIC + new_nonce())
        await place.wait_held(3)
        for _ in range(5):
            assert await rest(await place.connect()) == busy_notice(place.address.key)
        assert place.lines == [{"sent_away": 1, "waiting_max": 2}]
        await place.wait_lines(2)
        assert place.lines[1] == {"sent_away": 4, "waiting_max": 2}


@pytest.mark.parametrize("is_encrypted", [False, True])
async def test_a_busy_server_is_not_taken_for_one_without_streams(
    is_encrypted: bool, tls_files: TlsFiles, monkeypatch: pytest.MonkeyPatch
) -> None:
    patience(monkeypatch, 10_000, 300)
    if is_encrypted:
        tls_files.use(monkeypatch)
    async with crowded(handshakes_max=0, waiting_max=0) as place:
        with pytest.raises(StreamBusy, match="no room for one more handshake"):
            await place.dial()
        assert place.calls_used == 0
        assert sum(line["sent_away"] for line in place.lines) == 1


async def test_a_server_takes_ray_calls_to_a_busy_one() -> None:
    async with crowded(handshakes_max=0, waiting_max=0) as place:
        link = await place.dial(hello=PEER)
        assert link.carrier == RAY_CALLS


async def test_a_server_that_is_too_slow_is_tried_again_until_it_was_silent_thrice(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    patience(monkeypatch, 30, 40)
    with socket.create_server((HOST, 0)) as silent:
        address = StreamAddress(HOST, silent.getsockname()[1], bytes(32))
        dialer = dialer_to(address)
        for expected in (StreamBusy, StreamBusy, StreamUnavailable, StreamUnavailable):
            with pytest.raises(expected, match="did not answer in time"):
                await dialer.dial(SERVER, Recorder())


async def test_a_dialer_that_is_slow_itself_does_not_blame_the_server(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    patience(monkeypatch, 20, 10_000)
    async with crowded() as place:
        loop = asyncio.get_running_loop()
        peer_of, connect = socket.socket.getpeername, loop.sock_connect
        answers = iter([False])  # at first it is still connecting, as over a network

        def answered_late(connecting: socket.socket) -> object:
            if not next(answers, True):
                raise OSError(errno.ENOTCONN, "not connected")
            return peer_of(connecting)

        async def connect_and_stall(connecting: socket.socket, address: tuple[str, int]) -> None:
            loop.call_soon(time.sleep, 0.05)
            await connect(connecting, address)
            await asyncio.sleep(0)

        monkeypatch.setattr(socket.socket, "getpeername", answered_late)
        monkeypatch.setattr(loop, "sock_connect", connect_and_stall)
        assert (await place.dial()).carrier == STREAM


@pytest.mark.parametrize("proves", [False, True])
async def test_only_who_has_proved_to_be_the_server_is_tried_again(
    proves: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    patience(monkeypatch, 10_000, 100)
    key = bytes(32)

    async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        first = await reader.readexactly(len(MAGIC) + 32)
        if proves:
            nonce = new_nonce()
            writer.write(nonce + proof(key, Role.ACCEPTOR, first[len(MAGIC) :], nonce))
            await reader.readexactly(32)
        writer.close()

    async with answering(answer, key) as address:
        with pytest.raises(StreamBusy if proves else StreamUnavailable, match="no stream to"):
            await dialer_to(address).dial(SERVER, Recorder())


async def test_a_busy_notice_with_another_key_is_not_believed() -> None:
    async def answer(_: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write(busy_notice(bytes(32)))
        writer.close()

    async with answering(answer, bytes(range(32))) as address:
        with pytest.raises(StreamUnavailable):
            await dialer_to(address).dial(SERVER, Recorder())


@asynccontextmanager
async def answering(
    answer: Callable[[asyncio.StreamReader, asyncio.StreamWriter], Awaitable[None]], key: bytes
) -> AsyncIterator[StreamAddress]:
    server = await asyncio.start_server(answer, HOST, 0)
    yield StreamAddress(HOST, server.sockets[0].getsockname()[1], key)
    server.close()
    await server.wait_closed()


def dialer_to(address: StreamAddress) -> StreamDialer:
    async def find(_: ServerId) -> StreamAddress:
        return address

    return StreamDialer(find, CLIENT, LONG_KEEPALIVE_MS, rng=Random(1))
