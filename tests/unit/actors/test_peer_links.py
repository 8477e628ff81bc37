"""The links of a server to the others: who dials, what replaces what, and what the core is told."""

import asyncio
from collections.abc import Sequence
from random import Random
from typing import Any

import pytest

from raykeeper.actors.peer_links import FRAME_BYTES_TARGET, LINKED, PeerLinks
from raykeeper.links.contract import Link, LinkEvents, LinkRefused
from raykeeper.links.hello import Fence, Hello, peer_hello
from raykeeper.server.events import LinkDown, LinkUp, PeerFrame
from raykeeper.server.peer_messages import encode_peer_frame
from raykeeper.zab.ids import ServerId, Zxid
from raykeeper.zab.messages import Commit, Ping, Proposals
from tests.harness.memory_links import MemoryDialer, MemoryNetwork
from tests.unit.actors.companions import Events

S1, S2, S3 = ServerId(1), ServerId(2), ServerId(3)
SERVERS = [S1, S2, S3]


class Shell:
    """One incarnation of a server on a network in memory, with a list of `servers`."""

    def __init__(
        self,
        network: MemoryNetwork,
        server_id: ServerId,
        incarnation: int = 1,
        servers: Sequence[ServerId] = SERVERS,
        patience_s: float = 60.0,
    ) -> None:
        self.server_id = server_id
        self.incarnation = incarnation
        self.events = Events()
        self.lines: list[str] = []
        self.changes: list[tuple[str, object]] = []
        fence = Fence()
        self.links = PeerLinks(server_id, fence, self.events.deliver, self._log, patience_s)
        self.links.set_servers(servers)
        network.listen(self)
        self.dialer = network.dialer(peer_hello("e", server_id, incarnation), fence)

    def start(self) -> "Shell":
        self.links.start(self.dialer)
        return self

    def accept(self, hello: Hello, link: Link) -> LinkEvents:
        return self.links.accept(hello, link)

    def _log(self, name: str, /, **fields: object) -> None:
        self.lines.append(name)
        self.changes.append((name, fields["peer"]))


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
        (S1, 9, "server 2 dials server 1, and expects no link from it"),
        (S2, 9, "takes no link of a server 2"),
        (ServerId(0), 9, "takes no link of a server 0"),
        (ServerId(255), 9, "takes no link of a server 255"),
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


# Servers that come and go.


async def test_a_newcomer_dials_everybody_whatever_its_id(network: MemoryNetwork) -> None:
    """No list has it, so nobody dials it."""
    for newcomer in (S1, S2, S3):
        members = [server for server in SERVERS if server != newcomer]
        shells = [Shell(network, server, 1, members).start() for server in members]
        joining = Shell(network, newcomer, 1, members).start()
        up = await joining.events.wait(2)
        assert [event.peer for event in up] == members
        for shell in shells:
            await shell.events.wait(2)
            assert shell.links.states == dict.fromkeys({*SERVERS} - {shell.server_id}, LINKED)
        for shell in (*shells, joining):
            shell.links.close("the test goes on")


async def test_a_newcomer_that_becomes_a_member_keeps_its_link(network: MemoryNetwork) -> None:
    """Though from then on the server with the higher id dials."""
    high = Shell(network, S2, 1, [S2]).start()
    low = Shell(network, S1, 1, [S2]).start()
    assert await high.events.wait(1) == [LinkUp(S1)]
    for shell in (high, low):
        shell.links.set_servers([S1, S2])
    low.links.send(S2, [Ping(1)])
    assert await high.events.wait(2) == [LinkUp(S1), PeerFrame(S1, [Ping(1)])]
    low.links.break_link(S2, "a test cuts it")
    assert (await high.events.wait(4))[2:] == [LinkDown(S1), LinkUp(S1)]
    assert low.lines == ["link.up", "link.down", "link.up"]  # by the dial of server 2


async def test_a_member_that_nobody_dials_dials_a_higher_id_in_the_end(
    network: MemoryNetwork,
) -> None:
    """It was away, and was removed: it does not know, and the others have forgotten it."""
    high = Shell(network, S2, 1, [S2, S3]).start()
    low = Shell(network, S1, 1, [S1, S2], patience_s=0.01).start()
    assert await high.events.wait(1) == [LinkUp(S1)]
    assert await low.events.wait(1) == [LinkUp(S2)]
    assert high.links.states == {S1: LINKED, S3: "not linked yet"}


async def test_a_server_of_both_lists_is_left_to_the_higher_id(network: MemoryNetwork) -> None:
    high = Shell(network, S2)
    low = Shell(network, S1, patience_s=0.0).start()
    refused = "server 2 dials server 1, and expects no link from it"
    async with asyncio.timeout(10):
        while low.links.states[S2] != refused:
            await asyncio.sleep(0)
    high.start()
    assert await low.events.wait(1) == [LinkUp(S2)]


async def test_two_that_dial_each_other_end_with_one_link(network: MemoryNetwork) -> None:
    """The low one's dial is accepted; before it returns, the high one's list has the low one."""
    gate = asyncio.Event()
    high = Shell(network, S2, 1, [S2])
    low = Shell(network, S1, 1, [S2])
    low.links.start(SlowDialer(low.dialer, gate))
    assert await high.events.wait(1) == [LinkUp(S1)]
    high.links.break_link(S1, "it has only been dialed")  # which the low end cannot know yet
    high.links.set_servers([S1, S2])
    high.start()
    assert await low.events.wait(1) == [LinkUp(S2)]
    gate.set()
    high.links.send(S1, [Ping(1)])
    assert await low.events.wait(2) == [LinkUp(S2), PeerFrame(S2, [Ping(1)])]
    low.links.send(S2, [Ping(2)])
    assert await high.events.wait(3) == [LinkUp(S1), LinkUp(S1), PeerFrame(S1, [Ping(2)])]


class SlowDialer:
    """Returns its links late."""

    def __init__(self, dialer: MemoryDialer, gate: asyncio.Event) -> None:
        self._dialer = dialer
        self._gate = gate

    async def dial(self, server: ServerId, events: LinkEvents) -> Link:
        link = await self._dialer.dial(server, events)
        await self._gate.wait()
        return link


async def test_a_server_that_leaves_keeps_its_link_and_is_dialed_no_more(
    network: MemoryNetwork,
) -> None:
    """By that link it learns that it was removed."""
    low, high = Shell(network, S1).start(), Shell(network, S2).start()
    await low.events.wait(1)
    high.links.set_servers([S2, S3])
    assert high.links.states == {S1: LINKED, S3: "not linked yet"}
    high.links.send(S1, [Ping(1)])
    assert await low.events.wait(2) == [LinkUp(S2), PeerFrame(S2, [Ping(1)])]
    low.links.close("it has ended")
    assert await high.events.wait(2) == [LinkUp(S1), LinkDown(S1)]
    assert S1 not in high.links.states
    await nobody_is_dialed(high, S1)
    high.links.set_servers([S1, S2, S3])
    assert high.links.states[S1] == "not linked yet"
    Shell(network, S1, 2).start()
    assert (await high.events.wait(3))[2] == LinkUp(S1)


async def nobody_is_dialed(shell: Shell, peer: ServerId) -> None:
    async with asyncio.timeout(10):
        while peer in shell.links._dialing:
            await asyncio.sleep(0)


async def idle() -> None:
    """Let everything run that can."""
    for _ in range(100):
        await asyncio.sleep(0)


async def test_a_server_that_never_was_linked_is_forgotten_with_its_list(
    network: MemoryNetwork,
) -> None:
    shell = Shell(network, S2, 1, [S1, S2]).start()
    await idle()
    assert shell.links.states == {S1: "server 1 does not listen"}
    shell.links.set_servers([S2])
    assert shell.links.states == {}
    await nobody_is_dialed(shell, S1)
    assert shell.links.states == {}


async def test_a_server_outside_of_every_list_may_come_and_go(network: MemoryNetwork) -> None:
    shell = Shell(network, S2, 1, [S2])
    for peer in (S1, S3):
        other = Shell(network, peer, 1, [S2]).start()
        await other.events.wait(1)
        assert shell.links.states == {peer: LINKED}
        other.links.close("it goes")
        async with asyncio.timeout(10):
            while shell.links.states:
                await asyncio.sleep(0)
    assert shell.events.delivered == [LinkUp(S1), LinkDown(S1), LinkUp(S3), LinkDown(S3)]


IDS = [ServerId(number) for number in range(1, 5)]


@pytest.mark.parametrize("seed", range(12))
async def test_whoever_one_of_two_lists_wants_is_linked_and_stays_so(
    network: MemoryNetwork, seed: int
) -> None:
    """Lists that differ, change and are without their own server; cuts, and new processes."""
    random = Random(seed)
    shells = {server: Shell(network, server, 1, some(random), 0.002).start() for server in IDS}
    for incarnation in range(2, 10):
        server = random.choice(IDS)
        act = random.choice(["lists", "lists", "cut", "restart"])
        if act == "lists":
            shells[server].links.set_servers(some(random))
        elif act == "cut":
            network.cut_to_acceptors()
        else:
            shells[server].links.close("its process ends")
            shells[server] = Shell(network, server, incarnation, some(random), 0.002).start()
        await asyncio.sleep(random.choice([0, 0, 0.001, 0.03]))
    wanted = [
        (one, other)
        for one in IDS
        for other in IDS
        if one < other and (other in lists_of(shells[one]) or one in lists_of(shells[other]))
    ]
    async with asyncio.timeout(20):
        while not all(is_linked(shells, pair) for pair in wanted):
            await asyncio.sleep(0.001)
    before = changes_of(shells, wanted)
    for number, (one, other) in enumerate(wanted, 1):
        for sender, receiver in ((one, other), (other, one)):
            shells[sender].links.send(receiver, [Ping(number)])
            frame = PeerFrame(sender, [Ping(number)])
            async with asyncio.timeout(10):
                while frame not in shells[receiver].events.delivered:
                    await asyncio.sleep(0.001)
    await asyncio.sleep(0.05)  # nobody dials what would replace a link
    assert changes_of(shells, wanted) == before
    for shell in shells.values():
        shell.links.close("the test ends")


def some(random: Random) -> list[ServerId]:
    """A list, perhaps without the server that has it."""
    return sorted(random.sample(IDS, random.randint(1, len(IDS))))


def changes_of(
    shells: dict[ServerId, Shell], pairs: list[tuple[ServerId, ServerId]]
) -> list[tuple[str, object]]:
    ends = [*pairs, *((other, one) for one, other in pairs)]
    return [each for one, other in ends for each in shells[one].changes if each[1] == other]


def lists_of(shell: Shell) -> dict[ServerId, None]:
    return shell.links._servers


def is_linked(shells: dict[ServerId, Shell], pair: tuple[ServerId, ServerId]) -> bool:
    """Whether the two have one link, which nobody has cut."""
    one, other = pair
    near, far = shells[one].links._links.get(other), shells[other].links._links.get(one)
    if near is None or far is None:
        return False
    ends: list[Any] = [near.link, far.link]
    return ends[0].other is ends[1] and not any(end._is_cut for end in ends)
