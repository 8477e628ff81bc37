"""LeaderBroadcast: followers and leaders on full disks (rule D6), and votes that move (rule D3)."""

from collections.abc import Callable

import pytest

from raykeeper.zab.effects import BreakLink, Deliver, Effect, Send
from raykeeper.zab.errors import PeerProtocolError
from raykeeper.zab.ids import FOUNDING_DISK, DiskId, Epoch, Millis, ServerId, Zxid
from raykeeper.zab.messages import (
    Ack,
    AckEpoch,
    AckNewLeader,
    Commit,
    FollowerInfo,
    LogPaused,
    Pong,
)
from raykeeper.zab.settings import Timing
from raykeeper.zab.transitions import StepDown
from tests.unit.zab.histories import NEW_DISK, S1, S2, S4
from tests.unit.zab.test_leader_broadcast import E7, FIVE, OLD, Z1, Z2, Leader

TICK = Timing()
HANDED_TO_1 = StepDown("no room; server 1 can take over")
HANDED_TO_2 = StepDown("no room; server 2 can take over")


def tell_full(leader: Leader) -> list[Effect]:
    leader.history.has_disk_space = False
    leader.role.disk_space_changed()
    return leader.take()


def with_open_proposal(*followers: ServerId) -> Leader:
    leader = Leader(*followers)
    leader.propose(b"a", b"b")
    return leader


class TestLogPaused:
    """A follower whose disk is full follows on without acknowledging."""

    def test_is_sent_all_and_told_every_commit(self) -> None:
        leader = Leader(S1, S2)
        assert leader.hear(S2, LogPaused()) == []
        assert S2 in [e.peer for e in leader.propose(b"a") if isinstance(e, Send)]
        leader.synced(Z1)
        assert Send(S2, Commit(Z1)) in leader.hear(S1, Ack(Z1))

    def test_owes_no_acknowledgement(self) -> None:
        leader = with_open_proposal(S1, S2)
        leader.hear(S2, LogPaused())
        leader.synced(Z2)
        leader.now = Millis(leader.now + TICK.init_ms)
        leader.hear(S1, Ack(Z2))
        for _ in range(3):
            leader.hear(S1, Pong(0))
            leader.hear(S2, Pong(0))
            assert not any(isinstance(e, BreakLink) for e in leader.wait(TICK.ping_ms))
        assert leader.learners.get(S2) is not None

    def test_is_dropped_when_silent_like_any_other(self) -> None:
        leader = Leader(S1, S2)
        leader.hear(S2, LogPaused())
        leader.now = Millis(leader.now + TICK.sync_ms)
        leader.hear(S1, Pong(0))
        assert BreakLink(S2, "silent") in leader.wait(1)

    def test_what_it_acknowledged_before_still_counts(self) -> None:
        leader = with_open_proposal(S1, S2)
        leader.hear(S2, Ack(Z1), LogPaused())
        assert leader.synced(Z2)[0] == Deliver(Z1, [b"a"])
        # And so does what was on its way to its disk.
        assert leader.hear(S2, Ack(Z2))[0] == Deliver(Z2, [b"b"])

    def test_is_part_of_the_quorum_that_keeps_the_leader(self) -> None:
        leader = Leader(S1)
        leader.hear(S1, LogPaused())
        leader.wait(TICK.ping_ms)
        assert leader.role.transition is None

    def test_with_another_stint_it_logs_again(self) -> None:
        leader = Leader(S1)
        leader.hear(S1, LogPaused(), FollowerInfo(Epoch(7), 2, FOUNDING_DISK))
        learner = leader.learners.get(S1)
        assert learner is not None and learner.is_logging

    @pytest.mark.parametrize("synchronized", [False, True])
    def test_is_refused_before_the_ack_of_newleader(self, synchronized: bool) -> None:
        leader = Leader(S1)
        leader.hear(S2, FollowerInfo(Epoch(6), 1, FOUNDING_DISK))
        if synchronized:
            leader.hear(S2, AckEpoch(Epoch(6), OLD, False))
        with pytest.raises(PeerProtocolError):
            leader.hear(S2, LogPaused())
        learner = leader.learners.get(S2)
        assert learner is not None and learner.is_logging
        assert leader.out == []


class TestHandOver:
    """A leader whose disk is full leaves the lead to a follower that has all it has."""

    def test_at_once_to_a_follower_with_the_whole_log(self) -> None:
        leader = Leader(S1, S2)
        assert tell_full(leader) == []
        assert leader.role.transition == HANDED_TO_1

    @pytest.mark.parametrize(
        "spoil",
        [
            lambda leader: leader.hear(S1, LogPaused()),
            lambda leader: leader.hear(S1, FollowerInfo(Epoch(6), 2, FOUNDING_DISK)),
            lambda leader: leader.role.lost(S1, "link broken", leader.now),
        ],
    )
    def test_not_to_one_that_does_not_log_or_follow(
        self, spoil: Callable[[Leader], object]
    ) -> None:
        leader = Leader(S1)
        spoil(leader)
        leader.take()
        tell_full(leader)
        assert leader.role.transition is None
        leader = Leader(S1, S2)
        spoil(leader)
        tell_full(leader)
        assert leader.role.transition == HANDED_TO_2

    @pytest.mark.parametrize(("server", "disk"), [(S2, NEW_DISK), (S4, FOUNDING_DISK)])
    def test_not_to_one_without_a_vote(self, server: ServerId, disk: DiskId) -> None:
        leader = with_open_proposal(S1)
        leader.join(server, disk=disk)
        leader.synced(Z2)
        tell_full(leader)
        assert leader.role.transition is None

    def test_not_to_one_that_has_less_until_it_has_all(self) -> None:
        leader = with_open_proposal(S1)
        tell_full(leader)
        assert leader.role.transition is None
        leader.synced(Z2)
        leader.hear(S1, Ack(Z1))
        assert leader.role.transition is None
        assert leader.hear(S1, Ack(Z2))[0] == Deliver(Z2, [b"b"])  # committed before it leaves
        assert leader.role.transition == HANDED_TO_1

    def test_at_the_next_tick_to_one_that_came_with_all(self) -> None:
        leader = Leader(S1)
        leader.hear(S1, LogPaused())
        tell_full(leader)
        leader.join(S2)
        assert leader.role.transition is None
        leader.wait(TICK.ping_ms)
        assert leader.role.transition == HANDED_TO_2

    def test_a_leader_without_a_quorum_cannot_transfer_the_lead(self) -> None:
        leader = Leader(S1, voters=FIVE)
        leader.hear(S1, LogPaused())
        tell_full(leader)
        leader.wait(TICK.ping_ms)
        assert leader.role.transition == StepDown("no quorum of followers")

    def test_with_room_acks_and_ticks_end_nothing(self) -> None:
        leader = with_open_proposal(S1)
        leader.hear(S1, Ack(Z2))
        leader.wait(TICK.ping_ms)
        assert leader.role.transition is None


def test_with_room_again_another_reign_begins() -> None:
    """In between writes were left lying; in the next reign everybody sends them again."""
    leader = with_open_proposal(S1)
    tell_full(leader)
    assert leader.role.transition is None
    leader.history.has_disk_space = True
    leader.role.disk_space_changed()
    assert leader.role.transition == StepDown("there is room again")


class TestMembersChanged:
    """The member list names another disk: votes come and go."""

    def changed(self, leader: Leader, server: ServerId, disk: DiskId) -> list[Effect]:
        leader.settings.members.change_delivered(server, disk)
        leader.role.members_changed()
        return leader.take()

    def joined(self) -> Leader:
        """Server 2 follows on a new disk and has acknowledged what nobody else has."""
        leader = Leader(S1)
        leader.join(S2, disk=NEW_DISK)
        leader.propose(b"a", b"b")
        leader.synced(Z2)
        assert leader.hear(S2, Ack(Z1)) == []
        return leader

    def test_what_a_new_disk_has_is_committed(self) -> None:
        leader = self.joined()
        assert self.changed(leader, S2, NEW_DISK) == [
            Deliver(Z1, [b"a"]),
            Send(S1, Commit(Z1)),
            Send(S2, Commit(Z1)),
        ]

    @pytest.mark.parametrize("disk", [FOUNDING_DISK, DiskId("another")])
    def test_nothing_is_when_it_names_another(self, disk: DiskId) -> None:
        assert self.changed(self.joined(), S2, disk) == []

    def test_an_old_disk_counts_no_more(self) -> None:
        leader = with_open_proposal(S1)
        self.changed(leader, S1, NEW_DISK)
        leader.synced(Z2)
        assert leader.hear(S1, Ack(Z2)) == []
        leader.wait(TICK.ping_ms)
        assert leader.role.transition == StepDown("no quorum of followers")

    def test_a_restored_vote_keeps_the_leader_and_confirms_reads(self) -> None:
        leader = self.joined()
        leader.role.lost(S1, "link broken", leader.now)
        self.changed(leader, S2, NEW_DISK)
        leader.now = Millis(leader.now + 100)
        leader.hear(S2, Pong(0))
        assert leader.role.last_quorum_contact(Millis(leader.now + 900)) == leader.now
        leader.wait(TICK.ping_ms)
        assert leader.role.transition is None

    def test_a_later_learner_counts_by_the_present_member_list(self) -> None:
        leader = Leader(S1)
        self.changed(leader, S2, NEW_DISK)
        counted: dict[ServerId, bool] = {}
        for server, disk in ((S2, NEW_DISK), (S1, NEW_DISK)):
            leader.hear(server, FollowerInfo(Epoch(6), 2, disk))
            learner = leader.learners.get(server)
            assert learner is not None
            counted[server] = learner.has_vote
        assert counted == {S2: True, S1: False}


def test_the_epoch_and_position_of_these_tests() -> None:
    """A learner joins with exactly the leader's log, so it can be handed the lead."""
    leader = Leader()
    assert leader.history.logged == Zxid(OLD)
    leader.hear(S1, FollowerInfo(Epoch(6), 1, FOUNDING_DISK))
    leader.hear(S1, AckEpoch(Epoch(6), OLD, False), AckNewLeader(E7))
    learner = leader.learners.get(S1)
    assert learner is not None and learner.acked == leader.history.logged
