"""LeaderBroadcast: its counter, what a learner was not sent, and what callers must not do.

Its steps are scenarios, data/leader_broadcast.txt and others.
"""

import pytest

from raykeeper.zab.effects import Send
from raykeeper.zab.errors import PeerProtocolError
from raykeeper.zab.ids import COUNTER_MAX, FOUNDING_DISK, Epoch, Millis, Zxid
from raykeeper.zab.leader_broadcast import LeaderBroadcast
from raykeeper.zab.messages import (
    Ack,
    AckEpoch,
    AckNewLeader,
    Commit,
    Diff,
    FollowerInfo,
    Pong,
    UpToDate,
)
from tests.unit.zab.histories import S1, S2, S3, Bench, make_history, run, sent, z

E2 = Epoch(2)
OLD = z(1, 2)
Z1, Z2, Z3 = (z(2, n) for n in range(1, 4))


class Leader(Bench):
    """Server 3 leads epoch 2 after two transactions of epoch 1; servers 1 and 2 follow."""

    def __init__(self) -> None:
        super().__init__(S3, run(z(1, 1), b"o", b"p"), accepted=1, current=1)
        self.lead(S1, S2)
        assert self.peer.broadcasting is not None
        self.role = self.peer.broadcasting
        self.out.clear()

    def sent_up_to(self, zxid: Zxid) -> None:
        """Server 2 was sent less than it is in truth."""
        learner = self.role.learners.get(S2)
        assert learner is not None
        learner.sent = zxid


def test_counts_what_is_left_of_its_epoch() -> None:
    leader = Leader()
    assert (leader.role.next_zxid(), leader.role.counter_left) == (Z1, COUNTER_MAX)
    leader.role.propose([b"a", b"b"], leader.now)
    assert (leader.role.next_zxid(), leader.role.counter_left) == (Z3, COUNTER_MAX - 2)


def test_counts_the_read_indexes_that_wait_for_a_quorum() -> None:
    leader = Leader()
    assert leader.role.read_indexes_pending == 0
    leader.role.read_index(7)
    assert leader.role.read_indexes_pending == 1


def test_hands_over_from_the_nominees_answer_until_it_is_abandoned() -> None:
    leader = Leader()
    leader.role.propose([b"a"], leader.now)
    assert not leader.role.is_transferring
    assert leader.role.transfer_leadership(S1, Millis(leader.now + 100), 1) == S1
    assert leader.role.is_transferring and not leader.role.is_handing_over  # writes go on
    leader.hear(S1, Pong(1))
    assert leader.role.is_transferring and leader.role.is_handing_over
    leader.role.abandon_transfer("enough")
    assert not leader.role.is_transferring and not leader.role.is_handing_over


@pytest.mark.parametrize("count", [0, 2])
def test_proposes_not_more_than_there_is_room(count: int) -> None:
    leader = Leader()
    leader.history.recent_log.last = z(2, COUNTER_MAX - 1)
    assert leader.role.counter_left == 1
    with pytest.raises(AssertionError):
        leader.role.propose([b"x"] * count, leader.now)


def test_begins_only_with_its_epoch_on_disk() -> None:
    leader = Leader()
    history = make_history([], accepted=2, current=1)
    with pytest.raises(AssertionError):
        LeaderBroadcast(leader.settings, history, leader.role.learners, [], leader.now)


def test_a_commit_is_clipped_to_what_a_learner_was_sent() -> None:
    leader = Leader()
    leader.role.propose([b"a", b"b"], leader.now)
    leader.sent_up_to(Z1)
    leader.peer.log_synced(Z2, leader.now)
    leader.out.clear()
    leader.hear(S1, Ack(Z2))
    assert leader.out[1:] == [Send(S1, Commit(Z2)), Send(S2, Commit(Z1))]


def test_a_learner_is_told_no_commit_point_beyond_what_it_was_sent() -> None:
    leader = Leader()
    leader.hear(S2, FollowerInfo(E2, 2, FOUNDING_DISK), AckEpoch(E2, OLD, False))
    leader.sent_up_to(z(1, 1))
    leader.out.clear()
    leader.hear(S2, AckNewLeader(E2))
    assert sent(leader.out, S2) == [UpToDate(z(1, 1))]


def test_refuses_an_ack_beyond_what_was_sent() -> None:
    """Though it stands in the log: whose word would that be?"""
    leader = Leader()
    leader.role.propose([b"a", b"b"], leader.now)
    leader.sent_up_to(Z1)
    leader.out.clear()
    with pytest.raises(PeerProtocolError):
        leader.role.receive(S2, Ack(Z2), leader.now)
    learner = leader.role.learners.get(S2)
    assert learner is not None
    assert (leader.out, learner.acked) == ([], OLD)


def test_an_illegal_message_of_a_learner_is_a_bug_of_the_caller() -> None:
    leader = Leader()
    with pytest.raises(AssertionError):
        leader.role.receive(S1, Diff(), leader.now)  # type: ignore[arg-type]
