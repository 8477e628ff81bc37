"""The links of a server: carriers, and the port for clients of ZooKeeper."""

import asyncio
import socket
import threading
from collections.abc import Callable, Mapping
from typing import Any

import pytest

from raykeeper.actors.client_limit import client_limit
from raykeeper.actors.server_links import CannotListenError, ServerLinks
from raykeeper.links.auto_dialer import AutoDialer
from raykeeper.links.contract import RAY_CALLS, STREAM, LinkRefused
from raykeeper.links.hello import client_hello
from raykeeper.links.server_directory import ServerDirectory
from raykeeper.server.events import (
    ClientFrameArrived,
    Event,
    LinkDown,
    LinkUp,
)
from raykeeper.zab.ids import ServerId
from tests.contract.link_carriers import Calls, Recorder
from tests.unit.actors.test_replica_config import config

HERE, ELSEWHERE = "127.0.0.1", "203.0.113.7"
SERVER = ServerId(2)
S1, S2 = ServerId(1), ServerId(2)


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

    for server in (low, high):
        server.links.peers.set_servers((S1, S2))
    high.links.dial_peers(find)
    await high.wait(lambda: LinkUp(S1) in high.events)
    gcs.clear()
    low.links.peers.break_link(S2, "a test cuts it")
    await high.wait(lambda: high.events == [LinkUp(S1), LinkDown(S1), LinkUp(S1)])
    for server in (low, high):
        server.links.close("the server stops")
    gcs.set()


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
