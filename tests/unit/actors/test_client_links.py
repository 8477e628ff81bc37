"""Clients with their connection numbers, over links and over the port of ZooKeeper."""

import asyncio
import socket
from collections.abc import Callable
from contextlib import nullcontext, suppress

import pytest

from raykeeper.actors.client_limit import ClientLimit, client_limit
from raykeeper.actors.client_links import ClientLinks
from raykeeper.links.contract import RAY_CALLS, STREAM, LinkRefused
from raykeeper.links.jute_listener import ZOOKEEPER, JuteListener, PortSettings
from raykeeper.links.processes import Process
from raykeeper.links.shared_ticks import SharedTicks
from raykeeper.links.stream_link import StreamLink
from raykeeper.links.stream_socket import StreamSocket
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

HERE = "127.0.0.1"
FIRST = (6 << 30) + 1


class Wire:
    """The link of a client."""

    carrier = STREAM
    incarnation = 0

    def __init__(self) -> None:
        self.sent: list[bytes] = []
        self.reasons: list[str] = []
        self.told: Callable[[int], None]

    def send_last(self, frame: bytes) -> None:
        self.sent.append(frame)

    def on_bytes_sent(self, told: Callable[[int], None]) -> None:
        self.told = told

    def close(self, reason: str) -> None:
        self.reasons.append(reason)


@pytest.fixture
def events() -> list[Event]:
    return []


@pytest.fixture
def links(events: list[Event]) -> ClientLinks:
    return ClientLinks(6, client_limit(2, 1 << 20, 0), events.append)


def test_frames_and_replies_carry_connection_numbers(
    links: ClientLinks, events: list[Event]
) -> None:
    one, two = Wire(), Wire()
    links.accept(one, "10.0.0.1").frames([b"a", b"b"])
    links.accept(two).frames([b"c"])
    assert events == [
        ClientFrameArrived(FIRST, b"a", "10.0.0.1"),
        ClientFrameArrived(FIRST, b"b", "10.0.0.1"),
        ClientFrameArrived(FIRST + 1, b"c"),
    ]
    links.send(FIRST + 1, b"x")
    links.send(FIRST + 7, b"nobody")
    assert (one.sent, two.sent) == ([], [b"x"])


def test_sent_bytes_are_reported_in_portions(links: ClientLinks, events: list[Event]) -> None:
    wire = Wire()
    links.accept(wire)
    wire.told(SENT_REPORT_BYTES - 1)
    assert events == []
    wire.told(1)
    wire.told(SENT_REPORT_BYTES + 7)
    wire.told(5)
    assert events == [
        ClientBytesSent(FIRST, SENT_REPORT_BYTES),
        ClientBytesSent(FIRST, SENT_REPORT_BYTES + 7),
    ]
    links.close(FIRST, "expired")
    wire.told(SENT_REPORT_BYTES)
    assert len(events) == 2


def test_a_client_beyond_the_bound_is_refused_until_another_disconnects(
    links: ClientLinks, events: list[Event]
) -> None:
    first = links.accept(Wire())
    links.accept(Wire())
    with pytest.raises(LinkRefused, match="clients_max is 2, and the server has as many"):
        links.accept(Wire())
    first.closed("gone")
    first.closed("again")
    assert events == [ClientDisconnected(FIRST)]
    assert len(links) == 1
    links.accept(Wire())


def test_a_client_is_refused_while_too_many_files_are_open(events: list[Event]) -> None:
    limit = client_limit(None, 1_024, 0)
    free = [limit.files_max - limit.files_reserved]
    links = ClientLinks(6, limit, events.append, lambda: free[0])
    with pytest.raises(LinkRefused, match="limit of 1024 open files bears no more"):
        links.accept(Wire())
    free[0] -= 1
    links.accept(Wire())
    assert len(links) == 1


async def test_a_stream_is_refused_by_the_file_that_it_has(events: list[Event]) -> None:
    def next_file() -> int:
        raise AssertionError("the file is known")

    with (
        socket.create_server(("127.0.0.1", 0)) as server,
        socket.create_connection(server.getsockname()) as client,
    ):
        ticks = SharedTicks(asyncio.get_running_loop())
        link = StreamLink(StreamSocket(client, None), 0, 1 << 20, 1.0, 1.0, ticks)
        for reserved, is_refused in ((9, False), (10, True)):
            limit = ClientLimit(99, client.fileno() + 10, reserved, 16, is_set=False)
            links = ClientLinks(6, limit, events.append, next_file)
            with pytest.raises(LinkRefused) if is_refused else nullcontext():
                links.accept(link)


def test_a_closed_link_delivers_nothing_more(links: ClientLinks, events: list[Event]) -> None:
    wire = Wire()
    end = links.accept(wire)
    links.close(FIRST, "expired")
    links.close(FIRST, "again")
    end.frames([b"late"])
    end.closed("late")
    links.send(FIRST, b"late")
    assert (wire.reasons, wire.sent, events) == (["expired"], [], [])


def test_a_server_that_stops_closes_all_links(links: ClientLinks) -> None:
    wires = [Wire(), Wire()]
    for wire in wires:
        links.accept(wire)
    links.close_all("stops")
    assert [wire.reasons for wire in wires] == [["stops"], ["stops"]]
    assert len(links) == 0


PROCESS = Process("node", "worker", 7, 8, "here")


def test_a_link_that_ends_by_itself_reports_its_process(
    links: ClientLinks, events: list[Event]
) -> None:
    lost: list[tuple[int, Process]] = []
    links.on_link_lost = lambda *who: lost.append(who)
    end = links.accept(Wire(), "", PROCESS)
    end.closed("gone")
    end.closed("gone")
    assert events == [ClientDisconnected(FIRST)] and lost == [(FIRST, PROCESS)]
    # Nobody knows which process this one is, and that one was let go.
    links.accept(Wire()).closed("gone")
    end = links.accept(Wire(), "", PROCESS)
    links.close(FIRST + 2, "the session ended")
    end.closed("gone")
    assert len(lost) == 1


def test_clients_over_calls_are_listed_and_closed_when_dead(
    links: ClientLinks, events: list[Event]
) -> None:
    wires = [Wire(), Wire()]
    wires[0].carrier = RAY_CALLS
    for wire in wires:
        links.accept(wire, "", PROCESS)
    assert links.over_calls() == [(FIRST, PROCESS)]
    links.close_dead(FIRST, "dead")
    links.close_dead(FIRST, "dead")
    assert events == [ClientDisconnected(FIRST)] and wires[0].reasons == ["dead"]
    assert links.over_calls() == [] and len(links) == 1


PORT = PortSettings(HERE, 0, 9, 9, 60.0)


class Arrivals:
    """The events so far, and a wait for more."""

    def __init__(self) -> None:
        self.events: list[Event] = []
        self._changed = asyncio.Event()

    def deliver(self, event: Event) -> None:
        self.events.append(event)
        self._changed.set()

    async def wait(self, condition: Callable[[], bool]) -> None:
        async with asyncio.timeout(10):
            while not condition():
                self._changed.clear()
                await self._changed.wait()


def _sent_in(events: list[Event]) -> int:
    return sum(event.bytes for event in events if isinstance(event, ClientBytesSent))


async def test_a_client_of_zookeeper_is_a_client_like_any_other() -> None:
    server = Arrivals()
    clients = ClientLinks(6, client_limit(2, 1 << 20, 0), server.deliver)
    listener = JuteListener(clients, PORT, lambda *_, **__: None)
    await listener.listening()
    reader, writer = await asyncio.open_connection(HERE, listener.port)
    writer.write(b"hello")
    await server.wait(lambda: len(server.events) == 2)
    connected, arrived = server.events
    assert isinstance(connected, JuteClientConnected) and isinstance(arrived, JuteBytesArrived)
    number = connected.connection
    assert (connected.host, len(connected.password)) == (HERE, 16)
    assert (arrived.connection, arrived.data) == (number, b"hello")
    assert clients.carriers() == {ZOOKEEPER: 1}
    for is_reading in (False, True):
        clients.set_reading(number, is_reading)
        clients.set_reading(number + 1, is_reading)
    clients.send(number, bytes(SENT_REPORT_BYTES))
    assert await reader.readexactly(SENT_REPORT_BYTES)
    unreported = JUTE_WRITE_BUFFER_BYTES + JUTE_SENT_REPORT_BYTES
    await server.wait(lambda: _sent_in(server.events) >= SENT_REPORT_BYTES - unreported)
    assert _sent_in(server.events) <= SENT_REPORT_BYTES
    writer.close()
    await writer.wait_closed()
    await server.wait(lambda: server.events[-1] == ClientDisconnected(number))
    assert len(clients) == 0
    listener.close()


async def test_a_server_that_is_full_takes_no_client_of_zookeeper() -> None:
    server = Arrivals()
    events = server.events
    clients = ClientLinks(1, client_limit(1, 1 << 20, 2), server.deliver)
    listener = JuteListener(clients, PORT, lambda *_, **__: None)
    await listener.listening()
    first, writer = await asyncio.open_connection(HERE, listener.port)
    writer.write(b"x")
    await server.wait(lambda: len(events) == 2)
    second, other = await asyncio.open_connection(HERE, listener.port)
    with suppress(ConnectionError):
        assert await second.read() == b""
    assert len(clients) == 1
    clients.close_all("the server stops")
    with suppress(ConnectionError):
        assert await first.read() == b""
    number = clients._last_connection
    clients.on_jute_bytes(number, b"late")
    assert len(events) == 2, "nothing of a connection that was closed here"
    for end in (writer, other):
        end.close()
        with suppress(ConnectionError):
            await end.wait_closed()
    listener.close()
