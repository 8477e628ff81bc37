"""Hostile servers: frames that are malformed, and messages that a buggy or old peer could send.

A malformed frame never reaches the core: it breaks the link, with the reason in the log. Any legal
message, at any moment of any role, is handled, ignored with a note, or breaks the link with one:
no assertion fires, and what the receiver holds stays consistent.

A peer that lies about its history is outside the fault model, so nothing is said here of what the
ensemble does after it. Only this: nobody may crash because of a message.
"""

from typing import Any, get_args

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from raykeeper.actors.peer_links import PeerLinks
from raykeeper.links.contract import LinkEvents
from raykeeper.links.hello import Fence, peer_hello
from raykeeper.server.events import Event, LinkDown, LinkUp, PeerFrame
from raykeeper.server.peer_messages import PeerMessage, decode_peer_frame, encode_peer_frame
from raykeeper.zab import trace_events
from raykeeper.zab.effects import BreakLink, Role, TraceEvent
from raykeeper.zab.errors import DECODE_ERRORS
from raykeeper.zab.ids import ServerId, next_zxid
from raykeeper.zab.messages import (
    Ack,
    Notification,
    Ping,
    ZabMessage,
)
from raykeeper.zab.phases import (
    FOLLOWER_BROADCAST,
    FOLLOWER_RECOVERY,
    HANDLE,
    LEADER_BROADCAST,
    LEADER_RECOVERY,
    Row,
)
from raykeeper.zab.settings import RecentLogLimits
from raykeeper.zab.wire_types import ROUND_MAX
from raykeeper.znodes.state import State
from tests.fuzz.budget import bounded, examples
from tests.fuzz.decoders import snapshot_chunks
from tests.fuzz.mutations import hostile_bytes
from tests.fuzz.near import FROM_PEERS
from tests.fuzz.samples import values_of
from tests.fuzz.test_clients import check_state
from tests.harness.pure_servers import PureServers

CHUNKS = st.sampled_from(snapshot_chunks(State()))
FIELDS = {**FROM_PEERS, "SnapshotChunk.data": CHUNKS | hostile_bytes(CHUNKS)}
messages = values_of(PeerMessage, FIELDS)
BY_KIND = {kind: values_of(kind, FIELDS) for kind in get_args(ZabMessage)}
frames = st.lists(messages, max_size=3).map(encode_peer_frame)
MOMENTS = ["broadcast", "proposing", "cut", "crash", "snapshot"]


class RecordedLink:
    """A link to a peer that only remembers how it was closed."""

    incarnation = 7
    carrier = "recorded"

    def __init__(self) -> None:
        self.closed: list[str] = []

    def send_last(self, frame: bytes) -> None:
        raise AssertionError(frame)

    def close(self, reason: str) -> None:
        self.closed.append(reason)


class Shell:
    """The links of server 1, and what its core hears of server 2."""

    def __init__(self) -> None:
        self.heard: list[Event] = []
        self.log: list[tuple[str, str]] = []
        self.links = PeerLinks(ServerId(1), Fence(), self.heard.append, self._log)
        self.links.set_servers(map(ServerId, (1, 2, 3)))

    def _log(self, name: str, /, **fields: Any) -> None:
        self.log.append((name, str(fields.get("reason"))))

    def dialed(self) -> tuple[RecordedLink, LinkEvents]:
        link = RecordedLink()
        return link, self.links.accept(peer_hello("e", ServerId(2), 7), link)


def is_peer_frame(data: bytes) -> bool:
    try:
        decode_peer_frame(data)
    except DECODE_ERRORS:
        return False
    return True


@examples(200)
@given(hostile_bytes(frames).filter(lambda data: not is_peer_frame(data)))
def test_a_malformed_frame_of_a_peer_breaks_its_link(data: bytes) -> None:
    shell = Shell()
    link, end = shell.dialed()
    good = encode_peer_frame([Ping(1)])
    with bounded(len(data)):
        end.frames([good, data, good])
        end.frames([good])
        end.closed("too late")
    up, first, down = shell.heard
    assert (up, down) == (LinkUp(ServerId(2)), LinkDown(ServerId(2)))
    assert isinstance(first, PeerFrame) and first.messages == [Ping(1)]
    (reason,) = link.closed
    assert reason.startswith("malformed frame: ") and ("link.down", reason) in shell.log
    _, again = shell.dialed()
    again.frames([good])
    assert shell.heard[3:] == [up, first]


def _handled(*rows: Row) -> list[type]:
    """The messages that some of these rows of the table let through."""
    kinds = {kind for row in rows for kind, fate in row.fates.items() if fate is HANDLE}
    return sorted(kinds, key=lambda kind: kind.__name__)


class Scene:
    """An ensemble in which the frames of one server to another come only one by one."""

    def __init__(self, sender: int, receiver: int, moment: str, is_disk_held: bool) -> None:
        window = RecentLogLimits(txns_max=1, read_log_bytes_max=1) if moment == "snapshot" else None
        self.ensemble = PureServers(3, window=window)
        if moment == "proposing":
            # In a second epoch, whose first transaction is logged and nowhere acknowledged.
            sender, receiver = (
                server if server == 1 else 5 - server for server in (sender, receiver)
            )
        self.sender, self.receiver = sender, receiver
        caller = self.ensemble[3].caller(1)
        if moment == "snapshot":
            self.ensemble.cut(sender, receiver)
        for path in ("/a", "/a/b", "/b", "/b/c"):
            caller.ask(caller.create(path))
        if moment == "proposing":
            self._propose()
        self.host = self.ensemble[receiver]
        self.host.is_disk_held = is_disk_held
        self.ensemble.hold(sender, receiver)
        if moment in ("cut", "crash"):
            self.ensemble.cut(sender, receiver)
        if moment == "crash":
            third = 6 - sender - receiver
            self.ensemble.crash(third)
        if moment in ("cut", "crash", "snapshot"):
            self.ensemble.link(sender, receiver)
        # From here on everybody else is out of it: what a lie does to them is not told here.
        self.held = list(self.ensemble.wires[sender, receiver])
        self.host.take()

    def _propose(self) -> None:
        """Server 2 leads now, and what it proposes is not acknowledged."""
        self.ensemble.crash(3)
        self.ensemble.pass_time(3_000)
        self.ensemble.restart(3)
        self.ensemble.pass_time(1_000)
        assert self.ensemble.leader.server_id == 2
        self.ensemble.hold(1, 2)
        self.ensemble.hold(3, 2)
        self.ensemble[2].caller(9)

    def expected(self) -> list[type]:
        """The messages that the receiver's role may get from the sender."""
        peer = self.host.server.peer
        if peer.role is Role.LEADER:
            return _handled(LEADER_BROADCAST if peer.is_active else LEADER_RECOVERY)
        if peer.leader == self.sender:
            if peer.is_active:
                return _handled(FOLLOWER_BROADCAST)
            return _handled(*FOLLOWER_RECOVERY.values())
        return [Notification]

    def lie(self, message: PeerMessage) -> None:
        """The sender says what it should not."""
        self.say(encode_peer_frame([message]))

    def do(self, kind: str) -> None:
        """One step of a script."""
        if kind == "truth" and self.held:
            self.say(self.held.pop(0))
        elif kind == "time":
            self.host.clock.now += 700  # type: ignore[assignment]
            self.host.step()
        elif kind == "disk":
            self.host.sync_disk() if self.host.is_disk_held else None
        elif kind == "link":
            self.host.step(LinkDown(ServerId(self.sender)))
            self.host.step(LinkUp(ServerId(self.sender)))

    def say(self, frame: bytes) -> None:
        with bounded(len(frame)):
            self.host.step(PeerFrame(ServerId(self.sender), decode_peer_frame(frame)))
        effects = self.host.take()
        breaks = [e for e in effects if isinstance(e, BreakLink) and e.peer == self.sender]
        told = [
            e
            for e in effects
            if isinstance(e, TraceEvent) and e.name == trace_events.MESSAGE_ILLEGAL
        ]
        assert len(told) <= len(breaks), "a message was illegal, but the link lives"

    def check(self) -> None:
        """What the receiver holds is consistent."""
        history = self.host.server.peer.history
        assert history.current <= history.accepted
        assert history.delivered <= history.logged and history.synced <= history.logged
        assert history.delivered == self.host.server.state.zxid, "committed up to nowhere"
        check_state(self.host)


prologues = st.lists(st.sampled_from(["truth", "truth", "truth", "disk", "time"]), max_size=9)
epilogues = st.lists(st.sampled_from(["truth", "disk", "time", "link"]), max_size=4)
pairs = st.sampled_from([(s, r) for s in (1, 2, 3) for r in (1, 2, 3) if s != r and 3 in (s, r)])


@pytest.mark.parametrize("moment", MOMENTS)
def test_a_hostile_peer_does_not_break_the_server(moment: str) -> None:
    @examples(300)
    @given(pairs, st.booleans(), prologues, epilogues, st.data())
    def survives(
        pair: tuple[int, int],
        is_disk_held: bool,
        prologue: list[str],
        epilogue: list[str],
        data: st.DataObject,
    ) -> None:
        scene = Scene(*pair, moment, is_disk_held)
        for kind in prologue if scene.held else []:
            scene.do(kind)
        for _ in range(4):
            expected = scene.expected()
            likely = st.sampled_from(expected).flatmap(BY_KIND.__getitem__)
            scene.lie(data.draw(st.one_of(likely, likely, messages) if expected else messages))
        for kind in epilogue:
            scene.do(kind)
        scene.check()

    survives()


def test_an_illegal_message_is_reported_and_breaks_the_link() -> None:
    scene = Scene(1, 3, "broadcast", False)
    before = scene.host.server.state.digest()
    scene.host.step(PeerFrame(ServerId(1), [Ack(scene.host.server.peer.history.logged + 1)]))  # type: ignore[arg-type]
    assert scene.host.notes(trace_events.MESSAGE_ILLEGAL)
    assert [effect.peer for effect in scene.host.of(BreakLink)] == [1]
    assert scene.host.server.state.digest() == before


def test_an_ack_of_an_unlogged_zxid_breaks_the_link() -> None:
    """It is below the last that was sent, so it passes; but the epoch it names ended before."""
    scene = Scene(1, 3, "proposing", False)
    delivered = scene.host.server.state.zxid
    scene.lie(Ack(next_zxid(delivered)))
    scene.check()


def test_the_last_election_round_does_not_overflow() -> None:
    """The next one must still be one that the others can decode, or nobody hears anybody."""
    ensemble = PureServers(3)
    ensemble.crash(3)
    ensemble.crash(2)
    one = ensemble[1]
    one.step(LinkUp(ServerId(2)))
    one.take()
    one.step(LinkDown(ServerId(2)))
    one.step(LinkUp(ServerId(2)))
    (said,) = one.sent(Notification)[-1:]
    lie = replace(said, round=ROUND_MAX, vote=replace(said.vote, leader=ServerId(2)))
    lie = replace(lie, own_vote=lie.vote)
    one.step(PeerFrame(ServerId(2), [lie]))
    one.step(LinkDown(ServerId(2)))
    ensemble.restart(2)
    ensemble.pass_time(5_000)
    ensemble.crash(2)
    ensemble.restart(3)
    ensemble.pass_time(10_000)
    assert ensemble.leader.server_id in (1, 3)
