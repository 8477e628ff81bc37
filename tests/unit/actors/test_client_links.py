"""ClientLinks: connection numbers, the bound, and what a closed link no longer says."""

from collections.abc import Callable

import pytest

from raykeeper.actors.client_links import ClientLinks
from raykeeper.links.contract import RAY_CALLS, STREAM, LinkRefused
from raykeeper.links.processes import Process
from raykeeper.server.events import (
    SENT_REPORT_BYTES,
    ClientBytesSent,
    ClientDisconnected,
    ClientFrameArrived,
    Event,
)

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
    return ClientLinks(6, 2, events.append)


def test_frames_and_replies_go_by_number(links: ClientLinks, events: list[Event]) -> None:
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


def test_what_has_left_is_told_when_it_is_worth_it(links: ClientLinks, events: list[Event]) -> None:
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


def test_one_more_is_refused_until_one_has_gone(links: ClientLinks, events: list[Event]) -> None:
    first = links.accept(Wire())
    links.accept(Wire())
    with pytest.raises(LinkRefused, match="2 clients already"):
        links.accept(Wire())
    first.closed("gone")
    first.closed("again")
    assert events == [ClientDisconnected(FIRST)]
    assert len(links) == 1
    links.accept(Wire())


def test_a_link_that_was_closed_here_says_nothing_more(
    links: ClientLinks, events: list[Event]
) -> None:
    wire = Wire()
    end = links.accept(wire)
    links.close(FIRST, "expired")
    links.close(FIRST, "again")
    end.frames([b"late"])
    end.closed("late")
    links.send(FIRST, b"late")
    assert (wire.reasons, wire.sent, events) == (["expired"], [], [])


def test_all_are_closed_when_the_server_stops(links: ClientLinks) -> None:
    wires = [Wire(), Wire()]
    for wire in wires:
        links.accept(wire)
    links.close_all("stops")
    assert [wire.reasons for wire in wires] == [["stops"], ["stops"]]
    assert len(links) == 0


PROCESS = Process("node", "worker", 7, 8, "here")


def test_a_process_is_asked_after_when_its_link_ends_by_itself(
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


def test_those_over_calls_are_told_and_can_be_lost(links: ClientLinks, events: list[Event]) -> None:
    wires = [Wire(), Wire()]
    wires[0].carrier = RAY_CALLS
    for wire in wires:
        links.accept(wire, "", PROCESS)
    assert links.over_calls() == [(FIRST, PROCESS)]
    links.close_dead(FIRST, "dead")
    links.close_dead(FIRST, "dead")
    assert events == [ClientDisconnected(FIRST)] and wires[0].reasons == ["dead"]
    assert links.over_calls() == [] and len(links) == 1
