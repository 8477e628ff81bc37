"""The port for clients of ZooKeeper: bytes in and out, its bounds, and a port that is taken."""

import asyncio
import socket
import ssl
from collections.abc import Callable, Coroutine
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest
from msgspec.structs import replace

from raykeeper.links import jute_listener, retried_port
from raykeeper.links.contract import LinkRefused
from raykeeper.links.jute_listener import ZOOKEEPER_TLS, JuteListener, JuteStream, PortSettings
from raykeeper.links.jute_tls import TlsFiles
from tests.harness.event_loops import VirtualLoop
from tests.harness.tls_files import TlsFolder

HERE = "127.0.0.1"
SETTINGS = PortSettings(HERE, 0, 3, 3, 10.0)


class Owner:
    """Takes connections, and keeps what they say."""

    def __init__(self) -> None:
        self.streams: list[JuteStream] = []
        self.arrived = bytearray()
        self.reasons: list[str] = []
        self.sent = 0
        self.refusal = ""
        self.changed = asyncio.Event()
        self.lines: list[tuple[str, dict[str, Any]]] = []
        self._writers: list[asyncio.StreamWriter] = []

    async def dial(
        self, listener: JuteListener, tls: ssl.SSLContext | None = None
    ) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
        """The client's end of a new connection."""
        reader, writer = await asyncio.open_connection(HERE, listener.port, ssl=tls)
        self._writers.append(writer)
        return reader, writer

    async def end(self) -> None:
        """End all connections at both ends."""
        for stream in self.streams:
            stream.abort()
        for writer in self._writers:
            writer.transport.abort()
            with suppress(ConnectionError):
                await writer.wait_closed()

    def accept_jute(self, stream: JuteStream, host: str) -> "Owner":
        self.changed.set()
        if self.refusal:
            raise LinkRefused(self.refusal)
        assert host == HERE and stream.port > 0 and stream.fileno() > 0
        self.streams.append(stream)
        stream.on_bytes_sent(self._count)
        return self

    def bytes_arrived(self, data: bytes) -> None:
        self.arrived += data
        self.changed.set()

    def closed(self, reason: str) -> None:
        self.reasons.append(reason)
        self.changed.set()

    def log(self, name: str, **fields: Any) -> None:
        self.lines.append((name, fields))
        self.changed.set()

    async def until(self, holds: Callable[[], object]) -> None:
        while not holds():
            self.changed.clear()
            await self.changed.wait()

    def _count(self, size: int) -> None:
        self.sent += size
        self.changed.set()


def run(
    scenario: Callable[[Owner], Coroutine[Any, Any, None]],
    loop: Callable[[], asyncio.AbstractEventLoop] = asyncio.new_event_loop,
) -> None:
    async def main() -> None:
        owner = Owner()
        await scenario(owner)
        await owner.end()

    with asyncio.Runner(loop_factory=loop) as runner:
        runner.run(main())


async def listening(owner: Owner, settings: PortSettings = SETTINGS) -> JuteListener:
    listener = JuteListener(owner, settings, owner.log)
    await listener.listening()
    assert listener.port and listener.problem == ""
    return listener


async def connected(
    owner: Owner, settings: PortSettings = SETTINGS
) -> tuple[JuteListener, asyncio.StreamReader, asyncio.StreamWriter]:
    """A listener with one connection: the client's end, `owner.streams[0]` is the other."""
    listener = await listening(owner, settings)
    reader, writer = await owner.dial(listener)
    await owner.until(lambda: owner.streams)
    return listener, reader, writer


async def is_ended(reader: asyncio.StreamReader) -> bool:
    with suppress(ConnectionError):
        return await reader.read() == b""
    return True


async def is_ended_early(reader: asyncio.StreamReader, size: int) -> bool:
    """Whether the connection ends before so many bytes have come."""
    taken = 0
    with suppress(ConnectionError):
        while data := await reader.read(1 << 20):
            taken += len(data)
    return taken < size


def test_bytes_go_both_ways_until_the_client_ends_the_connection() -> None:
    async def scenario(owner: Owner) -> None:
        listener = await listening(owner)
        reader, writer = await owner.dial(listener)
        writer.write(b"hello")
        await owner.until(lambda: owner.arrived == b"hello")
        owner.streams[0].send_last(b"world")
        assert await reader.readexactly(5) == b"world"
        await owner.until(lambda: owner.sent == 5)
        writer.close()
        await owner.until(lambda: owner.reasons)
        owner.streams[0].send(b"more")
        owner.streams[0].set_reading(False)
        owner.streams[0].close("again")
        assert owner.streams[0].fileno() == -1
        listener.close()

    run(scenario)


@pytest.fixture(scope="module")
def files(tmp_path_factory: pytest.TempPathFactory) -> TlsFolder:
    return TlsFolder(tmp_path_factory.mktemp("tls"))


def test_bytes_go_both_ways_over_tls(files: TlsFolder) -> None:
    async def scenario(owner: Owner) -> None:
        settings = replace(SETTINGS, tls=files.of_server(asks_clients=True))
        listener = await listening(owner, settings)
        reader, writer = await owner.dial(listener, files.of_client("authority"))
        writer.write(b"hello")
        await owner.until(lambda: owner.arrived == b"hello")
        (stream,) = owner.streams
        assert stream.carrier == ZOOKEEPER_TLS
        size = 20 << 20
        stream.send(bytes(size))
        assert 0 < size - owner.sent <= size, "what nobody has read is not sent"
        assert len(await reader.readexactly(size)) == size
        await owner.until(lambda: owner.sent >= size - jute_listener.WRITE_BUFFER_BYTES)
        stream.close("done")
        stream.send(b"more")
        assert await reader.read() == b""
        listener.close()

    run(scenario)


def test_a_client_over_tls_ends_the_connection(files: TlsFolder) -> None:
    async def scenario(owner: Owner) -> None:
        listener = await listening(owner, replace(SETTINGS, tls=files.of_server()))
        reader, writer = await owner.dial(listener, files.of_client())
        writer.write(b"hello")
        await owner.until(lambda: owner.arrived == b"hello")
        owner.streams[0].send(b"a session")
        assert await reader.readexactly(9) == b"a session"
        writer.write(b", last")
        writer.close()
        await owner.until(lambda: owner.reasons)
        assert owner.arrived == b"hello, last"
        listener.close()

    run(scenario)


def test_a_client_in_the_clear_finds_no_port_for_tls(files: TlsFolder) -> None:
    async def scenario(owner: Owner) -> None:
        listener = await listening(owner, replace(SETTINGS, tls=files.of_server()))
        reader, writer = await owner.dial(listener)
        writer.write(b"ruok")
        writer.write(bytes(100))
        answer = await reader.read()
        assert b"imok" not in answer and owner.arrived == b""
        await owner.until(lambda: owner.reasons)
        (failed,) = [fields for name, fields in owner.lines if name == "zookeeper.tls_failed"]
        assert failed["host"] == HERE
        listener.close()

    run(scenario)


def test_files_of_tls_are_awaited_and_read_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(retried_port, "LISTEN_RETRY_S", 0.01)
    monkeypatch.setattr(jute_listener, "RENEW_S", 0.01)

    async def scenario(owner: Owner) -> None:
        missing = TlsFiles(str(tmp_path / "authority.pem"), str(tmp_path / "authority.key"))
        listener = JuteListener(owner, replace(SETTINGS, tls=missing), owner.log)
        await owner.until(lambda: listener.problem)
        assert "cannot use" in listener.problem and listener.port == 0
        folder = TlsFolder(tmp_path)
        await listener.listening()
        folder.issue("authority")
        names = [name for name, _ in owner.lines]
        await owner.until(lambda: "zookeeper.tls_renewed" in [name for name, _ in owner.lines])
        assert names[0] == "zookeeper.off"
        (tmp_path / "authority.key").unlink()
        await owner.until(lambda: "zookeeper.tls_kept" in [name for name, _ in owner.lines])
        reader, writer = await owner.dial(listener, folder.of_client())
        writer.write(b"hello")
        await owner.until(lambda: owner.arrived == b"hello")
        owner.streams[0].close("done")
        assert await reader.read() == b""
        listener.close()

    run(scenario)


def test_reading_can_be_paused() -> None:
    async def scenario(owner: Owner) -> None:
        listener, _, writer = await connected(owner)
        (stream,) = owner.streams
        stream.set_reading(False)
        writer.write(b"x" * 100)
        await writer.drain()
        await owner.dial(listener)  # a turn or more of the loop
        await owner.until(lambda: len(owner.streams) == 2)
        assert owner.arrived == b""
        stream.set_reading(True)
        await owner.until(lambda: len(owner.arrived) == 100)
        writer.close()
        listener.close()

    run(scenario)


def test_what_was_sent_leaves_before_the_end_and_is_counted_as_it_leaves() -> None:
    async def scenario(owner: Owner) -> None:
        listener, reader, writer = await connected(owner)
        size = 20 << 20
        owner.streams[0].send(bytes(size))
        assert owner.sent < size, "nobody has read it"
        owner.streams[0].close("done")
        owner.streams[0].close("done")
        assert len(await reader.read(-1)) == size
        assert owner.reasons == [], "the owner closed it, and knows"
        writer.close()
        listener.close()

    run(scenario)


def test_closed_connections_have_so_much_left_to_send_together(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(jute_listener, "LINGER_BYTES", 20 << 20)

    async def scenario(owner: Owner) -> None:
        listener = await listening(owner)
        ends = []
        for count in range(1, 4):
            ends.append(await owner.dial(listener))
            await owner.until(lambda count=count: len(owner.streams) == count)  # type: ignore[misc]
        sizes = (30 << 20, 5 << 20, 14 << 20)
        for stream, size in zip(owner.streams, sizes, strict=True):
            stream.send(bytes(size))
            stream.close("done")
        oldest, *others = (reader for reader, _ in ends)
        assert await is_ended_early(oldest, sizes[0])
        for reader, size in zip(others, sizes[1:], strict=True):
            assert len(await reader.read(-1)) == size
        listener.close()

    run(scenario)


def test_a_client_that_reads_again_is_noticed() -> None:
    async def scenario(owner: Owner) -> None:
        listener, reader, writer = await connected(owner)
        size = 20 << 20
        owner.streams[0].send(bytes(size))
        assert len(await reader.readexactly(size)) == size
        await owner.until(lambda: owner.sent >= size - jute_listener.WRITE_BUFFER_BYTES)
        owner.streams[0].abort()
        writer.close()
        listener.close()

    run(scenario)


def test_one_address_has_so_many_connections_and_gets_its_place_back() -> None:
    async def scenario(owner: Owner) -> None:
        listener = await listening(owner)
        ends = [await owner.dial(listener) for _ in range(3)]
        await owner.until(lambda: len(owner.streams) == 3)
        reader, _ = await owner.dial(listener)
        assert await is_ended(reader)
        (refused,) = [fields for name, fields in owner.lines if name == "zookeeper.refused"]
        assert refused == {"host": HERE, "reason": "3 connections of one address"}
        owner.streams[0].send(b"a session")  # without it, the end of a half may follow a word
        ends[0][1].close()
        await owner.until(lambda: owner.reasons)
        await owner.dial(listener)
        await owner.until(lambda: len(owner.streams) == 4)
        listener.close()

    run(scenario)


@pytest.mark.parametrize("is_encrypted", [False, True])
def test_a_connection_that_ends_without_a_word_gives_its_place_back_at_once(
    files: TlsFolder, is_encrypted: bool
) -> None:
    async def scenario(owner: Owner) -> None:
        settings = PortSettings(HERE, 0, 1, 1, 3600.0)
        if is_encrypted:
            settings = replace(settings, tls=files.of_server())
        listener = await listening(owner, settings)
        for count in (1, 2, 3):  # as a balancer that looks whether the port is open
            _, writer = await owner.dial(listener, files.of_client() if is_encrypted else None)
            writer.close()
            await owner.until(lambda count=count: len(owner.reasons) == count)  # type: ignore[misc]
        assert len(owner.streams) == 3 and owner.arrived == b""
        assert "zookeeper.refused" not in [name for name, _ in owner.lines]
        listener.close()

    run(scenario)


def test_a_connection_that_has_asked_is_kept_for_its_answer_though_its_half_has_ended() -> None:
    async def scenario(owner: Owner) -> None:
        listener, reader, writer = await connected(owner)
        writer.write(b"mntr")
        writer.write_eof()
        await owner.until(lambda: owner.arrived == b"mntr")
        await owner.dial(listener)  # a turn or more of the loop
        await owner.until(lambda: len(owner.streams) == 2)
        owner.streams[0].send(b"zk_version")
        owner.streams[0].close("done")
        assert await reader.read() == b"zk_version"
        listener.close()

    run(scenario)


def test_an_owner_can_refuse() -> None:
    async def scenario(owner: Owner) -> None:
        listener = await listening(owner)
        owner.refusal = "full"
        reader, _ = await owner.dial(listener)
        assert await is_ended(reader)
        assert ("zookeeper.refused", {"host": HERE, "reason": "full"}) in owner.lines
        assert owner.reasons == []
        listener.close()

    run(scenario)


def test_the_connection_without_a_session_for_longest_makes_room() -> None:
    async def scenario(owner: Owner) -> None:
        listener = await listening(owner, PortSettings(HERE, 0, 9, 2, 10.0))
        ends = []
        for count in (1, 2, 3):
            ends.append(await owner.dial(listener))
            await owner.until(lambda count=count: len(owner.streams) == count)  # type: ignore[misc]
            if count == 1:
                owner.streams[0].send(b"a session")
        await owner.dial(listener)
        await owner.until(lambda: len(owner.streams) == 4)
        assert await is_ended(ends[1][0])
        assert await ends[0][0].readexactly(9) == b"a session"
        listener.close()

    run(scenario)


def test_a_connection_that_gets_no_session_is_ended() -> None:
    async def scenario(owner: Owner) -> None:
        listener, silent, _ = await connected(owner, PortSettings(HERE, 0, 3, 3, 0.2))
        assert await is_ended(silent)
        await owner.until(lambda: owner.reasons)
        listener.close()

    run(scenario)


def test_what_a_closed_connection_does_not_read_is_dropped_in_the_end(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(jute_listener, "LINGER_S", 0.01)

    async def scenario(owner: Owner) -> None:
        listener, _, writer = await connected(owner)
        writer.transport.pause_reading()  # type: ignore[attr-defined]
        (stream,) = owner.streams
        stream.send(bytes(20 << 20))
        stream.close("done")
        stream.set_reading(True)
        assert stream.fileno() > 0
        while stream.fileno() > 0:
            await asyncio.sleep(0)
        stream.abort()
        listener.close()

    run(scenario)


def test_a_port_that_is_taken_is_tried_until_it_is_free() -> None:
    async def scenario(owner: Owner) -> None:
        with socket.socket() as taken:
            taken.bind((HERE, 0))
            taken.listen()
            port = taken.getsockname()[1]
            listener = JuteListener(owner, PortSettings(HERE, port, 3, 3, 10.0), owner.log)
            await asyncio.sleep(2.5)
            assert listener.port == 0
            assert listener.problem.startswith(f"cannot listen at {HERE}:{port}: ")
            assert [name for name, _ in owner.lines] == ["zookeeper.off"], "once, not every second"
        await listener.listening()
        assert listener.port == port and listener.problem == ""
        listener.close()

    run(scenario, VirtualLoop)


@pytest.mark.parametrize("is_trying", [True, False])
def test_a_closed_listener_takes_nobody(is_trying: bool) -> None:
    async def scenario(owner: Owner) -> None:
        if is_trying:
            listener = JuteListener(owner, PortSettings("203.0.113.7", 1, 3, 3, 10.0), owner.log)
            await owner.until(lambda: listener.problem)
            listener.close()
            with suppress(asyncio.CancelledError):
                await listener.listening()
            return
        listener = await listening(owner)
        port = listener.port
        await owner.dial(listener)
        await owner.until(lambda: owner.streams)
        listener.close()
        assert listener.port == 0
        with pytest.raises(OSError):
            await asyncio.open_connection(HERE, port)

    run(scenario)
