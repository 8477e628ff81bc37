"""ReplicaLinks: which carriers a server takes, and what it says where it cannot listen."""

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any

import pytest

from raykeeper.actors.replica_links import CannotListenError, ReplicaLinks
from raykeeper.links.auto_dialer import AutoDialer
from raykeeper.links.contract import RAY_CALLS, STREAM, LinkRefused
from raykeeper.links.hello import client_hello
from raykeeper.server.events import ClientFrameArrived, Event
from raykeeper.zab.ids import ServerId
from tests.contract.link_carriers import Calls, Recorder
from tests.unit.actors.test_replica_config import config

HERE, ELSEWHERE = "127.0.0.1", "203.0.113.7"
SERVER = ServerId(2)


class Links:
    """The links of a server of the ensemble `u`, and what came of them."""

    def __init__(self, setting: str, host: str = HERE) -> None:
        self.events: list[Event] = []
        self.lines: list[tuple[str, dict[str, Any]]] = []
        self.changed = asyncio.Event()
        self.links = ReplicaLinks(config(links=setting), 5, host, self._deliver, self._log)
        self.handle = Calls(self._call)

    async def dial(self, near: Recorder) -> Any:
        return await AutoDialer(lambda _: self.handle, client_hello("u"), 40).dial(SERVER, near)

    def _deliver(self, event: Event) -> None:
        self.events.append(event)
        self.changed.set()

    def _log(self, line: str, **fields: Any) -> None:
        self.lines.append((line, fields))

    async def _call(self, method: str, *args: Any) -> Any:
        if method == "link_address":
            return self.links.address
        return await getattr(self.links.calls, method)(*args)


def run(scenario: Callable[[], Awaitable[None]]) -> None:
    async def whole() -> None:
        await scenario()

    asyncio.run(whole())


@pytest.mark.parametrize(
    ("setting", "carrier", "streams"),
    [("auto", STREAM, True), ("direct", STREAM, True), ("ray", RAY_CALLS, False)],
)
def test_clients_take_what_the_setting_says(setting: str, carrier: str, streams: bool) -> None:
    async def scenario() -> None:
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

    run(scenario)


def test_a_server_for_streams_alone_refuses_calls() -> None:
    async def scenario() -> None:
        server = Links("direct")
        server.links.close("it listens no more")
        await asyncio.sleep(0)
        with pytest.raises(LinkRefused, match="direct streams only; no stream to"):
            await server.dial(Recorder())

    run(scenario)


def test_who_cannot_listen_says_so_and_takes_calls() -> None:
    async def scenario() -> None:
        server, near = Links("auto", ELSEWHERE), Recorder()
        assert [line for line, _ in server.lines] == ["streams.off"]
        assert server.lines[0][1]["host"] == ELSEWHERE
        assert server.links.stream_problem.startswith(f"cannot listen at {ELSEWHERE}: ")
        link = await server.dial(near)
        assert link.carrier == RAY_CALLS
        server.links.close("the server stops")
        await near.wait_closed()

    run(scenario)


def test_who_cannot_listen_and_shall_do_nothing_else_does_not_run() -> None:
    async def scenario() -> None:
        with pytest.raises(CannotListenError, match=rf"cannot listen at {ELSEWHERE}: "):
            Links("direct", ELSEWHERE)

    run(scenario)
