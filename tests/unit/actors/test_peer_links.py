"""PeerLinks over links in memory: who dials, what the core hears, and which link counts."""

import asyncio
from collections.abc import Awaitable, Callable

import pytest

from raykeeper.actors.peer_links import FRAME_BYTES_TARGET, LINKED, PeerLinks
from raykeeper.links.contract import Link, LinkEvents, LinkRefused
from raykeeper.links.hello import Fence, Hello, peer_hello
from raykeeper.links.memory import MemoryNetwork
from raykeeper.server.events import LinkDown, LinkUp, PeerFrame
from raykeeper.server.peer_messages import encode_peer_frame
from raykeeper.zab.ids import ServerId, Zxid
from raykeeper.zab.messages import Commit, Ping, Proposals
from tests.unit.actors.companions import Events

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
    """An end that is sent nothing."""

    def __init__(self, events: Events | None = None) -> None:
        self._events = events or Events()

    def frames(self, frames: list[bytes]) -> None:
        raise AssertionError(frames)

    def closed(self, reason: str) -> None:
        self._events.deliver(reason)


def run(scenario: Callable[[MemoryNetwork], Awaitable[None]]) -> None:
    async def whole() -> None:
        await scenario(MemoryNetwork(deadline_s=0.01))

    asyncio.run(whole())


def test_every_pair_gets_one_link_and_frames_stay_in_order() -> None:
    async def scenario(network: MemoryNetwork) -> None:
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

    run(scenario)


def test_more_than_a_frame_should_hold_leaves_in_several_in_order() -> None:
    async def scenario(network: MemoryNetwork) -> None:
        low, high = Shell(network, S1), Shell(network, S2).start()
        await low.events.wait(1)
        large = [Proposals(Zxid(n), [bytes(FRAME_BYTES_TARGET * 2 // 5)]) for n in (1, 2, 3)]
        high.links.send(S1, [Ping(1), *large, Commit(3)])
        frames = (await low.events.wait(3))[1:]
        assert [len(frame.messages) for frame in frames] == [2, 3]
        messages = [message for frame in frames for message in frame.messages]
        assert messages == [Ping(1), *large, Commit(3)]

    run(scenario)


def test_a_broken_link_is_reported_at_both_ends_and_dialed_again() -> None:
    async def scenario(network: MemoryNetwork) -> None:
        low, high = Shell(network, S1), Shell(network, S2).start()
        await low.events.wait(1)
        network.cut_to_acceptors()
        for shell, peer in ((low, S2), (high, S1)):
            assert await shell.events.wait(3) == [LinkUp(peer), LinkDown(peer), LinkUp(peer)]
        assert low.lines == ["link.up", "link.down", "link.up"]

    run(scenario)


def test_a_new_incarnation_replaces_the_link_of_the_old_one() -> None:
    async def scenario(network: MemoryNetwork) -> None:
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

    run(scenario)


def test_a_link_that_the_core_breaks_is_not_reported_to_it() -> None:
    async def scenario(network: MemoryNetwork) -> None:
        low, high = Shell(network, S1), Shell(network, S2).start()
        await low.events.wait(1)
        low.links.break_link(S2, "broke the protocol")
        low.links.break_link(S2, "again")
        low.links.send(S2, [Ping(1)])
        assert await low.events.wait(2) == [LinkUp(S2), LinkUp(S2)]
        assert (await high.events.wait(3))[1:] == [LinkDown(S1), LinkUp(S1)]

    run(scenario)


def test_a_malformed_frame_breaks_the_link() -> None:
    async def scenario(network: MemoryNetwork) -> None:
        low = Shell(network, S1)
        near = Events()
        link = await network.dialer(peer_hello("e", S2, 1)).dial(S1, Silent(near))
        link.send(b"\xc1")
        link.send(b"\x90")
        assert await low.events.wait(2) == [LinkUp(S2), LinkDown(S2)]
        assert "malformed frame" in (await near.wait(1))[0]

    run(scenario)


@pytest.mark.parametrize(
    ("caller", "incarnation", "words"),
    [
        (S1, 9, "expects no link from server 1"),  # it is us who dial server 1
        (ServerId(4), 9, "expects no link from server 4"),
        (S3, 4, "incarnation 4 of server 3 was fenced"),
    ],
)
def test_refuses(caller: ServerId, incarnation: int, words: str) -> None:
    async def scenario(network: MemoryNetwork) -> None:
        shell = Shell(network, S2)
        Shell(network, S3, incarnation=5).start()
        await shell.events.wait(1)
        with pytest.raises(LinkRefused, match=words):
            await network.dialer(peer_hello("e", caller, incarnation)).dial(S2, Silent())
        assert shell.events.delivered == [LinkUp(S3)]

    run(scenario)


def test_frames_of_a_link_that_was_replaced_are_not_heard() -> None:
    async def scenario(network: MemoryNetwork) -> None:
        low = Shell(network, S1)
        hello = peer_hello("e", S2, 1)
        old = await network.dialer(hello).dial(S1, Silent())
        old.send(encode_peer_frame([Ping(1)]))
        new = await network.dialer(hello).dial(S1, Silent())
        new.send(encode_peer_frame([Ping(2)]))
        expected = [LinkUp(S2), LinkDown(S2), LinkUp(S2), PeerFrame(S2, [Ping(2)])]
        assert await low.events.wait(4) == expected

    run(scenario)


def test_close_drops_all_and_dials_no_more() -> None:
    async def scenario(network: MemoryNetwork) -> None:
        low, high = Shell(network, S1), Shell(network, S2).start()
        await low.events.wait(1)
        high.links.close("stops")
        assert await low.events.wait(2) == [LinkUp(S2), LinkDown(S2)]
        assert low.links.states[S2] == "stops"

    run(scenario)


def test_an_unreachable_server_is_named_with_the_reason() -> None:
    async def scenario(network: MemoryNetwork) -> None:
        shell = Shell(network, S2).start()
        await asyncio.sleep(0)
        assert shell.links.states == {S1: "server 1 does not listen", S3: "not linked yet"}
        shell.links.send(S1, [Ping(1)])
        Shell(network, S1)
        await shell.events.wait(1)

    run(scenario)
