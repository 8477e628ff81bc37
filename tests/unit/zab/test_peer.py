"""Peer: which event ends which role, and what everybody else is told."""

from collections.abc import Callable

import pytest

from raykeeper.zab import trace_events
from raykeeper.zab.effects import (
    Activated,
    Append,
    BreakLink,
    Deliver,
    InstallSnapshot,
    ReadLog,
    Role,
    RoleChanged,
    SaveEpochs,
    Send,
    Truncate,
)
from raykeeper.zab.ids import FOUNDING_DISK, ZERO, DiskId, Epoch, Millis
from raykeeper.zab.messages import (
    Ack,
    AckEpoch,
    AckNewLeader,
    Commit,
    Diff,
    FollowerInfo,
    LeaderInfo,
    NewLeader,
    Notification,
    PeerState,
    Ping,
    Pong,
    Proposals,
    Snapshot,
    SnapshotEnd,
    Trunc,
    UpToDate,
    Vote,
)
from raykeeper.zab.settings import Timing
from tests.unit.zab.histories import NEW_DISK, S1, S2, S3, S4, Bench, noted, run, sent, told, z

LOG = run(z(1, 1), b"a", b"b", b"c")
LAST = z(1, 3)
E1, E2 = Epoch(1), Epoch(2)
LOOKING, FOLLOWING, LEADING = PeerState.LOOKING, PeerState.FOLLOWING, PeerState.LEADING


def server(server_id: int = S1, disk: DiskId = FOUNDING_DISK) -> Bench:
    return Bench(server_id, LOG, accepted=1, current=1, disk=disk)  # type: ignore[arg-type]


def recovering_follower() -> Bench:
    bench = server()
    bench.elect(S3, S3)
    return bench


def following() -> Bench:
    bench = server()
    bench.follow(S3, 2)
    return bench


def recovering_leader() -> Bench:
    bench = server(S3)
    bench.elect(S3, S1)
    return bench


def leading() -> Bench:
    bench = server(S3)
    bench.lead(S1)
    return bench


def roles(bench: Bench) -> list[Role]:
    return [effect.role for effect in bench.take() if isinstance(effect, RoleChanged)]


class TestRoles:
    """What the surroundings see."""

    @pytest.mark.parametrize(
        ("make", "role", "leader", "active"),
        [
            (server, Role.LOOKING, None, False),
            (recovering_follower, Role.FOLLOWER, S3, False),
            (following, Role.FOLLOWER, S3, True),
            (recovering_leader, Role.LEADER, S3, False),
            (leading, Role.LEADER, S3, True),
        ],
    )
    def test_role_and_leader(
        self, make: Callable[[], Bench], role: Role, leader: int | None, active: bool
    ) -> None:
        bench = make()
        peer = bench.peer
        assert (peer.role, peer.leader, peer.is_active) == (role, leader, active)
        assert (peer.broadcasting is not None) == (role is Role.LEADER and active)
        assert (peer.last_quorum_contact(bench.now) is not None) == active
        assert peer.deadline() is not None
        assert peer.epoch == (2 if active else 1)

    def test_a_server_without_a_vote_observes(self) -> None:
        bench = server(disk=NEW_DISK)
        bench.link(S2, S3)
        vote = Vote(E1, LAST, S3)
        bench.hear(S3, told(1, vote, LEADING))
        bench.hear(S2, told(1, vote, FOLLOWING, own=Vote(E1, LAST, S2)))
        assert (bench.peer.role, bench.peer.leader) == (Role.OBSERVER, S3)
        bench.take()
        bench.hear(S2, told(2, vote))
        assert [m.state for m in sent(bench.take())] == [PeerState.OBSERVING]  # type: ignore[union-attr]

    def test_a_follower_from_the_election_to_broadcast(self) -> None:
        bench = server()
        bench.take()
        bench.elect(S3, S3)
        found = bench.take()
        assert RoleChanged(Role.FOLLOWER, S3) in found
        assert sent(found, S3)[-2:] == [
            FollowerInfo(E1, 1, FOUNDING_DISK),
            told(1, Vote(E1, LAST, S3), FOLLOWING, own=Vote(E1, LAST, S1)),
        ]
        bench.hear(S3, LeaderInfo(E2, 1))
        bench.save_epochs()
        bench.hear(S3, Diff(), NewLeader(E2, LAST))
        bench.save_epochs()
        bench.hear(S3, UpToDate(LAST))
        assert bench.take()[-1] == Activated(Role.FOLLOWER, S3, E2)
        assert bench.history.delivered == LAST

    def test_a_leader_from_the_election_to_broadcast(self) -> None:
        bench = leading()
        found = bench.take()
        assert RoleChanged(Role.LEADER, S3) in found
        assert Activated(Role.LEADER, S3, E2) in found
        assert sent(found)[-1] == UpToDate(LAST)
        bench.peer.propose([b"d"], bench.now)
        bench.hear(S1, Ack(z(2, 1)))
        bench.peer.log_synced(z(2, 1), bench.now)
        assert Deliver(z(2, 1), [b"d"]) in bench.take()

    def test_only_an_established_leader_proposes(self) -> None:
        with pytest.raises(AssertionError):
            recovering_leader().peer.propose([b"d"], Millis(0))


class TestDraining:
    """Rule Z2: a role is left at once, the next one begins when the disk is done."""

    def test_a_vote_waits_for_the_log(self) -> None:
        bench = following()
        bench.hear(S3, Proposals(z(2, 1), [b"d"]))
        bench.take()
        bench.peer.link_down(S3, bench.now)
        assert roles(bench) == [Role.LOOKING]
        assert bench.peer.deadline() is None
        bench.later(60_000)
        assert bench.take() == []
        bench.link(S2)
        bench.peer.log_synced(z(2, 1), bench.now)
        found = bench.take()
        assert [m.vote for m in sent(found)] == [Vote(E2, z(2, 1), S1)]  # type: ignore[union-attr]

    def test_a_vote_waits_for_the_promise_the_cut_and_the_snapshot(self) -> None:
        for packets, effect, done in (
            (
                [],
                SaveEpochs(E2, E1),
                lambda bench: bench.peer.epochs_saved(E2, E1, bench.now),
            ),
            (
                [Trunc(z(1, 2))],
                Truncate(z(1, 2)),
                lambda bench: bench.peer.log_truncated(z(1, 2), bench.now),
            ),
            (
                [Snapshot(z(1, 9)), SnapshotEnd(z(1, 9)), NewLeader(E2, z(1, 9))],
                InstallSnapshot(z(1, 9), z(1, 9), []),
                lambda bench: bench.peer.snapshot_installed(z(1, 9), bench.now),
            ),
        ):
            bench = recovering_follower()
            bench.hear(S3, LeaderInfo(E2, 1))
            if packets:
                bench.save_epochs()
                bench.hear(S3, *packets)
            assert effect in bench.take()
            bench.peer.link_down(S3, bench.now)
            assert trace_events.ELECTION_STARTED not in noted(bench.take())
            done(bench)
            assert trace_events.ELECTION_STARTED in noted(bench.take())

    def test_a_leader_that_steps_down_says_so_at_once(self) -> None:
        """Else its followers would wait for its disk, or for its silence."""
        bench = leading()
        bench.peer.propose([b"d"], bench.now)
        bench.take()
        bench.peer.step_down("a hand-over", bench.now)
        found = sent(bench.take(), S1)
        assert [(m.state, m.has_vote, m.round) for m in found] == [(LOOKING, False, 2)]  # type: ignore[union-attr]
        # Whoever takes it for a leader still is told the same; a vote is not asked of it.
        bench.hear(S1, FollowerInfo(E2, 2, FOUNDING_DISK), told(2, Vote(E1, LAST, S1)))
        assert [m.has_vote for m in sent(bench.take(), S1)] == [False]  # type: ignore[union-attr]

    def test_with_an_idle_disk_it_votes_at_once(self) -> None:
        bench = leading()
        bench.take()
        bench.peer.step_down("a hand-over", bench.now)
        found = bench.take()
        assert [m.has_vote for m in sent(found, S1)] == [True]  # type: ignore[union-attr]
        assert trace_events.ROLE_LEFT in noted(found)

    @pytest.mark.parametrize("make", [server])
    def test_a_server_without_a_role_does_not_step_down(self, make: Callable[[], Bench]) -> None:
        bench = make()
        bench.take()
        bench.peer.step_down("?", bench.now)
        assert bench.take() == []


class TestRounds:
    """A new round stops everybody's election, so it takes more than a wrong guess."""

    def test_after_a_wrong_guess_the_round_stays(self) -> None:
        bench = recovering_follower()
        bench.take()
        bench.hear(S3, told(1, Vote(E1, LAST, S2), own=Vote(E1, LAST, S3)))
        states = [(m.round, m.state) for m in sent(bench.take(), S3)]  # type: ignore[union-attr]
        assert states == [(1, FOLLOWING), (1, LOOKING)]

    def test_after_following_or_leading_a_new_round_begins(self) -> None:
        for bench, peer in ((following(), S3), (leading(), S1), (recovering_leader(), S1)):
            bench.take()
            bench.peer.step_down("asked to", bench.now)
            assert [m.round for m in sent(bench.take(), peer)] == [2]  # type: ignore[union-attr]


class TestLinks:
    """A link that comes, goes, or comes anew."""

    def test_a_new_link_replaces_an_older_one(self) -> None:
        bench = following()
        bench.take()
        bench.link(S3)
        assert roles(bench) == [Role.LOOKING]
        assert list(bench.peer.links) == [S3]

    def test_losing_a_link_that_is_not_up_does_nothing(self) -> None:
        bench = following()
        bench.take()
        bench.peer.link_down(S2, bench.now)
        assert bench.take() == []

    def test_another_followers_link_does_not_matter(self) -> None:
        bench = following()
        bench.link(S2)
        bench.take()
        bench.peer.link_down(S2, bench.now)
        assert bench.take() == [] and bench.peer.is_active

    def test_a_leader_drops_the_learner(self) -> None:
        for bench in (leading(), recovering_leader()):
            bench.hear(S1, FollowerInfo(E1, 9, FOUNDING_DISK))
            bench.take()
            bench.peer.link_down(S1, bench.now)
            assert noted(bench.take()) == [trace_events.LEARNER_LOST]

    def test_messages_without_a_link_are_stale(self) -> None:
        bench = server()
        bench.take()
        bench.hear(S3, told(9, Vote(E2, LAST, S3)))
        assert noted(bench.take()) == [trace_events.MESSAGE_STALE]

    def test_a_looking_server_tells_a_new_link_its_vote(self) -> None:
        bench = server()
        bench.take()
        bench.link(S2)
        assert sent(bench.take(), S2) == [told(1, Vote(E1, LAST, S1))]
        bench.peer.link_down(S2, bench.now)


class TestNotifications:
    """What a server with a role makes of the election of others."""

    @pytest.mark.parametrize(
        ("make", "state"),
        [
            (recovering_follower, FOLLOWING),
            (following, FOLLOWING),
            (recovering_leader, LEADING),
            (leading, LEADING),
        ],
    )
    def test_a_looking_server_gets_an_answer(
        self, make: Callable[[], Bench], state: PeerState
    ) -> None:
        bench = make()
        bench.link(S2)
        bench.take()
        bench.hear(S2, told(1, Vote(E1, LAST, S2)))
        (answer,) = sent(bench.take(), S2)
        assert isinstance(answer, Notification)
        assert (answer.state, answer.vote, answer.round) == (state, Vote(E1, LAST, S3), 1)

    def test_a_server_that_does_not_look_gets_no_answer(self) -> None:
        bench = following()
        bench.link(S2)
        bench.take()
        bench.hear(S2, told(1, Vote(E1, LAST, S3), FOLLOWING))
        assert bench.take() == []

    def test_a_follower_that_looks_has_left_its_leader(self) -> None:
        for bench in (leading(), recovering_leader()):
            bench.hear(S1, FollowerInfo(E1, 9, FOUNDING_DISK))
            bench.take()
            bench.hear(S1, told(2, Vote(E1, LAST, S1)))
            assert noted(bench.take()) == [trace_events.LEARNER_LOST]

    @pytest.mark.parametrize(
        ("own", "voting", "has_followers", "leads_on"),
        [
            (Vote(E1, LAST, S2), True, False, True),  # ours is the better one by its number
            (Vote(E2, LAST, S2), True, False, False),
            (Vote(E2, LAST, S2), False, False, True),  # not ready, or without a vote
            (Vote(E2, LAST, S2), True, True, True),  # who follows us will tell if it is better
        ],
    )
    def test_a_leader_without_followers_yields_to_a_better_one(
        self, own: Vote, voting: bool, has_followers: bool, leads_on: bool
    ) -> None:
        bench = recovering_leader()
        bench.link(S2)
        if has_followers:
            bench.hear(S1, FollowerInfo(E1, 9, FOUNDING_DISK))
        bench.hear(S2, told(1, own, voting=voting))
        assert (bench.peer.role is Role.LEADER) is leads_on

    def test_followerinfo_is_sent_again_when_the_leader_leads(self) -> None:
        bench = recovering_follower()
        bench.take()
        bench.hear(S3, told(1, Vote(E1, LAST, S3), LEADING))
        assert bench.take() == [Send(S3, FollowerInfo(E1, 1, FOUNDING_DISK))]
        bench = following()
        bench.take()
        bench.hear(S3, told(1, Vote(E1, LAST, S3), LEADING))
        assert bench.take() == []

    def test_a_follower_waits_for_a_leader_that_is_about_to_lead(self) -> None:
        bench = recovering_follower()
        bench.take()
        bench.hear(S3, told(1, Vote(E1, LAST, S3)))
        assert roles(bench) == []

    @pytest.mark.parametrize(
        "message",
        [
            # It votes for or follows another, or looks in a later round.
            told(1, Vote(E1, LAST, S2), own=Vote(E1, LAST, S3)),
            told(1, Vote(E1, LAST, S2), FOLLOWING, own=Vote(E1, LAST, S3)),
            told(2, Vote(E1, LAST, S3)),
        ],
    )
    def test_a_follower_leaves_a_leader_that_will_not_lead(self, message: Notification) -> None:
        bench = recovering_follower()
        bench.take()
        bench.hear(S3, message)
        assert roles(bench) == [Role.LOOKING]

    def test_a_follower_leaves_a_leader_that_looks(self) -> None:
        for bench in (following(), recovering_follower()):
            if not bench.peer.is_active:
                bench.hear(S3, LeaderInfo(E2, 1))
                bench.save_epochs()
            bench.take()
            bench.hear(S3, told(1, Vote(E1, LAST, S3)))
            assert roles(bench) == [Role.LOOKING]


class TestTime:
    """A deadline ends what others keep waiting."""

    def test_a_silent_leader(self) -> None:
        bench = following()
        bench.take()
        bench.later(Timing().sync_ms)
        assert roles(bench) == [Role.LOOKING]

    def test_a_leader_without_followers(self) -> None:
        bench = leading()
        bench.peer.link_down(S1, bench.now)
        bench.take()
        bench.later(Timing().ping_ms)
        assert roles(bench) == [Role.LOOKING]


def test_transactions_read_from_disk_go_to_their_learner() -> None:
    bench = Bench(S3, run(z(1, 3), b"c"), accepted=1, current=1, base=z(1, 2))
    bench.lead(S1)
    bench.link(S2)
    bench.hear(S2, FollowerInfo(E1, 1, FOUNDING_DISK), AckEpoch(E1, z(1, 1), False))
    read = next(effect for effect in bench.take() if isinstance(effect, ReadLog))
    assert (read.learner, read.after, read.upto) == (S2, z(1, 0), z(1, 2))
    runs = [run(z(1, 1), b"a", b"b")]
    bench.peer.log_read(S4, read.after, runs, bench.now)
    assert bench.take() == []
    bench.peer.log_read(S2, read.after, runs, bench.now)
    assert sent(bench.take(), S2) == [
        Diff(),
        Proposals(z(1, 2), [b"b"], z(1, 3)),
        Proposals(z(1, 3), [b"c"], z(1, 3)),
        NewLeader(E2, z(1, 3)),
    ]
    bench.peer.step_down("asked to", bench.now)
    bench.take()
    bench.peer.log_read(S2, read.after, runs, bench.now)
    assert bench.take() == []


def test_a_breach_of_the_protocol_costs_the_link_and_with_it_the_role() -> None:
    bench = following()
    bench.take()
    bench.hear(S3, Commit(z(2, 7)))
    found = bench.take()
    assert noted(found)[:2] == [trace_events.MESSAGE_ILLEGAL, trace_events.ROLE_LEFT]
    assert BreakLink(S3, "commit 2:7, but logged up to 1:3") in found
    assert S3 not in bench.peer.links


def test_our_disk_moves_a_follower() -> None:
    bench = following()
    bench.take()
    bench.hear(S3, Proposals(z(2, 1), [b"d"]), Ping(4))
    bench.peer.log_synced(z(2, 1), bench.now)
    assert bench.take() == [
        Append(z(2, 1), [b"d"], LAST),
        Send(S3, Pong(4)),
        Send(S3, Ack(z(2, 1))),
    ]


def test_alone_it_leads_at_once() -> None:
    bench = Bench(S1, voters=(S1,))
    assert bench.peer.role is Role.LEADER
    bench.save_epochs()
    bench.save_epochs()
    assert bench.peer.is_active
    assert bench.peer.last_quorum_contact(bench.now) == bench.now
    assert bench.history.delivered == ZERO


def test_acknowledged_newleader_is_taken_from_a_late_follower() -> None:
    bench = leading()
    bench.link(S2)
    bench.hear(S2, FollowerInfo(E1, 1, FOUNDING_DISK), AckEpoch(E1, LAST, False), AckNewLeader(E2))
    assert sent(bench.take(), S2)[-1] == UpToDate(LAST)
