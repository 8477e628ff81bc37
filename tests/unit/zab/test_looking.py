"""Looking: whom a server votes for, when it decides (rule Z1), and whom it answers.

The file is long because it is the unit test of one role.
"""

from dataclasses import dataclass

import pytest

from raykeeper.zab import trace_events
from raykeeper.zab.effects import Effect, Send, TraceEvent
from raykeeper.zab.errors import PeerProtocolError
from raykeeper.zab.history import History
from raykeeper.zab.ids import FOUNDING_DISK, ZERO, DiskId, Epoch, Millis, ServerId
from raykeeper.zab.looking import AwaitDisk, Looking
from raykeeper.zab.messages import Notification, PeerState, Vote
from raykeeper.zab.settings import Settings, Timing
from raykeeper.zab.transitions import DiskIdle, Elected
from tests.unit.zab.histories import (
    NEW_DISK,
    S1,
    S2,
    S3,
    S4,
    S5,
    T0,
    make_history,
    noted,
    run,
    sent,
    told,
    z,
)

FIVE = (S1, S2, S3, S4, S5)
FOLLOWING, LEADING = PeerState.FOLLOWING, PeerState.LEADING


def vote_for(server_id: ServerId, epoch: int = 0) -> Vote:
    """A candidate with an empty log."""
    return Vote(Epoch(epoch), ZERO, server_id)


NOBODY = vote_for(ServerId(0))


@dataclass
class Election:
    """Server 2 looks for a leader in round 5, linked as told."""

    looking: Looking
    links: dict[ServerId, None]
    out: list[Effect]
    settings: Settings
    history: History
    now: Millis = T0

    def hear(self, sender: ServerId, message: Notification) -> None:
        self.looking.receive(sender, message, self.now)

    def wait(self, span: int) -> None:
        self.now = Millis(self.now + span)
        self.looking.wake(self.now)

    def leader(self) -> ServerId | None:
        outcome = self.looking.transition
        return outcome.vote.leader if isinstance(outcome, Elected) else None


def election(
    *links: ServerId, voters: tuple[ServerId, ...] = FIVE, disk: DiskId = FOUNDING_DISK
) -> Election:
    out: list[Effect] = []
    linked = dict.fromkeys(links)
    settings, history = Settings(S2, voters, disk), make_history(out)
    looking = Looking(settings, history, linked, 5, out, T0)
    return Election(looking, linked, out, settings, history)


def test_votes_for_itself_first_with_what_is_on_its_disk() -> None:
    out: list[Effect] = []
    history = make_history(out, run(z(1, 1), b"a"), accepted=2, current=1)
    looking = Looking(Settings(S2, FIVE), history, {S1: None, S3: None}, 7, out, T0)
    mine = Vote(Epoch(1), z(1, 1), S2)
    message = told(7, mine)
    assert looking.vote == mine
    assert [e for e in out if isinstance(e, Send)] == [Send(S1, message), Send(S3, message)]


def test_a_vote_waits_for_the_disk() -> None:
    history = make_history([])
    history.append(z(1, 1), [b"a"])
    with pytest.raises(AssertionError):
        Looking(Settings(S2, FIVE), history, {}, 1, [], T0)


def test_the_only_voter_elects_itself_at_once() -> None:
    assert election(voters=(S2,)).leader() == S2


@pytest.mark.parametrize(
    ("heard", "choice"),
    [
        # The larger server, unless another has the newer epoch or the newer log.
        ([(S1, vote_for(S1)), (S3, vote_for(S3))], S3),
        ([(S1, vote_for(S1, epoch=1)), (S3, vote_for(S3))], S1),
        ([(S1, Vote(Epoch(0), z(0, 1), S1)), (S3, vote_for(S3))], S1),
        ([(S1, vote_for(S1))], S2),
    ],
)
def test_votes_for_the_newest_history(heard: list[tuple[ServerId, Vote]], choice: ServerId) -> None:
    race = election(S1, S3)
    for sender, vote in heard:
        race.hear(sender, told(5, vote))
    assert race.looking.vote.leader == choice


def test_a_vote_told_by_another_is_counted_but_not_adopted() -> None:
    """Two servers could else hold each other to a candidate that neither can reach."""
    race = election(S1, S3)
    race.hear(S3, told(5, vote_for(S5), own=vote_for(S3)))
    assert race.looking.vote == vote_for(S3)


@pytest.mark.parametrize(
    "message",
    [
        told(5, vote_for(S3), own=vote_for(S5)),
        told(5, vote_for(S5), LEADING),
        told(5, vote_for(S2), LEADING),
    ],
)
def test_refuses_a_candidate_that_is_not_the_sender(message: Notification) -> None:
    """That one may not be linked, or not know of its luck."""
    race = election(S1, S3)
    race.out.clear()
    with pytest.raises(PeerProtocolError):
        race.hear(S3, message)
    assert race.out == []
    assert race.looking.vote == vote_for(S2)


class TestDecides:
    """Rule Z1."""

    def test_at_once_when_every_linked_voter_sent_this_vote(self) -> None:
        race = election(S1, S3)
        race.hear(S3, told(5, vote_for(S3)))
        assert race.leader() is None
        race.hear(S1, told(5, vote_for(S3), own=vote_for(S1)))
        assert race.looking.transition == Elected(5, vote_for(S3))

    def test_later_when_only_a_quorum_did(self) -> None:
        race = election(S1, S3, S4)
        race.hear(S3, told(5, vote_for(S3)))
        race.hear(S1, told(5, vote_for(S3), own=vote_for(S1)))
        assert race.looking.deadline() == T0 + Timing().finalize_ms
        race.wait(Timing().finalize_ms - 1)
        assert race.leader() is None
        race.wait(1)
        assert race.leader() == S3

    def test_the_wait_begins_anew_with_another_vote(self) -> None:
        race = election(S1, S3, S4, S5)
        race.hear(S3, told(5, vote_for(S3)))
        race.hear(S1, told(5, vote_for(S3), own=vote_for(S1)))
        race.wait(150)
        race.hear(S4, told(5, vote_for(S4)))
        race.hear(S1, told(5, vote_for(S4), own=vote_for(S1)))
        race.wait(150)
        assert race.leader() is None
        race.wait(50)
        assert race.leader() == S4

    def test_not_while_the_quorum_is_broken(self) -> None:
        race = election(S1, S3, S4)
        race.hear(S3, told(5, vote_for(S3)))
        race.hear(S1, told(5, vote_for(S3), own=vote_for(S1)))
        del race.links[S1]
        race.looking.link_down(S1, race.now)
        race.wait(200)
        assert race.leader() is None

    def test_when_the_last_that_disagreed_is_gone(self) -> None:
        race = election(S1, S3, S4)
        race.hear(S3, told(5, vote_for(S3)))
        race.hear(S1, told(5, vote_for(S3), own=vote_for(S1)))
        del race.links[S4]
        race.looking.link_down(S4, race.now)
        assert race.leader() == S3

    def test_for_whoever_leads_this_round_already(self) -> None:
        race = election(S1, S3)
        race.hear(S3, told(5, vote_for(S3), LEADING))
        race.hear(S1, told(5, vote_for(S3), own=vote_for(S1)))
        assert race.leader() == S3

    def test_counting_those_that_follow_in_this_round(self) -> None:
        race = election(S1, S3)
        race.hear(S1, told(5, vote_for(S2), FOLLOWING, own=vote_for(S1)))
        race.hear(S3, told(5, vote_for(S2), FOLLOWING, own=vote_for(S3)))
        assert race.leader() == S2


class TestJoins:
    """Whoever leads already."""

    def test_when_a_quorum_with_it_stands_by_the_leader(self) -> None:
        race = election(S1, S3)
        race.hear(S3, told(2, vote_for(S3), LEADING))
        assert race.leader() is None
        race.hear(S1, told(2, vote_for(S3), FOLLOWING, own=vote_for(S1)))
        assert race.looking.transition == Elected(2, vote_for(S3))

    def test_not_on_the_word_of_its_followers_alone(self) -> None:
        race = election(S1, S3, S4)
        for follower in (S1, S4):
            race.hear(follower, told(2, vote_for(S3), FOLLOWING, own=vote_for(follower)))
        assert race.leader() is None

    def test_not_one_that_follows_itself(self) -> None:
        race = election(S1, S3, S4)
        race.hear(S3, told(2, vote_for(S3), FOLLOWING))
        race.hear(S4, told(2, vote_for(S3), FOLLOWING, own=vote_for(S4)))
        assert race.leader() is None

    def test_not_itself(self) -> None:
        race = election(S1, S3)
        for follower in (S1, S3):
            race.hear(follower, told(2, vote_for(S2), FOLLOWING, own=vote_for(follower)))
        assert race.leader() is None

    def test_without_a_vote_only_when_others_are_a_quorum(self) -> None:
        race = election(S1, S3, S4, disk=NEW_DISK)
        race.hear(S3, told(2, vote_for(S3), LEADING))
        race.hear(S1, told(2, vote_for(S3), FOLLOWING, own=vote_for(S1)))
        assert race.leader() is None
        race.hear(S4, told(2, vote_for(S3), FOLLOWING, own=vote_for(S4)))
        assert race.leader() == S3

    def test_not_once_the_leader_is_lost_or_looks_itself(self) -> None:
        for lose in (
            lambda race: race.looking.link_down(S3, race.now),
            lambda race: race.hear(S3, told(4, vote_for(S3))),
            lambda race: race.hear(S3, told(6, vote_for(S3), voting=False)),
        ):
            race = election(S1, S3)
            race.hear(S3, told(2, vote_for(S3), LEADING))
            lose(race)
            race.hear(S1, told(2, vote_for(S3), FOLLOWING, own=vote_for(S1)))
            assert race.leader() is None


class TestRounds:
    """A later round begins anew; an earlier one is answered."""

    def test_a_later_round_clears_what_was_heard(self) -> None:
        race = election(S1, S3)
        race.hear(S3, told(5, vote_for(S3)))
        race.out.clear()
        race.hear(S1, told(7, vote_for(S1)))
        assert (race.looking.round, race.looking.vote) == (7, vote_for(S2))
        assert sent(race.out, S3) == [told(7, vote_for(S2))]

    def test_an_earlier_round_is_answered_and_not_counted(self) -> None:
        race = election(S1, S3)
        race.out.clear()
        race.hear(S3, told(4, vote_for(S3)))
        assert race.out == [Send(S3, told(5, vote_for(S2)))]
        assert race.looking.vote == vote_for(S2)

    def test_without_a_vote_an_earlier_round_is_not_answered(self) -> None:
        """A voter answers whoever has no vote: they would answer each other for ever."""
        race = election(S1, S3, disk=NEW_DISK)
        race.out.clear()
        race.hear(S3, told(4, vote_for(S3)))
        assert race.out == []

    def test_one_that_followed_and_looks_again_in_this_round_is_told(self) -> None:
        race = election(S1, S3)
        race.hear(S1, told(5, vote_for(S3), FOLLOWING, own=vote_for(S1)))
        race.out.clear()
        race.hear(S1, told(5, vote_for(S1)))
        assert race.out == [Send(S1, told(5, vote_for(S2)))]

    def test_one_that_follows_in_another_round_is_not_counted(self) -> None:
        race = election(S1, S3)
        race.hear(S1, told(5, vote_for(S2), own=vote_for(S1)))
        race.hear(S1, told(4, vote_for(S3), FOLLOWING, own=vote_for(S1)))
        race.hear(S3, told(5, vote_for(S2), FOLLOWING, own=vote_for(S3)))
        race.wait(200)
        assert race.leader() is None


class TestThoseWithoutAVote:
    """Observers, and servers that lost their promises."""

    @pytest.mark.parametrize(
        ("sender", "voting"),
        [(ServerId(9), False), (ServerId(9), True), (S3, False)],
    )
    def test_are_answered_and_not_counted(self, sender: ServerId, voting: bool) -> None:
        race = election(S1, sender)
        race.out.clear()
        race.hear(sender, told(9, vote_for(sender, epoch=9), voting=voting))
        assert race.out == [Send(sender, told(5, vote_for(S2)))]
        assert (race.looking.round, race.looking.vote) == (5, vote_for(S2))

    def test_are_not_answered_when_they_observe(self) -> None:
        race = election(S1, S3)
        race.out.clear()
        race.hear(S3, told(9, vote_for(S1), PeerState.OBSERVING, voting=False))
        assert race.out == []

    def test_servers_without_a_vote_do_not_answer_each_other(self) -> None:
        race = election(S1, S3, disk=NEW_DISK)
        assert sent(race.out, S1) == [told(5, NOBODY, voting=False, disk=NEW_DISK)]
        race.out.clear()
        race.hear(S1, told(9, vote_for(S1), voting=False))
        assert race.out == []

    def test_decide_nothing_by_votes(self) -> None:
        race = election(S1, S3, voters=(S1, S2, S3), disk=NEW_DISK)
        race.hear(S1, told(5, vote_for(S3), own=vote_for(S1)))
        race.hear(S3, told(5, vote_for(S3)))
        race.wait(200)
        assert race.leader() is None


OBSERVER = ServerId(9)


class TestThoseThatLostTheirVote:
    """Rule D3: voters on disks that the member list does not name."""

    def lose(self, race: Election, *servers: ServerId) -> None:
        """The servers look, on new disks."""
        for server in servers:
            race.hear(server, told(5, NOBODY, voting=False, disk=NEW_DISK))

    @pytest.mark.parametrize(
        ("disk", "lost", "known"),
        [
            (FOUNDING_DISK, [], []),
            (FOUNDING_DISK, [S3, S1], [S1, S3]),
            (FOUNDING_DISK, [S1, S1], [S1]),
            (FOUNDING_DISK, [OBSERVER], []),
            # This server, with nobody to tell it or with others.
            (NEW_DISK, [], [S2]),
            (NEW_DISK, [S1], [S1, S2]),
        ],
    )
    def test_are_known(self, disk: DiskId, lost: list[ServerId], known: list[ServerId]) -> None:
        race = election(S1, S3, OBSERVER, disk=disk)
        self.lose(race, *lost)
        assert race.looking.voters_lost == known

    def test_an_observer_has_not_lost_any(self) -> None:
        race = election(S1, voters=(S1, S3), disk=NEW_DISK)
        assert race.looking.voters_lost == []

    def test_are_known_while_they_are_linked_and_have_none(self) -> None:
        race = election(S1, S3)
        self.lose(race, S1, S3)
        race.looking.link_down(S1, race.now)
        assert race.looking.voters_lost == [S3]
        race.hear(S3, told(5, vote_for(S3), disk=NEW_DISK))  # it has its vote back
        assert race.looking.voters_lost == []

    def test_a_voter_that_is_not_ready_counts_as_not_lost(self) -> None:
        """Its disk is the one that counts; it waits for it."""
        race = election(S1)
        race.hear(S1, told(6, vote_for(S1), voting=False, disk=FOUNDING_DISK))
        assert race.looking.voters_lost == []

    def test_it_is_said_once_when_the_others_are_no_quorum(self) -> None:
        race = election(S1, S3, S4)
        self.lose(race, S4, S1)
        assert trace_events.QUORUM_LOST not in noted(race.out)
        self.lose(race, S3, S3, S1)
        said = [
            e for e in race.out if isinstance(e, TraceEvent) and e.name == trace_events.QUORUM_LOST
        ]
        assert said == [TraceEvent(trace_events.QUORUM_LOST, [S1, S3, S4])]

    def test_this_server_is_one_of_them(self) -> None:
        race = election(S1, S3, S4, disk=NEW_DISK)
        self.lose(race, S4)
        assert trace_events.QUORUM_LOST not in noted(race.out)
        self.lose(race, S3)
        assert race.out[-1] == TraceEvent(trace_events.QUORUM_LOST, [S2, S3, S4])

    def test_a_vote_counts_from_whatever_disk(self) -> None:
        """Who is right about the members the leader finds out, not the election."""
        race = election(S1, S3, voters=(S1, S2, S3))
        race.hear(S3, told(5, vote_for(S3), disk=NEW_DISK))
        race.hear(S1, told(5, vote_for(S3), own=vote_for(S1), disk=NEW_DISK))
        assert race.leader() == S3

    def test_a_vote_may_come_back_while_it_looks(self) -> None:
        """The list came with a snapshot whose installation outlived the role that received it."""
        race = election(S1, S3, voters=(S1, S2, S3), disk=NEW_DISK)
        race.settings.members.adopt({S2: NEW_DISK})
        race.out.clear()
        race.wait(Timing().resend_min_ms)
        said = told(5, vote_for(S2), disk=NEW_DISK, moved={S2: NEW_DISK})
        assert sent(race.out, S1)[-1] == said
        assert race.looking.voters_lost == []
        race.hear(S1, told(5, vote_for(S2), own=vote_for(S1)))
        race.hear(S3, told(5, vote_for(S2), own=Vote(Epoch(0), ZERO, S3, has_disk_space=False)))
        assert race.leader() == S2


class TestRoom:
    """Rule D6: of two with the same history, the one whose disk has room leads."""

    def full(self, server: ServerId, epoch: int = 0) -> Vote:
        return Vote(Epoch(epoch), ZERO, server, has_disk_space=False)

    @pytest.mark.parametrize(
        ("epoch", "choice"),
        [
            (0, S2),  # a larger server without room, and the same history
            (1, S3),  # a newer history comes before room
        ],
    )
    def test_counts_after_the_history_and_before_the_number(
        self, epoch: int, choice: ServerId
    ) -> None:
        race = election(S3)
        race.hear(S3, told(5, self.full(S3, epoch)))
        assert race.looking.vote.leader == choice

    def test_without_it_others_are_better(self) -> None:
        race = election(S1)
        race.hear(S1, told(5, vote_for(S1)))
        race.out.clear()
        race.history.has_disk_space = False
        race.looking.disk_space_changed(race.now)
        assert sent(race.out) == [told(5, vote_for(S1), own=self.full(S2))]
        race.history.has_disk_space = True
        race.looking.disk_space_changed(race.now)
        assert race.looking.vote == vote_for(S2)

    def test_is_told_from_the_start_and_of_no_interest_without_a_vote(self) -> None:
        out: list[Effect] = []
        history = make_history(out)
        history.has_disk_space = False
        Looking(Settings(S2, FIVE), history, {S1: None}, 5, out, T0)
        assert sent(out) == [told(5, self.full(S2))]
        race = election(S1, disk=NEW_DISK)
        race.out.clear()
        race.history.has_disk_space = False
        race.looking.disk_space_changed(race.now)
        assert race.out == []


def test_a_new_link_is_told_our_vote() -> None:
    race = election(S1)
    race.out.clear()
    race.links[S3] = None
    race.looking.link_up(S3, race.now)
    assert race.out == [Send(S3, told(5, vote_for(S2)))]


def test_without_its_candidate_it_votes_for_the_next_in_the_same_round() -> None:
    race = election(S1, S3, S4)
    race.hear(S3, told(5, vote_for(S3)))
    race.hear(S4, told(5, vote_for(S4)))
    race.out.clear()
    del race.links[S4]
    race.looking.link_down(S4, race.now)
    assert sent(race.out, S1) == [told(5, vote_for(S3), own=vote_for(S2))]


def test_repeats_its_vote_ever_more_rarely() -> None:
    race = election(S1)
    timing = Timing()
    gaps = []
    for _ in range(7):
        gaps.append(race.looking.deadline() - race.now)
        race.out.clear()
        race.wait(gaps[-1])
        assert sent(race.out) == [told(5, vote_for(S2))]
    assert gaps == [200, 400, 800, 1_600, timing.resend_max_ms, timing.resend_max_ms, 3_200]


def test_an_early_wake_changes_nothing() -> None:
    race = election(S1)
    race.out.clear()
    race.wait(1)
    assert race.out == []


def test_awaiting_an_idle_disk_ends_at_once() -> None:
    assert AwaitDisk(make_history([])).transition == DiskIdle()


def test_awaiting_the_disk_takes_until_log_and_promise_are_synced() -> None:
    history = make_history([])
    history.append(z(1, 1), [b"a"])
    history.promise(Epoch(2), S2)
    waiting = AwaitDisk(history)
    history.log_synced(z(1, 1))
    waiting.check()
    assert waiting.transition is None
    history.epochs_saved(Epoch(2), Epoch(0))
    waiting.check()
    assert waiting.transition == DiskIdle()
