"""AutoDialer: a stream where one opens, else Ray calls, and the error when neither does."""

import asyncio
import socket
import threading
from typing import Any

import pytest

from raykeeper.links.auto_dialer import AutoDialer
from raykeeper.links.contract import RAY_CALLS, STREAM, Link, LinkEvents, LinkRefused
from raykeeper.links.contract import LinkUnreachable as Unreachable
from raykeeper.links.hello import Hello, client_hello
from raykeeper.links.limits import STREAM_DIALS_MAX
from raykeeper.links.ray_calls import RayCallAcceptor
from raykeeper.links.server_directory import ServerDirectory
from raykeeper.links.stream_endpoints import StreamAddress, StreamListener
from raykeeper.zab.ids import ServerId
from tests.contract.link_carriers import ENSEMBLE, SERVER, Calls, Recorder, Station
from tests.contract.stream_carrier import HOST

CLIENT = client_hello(ENSEMBLE)
SERVERS = [SERVER, ServerId(2), ServerId(3)]
SOON_S = 2.0
"""In which a client is served again after any one server died."""


class OnlyStreams(Station):
    """Refuses links over calls."""

    def accept(self, hello: Hello, link: Link) -> LinkEvents:
        if link.carrier == RAY_CALLS:
            raise LinkRefused("streams only")
        return super().accept(hello, link)


class Actor:
    """An imitation of a replica's handle that records which methods were called."""

    def __init__(self, station: Station) -> None:
        self.station = station
        self._is_dead = False
        self.called: list[str] = []
        self.address: StreamAddress | None = None
        self.handle = Calls(self._call)
        self._acceptor = RayCallAcceptor(station)
        self._listener = StreamListener(station, HOST)
        self.address = self._listener.address

    def dialer(self, **options: Any) -> AutoDialer:
        return AutoDialer(ServerDirectory(lambda _: self.handle), CLIENT, 40, **options)

    def restart(self) -> StreamAddress:
        """Listen on another port with another key; return the address of before."""
        before = self._listener.address
        self._listener.close()
        self._listener = StreamListener(self.station, HOST)
        self.address = self._listener.address
        return before

    def die(self) -> None:
        """Refuse streams, and answer no call."""
        self._listener.close()
        self.handle.loses_calls = True
        self._is_dead = True

    async def close(self, *links: Link) -> None:
        for link in links:
            link.close("done")
        if not self._is_dead:
            self._listener.close()
        for _ in range(20):  # the close calls
            await asyncio.sleep(0.005)

    async def _call(self, method: str, *args: Any) -> Any:
        self.called.append(method)
        if method == "link_address":
            return self.address
        return await getattr(self._acceptor, method)(*args)


def nobody_listens() -> StreamAddress:
    with socket.create_server((HOST, 0)) as gone:
        return StreamAddress(HOST, gone.getsockname()[1], bytes(32))


async def test_a_stream_is_preferred() -> None:
    actor = Actor(Station())
    link = await actor.dialer().dial(SERVER, Recorder())
    assert (link.carrier, actor.called) == (STREAM, ["link_address"])
    await actor.close(link)


@pytest.mark.parametrize("address", [None, nobody_listens()])
async def test_without_a_stream_calls_are_taken(address: StreamAddress | None) -> None:
    actor = Actor(Station())
    actor.address = address
    near = Recorder()
    link = await actor.dialer().dial(SERVER, near)
    assert link.carrier == RAY_CALLS
    assert await near.wait_received(1) == [b"accepted"]
    await actor.close(link)


async def test_no_stream_is_tried_for_a_while_after_a_failure() -> None:
    actor = Actor(Station())
    listening, actor.address = actor.address, nobody_listens()
    dialer = actor.dialer()
    links = [await dialer.dial(SERVER, Recorder())]
    actor.address = listening
    links.append(await dialer.dial(SERVER, Recorder()))
    assert actor.called.count("link_address") == 1
    assert [link.carrier for link in links] == [RAY_CALLS, RAY_CALLS]
    dialer = actor.dialer(pause_ms=0)
    actor.address = nobody_listens()
    links.append(await dialer.dial(SERVER, Recorder()))
    actor.address = listening
    links.append(await dialer.dial(SERVER, Recorder()))
    assert links[-1].carrier == STREAM
    await actor.close(*links)


async def test_a_server_that_does_not_answer_is_not_asked_again_over_calls() -> None:
    async def dead(method: str, *_: Any) -> Any:
        asked.append(method)
        raise RuntimeError("the actor died\nof something")

    asked: list[str] = []
    dialer = AutoDialer(ServerDirectory(lambda _: Calls(dead)), CLIENT, 40)
    with pytest.raises(Unreachable, match=r"server 1: RuntimeError: the actor died$"):
        await dialer.dial(SERVER, Recorder())
    assert asked == ["link_address"]


async def test_a_refusal_is_not_tried_again_over_calls() -> None:
    actor = Actor(Station())
    dialer = AutoDialer(ServerDirectory(lambda _: actor.handle), client_hello("other"), 40)
    with pytest.raises(LinkRefused, match="belongs to ensemble"):
        await dialer.dial(SERVER, Recorder())
    assert actor.called == ["link_address"]
    await actor.close()


async def test_a_refusal_of_calls_also_says_why_no_stream_opened() -> None:
    actor = Actor(OnlyStreams())
    actor.address = nobody_listens()
    with pytest.raises(LinkRefused, match=r"streams only; no stream to StreamAddress\(127"):
        await actor.dialer().dial(SERVER, Recorder())
    await actor.close()


async def test_a_server_that_is_not_found_is_unreachable() -> None:
    def find(server: ServerId) -> Any:
        raise ValueError(f"no actor of {server}")

    with pytest.raises(Unreachable, match="server 1: ValueError: no actor of 1"):
        await AutoDialer(ServerDirectory(find), CLIENT, 40).dial(SERVER, Recorder())


class Ensemble:
    """Three servers, and a GCS that can be away: then no lookup returns."""

    def __init__(self) -> None:
        self.actors: dict[ServerId, Actor] = {}
        for server in SERVERS:
            station = Station()
            station.server_id = server
            self.actors[server] = Actor(station)
        self.gcs = threading.Event()
        self.gcs.set()
        self.found: list[ServerId] = []
        self.directory = ServerDirectory(self._find, first_ms=1)

    async def lose_gcs_after_connect(self) -> AutoDialer:
        """Return the dialer of a client that was connected to the first server."""
        self.directory.keep(SERVERS)
        dialer = AutoDialer(self.directory, CLIENT, 40)
        link = await dialer.dial(SERVER, Recorder())
        async with asyncio.timeout(10):
            while not all(self.directory.address(server) for server in SERVERS):
                await asyncio.sleep(0)
        self.gcs.clear()
        link.close("its server dies")
        for actor in self.actors.values():
            actor.called.clear()
        self.found.clear()
        return dialer

    async def close(self, *links: Link) -> None:
        self.gcs.set()
        for actor in self.actors.values():
            await actor.close(*links)

    def _find(self, server: ServerId) -> Any:
        self.found.append(server)
        self.gcs.wait()
        return self.actors[server].handle


async def test_without_the_gcs_every_other_server_is_dialed_soon() -> None:
    ensemble = Ensemble()
    dialer = await ensemble.lose_gcs_after_connect()
    ensemble.actors[SERVER].die()
    async with asyncio.timeout(SOON_S):
        links = [await dialer.dial(server, Recorder()) for server in SERVERS[1:]]
    assert [link.carrier for link in links] == [STREAM, STREAM]
    assert ensemble.found == []
    assert [ensemble.actors[server].called for server in SERVERS[1:]] == [[], []]
    await ensemble.close(*links)


async def test_without_the_gcs_a_dead_server_takes_no_longer_than_any_other() -> None:
    ensemble = Ensemble()
    dialer = await ensemble.lose_gcs_after_connect()
    ensemble.actors[SERVER].die()
    async with asyncio.timeout(SOON_S):
        with pytest.raises(Unreachable, match=r"server 1 did not answer within 1\.5 s"):
            await dialer.dial(SERVER, Recorder())
    await ensemble.close()


async def test_without_the_gcs_a_restarted_server_is_asked_for_its_address() -> None:
    ensemble = Ensemble()
    dialer = await ensemble.lose_gcs_after_connect()
    restarted = ensemble.actors[SERVER]
    restarted.restart()
    async with asyncio.timeout(SOON_S):
        links = [await dialer.dial(SERVER, Recorder()) for _ in range(2)]
    assert [link.carrier for link in links] == [STREAM, STREAM]
    assert (restarted.called, ensemble.found) == (["link_address"], [])
    await ensemble.close(*links)


async def test_a_process_at_the_old_port_without_the_key_is_not_taken_for_the_server() -> None:
    ensemble = Ensemble()
    dialer = await ensemble.lose_gcs_after_connect()
    restarted, other = ensemble.actors[SERVER], ensemble.actors[SERVERS[1]]
    restarted.restart()
    assert other.address is not None
    stale = StreamAddress(HOST, other.address.port, bytes(32))
    restarted.address, now = stale, restarted.address
    assert await ensemble.directory.ask_address(SERVER, ensemble.directory.address(SERVER)) == stale
    restarted.address = now
    link = await dialer.dial(SERVER, Recorder())
    assert await restarted.station.accepted() == 2
    assert await other.station.accepted() == 0
    await ensemble.close(link)


async def test_a_server_that_refuses_is_asked_whether_it_lives_elsewhere() -> None:
    actor = Actor(Station())
    directory = ServerDirectory(lambda _: actor.handle, retry_ms=0)
    await directory.ask_address(SERVER)
    dialer = AutoDialer(directory, client_hello("other"), 40)
    with pytest.raises(LinkRefused, match="belongs to ensemble"):
        await dialer.dial(SERVER, Recorder())
    await asyncio.sleep(0)
    await asyncio.sleep(0)
    assert actor.called == ["link_address", "link_address"]
    await actor.close()


async def test_calls_reach_an_actor_that_has_taken_the_name_of_another() -> None:
    async def dead(_method: str, *_: Any) -> Any:
        raise RuntimeError("the actor died")

    old, new = Actor(Station()), Actor(Station())
    old.address = new.address = None
    handles: list[Any] = [old.handle, new.handle]
    directory = ServerDirectory(lambda _: handles[0], retry_ms=0)
    dialer = AutoDialer(directory, CLIENT, 40)
    links = [await dialer.dial(SERVER, Recorder())]
    handles.pop(0)
    old.handle._call = dead
    with pytest.raises(Unreachable, match="the actor died"):
        await dialer.dial(SERVER, Recorder())
    async with asyncio.timeout(10):
        while await directory.handle(SERVER) is not new.handle:
            await asyncio.sleep(0)
    links.append(await dialer.dial(SERVER, Recorder()))
    assert [await actor.station.accepted() for actor in (old, new)] == [1, 1]
    await new.close(*links)
    await old.close()


async def test_a_few_clients_of_a_process_at_a_time_open_a_stream_to_a_server() -> None:
    """The others wait, but not those that dial another server."""
    busy, other = Actor(Station()), Actor(Station())
    actors = {SERVER: other, ServerId(2): busy}
    busy.station.server_id = ServerId(2)
    directory = ServerDirectory(lambda server: actors[server].handle)
    slots = directory.dial_slots(ServerId(2))
    for _ in range(STREAM_DIALS_MAX):
        assert not slots.locked()
        await slots.acquire()
    assert slots.locked()
    dialer = AutoDialer(directory, CLIENT, 40)
    waiting = asyncio.create_task(dialer.dial(ServerId(2), Recorder()))
    link = await AutoDialer(directory, CLIENT, 40).dial(SERVER, Recorder())
    assert not waiting.done() and busy.called == []
    slots.release()
    await other.close(link)
    await busy.close(await waiting)
