"""The promises of `links/contract.py`, over every carrier.

`tests/ray/test_links_ray.py` runs the same suite over real actors.
"""

import asyncio
import random
from collections.abc import Iterator
from typing import Any

import pytest
import uvloop

from raykeeper.links.contract import Link, LinkRefused, LinkUnreachable
from raykeeper.links.hello import Fence, client_hello, peer_hello
from raykeeper.zab.ids import ServerId
from tests.contract.link_carriers import (
    ENSEMBLE,
    INCARNATION,
    QUEUE_BYTES_MAX,
    SERVER,
    CallsCarrier,
    Carrier,
    MemoryCarrier,
    Recorder,
)
from tests.contract.stream_carrier import MovingCarrier, StreamCarrier, TlsFiles

CLIENT = client_hello(ENSEMBLE)


@pytest.fixture(params=[MemoryCarrier, CallsCarrier, StreamCarrier, "uvloop", "tls", MovingCarrier])
def kind(request: pytest.FixtureRequest) -> Any:
    """A carrier; "uvloop" and "tls" are streams on another loop, and with another security."""
    return request.param


@pytest.fixture
def runner(kind: Any) -> Iterator[asyncio.Runner]:
    factory = uvloop.new_event_loop if kind == "uvloop" else asyncio.new_event_loop
    with asyncio.Runner(loop_factory=factory) as runner:
        yield runner


@pytest.fixture
def carrier(
    kind: Any, runner: asyncio.Runner, monkeypatch: pytest.MonkeyPatch, tls_files: TlsFiles
) -> Iterator[Carrier]:
    async def make() -> Carrier:
        return StreamCarrier() if kind in ("uvloop", "tls") else kind()

    if kind == "tls":
        tls_files.use(monkeypatch)
    carrier = runner.run(make())  # a carrier is made in the loop where it listens
    yield carrier
    runner.run(carrier.close())


async def dial(carrier: Carrier, **options: Any) -> tuple[Link, Recorder]:
    near = Recorder()
    link = await carrier.dialer(options.pop("hello", CLIENT), **options).dial(SERVER, near)
    assert await near.wait_received(1) == [b"accepted"]
    near.batches.clear()
    return link, near


def numbered(count: int) -> list[bytes]:
    return [b"%d" % number for number in range(count)]


async def test_frames_arrive_in_order_and_once_in_both_directions(carrier: Carrier) -> None:
    link, near = await dial(carrier)
    frames = numbered(600)
    dice = random.Random(3)
    sent = 0
    while sent < len(frames):
        burst = frames[sent : sent + dice.randrange(1, 40)]
        sent += len(burst)
        for frame in burst:
            link.send(frame)
        await carrier.station.send(0, burst)
    assert await carrier.station.wait_received(0, 600) == frames
    assert await near.wait_received(600) == frames


async def test_frames_of_one_loop_turn_travel_together(carrier: Carrier) -> None:
    link, near = await dial(carrier)
    for frame in numbered(100):
        link.send(frame)
    await carrier.station.wait_received(0, 100)
    assert len(await carrier.station.batches(0)) == 1
    await carrier.station.send(0, numbered(100))
    await near.wait_received(100)
    assert len(near.batches) == 1


async def test_the_link_names_the_incarnation_that_answered(carrier: Carrier) -> None:
    link, _ = await dial(carrier)
    assert link.incarnation == INCARNATION


async def test_a_close_by_the_dialer_comes_after_its_frames(carrier: Carrier) -> None:
    link, near = await dial(carrier)
    for frame in numbered(50):
        link.send(frame)
    link.close("done here")
    link.close("again")
    link.send(b"too late")
    assert await carrier.station.wait_closed(0) == "done here"
    assert await carrier.station.wait_received(0, 50) == numbered(50)
    assert near.reasons == []


async def test_a_close_by_the_acceptor_comes_after_its_frames(carrier: Carrier) -> None:
    link, near = await dial(carrier)
    link.send(b"before")
    await carrier.station.wait_received(0, 1)
    await carrier.station.send(0, numbered(50))
    await carrier.station.close(0, "done there")
    assert await near.wait_closed() == "done there"
    assert near.received == numbered(50)
    link.send(b"too late")
    link.close("too late")
    assert await carrier.station.reasons(0) == []
    assert await carrier.station.batches(0) == [[b"before"]]


async def test_an_end_that_closes_in_the_turn_of_a_break_receives_nothing(carrier: Carrier) -> None:
    link, near = await dial(carrier)
    link.send(bytes(QUEUE_BYTES_MAX + 1))
    link.close("in the same turn")
    await carrier.station.wait_closed(0)
    assert near.reasons == []
    _, near = await dial(carrier)
    await carrier.station.overrun_and_close(1)
    await near.wait_closed()
    assert await carrier.station.reasons(1) == []


async def test_nothing_is_delivered_from_inside_send_or_close(carrier: Carrier) -> None:
    link, near = await dial(carrier)
    link.send(bytes(QUEUE_BYTES_MAX + 1))
    assert near.reasons == []
    await near.wait_closed()


@pytest.mark.parametrize("direction", ["to_acceptor", "to_dialer"])
async def test_a_cut_in_one_direction_is_learned_at_both_ends(
    carrier: Carrier, direction: str
) -> None:
    link, near = await dial(carrier)
    link.send(b"a")
    await carrier.station.wait_received(0, 1)
    await carrier.station.send(0, [b"x"])
    await near.wait_received(1)
    getattr(carrier, f"cut_{direction}")()
    link.send(b"b")
    await carrier.station.send(0, [b"y"])
    async with asyncio.timeout(10 + 10 * carrier.deadline_s):
        await near.wait_closed()
        await carrier.station.wait_closed(0)
    link.send(b"c")
    await carrier.station.send(0, [b"z"])
    far = [frame for batch in await carrier.station.batches(0) for frame in batch]
    assert far in ([b"a"], [b"a", b"b"])
    assert near.received in ([b"x"], [b"x", b"y"])
    assert len(near.reasons) == len(await carrier.station.reasons(0)) == 1


async def test_a_dialer_that_queues_too_much_loses_its_link(carrier: Carrier) -> None:
    link, near = await dial(carrier)
    for _ in range(QUEUE_BYTES_MAX // 1000 + 1):
        link.send(bytes(1000))
    assert "the queue of the link is full" in await near.wait_closed()
    await carrier.station.wait_closed(0)
    link.send(b"ignored")
    assert len(near.reasons) == 1


async def test_an_acceptor_that_queues_too_much_loses_its_link(carrier: Carrier) -> None:
    _, near = await dial(carrier)
    await carrier.station.send(0, [bytes(1000)] * (QUEUE_BYTES_MAX // 1000 + 1))
    assert "the queue of the link is full" in await carrier.station.wait_closed(0)
    await near.wait_closed()


async def test_both_ends_learn_how_many_bytes_have_left(carrier: Carrier) -> None:
    link, near = await dial(carrier)
    left: list[int] = []
    link.on_bytes_sent(left.append)
    for size in (1000, 30_000, 7):
        link.send(bytes(size))
        await carrier.station.send(0, [bytes(size)] * 2)
    await carrier.station.wait_received(0, 3)
    await near.wait_received(6)
    assert sum(left) == 31_007
    assert sum(await carrier.station.left(0)) == len(b"accepted") + 2 * 31_007


async def test_a_foreign_hello_is_refused_with_the_reason(carrier: Carrier) -> None:
    with pytest.raises(LinkRefused, match="belongs to ensemble 8a1b, not to other"):
        await carrier.dialer(client_hello("other")).dial(SERVER, Recorder())
    assert await carrier.station.accepted() == 0
    await dial(carrier, hello=client_hello())


async def test_an_unknown_server_is_unreachable(carrier: Carrier) -> None:
    with pytest.raises(LinkUnreachable, match="server 2"):
        await carrier.dialer(CLIENT).dial(ServerId(2), Recorder())


async def test_a_higher_incarnation_fences_a_lower_dialer(carrier: Carrier) -> None:
    _, old = await dial(carrier, hello=peer_hello(ENSEMBLE, ServerId(2), 4))
    link, new = await dial(carrier, hello=peer_hello(ENSEMBLE, ServerId(2), 5))
    assert await old.wait_closed() == "a newer link came"
    with pytest.raises(LinkRefused, match="incarnation 4 of server 2 was fenced by"):
        await dial(carrier, hello=peer_hello(ENSEMBLE, ServerId(2), 4))
    link.send(b"alive")
    await carrier.station.wait_received(1, 1)
    assert new.reasons == []


async def test_a_fenced_acceptor_is_refused_by_the_dialer(carrier: Carrier) -> None:
    fence = Fence()
    fence.admit(SERVER, INCARNATION + 1)
    with pytest.raises(LinkRefused, match=f"incarnation {INCARNATION} of server 1"):
        await dial(carrier, fence=fence)
