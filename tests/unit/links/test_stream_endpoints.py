"""Direct streams: which dialers are accepted, what is bounded, and what only a stream can do."""

import asyncio
import os
import resource
import socket
import struct
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec import structs

from raykeeper.links.contract import LinkRefused, LinkUnreachable
from raykeeper.links.hello import client_hello, encode_hello, peer_hello
from raykeeper.links.limits import HELLO_BYTES_MAX, KEEPALIVE_MS_MAX
from raykeeper.links.stream_auth import MAGIC, Role, busy_notice, new_nonce, proof
from raykeeper.links.stream_endpoints import (
    StreamAddress,
    StreamDialer,
    StreamListener,
    StreamUnavailable,
)
from raykeeper.links.stream_frames import encode_frame
from raykeeper.links.stream_link import StreamLink
from raykeeper.links.stream_socket import tls_context
from raykeeper.zab.ids import ServerId
from tests.contract.link_carriers import ENSEMBLE, SERVER, Recorder, Station
from tests.contract.stream_carrier import HOST, StreamCarrier, TlsFiles

CLIENT = client_hello(ENSEMBLE)
Talk = Callable[[asyncio.StreamReader, asyncio.StreamWriter], Awaitable[Any]]


@pytest.fixture(scope="module")
def tls_files(tmp_path_factory: pytest.TempPathFactory) -> TlsFiles:
    return TlsFiles(tmp_path_factory.mktemp("tls"))


@asynccontextmanager
async def listening(**options: Any) -> AsyncIterator[tuple[StreamListener, Station]]:
    station = Station()
    listener = StreamListener(station, HOST, **options)
    yield listener, station
    listener.close()
    await asyncio.sleep(0)


@asynccontextmanager
async def carried(park_ms: int = 40, grace_ms: int = 400) -> AsyncIterator[StreamCarrier]:
    carrier = StreamCarrier(park_ms, grace_ms)
    try:
        yield carrier
    finally:
        await carrier.close()


def dialer_to(address: StreamAddress | None, park_ms: int = 40) -> StreamDialer:
    async def find(_: ServerId) -> StreamAddress | None:
        return address

    return StreamDialer(find, CLIENT, park_ms)


async def converse(address: StreamAddress, talk: Talk) -> bytes:
    """Connect without a dialer and talk; return what the listener sends until it closes."""
    reader, writer = await asyncio.open_connection(address.host, address.port)
    await talk(reader, writer)
    try:
        return await asyncio.wait_for(reader.read(), 10)
    except ConnectionResetError:
        return b""
    finally:
        writer.close()


async def test_a_dialer_with_another_key_is_rejected() -> None:
    async with listening() as (listener, station):
        wrong = structs.replace(listener.address, key=bytes(32))
        with pytest.raises(StreamUnavailable, match="another process answers"):
            await dialer_to(wrong).dial(SERVER, Recorder())
        assert await station.accepted() == 0


async def test_a_listener_without_the_key_learns_nothing() -> None:
    async def impostor(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readexactly(len(MAGIC) + 32)
        writer.write(bytes(64))
        heard.put_nowait(await reader.read())
        writer.close()

    heard: asyncio.Queue[bytes] = asyncio.Queue()

    server = await asyncio.start_server(impostor, HOST, 0)
    address = StreamAddress(HOST, server.sockets[0].getsockname()[1], bytes(range(32)))
    with pytest.raises(StreamUnavailable, match="another process answers"):
        await dialer_to(address).dial(SERVER, Recorder())
    assert await heard.get() == b""
    server.close()
    await server.wait_closed()


def test_a_proof_is_for_one_connection_and_one_role() -> None:
    key, other = bytes(range(32)), bytes(32)
    mine, theirs = new_nonce(), new_nonce()
    proofs = {
        proof(key, Role.DIALER, mine, theirs),
        proof(key, Role.ACCEPTOR, mine, theirs),
        proof(key, Role.DIALER, theirs, mine),
        proof(key, Role.DIALER, mine, new_nonce()),
        proof(other, Role.DIALER, mine, theirs),
    }
    assert len(proofs) == 5


@settings(max_examples=25)
@given(st.one_of(st.binary(max_size=200), st.binary(max_size=200).map(MAGIC.__add__)))
def test_no_bytes_without_a_proof_are_accepted(data: bytes) -> None:
    async def talk(_: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write(data)
        writer.write_eof()

    async def scenario() -> None:
        async with listening() as (listener, station):
            assert len(await converse(listener.address, talk)) in (0, 64)
            assert await station.accepted() == 0

    asyncio.run(scenario())


async def test_a_replayed_handshake_is_rejected() -> None:
    async with listening() as (listener, station):
        nonce, hello = new_nonce(), (40).to_bytes(4) + encode_frame(encode_hello(CLIENT))
        said: list[bytes] = []

        async def honest(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            writer.write(MAGIC + nonce)
            theirs = (await reader.readexactly(64))[:32]
            said.append(proof(listener.address.key, Role.DIALER, nonce, theirs) + hello)
            writer.write(said[0])
            writer.write_eof()

        async def replayed(_: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            writer.write(MAGIC + nonce + said[0])

        assert b"accepted" in await converse(listener.address, honest)
        assert len(await converse(listener.address, replayed)) in (0, 64)
        assert await station.accepted() == 1
        await station.wait_closed(0)


@pytest.mark.parametrize(
    ("hello", "answer"),
    [
        (encode_frame(b"hello?"), b"not a hello"),
        (struct.pack(">I", (HELLO_BYTES_MAX + 1) << 1), b""),
        (encode_frame(encode_hello(client_hello("other"))), b"belongs to ensemble"),
    ],
)
async def test_a_bad_hello_is_answered_or_dropped(hello: bytes, answer: bytes) -> None:
    async with listening() as (listener, station):

        async def talk(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            nonce = new_nonce()
            writer.write(MAGIC + nonce)
            theirs = (await reader.readexactly(64))[:32]
            key = listener.address.key
            writer.write(proof(key, Role.DIALER, nonce, theirs) + (40).to_bytes(4) + hello)

        assert answer in await converse(listener.address, talk)
        assert await station.accepted() == 0


@pytest.mark.parametrize("early", [b"", b"x", encode_frame(b"a first frame")])
async def test_a_dialer_that_speaks_before_it_is_welcome_is_dropped(early: bytes) -> None:
    async with listening() as (listener, station):

        async def talk(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            nonce, hello = new_nonce(), encode_frame(encode_hello(CLIENT))
            writer.write(MAGIC + nonce)
            theirs = (await reader.readexactly(64))[:32]
            mine = proof(listener.address.key, Role.DIALER, nonce, theirs)
            writer.write(mine + (40).to_bytes(4) + hello + early)
            writer.write_eof()

        assert (b"accepted" in await converse(listener.address, talk)) == (not early)
        assert await station.accepted() == (not early)


async def test_a_handshake_may_come_in_drops() -> None:
    async with listening() as (listener, station):

        async def write(writer: asyncio.StreamWriter, data: bytes) -> None:
            for byte in data:
                writer.write(bytes([byte]))
                await asyncio.sleep(0)

        async def talk(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            nonce, hello = new_nonce(), encode_frame(encode_hello(CLIENT))
            await write(writer, MAGIC + nonce)
            theirs = (await reader.readexactly(64))[:32]
            mine = proof(listener.address.key, Role.DIALER, nonce, theirs)
            await write(writer, mine + (40).to_bytes(4) + hello)
            writer.write_eof()

        assert b"accepted" in await converse(listener.address, talk)
        assert await station.accepted() == 1


async def test_a_silent_connection_is_dropped() -> None:
    async def silent(_: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        pass

    async with listening(handshake_ms=30) as (listener, _):
        notice = busy_notice(listener.address.key)
        assert await converse(listener.address, silent) == notice


def test_an_address_does_not_show_its_key() -> None:
    shown = repr(StreamAddress("10.0.0.1", 4711, b"secret"))
    assert shown == "StreamAddress(10.0.0.1:4711)"


@pytest.mark.parametrize("answer", ["none", "closed"])
async def test_without_a_listener_streams_are_unavailable(answer: str) -> None:
    address = None
    if answer == "closed":
        with socket.create_server((HOST, 0)) as gone:
            address = StreamAddress(HOST, gone.getsockname()[1], bytes(32))
    with pytest.raises(StreamUnavailable):
        await dialer_to(address).dial(SERVER, Recorder())


async def test_a_server_whose_actor_does_not_answer_is_unreachable() -> None:
    async def never(_: ServerId) -> StreamAddress:
        await asyncio.Event().wait()
        raise AssertionError

    dialer = StreamDialer(never, CLIENT, 40, grace_ms=20)
    with pytest.raises(LinkUnreachable, match=r"did not answer within 0\.02 s") as caught:
        await dialer.dial(SERVER, Recorder())
    assert not isinstance(caught.value, StreamUnavailable)


async def test_another_server_at_the_address_is_refused() -> None:
    async with listening() as (listener, station):
        with pytest.raises(LinkRefused, match="server 1 answered instead of server 3"):
            await dialer_to(listener.address).dial(ServerId(3), Recorder())
        await station.wait_closed(0)


async def test_an_idle_link_lives_and_costs_little() -> None:
    async with carried(park_ms=10, grace_ms=60) as carrier:
        near = Recorder()
        await carrier.dialer(CLIENT).dial(SERVER, near)
        await near.wait_received(1)
        began = carrier.middleman.bytes_passed
        while carrier.middleman.bytes_passed < began + 200:  # 50 signs: more than the deadline
            assert not near.reasons
            await carrier.middleman.passed()
        assert await carrier.station.reasons(0) == []
        assert near.batches == [[b"accepted"]]


async def test_the_end_of_the_stream_is_known_at_once() -> None:
    async with carried(park_ms=20_000, grace_ms=20_000) as carrier:
        near = Recorder()
        await carrier.dialer(CLIENT).dial(SERVER, near)
        await near.wait_received(1)
        await carrier.middleman.close()
        assert await near.wait_closed() == "the other end is gone"
        assert await carrier.station.wait_closed(0) == "the other end is gone"


async def test_a_peer_that_does_not_read_gets_no_more_than_the_socket_buffers() -> None:
    async with listening(client_queue_bytes_max=64 << 20) as (listener, station):
        near = Recorder()
        link = await dialer_to(listener.address).dial(SERVER, near)
        await near.wait_received(1)
        loop = asyncio.get_running_loop()
        loop.remove_reader(link._stream.fileno())
        await station.send(0, [bytes(1 << 20)] * 40)
        await asyncio.sleep(0.05)  # nothing tells when a system takes no more
        assert sum(await station.left(0)) < 32 << 20
        loop.add_reader(link._stream.fileno(), link._read)
        assert len(await near.wait_received(41)) == 41
        assert sum(await station.left(0)) == (40 << 20) + len(b"accepted")
        link.close("done")
        await station.wait_closed(0)


async def test_a_client_may_not_announce_a_frame_beyond_its_queue(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("raykeeper.links.stream_endpoints.CLIENT_FRAME_BYTES_MAX", 1_000)

    async with listening() as (listener, station):
        dialer, peer = dialer_to(listener.address), peer_hello(ENSEMBLE, ServerId(7), 1)
        of_client = await dialer.dial(SERVER, Recorder())
        of_peer = await dialer.dial(SERVER, Recorder(), peer)
        for link in (of_client, of_peer):
            link.send(bytes(1_000))
            link.send(bytes(1_001))
        assert await station.wait_closed(0) == "a frame of 1001 bytes was announced"
        assert await station.wait_received(0, 1) == [bytes(1_000)]
        assert await station.wait_received(1, 2) == [bytes(1_000), bytes(1_001)]
        of_peer.close("done")
        await station.wait_closed(1)


async def test_a_long_queue_on_one_stream_does_not_block_the_loop(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("raykeeper.links.stream_link.WRITE_BYTES", 1_000)
    monkeypatch.setattr("raykeeper.links.stream_link.WRITES_MAX", 3)

    async with listening() as (listener, station):
        near, turns = Recorder(), []
        link = await dialer_to(listener.address).dial(SERVER, near)
        await near.wait_received(1)
        loop = asyncio.get_running_loop()

        def left(_: int) -> None:
            turns.append(0)

        def other() -> None:
            turns.append(1)
            if turns.count(0) < 12:
                loop.call_soon(other)

        link.on_bytes_sent(left)
        for _ in range(12):  # in groups of three, the last of which ends with a turn
            link.send(bytes(1_000))
        loop.call_soon(other)
        link.close("all of it")
        assert await station.wait_closed(0) == "all of it"
        assert len(await station.wait_received(0, 12)) == 12
        assert turns[:16] == [0, 0, 0, 1] * 4
        await link.released


async def test_a_closed_link_that_is_not_read_is_released_in_time(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("raykeeper.links.stream_link.CLOSE_MS", 50)

    async with listening(client_queue_bytes_max=64 << 20) as (listener, station):
        near = Recorder()
        # It must not take for silence that it does not listen.
        link = await dialer_to(listener.address, KEEPALIVE_MS_MAX).dial(SERVER, near)
        await near.wait_received(1)
        asyncio.get_running_loop().remove_reader(link._stream.fileno())
        await station.send(0, [bytes(1 << 20)] * 40)
        await station.close(0, "no patience")
        (far, _), *_ = station._links
        assert isinstance(far, StreamLink)
        await far.released  # its close frame can never be read
        asyncio.get_running_loop().add_reader(link._stream.fileno(), link._read)
        await near.wait_closed()
        assert len(near.received) < 41


@pytest.mark.parametrize("wrong", ["stranger dials", "stranger listens", "clear dials", "clear"])
async def test_tls_is_mutual_and_never_omitted(
    wrong: str, tls_files: TlsFiles, monkeypatch: pytest.MonkeyPatch
) -> None:
    if wrong != "clear":
        tls_files.use(monkeypatch, "stranger" if wrong == "stranger listens" else "authority")
    async with listening(handshake_ms=300) as (listener, station):
        if wrong == "clear dials":
            monkeypatch.delenv("RAY_USE_TLS")
        else:
            tls_files.use(monkeypatch, "stranger" if wrong == "stranger dials" else "authority")
        with pytest.raises(StreamUnavailable):
            await dialer_to(listener.address).dial(SERVER, Recorder())
        assert await station.accepted() == 0


@pytest.mark.parametrize(
    ("missing", "text"),
    [
        ({"RAY_TLS_CA_CERT": None}, "RAY_USE_TLS is set, but RAY_TLS_CA_CERT is not"),
        ({"RAY_TLS_SERVER_KEY": "/nowhere"}, "cannot use the TLS files .*/nowhere"),
    ],
)
def test_tls_files_that_cannot_be_used_are_named(
    missing: dict[str, str | None], text: str, tls_files: TlsFiles, monkeypatch: pytest.MonkeyPatch
) -> None:
    tls_files.use(monkeypatch)
    for name, value in missing.items():
        monkeypatch.delenv(name) if value is None else monkeypatch.setenv(name, value)
    with pytest.raises(OSError, match=text):
        tls_context(is_acceptor=True)


async def test_without_file_descriptors_the_listener_waits_and_goes_on(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("raykeeper.links.stream_endpoints.ACCEPT_PAUSE_S", 0.02)

    async with listening() as (listener, station):
        limit = resource.getrlimit(resource.RLIMIT_NOFILE)
        client = socket.socket()
        client.setblocking(False)
        held = os.open(os.devnull, os.O_RDONLY)
        try:
            resource.setrlimit(resource.RLIMIT_NOFILE, (held + 1, limit[1]))
            with pytest.raises(OSError, match="Too many open files"):
                os.open(os.devnull, os.O_RDONLY)
            loop = asyncio.get_running_loop()
            address = listener.address
            await loop.sock_connect(client, (address.host, address.port))
            await asyncio.sleep(0.05)
            assert not listener._queue
        finally:
            resource.setrlimit(resource.RLIMIT_NOFILE, limit)
            os.close(held)
            client.close()
        link = await dialer_to(listener.address).dial(SERVER, Recorder())
        link.close("done")
        await station.wait_closed(0)


async def test_send_last_also_sends_what_is_queued() -> None:
    async with listening() as (listener, station):
        near, left = Recorder(), list[int]()
        link = await dialer_to(listener.address).dial(SERVER, near)
        await near.wait_received(1)
        link.on_bytes_sent(left.append)
        link.send(b"first")
        assert left == []
        link.send_last(b"last")
        assert left == [9]
        assert await station.wait_received(0, 2) == [b"first", b"last"]
        link.close("done")
        link.send_last(b"too late")
        assert await station.wait_closed(0) == "done"
        await link.released


async def test_a_frame_that_the_socket_takes_in_parts_arrives_whole() -> None:
    size = 32 << 20
    async with listening() as (listener, station):
        near, left = Recorder(), list[int]()
        link = await dialer_to(listener.address).dial(SERVER, near)
        await near.wait_received(1)
        link.on_bytes_sent(left.append)
        link.send_last(bytes(size))
        link.send_last(b"behind")
        assert left == []
        assert await station.wait_received(0, 2) == [bytes(size), b"behind"]
        assert left == [size, 6]
        link.close("done")
        assert await station.wait_closed(0) == "done"
        await link.released
