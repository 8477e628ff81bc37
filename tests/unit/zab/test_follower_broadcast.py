"""FollowerBroadcast: what each step emits, as a table, and what it refuses."""

import pytest

from raykeeper.zab import trace_events
from raykeeper.zab.effects import Activated, Append, Deliver, Effect, Role, Send, TraceEvent
from raykeeper.zab.errors import PeerProtocolError
from raykeeper.zab.follower_broadcast import FollowerBroadcast, FollowerBroadcastMessage
from raykeeper.zab.history import History
from raykeeper.zab.ids import FOUNDING_DISK, ZERO, DiskId, Epoch, Millis, Zxid
from raykeeper.zab.messages import Ack, Commit, LogPaused, Ping, Pong, Proposals
from raykeeper.zab.settings import Settings, Timing
from raykeeper.zab.transitions import StepDown
from tests.unit.zab.histories import NEW_DISK, S1, S3, T0, THREE, make_history, z

LEADER = S3
Z1, Z2, Z3 = (z(7, n) for n in range(1, 4))
AB, C = Proposals(Z1, [b"a", b"b"]), Proposals(Z3, [b"c"])
LOG_AB, LOG_C = Append(Z1, [b"a", b"b"], ZERO), Append(Z3, [b"c"], ZERO)

Step = FollowerBroadcastMessage | Zxid  # a bare zxid is our disk saying "synced up to here"


def ack(upto: Zxid) -> Send:
    return Send(LEADER, Ack(upto))


def follow(
    *steps: Step, disk: DiskId = FOUNDING_DISK
) -> tuple[FollowerBroadcast, History, list[Effect]]:
    out: list[Effect] = []
    history = make_history(out, accepted=7, current=7)
    role = FollowerBroadcast(Settings(S1, THREE, disk), history, LEADER, ZERO, out, T0)
    for step in steps:
        if isinstance(step, int):
            history.log_synced(step)
            role.log_synced()
        else:
            role.receive(step, T0)
    return role, history, out


@pytest.mark.parametrize(
    ("steps", "emitted"),
    [
        # A batch is logged whole, and acked only once the disk has it.
        ([AB],                         [LOG_AB]),
        ([AB, Z2],                     [LOG_AB, ack(Z2)]),
        # One sync, and so one ack, may cover several batches or a part of one.
        ([AB, C, Z3],                  [LOG_AB, LOG_C, ack(Z3)]),
        ([AB, Z1, Z2],                 [LOG_AB, ack(Z1), ack(Z2)]),
        ([AB, Z2, Z2],                 [LOG_AB, ack(Z2)]),
        # A commit covers all up to it, and may overtake our own disk: a quorum has the txns.
        ([AB, Commit(Z2), Z2],         [LOG_AB, Deliver(Z1, [b"a", b"b"]), ack(Z2)]),
        ([AB, Commit(Z1), Commit(Z2)], [LOG_AB, Deliver(Z1, [b"a"]), Deliver(Z2, [b"b"])]),
        # The log is told what is committed.
        ([AB, Commit(Z2), C],          [LOG_AB, Deliver(Z1, [b"a", b"b"]), Append(Z3, [b"c"], Z2)]),
        # What came before changes nothing; what overlaps adds only its new part.
        ([AB, AB],                     [LOG_AB, TraceEvent(trace_events.PROPOSAL_DUPLICATE, Z1)]),
        ([AB, Proposals(Z2, [b"b", b"c"])], [LOG_AB, LOG_C]),
        ([AB, Commit(Z1), Commit(Z1)], [LOG_AB, Deliver(Z1, [b"a"]),
                                        TraceEvent(trace_events.COMMIT_DUPLICATE, Z1)]),
        # A ping is answered with its number.
        ([Ping(9)],                    [Send(LEADER, Pong(9))]),
    ],
)  # fmt: skip
def test_emits(steps: list[Step], emitted: list[Effect]) -> None:
    begun = len(follow()[2])
    assert follow(*steps)[2][begun:] == emitted


@pytest.mark.parametrize(
    ("before", "refused"),
    [
        ([], C),                               # a gap
        ([], Commit(Z1)),                      # a commit of nothing
        ([AB], Commit(Z3)),                    # a commit of what we were never sent
        ([AB], Commit(z(8, 0))),               # or of what nobody was
        ([], Proposals(z(8, 1), [b"x"])),      # a new epoch without a new synchronization
    ],
)  # fmt: skip
def test_refuses_and_keeps_its_state(before: list[Step], refused: FollowerBroadcastMessage) -> None:
    role, history, out = follow(*before)
    was = (history.logged, history.synced, history.delivered, list(out))
    with pytest.raises(PeerProtocolError):
        role.receive(refused, Millis(T0 + 1))
    assert (history.logged, history.synced, history.delivered, out) == was
    assert role.last_received_at == T0


def test_an_illegal_message_of_the_leader_is_a_bug_of_the_caller() -> None:
    with pytest.raises(AssertionError):
        follow(Pong(1))  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("disk", "role"), [(FOUNDING_DISK, Role.FOLLOWER), (NEW_DISK, Role.OBSERVER)]
)
def test_begins_active(disk: DiskId, role: Role) -> None:
    out = follow(disk=disk)[2]
    assert out[-1] == Activated(role, LEADER, Epoch(7))


def test_acks_at_once_what_was_synced_while_it_was_synchronized() -> None:
    out: list[Effect] = []
    history = make_history(out, accepted=7, current=7)
    history.append(Z1, [b"a", b"b"])
    history.log_synced(Z2)
    FollowerBroadcast(Settings(S1, THREE), history, LEADER, ZERO, out, T0)
    assert out[-1] == ack(Z2)


def paused(*before: Step) -> tuple[FollowerBroadcast, History, list[Effect]]:
    """A follower whose disk was found full after `before`; what it emits from then on."""
    role, history, out = follow(*before)
    out.clear()
    history.has_disk_space = False
    role.pause()
    return role, history, out


class TestPause:
    """Rule D6: the disk is full."""

    NOTE = TraceEvent(trace_events.LOG_PAUSED, "7:2")

    def test_the_leader_is_told_once(self) -> None:
        role, _, out = paused(AB)
        assert out == [self.NOTE, Send(LEADER, LogPaused())]
        role.pause()
        assert len(out) == 2

    def test_logs_and_acknowledges_no_more_and_delivers_on(self) -> None:
        role, history, out = paused(AB)
        out.clear()
        for message in (C, Commit(Z3), Ping(4)):
            role.receive(message, T0)
        assert out == [Deliver(Z1, [b"a", b"b", b"c"]), Send(LEADER, Pong(4))]
        assert (history.logged, history.synced, history.delivered) == (Z3, ZERO, Z3)
        role.log_synced()
        assert out[2:] == []

    def test_a_write_in_flight_at_the_pause_is_still_acknowledged(self) -> None:
        """The spare segment has room for it."""
        role, history, out = paused(AB)
        out.clear()
        role.receive(C, T0)
        history.log_synced(Z2)
        role.log_synced()
        assert out == [ack(Z2)]

    def test_still_refuses_illegal_messages(self) -> None:
        role, history, _ = paused(AB)
        with pytest.raises(PeerProtocolError):
            role.receive(Commit(Z3), T0)
        assert history.delivered == ZERO

    def test_begins_so_without_room(self) -> None:
        out: list[Effect] = []
        history = make_history(out, accepted=7, current=7, has_room=False)
        FollowerBroadcast(Settings(S1, THREE), history, LEADER, ZERO, out, T0)
        assert out[1:] == [
            Activated(Role.FOLLOWER, LEADER, Epoch(7)),
            TraceEvent(trace_events.LOG_PAUSED, "0:0"),
            Send(LEADER, LogPaused()),
        ]
        assert history.is_paused


def test_gives_up_on_a_silent_leader() -> None:
    role = follow()[0]
    patience = Timing().sync_ms
    role.receive(Ping(1), Millis(T0 + 100))
    role.wake(Millis(T0 + patience))
    assert role.transition is None
    assert role.deadline() == T0 + patience + 100
    role.wake(role.deadline())
    assert isinstance(role.transition, StepDown)
