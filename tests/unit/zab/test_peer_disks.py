"""Peer: disks that are full, and votes that move to another disk, in every role."""

from collections.abc import Callable

import pytest

from raykeeper.zab import trace_events
from raykeeper.zab.effects import Append, Deliver, Role, RoleChanged, Send, TraceEvent, VoteGranted
from raykeeper.zab.history import History
from raykeeper.zab.ids import FOUNDING_DISK, DiskId, Epoch, ServerId
from raykeeper.zab.messages import (
    Ack,
    AckEpoch,
    AckNewLeader,
    Commit,
    FollowerInfo,
    LogPaused,
    Notification,
    Proposals,
    Vote,
)
from raykeeper.zab.peer import Peer
from raykeeper.zab.settings import Settings
from tests.unit.zab.histories import (
    NEW_DISK,
    S1,
    S2,
    S3,
    S4,
    T0,
    THREE,
    Bench,
    make_history,
    noted,
    run,
    sent,
    told,
    z,
)

LOG = run(z(1, 1), b"a", b"b", b"c")
LAST, NEXT = z(1, 3), z(2, 1)
E1 = Epoch(1)
NOBODY = Vote(Epoch(0), z(0, 0), ServerId(0))


def server(server_id: ServerId = S1, disk: DiskId = FOUNDING_DISK, has_room: bool = True) -> Bench:
    return Bench(server_id, LOG, accepted=1, current=1, disk=disk, has_room=has_room)


def draining() -> Bench:
    bench = following()
    bench.hear(S3, Proposals(NEXT, [b"d"]))
    bench.peer.link_down(S3, bench.now)
    return bench


def recovering_follower(has_room: bool = True) -> Bench:
    bench = server(has_room=has_room)
    bench.elect(S3, S3)
    return bench


def following() -> Bench:
    bench = server()
    bench.follow(S3, 2)
    return bench


def observing() -> Bench:
    """Server 1 follows server 3 on a disk that the member list does not name."""
    bench = server(disk=NEW_DISK)
    bench.observe(S3, S2, 2)
    return bench


def recovering_leader() -> Bench:
    bench = server(S3)
    bench.elect(S3, S1)
    return bench


def leading() -> Bench:
    bench = server(S3)
    bench.lead(S1)
    return bench


ROLES = [server, draining, recovering_follower, following, recovering_leader, leading]


class TestRoom:
    """Rule D6, by the role in which the disk tells it."""

    def full(self, make: Callable[[], Bench]) -> Bench:
        bench = make()
        bench.take()
        bench.peer.disk_space_changed(False, bench.now)
        return bench

    @pytest.mark.parametrize("make", ROLES)
    def test_is_remembered_in_every_role(self, make: Callable[[], Bench]) -> None:
        bench = self.full(make)
        assert not bench.history.has_disk_space
        bench.take()
        bench.peer.disk_space_changed(False, bench.now)
        assert bench.take() == []
        bench.peer.disk_space_changed(True, bench.now)
        assert bench.history.has_disk_space

    @pytest.mark.parametrize("make", ROLES)
    def test_an_unchanged_znode_fires_nothing(self, make: Callable[[], Bench]) -> None:
        bench = make()
        bench.take()
        bench.peer.disk_space_changed(True, bench.now)
        assert bench.take() == []

    @pytest.mark.parametrize("make", [draining, recovering_follower, recovering_leader])
    def test_changes_nothing_else_between_two_roles(self, make: Callable[[], Bench]) -> None:
        bench = self.full(make)
        assert bench.take() == []
        assert not bench.history.is_paused

    def test_a_looking_server_puts_others_forward(self) -> None:
        bench = server(S3)
        bench.link(S1, S2)
        bench.hear(S1, told(1, Vote(E1, LAST, S1)))
        bench.take()
        bench.peer.disk_space_changed(False, bench.now)
        own = Vote(E1, LAST, S3, has_disk_space=False)
        assert sent(bench.take(), S1) == [told(1, Vote(E1, LAST, S1), own=own)]

    def test_a_server_with_a_role_says_so(self) -> None:
        bench = self.full(following)
        bench.link(S2)
        bench.hear(S2, told(1, Vote(E1, LAST, S2)))
        (answer,) = sent(bench.take(), S2)
        assert isinstance(answer, Notification)
        assert answer.own_vote == Vote(Epoch(2), LAST, S1, has_disk_space=False)
        assert answer.disk == FOUNDING_DISK

    def test_a_follower_pauses_its_log_until_it_begins_anew(self) -> None:
        bench = self.full(following)
        assert sent(bench.take()) == [LogPaused()]
        bench.hear(S3, Proposals(NEXT, [b"d"]), Commit(NEXT))
        assert bench.take() == [Deliver(NEXT, [b"d"])]
        bench.peer.disk_space_changed(True, bench.now)
        assert bench.history.is_paused
        assert bench.take() == []

    def test_a_follower_without_room_pauses_once_it_follows(self) -> None:
        bench = recovering_follower(has_room=False)
        assert LogPaused() not in sent(bench.take())
        bench = server(has_room=False)
        bench.follow(S3, 2)
        assert sent(bench.take(), S3)[-1] == LogPaused()

    def test_a_paused_log_takes_up_no_other_role(self) -> None:
        bench = self.full(following)
        bench.hear(S3, Proposals(NEXT, [b"d"]))
        bench.peer.link_down(S3, bench.now)
        bench.later(60_000)
        assert bench.peer.role is Role.LOOKING
        assert trace_events.ELECTION_STARTED not in noted(bench.take())

    def test_a_leader_hands_over(self) -> None:
        bench = self.full(leading)
        found = bench.take()
        reason = "no room; server 1 can take over"
        assert TraceEvent(trace_events.ROLE_LEFT, ("leader", reason)) in found
        assert RoleChanged(Role.LOOKING, None) in found

    def test_a_leader_begins_another_reign_when_room_is_back(self) -> None:
        bench = leading()
        bench.peer.propose([b"d"], bench.now)
        bench.peer.disk_space_changed(False, bench.now)
        assert bench.peer.broadcasting is not None  # nobody has what it has
        bench.take()
        bench.peer.disk_space_changed(True, bench.now)
        assert TraceEvent(trace_events.ROLE_LEFT, ("leader", "there is room again")) in bench.take()


class TestVoterReplaced:
    """Rule D3: a delivered transaction has put another disk into the member list."""

    @pytest.mark.parametrize("make", ROLES)
    def test_ends_no_role(self, make: Callable[[], Bench]) -> None:
        bench = make()
        role = bench.peer._role
        bench.take()
        assert bench.peer.voter_replaced(S2, NEW_DISK, bench.now) is True
        assert bench.take() == [TraceEvent(trace_events.VOTE_REPLACED, (S2, NEW_DISK))]
        assert bench.settings.members.has_vote(S2, NEW_DISK)
        assert bench.peer.voter_replaced(S2, NEW_DISK, bench.now) is False
        assert bench.take() == []
        assert bench.peer._role is role

    @pytest.mark.parametrize(
        ("moved", "knows"),
        [
            ({}, False),
            ({S1: NEW_DISK}, True),
            ({S1: DiskId("other")}, False),
            ({S3: NEW_DISK}, False),
        ],
    )
    def test_others_know_that_it_is_committed(
        self, moved: dict[ServerId, DiskId], knows: bool
    ) -> None:
        """A server that cannot see it would never vote, and be the one that is missing."""
        bench = server(disk=NEW_DISK)
        bench.link(S2)
        bench.take()
        bench.hear(S2, told(1, Vote(E1, LAST, S2), moved=moved))
        assert bench.settings.has_vote is knows
        said = [each for each in sent(bench.take(), S2) if isinstance(each, Notification)]
        assert any(each.has_vote for each in said) is knows
        # What it only knows from others it does not pass on, and the transaction is still news.
        assert bench.settings.members.voter_disks == {}
        assert bench.peer.voter_replaced(S1, NEW_DISK, bench.now) is True
        assert VoteGranted() not in bench.take()
        assert bench.settings.members.voter_disks == {S1: NEW_DISK}

    def test_begins_no_role_before_the_start(self) -> None:
        """The recovered log is delivered first; an election would know half of the members."""
        out: list[object] = []
        settings = Settings(S1, THREE, NEW_DISK)
        history: History = make_history(out, LOG, accepted=1, current=1)  # type: ignore[arg-type]
        peer = Peer(settings, history, out)  # type: ignore[arg-type]
        peer.voter_replaced(S3, NEW_DISK, T0)
        peer.voter_replaced(S1, NEW_DISK, T0)
        assert peer.deadline() is None
        assert out == [
            TraceEvent(trace_events.VOTE_REPLACED, (S3, NEW_DISK)),
            TraceEvent(trace_events.VOTE_REPLACED, (S1, NEW_DISK)),
        ]

    def test_the_disk_is_told_when_the_vote_is_back_for_good(self) -> None:
        """Said once more, it is on the disks of a quorum that the first time was committed."""
        bench = observing()
        bench.take()
        assert bench.peer.role is Role.OBSERVER
        bench.peer.voter_replaced(S1, NEW_DISK, bench.now)
        assert bench.take() == [TraceEvent(trace_events.VOTE_REPLACED, (S1, NEW_DISK))]
        assert bench.peer.role is Role.FOLLOWER
        bench.peer.voter_replaced(S1, NEW_DISK, bench.now)
        assert bench.take() == [VoteGranted()]

    def test_the_disk_is_told_nothing_while_it_is_not_the_one(self) -> None:
        bench = observing()
        bench.take()
        bench.peer.voter_replaced(S1, DiskId("another"), bench.now)
        assert VoteGranted() not in bench.take()
        bench = following()
        bench.take()
        bench.peer.voter_replaced(S1, NEW_DISK, bench.now)
        assert VoteGranted() not in bench.take()
        assert bench.peer.role is Role.OBSERVER

    def test_a_leader_commits_what_the_new_disk_has(self) -> None:
        bench = leading()
        bench.link(S2)
        bench.hear(S2, FollowerInfo(E1, 1, NEW_DISK), AckEpoch(E1, LAST, False))
        bench.hear(S2, AckNewLeader(Epoch(2)))
        bench.peer.propose([b"d"], bench.now)
        bench.peer.log_synced(NEXT, bench.now)
        bench.hear(S2, Ack(NEXT))
        bench.take()
        bench.peer.voter_replaced(S2, NEW_DISK, bench.now)
        assert bench.take() == [
            TraceEvent(trace_events.VOTE_REPLACED, (S2, NEW_DISK)),
            Deliver(NEXT, [b"d"]),
            Send(S1, Commit(NEXT)),
            Send(S2, Commit(NEXT)),
        ]

    def test_said_twice_in_one_log_it_counts_after_the_second(self) -> None:
        """In between a leader cannot tell which of several changes is the last."""
        bench = leading()
        bench.settings.members.change_logged(S2, NEW_DISK)
        bench.settings.members.change_logged(S2, NEW_DISK)
        bench.link(S2)
        bench.hear(S2, FollowerInfo(E1, 1, NEW_DISK))
        counted = []
        for _ in range(2):
            bench.peer.voter_replaced(S2, NEW_DISK, bench.now)
            learner = bench.peer.broadcasting and bench.peer.broadcasting.learners.get(S2)
            assert learner is not None
            counted.append(learner.has_vote)
        assert counted == [False, True]

    def test_a_leader_on_a_disk_that_was_replaced_leads_no_more(self) -> None:
        """It may have been away while its vote moved, and find that in its own log."""
        bench = leading()
        bench.peer.propose([b"d"], bench.now)
        bench.take()
        bench.peer.voter_replaced(S3, NEW_DISK, bench.now)
        found = bench.take()
        reason = "the vote of this server rests on another disk"
        assert TraceEvent(trace_events.ROLE_LEFT, ("leader", reason)) in found
        assert bench.peer.role is Role.LOOKING and not bench.settings.has_vote
        bench.peer.log_synced(NEXT, bench.now)
        assert Deliver(NEXT, [b"d"]) not in bench.take()


class TestWithoutVote:
    """The voters known to have lost their promises, as each role knows them."""

    @pytest.mark.parametrize("make", [server, draining, recovering_follower, following])
    def test_none_that_a_server_with_a_vote_knows_of(self, make: Callable[[], Bench]) -> None:
        assert make().peer.voters_lost == []

    def test_a_server_that_lost_its_own(self) -> None:
        assert server(disk=NEW_DISK).peer.voters_lost == [S1]
        bench = observing()
        assert bench.peer.voters_lost == [S1]
        bench.peer.voter_replaced(S1, NEW_DISK, bench.now)
        assert bench.peer.voters_lost == []

    def test_an_observer_never_had_one(self) -> None:
        bench = Bench(S4, LOG, accepted=1, current=1, disk=NEW_DISK)
        assert bench.peer.voters_lost == []
        bench.observe(S3, S2, 2)
        assert bench.peer.voters_lost == []

    def test_a_looking_server_knows_those_that_look(self) -> None:
        bench = server()
        bench.link(S3)
        bench.hear(S3, told(1, NOBODY, voting=False, disk=NEW_DISK))
        assert bench.peer.voters_lost == [S3]

    @pytest.mark.parametrize("make", [recovering_leader, leading])
    def test_a_leader_knows_its_learners(self, make: Callable[[], Bench]) -> None:
        bench = make()
        bench.link(S2, S4)
        bench.hear(S4, FollowerInfo(E1, 1, NEW_DISK))
        assert bench.peer.voters_lost == []
        bench.hear(S2, FollowerInfo(E1, 1, NEW_DISK))
        bench.hear(S1, FollowerInfo(E1, 8, NEW_DISK))
        assert bench.peer.voters_lost == [S1, S2]


def test_a_full_disk_that_hands_over_has_all_that_it_proposed_on_another() -> None:
    bench = leading()
    bench.peer.propose([b"d"], bench.now)
    assert Append(NEXT, [b"d"], LAST) in bench.take()
    bench.peer.disk_space_changed(False, bench.now)
    bench.hear(S1, Ack(NEXT))
    assert bench.peer.role is Role.LOOKING
    assert bench.peer.deadline() is None  # its own disk is not done
    bench.peer.log_synced(NEXT, bench.now)
    own = Vote(Epoch(2), NEXT, S3, has_disk_space=False)
    assert own in [m.own_vote for m in sent(bench.take(), S1) if isinstance(m, Notification)]
