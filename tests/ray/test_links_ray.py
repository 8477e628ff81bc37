"""The contract of links over real actors, and what only a real one can do: die."""

import asyncio
import os
import signal
from collections.abc import Awaitable, Callable, Iterator
from typing import Any

import pytest
import ray
import ray.util
from ray import cloudpickle

from raykeeper.links.auto_dialer import AutoDialer
from raykeeper.links.batches import Portion
from raykeeper.links.contract import STREAM, Dialer, LinkUnreachable
from raykeeper.links.daemon_threads import SharedCall
from raykeeper.links.hello import Fence, Hello
from raykeeper.links.ray_calls import Answer, RayCallAcceptor, RayCallDialer
from raykeeper.links.server_directory import ServerDirectory
from raykeeper.links.stream_endpoints import StreamAddress, StreamListener
from raykeeper.zab.ids import ServerId
from tests.contract import link_carriers
from tests.contract.link_carriers import QUEUE_BYTES_MAX, SERVER, Calls, Recorder, Station
from tests.contract.test_links import *  # noqa: F403  (the suite itself, collected again here)
from tests.contract.test_links import CLIENT

GRACE_MS = 1000
KEEPALIVE_MS = 200


class StationActor:
    """A station in an actor of its own, with the methods the carrier needs."""

    def __init__(self, grace_ms: int) -> None:
        self._station = Station()
        self._acceptor = RayCallAcceptor(self._station, QUEUE_BYTES_MAX, grace_ms)
        host = ray.util.get_node_ip_address()
        self._listener = StreamListener(self._station, host, QUEUE_BYTES_MAX, grace_ms)

    async def link_address(self) -> StreamAddress | None:
        return self._listener.address

    async def pid(self) -> int:
        return os.getpid()

    async def tell(self, method: str, *args: Any) -> Any:
        return await getattr(self._station, method)(*args)

    async def link_open(self, hello: bytes, park_ms: int) -> tuple[int, bytes]:
        return await self._acceptor.link_open(hello, park_ms)

    async def link_send(self, link_id: int, number: int, *portions: Portion) -> Answer:
        return await self._acceptor.link_send(link_id, number, *portions)

    async def link_receive(self, link_id: int) -> Answer:
        return await self._acceptor.link_receive(link_id)

    async def link_close(self, link_id: int, reason: str) -> None:
        await self._acceptor.link_close(link_id, reason)


class DialingActor:
    """Dials from the loop of an async actor."""

    def __init__(self, handle: Any) -> None:
        self._handle = handle

    async def dial_and_send(self, frames: list[bytes]) -> list[bytes]:
        near = Recorder()
        await self._handle.pid.remote()  # the first call of a process takes its time
        dialer = RayCallDialer(
            SharedCall(lambda _: self._handle), CLIENT, KEEPALIVE_MS, grace_ms=GRACE_MS
        )
        link = await dialer.dial(SERVER, near)
        received = await near.wait_received(1)
        for frame in frames:
            link.send(frame)
        link.close("sent")
        return received


class RemoteStation:
    """A station in an actor, asked by calls."""

    def __init__(self, handle: Any) -> None:
        self._handle = handle

    def __getattr__(self, method: str) -> Callable[..., Awaitable[Any]]:
        async def ask(*args: Any) -> Any:
            return await self._handle.tell.remote(method, *args)

        return ask


class RayCarrier:
    """`links/ray_calls.py` to a real actor."""

    deadline_s = 1.2

    def __init__(self, handle: Any) -> None:
        self.handle = handle
        self.station = RemoteStation(handle)
        self._calls = Calls(self._call)

    def dialer(self, hello: Hello, fence: Fence | None = None) -> Dialer:
        return RayCallDialer(
            SharedCall(self._find),
            hello,
            KEEPALIVE_MS,
            fence=fence,
            queue_bytes_max=QUEUE_BYTES_MAX,
            grace_ms=GRACE_MS,
        )

    def cut_to_acceptor(self) -> None:
        self._calls.loses_calls = True

    def cut_to_dialer(self) -> None:
        self._calls.loses_answers = True

    async def close(self) -> None:
        pass

    def _find(self, server: ServerId) -> Calls:
        if server != SERVER:
            raise ValueError(f"no actor of server {server}")
        return self._calls

    async def _call(self, method: str, *args: Any) -> Any:
        return await getattr(self.handle, method).remote(*args)


@pytest.fixture(scope="module")
def ray_started() -> Iterator[None]:
    ray.init(address="local", num_cpus=2, include_dashboard=False, log_to_driver=False)
    # The workers cannot import the tests.
    cloudpickle.register_pickle_by_value(link_carriers)
    yield
    cloudpickle.unregister_pickle_by_value(link_carriers)
    ray.shutdown()


def start_station(**options: Any) -> Any:
    actor = ray.remote(num_cpus=0, max_task_retries=0, max_concurrency=100, **options)
    return actor(StationActor).remote(GRACE_MS)


@pytest.fixture
def runner() -> Iterator[asyncio.Runner]:
    with asyncio.Runner() as runner:
        yield runner


@pytest.fixture
def carrier(ray_started: None) -> Iterator[RayCarrier]:
    handle = start_station()
    # An actor takes its time to start; the deadlines of a link do not wait for it.
    ray.get(handle.__ray_ready__.remote())
    yield RayCarrier(handle)
    ray.kill(handle)


async def test_the_death_of_the_process_breaks_the_link(carrier: Any) -> None:
    near = Recorder()
    patient = 60_000  # what is noticed by silence would take a minute
    dialer = RayCallDialer(
        SharedCall(lambda _: carrier.handle), CLIENT, KEEPALIVE_MS, grace_ms=patient
    )
    await dialer.dial(SERVER, near)
    os.kill(await carrier.handle.pid.remote(), signal.SIGKILL)
    assert "Actor" in await near.wait_closed()
    with pytest.raises(LinkUnreachable, match="server 1: Actor"):
        await dialer.dial(SERVER, Recorder())


async def test_an_actor_can_dial(carrier: Any) -> None:
    dialing = ray.remote(num_cpus=0)(DialingActor).remote(carrier.handle)
    assert await dialing.dial_and_send.remote([b"a", b"b"]) == [b"accepted"]
    assert await carrier.station.wait_received(0, 2) == [b"a", b"b"]
    assert await carrier.station.wait_closed(0) == "sent"
    ray.kill(dialing)


async def test_a_stream_breaks_at_once_when_the_process_dies(carrier: Any) -> None:
    near = Recorder()
    patient = 60_000  # what is noticed by silence would take a minute
    dialer = AutoDialer(
        ServerDirectory(lambda _: carrier.handle), CLIENT, patient, grace_ms=patient
    )
    link = await dialer.dial(SERVER, near)
    assert link.carrier == STREAM
    for number in range(100):
        link.send(b"%d" % number)
    assert len(await carrier.station.wait_received(0, 100)) == 100
    assert await near.wait_received(1) == [b"accepted"]
    os.kill(await carrier.handle.pid.remote(), signal.SIGKILL)
    assert await near.wait_closed() in (
        "the other end is gone",
        "the stream broke: [Errno 104] Connection reset by peer",
    )
