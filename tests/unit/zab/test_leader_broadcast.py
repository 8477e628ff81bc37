"""LeaderBroadcast: proposals, commits, read points, and when the leader lets go."""

import pytest

from raykeeper.zab import trace_events
from raykeeper.zab.effects import (
    Activated,
    Append,
    BreakLink,
    Deliver,
    Effect,
    GrantCredit,
    ReadIndex,
    Role,
    Send,
)
from raykeeper.zab.errors import PeerProtocolError
from raykeeper.zab.ids import COUNTER_MAX, FOUNDING_DISK, ZERO, DiskId, Epoch, Millis, ServerId
from raykeeper.zab.leader_broadcast import LeaderBroadcast, LeaderBroadcastMessage
from raykeeper.zab.learners import Learners, Stage
from raykeeper.zab.messages import (
    Ack,
    AckEpoch,
    AckNewLeader,
    Commit,
    Diff,
    FollowerInfo,
    LeaderInfo,
    NewLeader,
    Ping,
    Pong,
    Proposals,
    SnapshotCredit,
    UpToDate,
)
from raykeeper.zab.settings import RecentLogLimits, Settings, Timing
from raykeeper.zab.transitions import StepDown
from tests.unit.zab.histories import (
    NEW_DISK,
    S1,
    S2,
    S3,
    S4,
    S5,
    T0,
    THREE,
    make_history,
    noted,
    run,
    sent,
    without_notes,
    z,
)

FIVE = (S1, S2, S3, S4, S5)
E7 = Epoch(7)
OLD = z(6, 2)
Z1, Z2, Z3 = (z(7, n) for n in range(1, 4))
TICK = Timing()


class Leader:
    """Server 3 leads epoch 7 after two transactions of epoch 6; `followers` are synchronized."""

    def __init__(
        self,
        *followers: ServerId,
        voters: tuple[ServerId, ...] = THREE,
        window: RecentLogLimits | None = None,
        disk_ms: int = 0,
    ) -> None:
        """`disk_ms`: how long its own disk took after it heard its followers last."""
        self.out: list[Effect] = []
        self.now = Millis(T0 + disk_ms)
        self.settings = Settings(S3, voters, window=window)
        self.history = make_history(
            self.out, run(z(6, 1), b"o", b"p"), accepted=7, current=7, limits=window
        )
        self.learners = Learners(self.settings, self.history, self.out)
        self.learners.epoch = E7
        self.learners.is_synchronizing = True
        for follower in followers:
            info = FollowerInfo(Epoch(6), 1, FOUNDING_DISK)
            self.learners.on_follower_info(follower, info, T0)
            learner = self.learners.get(follower)
            assert learner is not None
            self.learners.on_ack_epoch(learner, AckEpoch(Epoch(6), OLD, True))
            self.learners.on_ack_new_leader(learner, AckNewLeader(E7), T0)
        self.out.clear()
        self.role = LeaderBroadcast(self.settings, self.history, self.learners, self.out, self.now)
        self.begun = self.take()

    def take(self) -> list[Effect]:
        found = self.out[:]
        self.out.clear()
        return found

    def hear(self, sender: ServerId, *messages: LeaderBroadcastMessage) -> list[Effect]:
        for message in messages:
            self.role.receive(sender, message, self.now)
        return self.take()

    def propose(self, *txns: bytes) -> list[Effect]:
        self.role.propose(list(txns), self.now)
        return self.take()

    def synced(self, upto: int) -> list[Effect]:
        self.history.log_synced(upto)  # type: ignore[arg-type]
        self.role.log_synced()
        return self.take()

    def wait(self, span: int) -> list[Effect]:
        self.now = Millis(self.now + span)
        self.role.wake(self.now)
        return self.take()

    def join(
        self, server_id: ServerId, last: int = OLD, disk: DiskId = FOUNDING_DISK
    ) -> list[Effect]:
        """A learner whose log ends at `last`, up to the ack of NEWLEADER."""
        self.hear(server_id, FollowerInfo(Epoch(6), 1, disk))
        return self.hear(server_id, AckEpoch(Epoch(6), last, False), AckNewLeader(E7))  # type: ignore[arg-type]


def test_begins_with_its_whole_history_committed() -> None:
    leader = Leader(S1)
    assert without_notes(leader.begun) == [
        Deliver(z(6, 1), [b"o", b"p"]),
        Activated(Role.LEADER, S3, E7),
        Send(S1, UpToDate(OLD)),
    ]
    assert noted(leader.begun) == [trace_events.LEADER_ESTABLISHED, trace_events.LEARNER_JOINED]


def test_up_to_date_goes_only_to_learners_that_acknowledged_newleader() -> None:
    leader = Leader(S1)
    leader.hear(S2, FollowerInfo(Epoch(6), 1, FOUNDING_DISK))
    LeaderBroadcast(leader.settings, leader.history, leader.learners, leader.out, T0)
    assert sent(leader.out) == [UpToDate(OLD)]


def test_begins_only_with_its_epoch_on_disk() -> None:
    leader = Leader(S1)
    history = make_history([], accepted=7, current=6)
    with pytest.raises(AssertionError):
        LeaderBroadcast(leader.settings, history, leader.learners, [], T0)


class TestPropose:
    """Log, and send to all that were sent NEWLEADER."""

    def test_the_first_transaction_of_an_epoch_has_counter_1(self) -> None:
        leader = Leader(S1)
        assert (leader.role.next_zxid(), leader.role.counter_left) == (Z1, COUNTER_MAX)
        assert leader.propose(b"a", b"b") == [
            Append(Z1, [b"a", b"b"], OLD),
            Send(S1, Proposals(Z1, [b"a", b"b"], z(6, 2))),
        ]
        assert (leader.role.next_zxid(), leader.role.counter_left) == (Z3, COUNTER_MAX - 2)

    def test_also_to_those_that_have_not_acknowledged_newleader(self) -> None:
        leader = Leader(S1)
        leader.hear(S2, FollowerInfo(Epoch(6), 1, FOUNDING_DISK), AckEpoch(Epoch(6), OLD, False))
        leader.hear(S4, FollowerInfo(Epoch(6), 1, NEW_DISK))
        assert [e.peer for e in leader.propose(b"a") if isinstance(e, Send)] == [S1, S2]

    @pytest.mark.parametrize("count", [0, 2])
    def test_not_more_than_there_is_room(self, count: int) -> None:
        leader = Leader(S1)
        leader.history.recent_log.last = z(7, COUNTER_MAX - 1)
        assert leader.role.counter_left == 1
        with pytest.raises(AssertionError):
            leader.role.propose([b"x"] * count, T0)


class TestCommit:
    """What a quorum has on disk, this server by its own disk only (rule Z3)."""

    def test_needs_two_of_three(self) -> None:
        leader = Leader(S1, S2)
        leader.propose(b"a", b"b")
        assert leader.hear(S1, Ack(Z2)) == []
        assert leader.synced(Z1) == [
            Deliver(Z1, [b"a"]),
            Send(S1, Commit(Z1)),
            Send(S2, Commit(Z1)),
        ]
        assert leader.synced(Z2)[0] == Deliver(Z2, [b"b"])

    def test_may_overtake_its_own_disk(self) -> None:
        leader = Leader(S1, S2)
        leader.propose(b"a")
        leader.hear(S1, Ack(Z1))
        assert leader.hear(S2, Ack(Z1))[0] == Deliver(Z1, [b"a"])
        assert leader.synced(Z1) == []

    def test_does_not_count_learners_without_a_vote(self) -> None:
        leader = Leader(S1, S4)
        leader.propose(b"a")
        leader.synced(Z1)
        assert leader.hear(S4, Ack(Z1)) == []
        assert leader.hear(S1, Ack(Z1))[-1] == Send(S4, Commit(Z1))

    def test_does_not_count_learners_that_left(self) -> None:
        leader = Leader(S1, S2, voters=FIVE)
        leader.propose(b"a")
        leader.synced(Z1)
        leader.hear(S1, Ack(Z1))
        leader.role.lost(S1, "link broken", T0)
        assert without_notes(leader.hear(S2, Ack(Z1))) == []

    def test_goes_to_learners_that_acknowledged_newleader(self) -> None:
        leader = Leader(S1)
        leader.hear(S2, FollowerInfo(Epoch(6), 1, FOUNDING_DISK), AckEpoch(Epoch(6), OLD, False))
        leader.propose(b"a")
        leader.synced(Z1)
        assert sent(leader.hear(S1, Ack(Z1)), S2) == []

    def test_alone(self) -> None:
        leader = Leader(voters=(S3,))
        leader.propose(b"a")
        assert leader.synced(Z1) == [Deliver(Z1, [b"a"])]

    def test_an_ack_that_says_nothing_new_is_noted(self) -> None:
        leader = Leader(S1)
        assert noted(leader.hear(S1, Ack(OLD))) == [trace_events.ACK_DUPLICATE]

    def test_a_commit_is_clipped_to_what_a_learner_was_sent(self) -> None:
        leader = Leader(S1, S2)
        leader.propose(b"a", b"b")
        learner = leader.learners.get(S2)
        assert learner is not None
        learner.sent = Z1
        leader.synced(Z2)
        assert leader.hear(S1, Ack(Z2))[1:] == [Send(S1, Commit(Z2)), Send(S2, Commit(Z1))]


class TestJoin:
    """A learner that comes during broadcast."""

    def test_is_told_no_commit_point_beyond_what_it_was_sent(self) -> None:
        leader = Leader(S1)
        leader.hear(S2, FollowerInfo(Epoch(6), 1, FOUNDING_DISK), AckEpoch(Epoch(6), OLD, False))
        learner = leader.learners.get(S2)
        assert learner is not None
        learner.sent = z(6, 1)
        assert sent(leader.hear(S2, AckNewLeader(E7)), S2) == [UpToDate(z(6, 1))]

    def test_is_synchronized_and_told_the_present_commit_point(self) -> None:
        leader = Leader(S1)
        leader.propose(b"a")
        leader.synced(Z1)
        leader.hear(S2, FollowerInfo(Epoch(6), 1, FOUNDING_DISK))
        packets = leader.hear(S2, AckEpoch(Epoch(6), OLD, False))
        assert sent(packets) == [Diff(), Proposals(Z1, [b"a"], z(6, 2)), NewLeader(E7, Z1)]
        # Its ack is the second of three: what it was sent is committed at once.
        assert sent(leader.hear(S2, AckNewLeader(E7)), S2) == [UpToDate(OLD), Commit(Z1)]

    def test_is_invited_at_once(self) -> None:
        leader = Leader(S1)
        assert leader.hear(S2, FollowerInfo(Epoch(6), 3, FOUNDING_DISK)) == [
            Send(S2, LeaderInfo(E7, 3))
        ]

    def test_with_a_longer_log_is_cut(self) -> None:
        """A quorum has promised without it, so what it has more was never committed."""
        leader = Leader(S1)
        leader.join(S2, last=z(6, 9))
        learner = leader.learners.get(S2)
        assert learner is not None and learner.stage is Stage.FOLLOWING

    def test_with_a_later_promise_ends_this_epoch(self) -> None:
        leader = Leader(S1)
        leader.hear(S2, FollowerInfo(Epoch(8), 1, FOUNDING_DISK))
        assert leader.role.transition == StepDown("a learner has promised a later epoch")

    def test_is_given_the_credits_of_its_snapshot(self) -> None:
        leader = Leader(S1)
        leader.hear(
            S2, FollowerInfo(Epoch(6), 1, FOUNDING_DISK), AckEpoch(Epoch(5), z(5, 1), False)
        )
        assert leader.hear(S2, SnapshotCredit()) == [GrantCredit(S2)]


@pytest.mark.parametrize(
    "message",
    [Ack(Z1), AckNewLeader(E7), AckEpoch(Epoch(6), ZERO, True), Pong(1)],
)
def test_refuses_from_a_follower(message: LeaderBroadcastMessage) -> None:
    leader = Leader(S1)
    with pytest.raises(PeerProtocolError):
        leader.hear(S1, message)
    assert leader.out == []


def test_refuses_an_ack_between_two_epochs() -> None:
    """6:3 lies between the end of the last epoch and 7:1, which the follower was sent."""
    leader = Leader(S1)
    leader.propose(b"a")
    leader.out.clear()
    with pytest.raises(PeerProtocolError):
        leader.hear(S1, Ack(z(6, 3)))
    assert leader.out == []


def test_refuses_an_ack_beyond_what_was_sent() -> None:
    """Though it stands in the log: whose word would that be?"""
    leader = Leader(S1)
    leader.propose(b"a", b"b")
    learner = leader.learners.get(S1)
    assert learner is not None
    learner.sent = Z1
    with pytest.raises(PeerProtocolError):
        leader.hear(S1, Ack(Z2))
    assert (leader.out, learner.acked) == ([], OLD)


def test_refuses_an_ack_before_the_ack_of_newleader() -> None:
    leader = Leader(S1)
    leader.hear(S2, FollowerInfo(Epoch(6), 1, FOUNDING_DISK), AckEpoch(Epoch(6), OLD, False))
    with pytest.raises(PeerProtocolError):
        leader.hear(S2, Ack(OLD))


def test_an_illegal_message_of_a_learner_is_a_bug_of_the_caller() -> None:
    with pytest.raises(AssertionError):
        Leader(S1).hear(S1, Diff())  # type: ignore[arg-type]


class TestReadPoint:
    """Rule Z4: confirmed by a quorum that was asked after the request arrived."""

    def test_is_answered_when_a_quorum_pongs(self) -> None:
        leader = Leader(S1, S2)
        leader.role.read_index(11)
        assert leader.take() == [Send(S1, Ping(1)), Send(S2, Ping(1))]
        assert leader.hear(S1, Pong(1)) == [ReadIndex(11, OLD)]

    def test_is_the_commit_point_at_its_arrival(self) -> None:
        leader = Leader(S1, S2)
        leader.propose(b"a")
        leader.synced(Z1)
        leader.role.read_index(11)
        leader.hear(S2, Ack(Z1))
        assert leader.history.delivered == Z1
        assert leader.hear(S1, Pong(1)) == [ReadIndex(11, OLD)]

    def test_one_probe_serves_all_that_came_before_it(self) -> None:
        leader = Leader(S1)
        for token in (11, 12, 13):
            leader.role.read_index(token)
        assert leader.take() == [Send(S1, Ping(1))]
        # The others came while the probe was under way, and join the next.
        assert leader.hear(S1, Pong(1)) == [ReadIndex(11, OLD), Send(S1, Ping(2))]
        assert leader.hear(S1, Pong(2)) == [ReadIndex(12, OLD), ReadIndex(13, OLD)]

    def test_a_tick_is_as_good_as_a_probe(self) -> None:
        leader = Leader(S1)
        leader.role.read_index(11)
        leader.role.read_index(12)
        assert leader.wait(TICK.ping_ms)[-1] == Send(S1, Ping(2))
        assert leader.hear(S1, Pong(2)) == [ReadIndex(11, OLD), ReadIndex(12, OLD)]

    def test_waits_for_the_tick_that_is_under_way(self) -> None:
        leader = Leader(S1)
        leader.role.read_index(11)
        leader.wait(TICK.ping_ms)
        leader.role.read_index(12)
        assert leader.hear(S1, Pong(1)) == [ReadIndex(11, OLD)]
        assert leader.hear(S1, Pong(2)) == [Send(S1, Ping(3))]
        assert leader.hear(S1, Pong(3)) == [ReadIndex(12, OLD)]

    def test_an_earlier_pong_does_not_count(self) -> None:
        leader = Leader(S1)
        leader.wait(TICK.ping_ms)
        leader.role.read_index(11)
        assert leader.take() == [Send(S1, Ping(2))]
        assert leader.hear(S1, Pong(1)) == []
        assert leader.hear(S1, Pong(2), Pong(1)) == [ReadIndex(11, OLD)]

    def test_needs_no_others_alone(self) -> None:
        leader = Leader(voters=(S3,))
        leader.role.read_index(11)
        assert leader.take() == [ReadIndex(11, OLD)]

    def test_learners_without_a_vote_do_not_count(self) -> None:
        leader = Leader(S1, S4)
        leader.role.read_index(11)
        leader.take()
        assert leader.hear(S4, Pong(1)) == []


class TestTick:
    """Twice a tick the leader pings, and looks whether it still leads anybody."""

    def test_pings_followers(self) -> None:
        leader = Leader(S1)
        leader.hear(S2, FollowerInfo(Epoch(6), 1, FOUNDING_DISK))
        assert leader.wait(TICK.ping_ms - 1) == []
        assert leader.wait(1) == [Send(S1, Ping(1))]
        assert leader.role.deadline() == T0 + 2 * TICK.ping_ms

    def test_drops_a_silent_follower_and_its_link(self) -> None:
        leader = Leader(S1, S2)
        leader.now = Millis(T0 + TICK.sync_ms)
        leader.hear(S1, Pong(0))
        found = leader.wait(1)
        assert BreakLink(S2, "silent") in found
        assert leader.learners.get(S2) is None and leader.role.transition is None

    def test_waits_longer_for_one_that_is_synchronized(self) -> None:
        leader = Leader(S1)
        leader.hear(S2, FollowerInfo(Epoch(6), 1, FOUNDING_DISK), AckEpoch(Epoch(6), OLD, False))
        leader.now = Millis(T0 + TICK.init_ms)
        leader.hear(S1, Pong(0))
        assert leader.wait(0) == [Send(S1, Ping(1))]
        leader.hear(S1, Pong(1))
        assert BreakLink(S2, "silent") in leader.wait(TICK.ping_ms)

    def test_drops_one_that_pongs_but_does_not_acknowledge(self) -> None:
        leader = Leader(S1, S2)
        leader.now = Millis(T0 + 60_000)
        leader.propose(b"a")
        leader.synced(Z1)
        leader.now = Millis(leader.now + TICK.init_ms)
        leader.hear(S1, Ack(Z1))
        leader.hear(S2, Pong(0))
        assert leader.wait(0) == [Send(S1, Ping(1)), Send(S2, Ping(1))]
        leader.hear(S1, Pong(1))
        leader.hear(S2, Pong(1))
        assert BreakLink(S2, "does not acknowledge") in leader.wait(TICK.ping_ms)

    @pytest.mark.parametrize("stage", [Stage.READING, Stage.STREAMING])
    def test_drops_a_learner_that_cannot_keep_up(self, stage: Stage) -> None:
        leader = Leader(S1, window=RecentLogLimits(bytes_max=1))
        leader.hear(S2, FollowerInfo(Epoch(6), 1, FOUNDING_DISK))
        learner = leader.learners.get(S2)
        assert learner is not None
        learner.stage = stage
        assert leader.wait(TICK.ping_ms) == [Send(S1, Ping(1))]
        leader.propose(b"123456789")
        found = leader.wait(TICK.ping_ms)
        assert BreakLink(S2, "cannot be synchronized as fast as is written") in found

    def test_lets_go_without_a_quorum(self) -> None:
        leader = Leader(S1)
        leader.role.lost(S1, "link broken", T0)
        assert leader.role.transition is None  # it may be back before the tick
        leader.wait(TICK.ping_ms)
        assert leader.role.transition == StepDown("no quorum of followers")


def test_last_contact_may_precede_establishment() -> None:
    """Its own disk took long; meanwhile its followers may have elected another leader."""
    leader = Leader(S1, S2, disk_ms=TICK.sync_ms + 1)
    assert leader.role.last_quorum_contact(leader.now) == T0
    assert not any(isinstance(e, BreakLink) for e in leader.wait(TICK.ping_ms))
    leader.hear(S1, Pong(0))
    assert leader.role.last_quorum_contact(leader.now) == leader.now


def test_contact_is_with_voters() -> None:
    leader = Leader(S1, S4)
    leader.now = Millis(T0 + 500)
    leader.hear(S4, Pong(0))
    assert leader.role.last_quorum_contact(leader.now) == T0


def test_contact_is_when_a_quorum_was_heard() -> None:
    leader = Leader(S1, S2, voters=FIVE)
    assert leader.role.last_quorum_contact(Millis(T0 + 900)) == T0
    leader.now = Millis(T0 + 500)
    leader.hear(S1, Pong(0))
    assert leader.role.last_quorum_contact(Millis(T0 + 900)) == T0
    leader.now = Millis(T0 + 600)
    leader.hear(S2, Pong(0))
    assert leader.role.last_quorum_contact(Millis(T0 + 900)) == T0 + 500
