"""The links of a server: carriers, peers, and the port for clients of ZooKeeper."""

import asyncio
import socket
import threading
from collections.abc import Callable, Mapping
from typing import Any

import pytest

from raykeeper.actors.client_limit import client_limit
from raykeeper.actors.server_links import (
    FRAME_BYTES_TARGET,
    LINKED,
    CannotListenError,
    PeerLinks,
    ServerLinks,
)
from raykeeper.links.auto_dialer import AutoDialer
from raykeeper.links.contract import RAY_CALLS, STREAM, Link, LinkEvents, LinkRefused
from raykeeper.links.hello import Fence, Hello, client_hello, peer_hello
from raykeeper.links.server_directory import ServerDirectory
from raykeeper.server.events import (
    ClientFrameArrived,
    Event,
    LinkDown,
    LinkUp,
    PeerFrame,
)
from raykeeper.server.peer_messages import encode_peer_frame
from raykeeper.zab.ids import ServerId, Zxid
from raykeeper.zab.messages import Commit, Ping, Proposals
from tests.contract.link_carriers import Calls, Recorder
from tests.harness.memory_links import MemoryNetwork
from tests.unit.actors.companions import Events
from tests.unit.actors.test_replica_config import config

HERE, ELSEWHERE = "127.0.0.1", "203.0.113.7"
SERVER = ServerId(2)


class Links:
    """The links of a server of the ensemble `u`, their events and their log lines."""

    def __init__(
        self,
        setting: str,
        host: str = HERE,
        server_id: ServerId = SERVER,
        settings: Mapping[str, Any] = {},
    ) -> None:
        self.events: list[Event] = []
        self.lines: list[tuple[str, dict[str, Any]]] = []
        self.changed = asyncio.Event()
        self.links = ServerLinks(
            config(links=setting, server_id=server_id, **settings),
            5,
            host,
            self._deliver,
            self._log,
            client_limit(None, 1 << 20, 2),
        )
        self.handle = Calls(self._call)

    async def dial(self, near: Recorder) -> Any:
        return await AutoDialer(ServerDirectory(lambda _: self.handle), client_hello("u"), 40).dial(
            SERVER, near
        )

    async def wait(self, condition: Callable[[], bool]) -> None:
        async with asyncio.timeout(10):
            while not condition():
                self.changed.clear()
                await self.changed.wait()

    def _deliver(self, event: Event) -> None:
        self.events.append(event)
        self.changed.set()

    def _log(self, line: str, **fields: Any) -> None:
        self.lines.append((line, fields))

    async def _call(self, method: str, *args: Any) -> Any:
        if method == "link_address":
            return self.links.address
        return await getattr(self.links.calls, method)(*args)


@pytest.mark.parametrize(
    ("setting", "carrier", "streams"),
    [("auto", STREAM, True), ("direct", STREAM, True), ("ray", RAY_CALLS, False)],
)
async def test_the_setting_decides_the_carrier(setting: str, carrier: str, streams: bool) -> None:
    server, near = Links(setting), Recorder()
    link = await server.dial(near)
    assert (link.carrier, link.incarnation) == (carrier, 5)
    assert server.links.clients.carriers() == {carrier: 1}
    assert (server.links.address is not None, server.links.stream_problem) == (streams, "")
    link.send(b"hello")
    await asyncio.wait_for(server.changed.wait(), 10)
    (event,) = server.events
    assert isinstance(event, ClientFrameArrived) and event.data == b"hello"
    server.links.close("the server stops")
    assert await near.wait_closed() == "the server stops"


async def test_a_server_for_streams_alone_refuses_calls() -> None:
    server = Links("direct")
    server.links.close("it listens no more")
    await asyncio.sleep(0)
    with pytest.raises(LinkRefused, match="direct streams only; no stream to"):
        await server.dial(Recorder())


async def test_a_server_that_cannot_listen_logs_it_and_takes_calls() -> None:
    server, near = Links("auto", ELSEWHERE), Recorder()
    assert [line for line, _ in server.lines] == ["streams.off"]
    assert server.lines[0][1]["host"] == ELSEWHERE
    assert server.links.stream_problem.startswith(f"cannot listen at {ELSEWHERE}: ")
    link = await server.dial(near)
    assert link.carrier == RAY_CALLS
    server.links.close("the server stops")
    await near.wait_closed()


async def test_a_server_for_streams_alone_that_cannot_listen_raises() -> None:
    with pytest.raises(CannotListenError, match=rf"cannot listen at {ELSEWHERE}: "):
        Links("direct", ELSEWHERE)


@pytest.mark.parametrize("setting", ["direct", "ray"])
async def test_a_peer_is_dialed_again_while_the_gcs_is_away(setting: str) -> None:
    """The name of a server that was linked once is not looked up any more."""
    low, high = Links(setting, server_id=S1), Links(setting)
    gcs = threading.Event()
    gcs.set()

    def find(server: ServerId) -> Any:
        assert server == S1
        gcs.wait()
        return low.handle

    high.links.dial_peers(find)
    await high.wait(lambda: LinkUp(S1) in high.events)
    gcs.clear()
    low.links.peers.break_link(S2, "a test cuts it")
    await high.wait(lambda: high.events == [LinkUp(S1), LinkDown(S1), LinkUp(S1)])
    for server in (low, high):
        server.links.close("the server stops")
    gcs.set()


S1, S2, S3 = ServerId(1), ServerId(2), ServerId(3)
SERVERS = [S1, S2, S3]


class Shell:
    """One incarnation of a server on a network in memory."""

    def __init__(self, network: MemoryNetwork, server_id: ServerId, incarnation: int = 1) -> None:
        self.server_id = server_id
        self.incarnation = incarnation
        self.events = Events()
        self.lines: list[str] = []
        fence = Fence()
        others = [server for server in SERVERS if server != server_id]
        self.links = PeerLinks(server_id, others, fence, self.events.deliver, self._log)
        network.listen(self)
        self._dialer = network.dialer(peer_hello("e", server_id, incarnation), fence)

    def start(self) -> "Shell":
        self.links.start(self._dialer)
        return self

    def accept(self, hello: Hello, link: Link) -> LinkEvents:
        return self.links.accept(hello, link)

    def _log(self, name: str, /, **_fields: object) -> None:
        self.lines.append(name)


class Silent:
    """The events of an end that receives no frames."""

    def __init__(self, events: Events | None = None) -> None:
        self._events = events or Events()

    def frames(self, frames: list[bytes]) -> None:
        raise AssertionError(frames)

    def closed(self, reason: str) -> None:
        self._events.deliver(reason)


@pytest.fixture
def network() -> MemoryNetwork:
    return MemoryNetwork(deadline_s=0.01)


async def test_every_pair_gets_one_link_and_frames_stay_in_order(network: MemoryNetwork) -> None:
    shells = [Shell(network, server).start() for server in SERVERS]
    for shell in shells:
        up = await shell.events.wait(2)
        assert {event.peer for event in up} == set(SERVERS) - {shell.server_id}
        assert set(shell.links.states.values()) == {LINKED}
    shells[0].links.send(S3, [Ping(1), Commit(7)])
    shells[0].links.send(S3, [Ping(1)])
    shells[2].links.send(S1, [Ping(1)])
    frames = (await shells[2].events.wait(4))[2:]
    assert frames == [PeerFrame(S1, [Ping(1), Commit(7)]), PeerFrame(S1, [Ping(1)])]
    assert (await shells[0].events.wait(3))[2:] == [PeerFrame(S3, [Ping(1)])]


async def test_a_large_batch_leaves_in_several_frames_in_order(network: MemoryNetwork) -> None:
    low, high = Shell(network, S1), Shell(network, S2).start()
    await low.events.wait(1)
    large = [Proposals(Zxid(n), [bytes(FRAME_BYTES_TARGET * 2 // 5)]) for n in (1, 2, 3)]
    high.links.send(S1, [Ping(1), *large, Commit(3)])
    frames = (await low.events.wait(3))[1:]
    assert [len(frame.messages) for frame in frames] == [2, 3]
    messages = [message for frame in frames for message in frame.messages]
    assert messages == [Ping(1), *large, Commit(3)]


async def test_a_broken_link_is_reported_at_both_ends_and_dialed_again(
    network: MemoryNetwork,
) -> None:
    low, high = Shell(network, S1), Shell(network, S2).start()
    await low.events.wait(1)
    network.cut_to_acceptors()
    for shell, peer in ((low, S2), (high, S1)):
        assert await shell.events.wait(3) == [LinkUp(peer), LinkDown(peer), LinkUp(peer)]
    assert low.lines == ["link.up", "link.down", "link.up"]


async def test_a_new_incarnation_replaces_the_link_of_the_old_one(network: MemoryNetwork) -> None:
    low, old = Shell(network, S1), Shell(network, S2, incarnation=1).start()
    await old.events.wait(1)
    new = Shell(network, S2, incarnation=2).start()
    await new.events.wait(1)
    assert await low.events.wait(3) == [LinkUp(S2), LinkDown(S2), LinkUp(S2)]
    old.links.send(S1, [Ping(1)])
    new.links.send(S1, [Commit(1)])
    assert (await low.events.wait(4))[3] == PeerFrame(S2, [Commit(1)])
    await old.events.wait(2)
    assert old.links.states[S1] != LINKED


async def test_a_link_broken_by_the_core_is_not_reported_to_it(network: MemoryNetwork) -> None:
    low, high = Shell(network, S1), Shell(network, S2).start()
    await low.events.wait(1)
    low.links.break_link(S2, "broke the protocol")
    low.links.break_link(S2, "again")
    low.links.send(S2, [Ping(1)])
    assert await low.events.wait(2) == [LinkUp(S2), LinkUp(S2)]
    assert (await high.events.wait(3))[1:] == [LinkDown(S1), LinkUp(S1)]


async def test_a_malformed_frame_breaks_the_link(network: MemoryNetwork) -> None:
    low = Shell(network, S1)
    near = Events()
    link = await network.dialer(peer_hello("e", S2, 1)).dial(S1, Silent(near))
    link.send(b"\xc1")
    link.send(b"\x90")
    assert await low.events.wait(2) == [LinkUp(S2), LinkDown(S2)]
    assert "malformed frame" in (await near.wait(1))[0]


@pytest.mark.parametrize(
    ("caller", "incarnation", "words"),
    [
        (S1, 9, "expects no link from server 1"),  # it is us who dial server 1
        (ServerId(4), 9, "expects no link from server 4"),
        (S3, 4, "incarnation 4 of server 3 was fenced"),
    ],
)
async def test_a_bad_dialer_is_refused(
    network: MemoryNetwork, caller: ServerId, incarnation: int, words: str
) -> None:
    shell = Shell(network, S2)
    Shell(network, S3, incarnation=5).start()
    await shell.events.wait(1)
    with pytest.raises(LinkRefused, match=words):
        await network.dialer(peer_hello("e", caller, incarnation)).dial(S2, Silent())
    assert shell.events.delivered == [LinkUp(S3)]


async def test_frames_of_a_replaced_link_are_dropped(network: MemoryNetwork) -> None:
    low = Shell(network, S1)
    hello = peer_hello("e", S2, 1)
    old = await network.dialer(hello).dial(S1, Silent())
    old.send(encode_peer_frame([Ping(1)]))
    new = await network.dialer(hello).dial(S1, Silent())
    new.send(encode_peer_frame([Ping(2)]))
    expected = [LinkUp(S2), LinkDown(S2), LinkUp(S2), PeerFrame(S2, [Ping(2)])]
    assert await low.events.wait(4) == expected


async def test_close_drops_all_links_and_stops_dialing(network: MemoryNetwork) -> None:
    low, high = Shell(network, S1), Shell(network, S2).start()
    await low.events.wait(1)
    high.links.close("stops")
    assert await low.events.wait(2) == [LinkUp(S2), LinkDown(S2)]
    assert low.links.states[S2] == "stops"


async def test_an_unreachable_server_is_named_with_the_reason(network: MemoryNetwork) -> None:
    shell = Shell(network, S2).start()
    await asyncio.sleep(0)
    assert shell.links.states == {S1: "server 1 does not listen", S3: "not linked yet"}
    shell.links.send(S1, [Ping(1)])
    Shell(network, S1)
    await shell.events.wait(1)


async def test_the_setting_opens_the_port_for_clients_of_zookeeper() -> None:
    with socket.socket() as probe:
        probe.bind((HERE, 0))
        port = probe.getsockname()[1]
    server = Links("ray", settings={"zookeeper_port": port})
    assert server.links.jute is not None
    await server.links.jute.listening()
    assert server.links.jute.port == port
    assert ("zookeeper.listens", {"address": HERE, "port": port}) in server.lines
    server.links.close("the server stops")
    assert server.links.jute.port == 0
    assert Links("ray").links.jute is None
