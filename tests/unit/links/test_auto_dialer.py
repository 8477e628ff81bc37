"""AutoDialer: a stream where one opens, else Ray calls, and the error when neither does."""

import asyncio
import socket
from typing import Any

import pytest

from raykeeper.links.auto_dialer import AutoDialer
from raykeeper.links.contract import RAY_CALLS, STREAM, Link, LinkEvents, LinkRefused
from raykeeper.links.contract import LinkUnreachable as Unreachable
from raykeeper.links.hello import Hello, client_hello
from raykeeper.links.ray_calls import RayCallAcceptor
from raykeeper.links.stream_endpoints import StreamAddress, StreamListener
from raykeeper.zab.ids import ServerId
from tests.contract.link_carriers import ENSEMBLE, SERVER, Calls, Recorder, Station
from tests.contract.stream_carrier import HOST

CLIENT = client_hello(ENSEMBLE)


class OnlyStreams(Station):
    """Refuses links over calls."""

    def accept(self, hello: Hello, link: Link) -> LinkEvents:
        if link.carrier == RAY_CALLS:
            raise LinkRefused("streams only")
        return super().accept(hello, link)


class Actor:
    """An imitation of a replica's handle that records which methods were called."""

    def __init__(self, station: Station) -> None:
        self.called: list[str] = []
        self.address: StreamAddress | None = None
        self.handle = Calls(self._call)
        self._acceptor = RayCallAcceptor(station)
        self._listener = StreamListener(station, HOST)
        self.address = self._listener.address

    def dialer(self, **options: Any) -> AutoDialer:
        return AutoDialer(lambda _: self.handle, CLIENT, 40, **options)

    async def close(self, *links: Link) -> None:
        for link in links:
            link.close("done")
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
    dialer = AutoDialer(lambda _: Calls(dead), CLIENT, 40)
    with pytest.raises(Unreachable, match=r"server 1: RuntimeError: the actor died$"):
        await dialer.dial(SERVER, Recorder())
    assert asked == ["link_address"]


async def test_a_refusal_is_not_tried_again_over_calls() -> None:
    actor = Actor(Station())
    dialer = AutoDialer(lambda _: actor.handle, client_hello("other"), 40)
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
        await AutoDialer(find, CLIENT, 40).dial(SERVER, Recorder())
