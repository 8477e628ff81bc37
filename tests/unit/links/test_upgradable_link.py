"""Links that move from Ray calls to a stream: nothing is lost, doubled or out of order."""

import asyncio
import random
from collections.abc import Callable
from typing import Any

import pytest
from msgspec import structs

from raykeeper.links.contract import RAY_CALLS, STREAM, LinkRefused
from raykeeper.links.hello import client_hello
from raykeeper.links.limits import PEER_QUEUE_BYTES_MAX
from raykeeper.links.upgradable_link import UpgradableLink, UpgradingAcceptor
from tests.contract.link_carriers import ENSEMBLE, SERVER, Recorder, Station
from tests.contract.stream_carrier import MovingCarrier

CLIENT = client_hello(ENSEMBLE)


@pytest.mark.parametrize("seed", range(12))
async def test_a_link_loses_nothing_during_its_upgrade(seed: int) -> None:
    dice = random.Random(seed)
    carrier, near = MovingCarrier(seed, pause_ms=dice.randrange(4)), Recorder()
    link = await carrier.dialer(CLIENT).dial(SERVER, near)
    assert link.carrier == RAY_CALLS
    sent = 0
    while link.carrier != STREAM or sent < 300:
        burst = [b"%d" % number for number in range(sent, sent + dice.randrange(1, 5))]
        sent += len(burst)
        for frame in burst:
            link.send(frame)
        await carrier.station.send(0, burst)
        await asyncio.sleep(0)
    expected = [b"%d" % number for number in range(sent)]
    assert await carrier.station.wait_received(0, sent) == expected
    assert await near.wait_received(sent + 1) == [b"accepted", *expected]
    assert await carrier.station.accepted() == 1
    link.close("done")
    assert await carrier.station.wait_closed(0) == "done"
    await carrier.close()


class Carried:
    """One carrier below an upgradable link: what was sent on it, and why it was closed."""

    def __init__(self, carrier: str) -> None:
        self.incarnation = 7
        self.carrier = carrier
        self.sent: list[bytes] = []
        self.reasons: list[str] = []

    def send(self, frame: bytes) -> None:
        self.sent.append(frame)

    def send_last(self, frame: bytes) -> None:
        self.sent += [b"last", frame]

    def close(self, reason: str) -> None:
        self.reasons.append(reason)

    def on_bytes_sent(self, told: Callable[[int], None]) -> None:
        told(len(self.sent))


class Ends:
    """An upgradable link, with its two carriers and its owner."""

    def __init__(self) -> None:
        self.calls, self.stream, self.near = Carried(RAY_CALLS), Carried(STREAM), Recorder()
        self.link = UpgradableLink()
        self.link.events = self.near
        self.link.start_on_calls(self.calls)


def told(ends: Ends, *steps: tuple[str, Any]) -> Ends:
    for step, argument in steps:
        match step:
            case "calls":
                ends.link.frames(argument)
            case "stream":
                ends.link.stream_events.frames(argument)
            case "calls end":
                ends.link.closed(argument)
            case "stream ends":
                ends.link.stream_events.closed(argument)
            case "move":
                ends.link.expect_upgrade()
                ends.link.upgrade_to(ends.stream)
            case "expect":
                ends.link.expect_upgrade()
            case "give up":
                ends.link.cancel_upgrade()
    return ends


MOVE, EXPECT, GIVE_UP = ("move", None), ("expect", None), ("give up", None)


@pytest.mark.parametrize(
    ("steps", "received", "reasons"),
    [
        # What comes on the stream waits for the mark on the calls.
        ([MOVE, ("stream", [b"c"])], [], []),
        ([MOVE, ("stream", [b"c"]), ("calls", [b"a", b"b", b""])], [b"a", b"b", b"c"], []),
        ([MOVE, ("calls", [b"a", b""]), ("stream", [b"b"])], [b"a", b"b"], []),
        # The mark may come before the dialer knows that its stream is open.
        ([EXPECT, ("calls", [b""]), ("stream", [b"a"]), MOVE], [b"a"], []),
        # After the mark the calls mean nothing.
        ([MOVE, ("calls", [b""]), ("calls", [b"x"]), ("calls end", "gone")], [], []),
        # Either carrier breaks: so does the link, once.
        ([MOVE, ("calls end", "gone"), ("stream ends", "too")], [], ["gone"]),
        ([MOVE, ("stream", [b"c"]), ("stream ends", "gone"), ("calls", [b""])], [], ["gone"]),
        ([MOVE, ("calls", [b""]), ("stream ends", "gone")], [], ["gone"]),
        ([MOVE, ("calls end", "gone"), ("stream", [b"x"])], [], ["gone"]),
        # A stream that does not open changes nothing, unless the other end has moved.
        ([EXPECT, GIVE_UP, ("calls", [b"a"])], [b"a"], []),
        ([EXPECT, ("calls", [b"a", b""]), GIVE_UP], [b"a"], ["the link could not move"]),
        ([EXPECT, GIVE_UP, ("calls", [b""])], [], ["the link moved without a request"]),
    ],
)  # fmt: skip
def test_frames_come_in_order_across_both_carriers(
    steps: list[tuple[str, Any]], received: list[bytes], reasons: list[str]
) -> None:
    near = told(Ends(), *steps).near
    assert (near.received, near.reasons) == (received, reasons)


def test_the_mark_is_last_on_the_calls_and_both_marks_end_them() -> None:
    ends = Ends()
    left: list[int] = []
    ends.link.on_bytes_sent(left.append)
    ends.link.send(b"a")
    told(ends, MOVE)
    ends.link.send(b"b")
    ends.link.send_last(b"c")
    assert (ends.calls.sent, ends.stream.sent) == ([b"a", b""], [b"b", b"last", b"c"])
    assert (ends.link.carrier, ends.calls.reasons, left) == (STREAM, [], [0, 0])
    told(ends, ("calls", [b""]))
    assert ends.calls.reasons == ["the link has moved to a stream"]
    ends.link.on_bytes_sent(left.append)
    assert len(left) == 4


def test_a_close_closes_both_carriers_and_nothing_comes_after_it() -> None:
    ends = told(Ends(), MOVE)
    ends.link.close("done")
    assert ends.calls.reasons == ends.stream.reasons == ["done"]
    told(ends, ("calls", [b"a"]), ("stream", [b"b"]), ("calls end", "x"), ("stream ends", "x"))
    assert (ends.near.received, ends.near.reasons) == ([], [])


def test_an_owner_that_closes_during_the_upgrade_receives_nothing_more() -> None:
    class Closes(Recorder):
        def frames(self, frames: list[bytes]) -> None:
            super().frames(frames)
            ends.link.close("enough")

    ends = Ends()
    ends.link.events = near = Closes()
    told(ends, MOVE, ("stream", [b"b"]), ("calls", [b"a", b""]))
    assert near.received == [b"a"]


def test_held_frames_are_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("raykeeper.links.upgradable_link.PEER_QUEUE_BYTES_MAX", 10)
    assert PEER_QUEUE_BYTES_MAX > 10
    near = told(Ends(), MOVE, ("stream", [bytes(6)]), ("stream", [bytes(6)])).near
    assert near.reasons == ["the link moved, and the rest of the calls did not arrive"]


def test_a_stream_that_opens_too_late_is_closed() -> None:
    ends = Ends()
    ends.link.close("done")
    told(ends, MOVE)
    assert ends.stream.reasons == ["the link is over"]


async def test_an_unknown_link_cannot_be_upgraded() -> None:
    station = Station()
    acceptor = UpgradingAcceptor(station)
    hello = client_hello(ENSEMBLE)
    numbered = structs.replace(hello, link=17)
    with pytest.raises(LinkRefused, match="should move is gone"):
        acceptor.accept(numbered, Carried(STREAM))
    events = acceptor.accept(numbered, Carried(RAY_CALLS))
    events.closed("gone")
    with pytest.raises(LinkRefused, match="should move is gone"):
        acceptor.accept(numbered, Carried(STREAM))
    assert await station.accepted() == 1
