"""LeaderRecovery: which quorum each step waits for, and what ends it early."""

import pytest

from raykeeper.zab import trace_events
from raykeeper.zab.effects import (
    Deliver,
    Effect,
    GrantCredit,
    LogRun,
    SaveEpochs,
    Send,
    StreamSnapshot,
    TraceEvent,
)
from raykeeper.zab.errors import PeerProtocolError
from raykeeper.zab.history import History
from raykeeper.zab.ids import EPOCH_MAX, FOUNDING_DISK, ZERO, Epoch, Millis, ServerId, Zxid
from raykeeper.zab.leader_recovery import LeaderRecovery, LeaderRecoveryMessage
from raykeeper.zab.learners import Stage
from raykeeper.zab.messages import (
    AckEpoch,
    AckNewLeader,
    Diff,
    FollowerInfo,
    LeaderInfo,
    NewLeader,
    SnapshotCredit,
)
from raykeeper.zab.settings import Settings, Timing
from raykeeper.zab.transitions import Established, StepDown
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
    z,
)

FIVE = (S1, S2, S3, S4, S5)
E1, E2 = Epoch(1), Epoch(2)
AB = run(z(1, 1), b"a", b"b")
HELLO = FollowerInfo(E1, 1, FOUNDING_DISK)
PROMISE = AckEpoch(E1, z(1, 2), True)
UNCERTAIN = AckEpoch(E1, z(1, 2), True, is_uncertain=True)


class Leader:
    """Server 3 with a and b in its log, all of epoch 1."""

    def __init__(
        self,
        voters: tuple[ServerId, ...] = THREE,
        accepted: int = 1,
        log: LogRun = AB,
        is_uncertain: bool = False,
    ) -> None:
        self.out: list[Effect] = []
        self.now = T0
        self.history: History = make_history(
            self.out, log, accepted=accepted, current=1, is_uncertain=is_uncertain
        )
        self.role = LeaderRecovery(Settings(S3, voters), self.history, self.out, T0)

    def hear(self, sender: ServerId, *messages: LeaderRecoveryMessage) -> None:
        for message in messages:
            self.role.receive(sender, message, self.now)

    def saved(self) -> None:
        save = [effect for effect in self.out if isinstance(effect, SaveEpochs)][-1]
        self.history.epochs_saved(save.accepted, save.current)
        self.role.epochs_saved()

    def propose(self, *followers: ServerId) -> "Leader":
        """Until LEADERINFO has left to the followers."""
        for follower in followers:
            self.hear(follower, HELLO)
        self.saved()
        return self

    def reason(self) -> str | None:
        return self.role.transition.reason if isinstance(self.role.transition, StepDown) else None


def test_from_the_election_to_an_established_leader() -> None:
    leader = Leader()
    assert leader.out == []
    leader.hear(S1, HELLO)
    assert leader.out[-1] == SaveEpochs(E2, E1)
    assert sent(leader.out) == []  # the promise is on disk before it is asked of others
    leader.saved()
    assert sent(leader.out) == [LeaderInfo(E2, 1)]
    leader.hear(S1, PROMISE)
    assert sent(leader.out)[1:] == [Diff(), NewLeader(E2, z(1, 2))]
    assert SaveEpochs(E2, E2) in leader.out
    leader.hear(S1, AckNewLeader(E2))
    assert leader.role.transition is None  # its own epoch is not on disk
    leader.saved()
    assert leader.role.transition == Established(E2, leader.role.learners)


def test_the_only_voter_needs_no_followers() -> None:
    leader = Leader((S3,))
    leader.saved()
    leader.saved()
    assert isinstance(leader.role.transition, Established)


def test_begins_only_when_the_disk_is_settled() -> None:
    history = make_history([])
    history.append(z(1, 1), [b"a"])
    with pytest.raises(AssertionError):
        LeaderRecovery(Settings(S3, THREE), history, [], T0)


class TestEpoch:
    """One more than any that the quorum has promised."""

    def test_is_above_all_that_was_heard(self) -> None:
        leader = Leader(FIVE)
        leader.hear(S1, FollowerInfo(Epoch(7), 1, FOUNDING_DISK))
        assert leader.out == []
        leader.hear(S2, FollowerInfo(Epoch(4), 1, FOUNDING_DISK))
        assert leader.out[-1] == SaveEpochs(Epoch(8), E1)
        assert leader.history.promised_to == S3

    def test_counts_voters_only(self) -> None:
        leader = Leader()
        leader.hear(S4, HELLO)
        leader.hear(S1, FollowerInfo(Epoch(6), 1, NEW_DISK))
        assert leader.out == []
        leader.hear(S2, HELLO)
        assert leader.out[-1] == SaveEpochs(Epoch(7), E1)

    def test_a_later_learner_gets_leaderinfo_later(self) -> None:
        leader = Leader().propose(S1)
        leader.hear(S2, HELLO)
        assert leader.out[-1] == Send(S2, LeaderInfo(E2, 1))

    @pytest.mark.parametrize("promised", [2, 3])
    def test_is_chosen_anew_when_a_learner_promised_as_much_meanwhile(self, promised: int) -> None:
        leader = Leader()
        leader.hear(S1, HELLO)
        leader.hear(S2, FollowerInfo(Epoch(promised), 1, FOUNDING_DISK))
        leader.saved()
        assert sent(leader.out) == []
        assert leader.out[-1] == SaveEpochs(Epoch(promised + 1), E1)
        leader.saved()
        assert sent(leader.out) == [LeaderInfo(Epoch(promised + 1), 1)] * 2

    def test_is_outrun_by_a_promise_of_a_later_one(self) -> None:
        leader = Leader().propose(S1)
        leader.hear(S2, FollowerInfo(Epoch(3), 1, FOUNDING_DISK))
        assert leader.reason() == "a learner has promised a later epoch"
        assert trace_events.HIGHER_EPOCH_PROMISED in noted(leader.out)

    @pytest.mark.parametrize(("accepted", "heard"), [(EPOCH_MAX, 1), (1, EPOCH_MAX)])
    def test_no_epoch_is_left_after_the_last_one_was_promised(
        self, accepted: int, heard: int
    ) -> None:
        leader = Leader(accepted=accepted)
        leader.hear(S1, FollowerInfo(Epoch(heard), 1, FOUNDING_DISK))
        assert leader.out == []
        assert leader.role.transition is None
        leader.role.wake(leader.role.deadline())
        assert isinstance(leader.role.transition, StepDown)


class TestPromises:
    """A quorum of ACKEPOCH, this server included."""

    def test_synchronization_waits_for_the_quorum(self) -> None:
        leader = Leader(FIVE).propose(S1, S2)
        leader.out.clear()
        leader.hear(S1, PROMISE)
        assert leader.out == []
        leader.hear(S2, PROMISE)
        assert len(sent(leader.out, S1)) == len(sent(leader.out, S2)) == 2

    def test_a_later_promise_is_synchronized_at_once(self) -> None:
        leader = Leader().propose(S1, S2)
        leader.hear(S1, PROMISE)
        leader.hear(S2, PROMISE)
        assert sent(leader.out, S2)[1:] == [Diff(), NewLeader(E2, z(1, 2))]

    def test_a_learner_without_an_answer_stays_in_its_stage(self) -> None:
        leader = Leader(FIVE).propose(S1, S2, S4)
        leader.hear(S1, PROMISE)
        leader.hear(S2, PROMISE)
        learner = leader.role.learners.get(S4)
        assert learner is not None and learner.stage is Stage.LEADER_INFO_SENT

    @pytest.mark.parametrize(("current", "last"), [(1, z(1, 3)), (2, z(1, 1)), (1, z(2, 1))])
    def test_a_follower_with_a_newer_history_must_lead(self, current: int, last: Zxid) -> None:
        leader = Leader().propose(S1)
        leader.hear(S1, AckEpoch(Epoch(current), last, True))
        assert leader.reason() == "a follower has a newer history"
        assert trace_events.NEWER_HISTORY_FOUND in noted(leader.out)

    def test_a_learner_without_a_vote_may_have_a_longer_log(self) -> None:
        leader = Leader().propose(S1, S4)
        leader.hear(S4, AckEpoch(E1, z(1, 9), True))
        assert leader.role.transition is None

    @pytest.mark.parametrize("learner", [S4, S1])
    def test_learners_without_a_vote_do_not_count(self, learner: ServerId) -> None:
        leader = Leader().propose(S2)
        leader.out.clear()
        leader.hear(learner, FollowerInfo(E1, 1, NEW_DISK), PROMISE)
        assert not leader.role.learners.is_synchronizing

    def test_promises_made_to_others_do_not_count(self) -> None:
        """Two leaders would share the epoch; another one is needed, and soon."""
        leader = Leader().propose(S1)
        leader.hear(S1, AckEpoch(E1, z(1, 2), False))
        assert leader.reason() == "the epoch was promised to another leader"

    def test_it_waits_while_a_learner_may_still_promise(self) -> None:
        leader = Leader().propose(S1, S2)
        leader.hear(S1, AckEpoch(E1, z(1, 2), False))
        assert leader.role.transition is None
        leader.hear(S2, PROMISE)
        assert leader.role.learners.is_synchronizing


class TestUncertainPromises:
    """Rule D4: of servers that may have lost what they acknowledged last."""

    @pytest.mark.parametrize(
        ("voters", "is_uncertain", "promises", "goes_on"),
        [
            # A quorum of healthy ones is enough.
            (THREE, False, [(S1, PROMISE)], True),
            (THREE, False, [(S1, UNCERTAIN)], False),
            (THREE, True, [(S1, PROMISE)], False),
            (FIVE, False, [(S1, PROMISE), (S2, UNCERTAIN)], False),
            (FIVE, True, [(S1, PROMISE), (S2, PROMISE), (S4, PROMISE)], True),
            # Else all of an odd ensemble, healthy or not.
            (THREE, False, [(S1, UNCERTAIN), (S2, UNCERTAIN)], True),
            (THREE, True, [(S1, UNCERTAIN), (S2, UNCERTAIN)], True),
            (FIVE, True, [(S1, PROMISE), (S2, UNCERTAIN), (S4, UNCERTAIN)], False),
            (FIVE, True, [(S1, UNCERTAIN), (S2, UNCERTAIN), (S4, UNCERTAIN), (S5, PROMISE)], True),
            # Who has no vote is not one of them.
            (THREE, False, [(S1, UNCERTAIN), (ServerId(9), UNCERTAIN)], False),
        ],
    )
    def test_count_with_enough_others(
        self,
        voters: tuple[ServerId, ...],
        is_uncertain: bool,
        promises: list[tuple[ServerId, AckEpoch]],
        goes_on: bool,
    ) -> None:
        leader = Leader(voters, is_uncertain=is_uncertain).propose(*(s for s, _ in promises))
        leader.out.clear()
        for server, promise in promises:
            leader.hear(server, promise)
        assert leader.role.learners.is_synchronizing is goes_on
        assert (SaveEpochs(E2, E2) in leader.out) is goes_on
        assert leader.role.transition is None

    def test_are_said_while_more_must_be_heard(self) -> None:
        leader = Leader(FIVE, is_uncertain=True).propose(S1, S2, S4)
        leader.hear(S1, UNCERTAIN)
        assert trace_events.LOG_UNCERTAIN not in noted(leader.out)  # no quorum to speak of
        leader.out.clear()
        leader.hear(S2, PROMISE)
        assert leader.out == [TraceEvent(trace_events.LOG_UNCERTAIN, [S1, S3])]

    def test_are_waited_for_while_a_quorum_of_others_cannot_promise(self) -> None:
        leader = Leader().propose(S1)
        leader.hear(S1, UNCERTAIN)
        assert leader.role.transition is None
        leader.hear(S2, HELLO, PROMISE)
        assert sent(leader.out, S1)[1:] == [Diff(), NewLeader(E2, z(1, 2))]
        assert sent(leader.out, S2)[-2:] == [Diff(), NewLeader(E2, z(1, 2))]

    def test_need_another_epoch_once_all_have_answered_and_some_cannot_promise_it(self) -> None:
        """Server 2 promised this epoch and was killed before it could say so."""
        leader = Leader().propose(S1, S2)
        leader.hear(S1, UNCERTAIN)
        leader.hear(S2, AckEpoch(E1, z(1, 2), False))
        assert leader.reason() == "the epoch was promised to another leader"

    def test_are_not_waited_for_for_ever(self) -> None:
        """Its claim would keep a server from leading that has more to promise it."""
        leader = Leader().propose(S1)
        leader.hear(S1, UNCERTAIN)
        leader.role.wake(Millis(T0 + Timing().init_ms))
        assert leader.reason() == "no quorum synchronized in time"

    def test_a_single_voter_needs_no_other_answer(self) -> None:
        leader = Leader((S3,), is_uncertain=True)
        leader.saved()
        leader.saved()
        assert isinstance(leader.role.transition, Established)
        assert not leader.history.is_uncertain

    def test_the_longer_history_must_lead_even_if_uncertain(self) -> None:
        leader = Leader().propose(S1)
        leader.hear(S1, AckEpoch(E1, z(1, 3), True, is_uncertain=True))
        assert leader.reason() == "a follower has a newer history"


class TestItsOwnVote:
    """Rule D3: its log has a transaction that moves its vote to another disk, perhaps committed."""

    def moved(self) -> Leader:
        leader = Leader()
        leader.role._settings.members.change_logged(S3, NEW_DISK)
        return leader

    def test_does_not_count_in_any_step(self) -> None:
        leader = self.moved()
        leader.hear(S1, HELLO)
        assert leader.out == []
        leader.hear(S2, HELLO)
        leader.saved()
        leader.hear(S1, PROMISE)
        assert not leader.role.learners.is_synchronizing
        leader.hear(S2, PROMISE)
        assert leader.role.learners.is_synchronizing
        leader.saved()
        leader.hear(S1, AckNewLeader(E2))
        assert leader.role.transition is None
        leader.hear(S2, AckNewLeader(E2))
        assert isinstance(leader.role.transition, Established)


class TestAcks:
    """A quorum of ACK(NEWLEADER), this server included."""

    def test_learners_without_a_vote_do_not_count(self) -> None:
        leader = Leader(FIVE).propose(S1, S2)
        leader.hear(S1, PROMISE)
        leader.hear(S2, PROMISE)
        leader.saved()
        leader.hear(S1, AckNewLeader(E2))
        leader.hear(ServerId(9), FollowerInfo(E1, 1, NEW_DISK), PROMISE, AckNewLeader(E2))
        assert leader.role.transition is None
        leader.hear(S2, AckNewLeader(E2))
        assert isinstance(leader.role.transition, Established)

    def test_nothing_is_heard_after_the_end(self) -> None:
        leader = Leader().propose(S1)
        leader.role.transition = StepDown("over")
        leader.hear(S1, PROMISE)
        assert not leader.role.learners.is_synchronizing


def test_credits_go_on_to_the_stream() -> None:
    leader = Leader(log=run(z(2, 1), b"x")).propose(S1)
    leader.hear(S1, AckEpoch(E1, z(1, 9), True))
    assert StreamSnapshot(S1) in leader.out
    leader.out.clear()
    leader.hear(S1, SnapshotCredit())
    assert leader.out == [GrantCredit(S1)]


def test_an_illegal_message_of_a_learner_is_a_bug_of_the_caller() -> None:
    leader = Leader()
    with pytest.raises(AssertionError):
        leader.hear(S1, PROMISE)
    leader.hear(S1, HELLO)
    with pytest.raises(AssertionError):
        leader.hear(S1, Diff())  # type: ignore[arg-type]


@pytest.mark.parametrize("message", [AckNewLeader(E2), AckEpoch(E1, ZERO, True)])
def test_refuses_messages_before_their_stage(message: LeaderRecoveryMessage) -> None:
    leader = Leader(FIVE)
    leader.hear(S1, HELLO)
    leader.out.clear()
    with pytest.raises(PeerProtocolError):
        leader.hear(S1, message)
    assert leader.out == []


class TestPatience:
    """Without a quorum of followers its claim keeps others from electing a leader."""

    timing = Timing()

    def test_is_short_without_followers(self) -> None:
        leader = Leader(FIVE)
        assert leader.role.deadline() == T0 + self.timing.sync_ms
        leader.now = Millis(T0 + 500)
        leader.hear(S1, HELLO)
        assert leader.role.deadline() == T0 + self.timing.sync_ms
        leader.role.wake(Millis(T0 + self.timing.sync_ms - 1))
        assert leader.role.transition is None
        leader.role.wake(Millis(T0 + self.timing.sync_ms))
        assert leader.reason() == "no quorum synchronized in time"

    def test_is_long_while_a_quorum_makes_progress(self) -> None:
        leader = Leader().propose(S1)
        leader.now = Millis(T0 + 500)
        leader.hear(S1, PROMISE)
        assert leader.role.deadline() == T0 + 500 + self.timing.init_ms

    def test_is_short_again_when_the_quorum_is_lost(self) -> None:
        leader = Leader().propose(S1)
        leader.role.lost(S1, "link broken", Millis(T0 + 700))
        assert leader.role.deadline() == T0 + 700 + self.timing.sync_ms
        assert leader.role.learners.get(S1) is None

    def test_is_not_won_by_losing_a_voter(self) -> None:
        leader = Leader().propose(S1, S2)
        before = leader.role.deadline()
        leader.role.lost(S1, "link broken", Millis(T0 + 700))
        assert leader.role.deadline() == before


class TestWhatLearnersKnowToBeCommitted:
    """Rule D3: it may give one of them its vote, without which there would be no quorum."""

    @pytest.mark.parametrize(
        ("committed", "delivered"),
        [
            (ZERO, ZERO),
            (z(1, 1), z(1, 1)),
            (z(1, 2), z(1, 2)),
            (z(1, 3), ZERO),  # beyond our log: we know no more than before
            (z(0, 9), ZERO),
        ],
    )
    def test_is_delivered(self, committed: Zxid, delivered: Zxid) -> None:
        leader = Leader().propose(S1)
        leader.out.clear()
        leader.hear(S1, AckEpoch(E1, z(1, 2), False, False, committed))
        assert leader.history.delivered == delivered
        assert any(isinstance(effect, Deliver) for effect in leader.out) is (delivered > ZERO)

    def test_a_learner_counts_from_then_on(self) -> None:
        leader = Leader()
        settings = leader.role._settings
        leader.hear(S1, FollowerInfo(E1, 1, NEW_DISK))
        leader.hear(S2, FollowerInfo(E1, 1, NEW_DISK))
        assert SaveEpochs(E2, E1) not in leader.out  # no quorum of those with a vote
        settings.members.change_delivered(S1, NEW_DISK)
        leader.role.members_changed()
        assert SaveEpochs(E2, E1) in leader.out

    def test_a_leader_whose_vote_has_moved_gives_up(self) -> None:
        leader = Leader()
        leader.role._settings.members.change_delivered(S3, NEW_DISK)
        leader.role.members_changed()
        assert leader.reason() == "the vote of this server rests on another disk"
