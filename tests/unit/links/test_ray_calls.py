"""The Ray-call carrier beyond the contract: wrong calls, failing calls, dead links."""

import asyncio
from typing import Any

import pytest

from raykeeper.links.batches import Portion
from raykeeper.links.contract import Link, LinkEvents, LinkRefused, LinkUnreachable
from raykeeper.links.daemon_threads import SharedCall
from raykeeper.links.handshake import NOT_A_HELLO
from raykeeper.links.hello import (
    LINK_VERSION,
    Hello,
    Refusal,
    Welcome,
    client_hello,
    decode_answer,
    encode_hello,
)
from raykeeper.links.limits import PORTION_BYTES
from raykeeper.links.ray_calls import UNKNOWN_LINK, RayCallAcceptor, RayCallDialer
from raykeeper.zab.ids import ServerId
from tests.contract.link_carriers import (
    ENSEMBLE,
    INCARNATION,
    SERVER,
    Calls,
    CallsCarrier,
    Recorder,
    Station,
)

HELLO = client_hello(ENSEMBLE)
KEEPALIVE_MS = 20


async def opened(
    grace_ms: int = 5000, station: Station | None = None
) -> tuple[Station, RayCallAcceptor, int]:
    station = station or Station()
    acceptor = RayCallAcceptor(station, grace_ms=grace_ms)
    link_id, answer = await acceptor.link_open(encode_hello(HELLO), KEEPALIVE_MS)
    assert decode_answer(answer) == Welcome(LINK_VERSION, SERVER, INCARNATION)
    assert await acceptor.link_receive(link_id) == (0, ([b"accepted"], False), None)
    return station, acceptor, link_id


async def test_link_ids_belong_to_one_incarnation() -> None:
    _, _, link_id = await opened()
    assert link_id >> 32 == INCARNATION


async def test_a_malformed_hello_is_refused() -> None:
    link_id, answer = await RayCallAcceptor(Station()).link_open(b"hello?", KEEPALIVE_MS)
    assert link_id == 0
    assert decode_answer(answer) == NOT_A_HELLO


async def test_calls_on_an_unknown_link_are_answered_with_its_end() -> None:
    acceptor = RayCallAcceptor(Station())
    assert await acceptor.link_send(5, 0, ([b"a"], False)) == (0, None, UNKNOWN_LINK)
    assert await acceptor.link_receive(5) == (0, None, UNKNOWN_LINK)
    await acceptor.link_close(5, "whatever")


async def test_a_long_poll_returns_empty_after_its_time() -> None:
    _, acceptor, link_id = await opened()
    assert await acceptor.link_receive(link_id) == (1, None, None)


class Replying(Station):
    """Answers each batch with `replies`, in the next turn of the loop as a server's shell does."""

    def __init__(self, replies: list[bytes]) -> None:
        super().__init__()
        self._replies = replies

    def accept(self, hello: Hello, link: Link) -> LinkEvents:
        recorder = super().accept(hello, link)
        loop = asyncio.get_running_loop()

        class Reply:
            def frames(_, frames: list[bytes]) -> None:  # noqa: N805
                loop.call_soon(lambda: [link.send(reply) for reply in self._replies])

            closed = recorder.closed

        return Reply()


@pytest.mark.parametrize(
    ("replies", "answer", "parked_answer"),
    [
        ([b"a", b"b"], ([b"a", b"b"], False), (2, None)),
        # Too much for one call inside Ray's message: the rest wakes the call that is parked.
        (
            [b"a" * PORTION_BYTES, b"b"],
            ([b"a" * PORTION_BYTES], False),
            (2, ([b"b"], False)),
        ),
    ],
)
async def test_the_answer_to_a_batch_carries_the_replies_to_it(
    replies: list[bytes], answer: Portion, parked_answer: tuple[int, Portion | None]
) -> None:
    _, acceptor, link_id = await opened(station=Replying(replies))
    parked = asyncio.ensure_future(acceptor.link_receive(link_id))
    await asyncio.sleep(0)
    question = ([b"question"], False)
    assert await acceptor.link_send(link_id, 0, question) == (1, answer, None)
    assert await parked == (*parked_answer, None)


@pytest.mark.parametrize("number", [-1, 1, 7])
async def test_a_batch_out_of_turn_breaks_the_link(number: int) -> None:
    station, acceptor, link_id = await opened()
    reason = f"batch {number} came instead of 0, or with a frame that is too large"
    assert await acceptor.link_send(link_id, number, ([b"a"], False)) == (1, None, reason)
    assert await station.wait_closed(0) == reason
    assert await station.batches(0) == []


async def test_both_calls_learn_why_the_link_ended() -> None:
    station, acceptor, link_id = await opened()
    await station.send(0, [b"last"])
    await station.close(0, "enough")
    assert await acceptor.link_send(link_id, 0, ([b"late"], False)) == (
        1,
        ([b"last"], False),
        "enough",
    )
    assert await acceptor.link_receive(link_id) == (2, None, "enough")
    assert await station.batches(0) == []


async def test_a_second_long_poll_releases_the_first() -> None:
    _, acceptor, link_id = await opened()
    first = asyncio.ensure_future(acceptor.link_receive(link_id))
    await asyncio.sleep(0)
    second = asyncio.ensure_future(acceptor.link_receive(link_id))
    assert await first == (1, None, None)
    assert await second == (1, None, None)


async def test_a_silent_dialer_loses_its_link() -> None:
    station, acceptor, link_id = await opened(grace_ms=20)
    assert await station.wait_closed(0) == "nothing was heard in time"
    assert await acceptor.link_receive(link_id) == (0, None, UNKNOWN_LINK)


async def test_a_link_that_the_dialer_closes_is_released_at_once() -> None:
    station, acceptor, link_id = await opened()
    await acceptor.link_close(link_id, "bye")
    assert await station.wait_closed(0) == "bye"
    assert await acceptor.link_receive(link_id) == (0, None, UNKNOWN_LINK)


async def test_a_call_that_fails_breaks_the_link_with_a_short_reason() -> None:
    carrier = CallsCarrier()
    near = Recorder()
    link = await carrier.dialer(HELLO).dial(SERVER, near)

    async def fail(*_args: Any) -> None:
        raise RuntimeError("the actor died\nand here is its life")

    carrier.calls._call = fail
    link.send(b"a")
    assert await near.wait_closed() == "RuntimeError: the actor died"


async def test_a_call_that_cannot_be_submitted_breaks_the_link() -> None:
    carrier = CallsCarrier()
    near = Recorder()
    link = await carrier.dialer(HELLO).dial(SERVER, near)

    def refuse(*_args: Any) -> None:
        raise RuntimeError

    carrier.calls.call = refuse  # type: ignore[method-assign, assignment]
    link.send(b"a")
    assert await near.wait_closed() == "RuntimeError"
    link.close("too late")


async def test_a_server_that_answers_for_another_is_refused() -> None:
    carrier = CallsCarrier()
    dialer = RayCallDialer(SharedCall(lambda _: carrier.calls), HELLO, KEEPALIVE_MS)
    with pytest.raises(LinkRefused, match="server 1 answered instead of server 2"):
        await dialer.dial(ServerId(2), Recorder())
    assert "answered instead" in await carrier.station.wait_closed(0)


@pytest.mark.parametrize("garbage", [b"\xc1", encode_hello(Refusal("e")).replace(b"e", b"\xff")])
async def test_a_server_whose_answer_cannot_be_decoded_is_refused(garbage: bytes) -> None:
    async def answer(*_args: Any) -> tuple[int, bytes]:
        return 1, garbage

    dialer = RayCallDialer(SharedCall(lambda _: Calls(answer)), HELLO, KEEPALIVE_MS)
    with pytest.raises(LinkRefused, match="cannot be understood"):
        await dialer.dial(SERVER, Recorder())


async def test_a_server_that_does_not_answer_is_unreachable() -> None:
    async def never(*_args: Any) -> None:
        await asyncio.Event().wait()

    dialer = RayCallDialer(SharedCall(lambda _: Calls(never)), HELLO, KEEPALIVE_MS, grace_ms=20)
    with pytest.raises(LinkUnreachable, match=r"did not answer within 0\.02 s"):
        await dialer.dial(SERVER, Recorder())


async def test_answers_that_overtake_each_other_are_put_in_order() -> None:
    """Many seeds, since a fixed one may never let an answer overtake another."""

    for seed in range(30):
        carrier = CallsCarrier(seed)
        near = Recorder()
        link = await carrier.dialer(HELLO).dial(SERVER, near)
        frames = [b"%d" % number for number in range(60)]
        for frame in frames:
            link.send(frame)
            await carrier.station.send(0, [frame])
            await asyncio.sleep(0)
        await carrier.station.close(0, "done")
        assert await near.wait_closed() == "done"
        assert near.received == [b"accepted", *frames]
