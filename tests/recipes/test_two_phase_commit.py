"""Two-phase commit: who may decide what, and every crash of the table."""

from typing import Any

import pytest

from raykeeper.client.core.outstanding import Query
from raykeeper.client.errors import (
    InvalidValueError,
    RecipeError,
    SessionExpiredError,
    WaitTimeoutError,
)
from raykeeper.client.recipes.primitives import get_children, get_or_none
from raykeeper.client.recipes.two_phase_commit import Decision, TwoPhaseCommit
from raykeeper.znodes.errors import BadArgumentsError, NodeExistsError, NoNodeError
from raykeeper.znodes.requests import Delete, Exists, SetData
from tests.harness.recipe_stage import Member, Outcome, RecipeStage

PATH = "/transactions/t"
COMMIT, ABORT = Decision.COMMIT, Decision.ABORT
SITES = ["a", "b", "c"]


class Play:
    """A coordinator and its sites, each a member of its own."""

    def __init__(
        self, stage: RecipeStage, *, has_joined: bool = True, timeout_ms: int = 2_000
    ) -> None:
        self.stage = stage
        self.boss = stage.member(session_timeout_ms=timeout_ms)
        self.sites = {name: stage.member(session_timeout_ms=timeout_ms) for name in SITES}
        self.of(self.boss).begin(SITES, b"what")
        if has_joined:
            for name, member in self.sites.items():
                assert self.of(member).join(name) == b"what"

    def of(self, member: Member) -> TwoPhaseCommit[Any]:
        return member.two_phase_commit(PATH)

    def vote(self, name: str, commit: bool = True) -> Decision | None:
        decision: Decision | None = self.of(self.sites[name]).vote(name, commit)
        return decision

    def decide(self, **options: Any) -> Outcome:
        return self.boss.begin(self.of(self.boss).decide, **options)

    def outcome(self, name: str, **options: Any) -> Outcome:
        return self.sites[name].begin(self.of(self.sites[name]).outcome, **options)

    def decided(self) -> Decision | None:
        decision: Decision | None = self.of(self.stage.member()).progress().decision
        return decision


def test_all_sites_commit(stage: RecipeStage) -> None:
    play = Play(stage)
    decision = play.decide()
    waits = [play.outcome(name) for name in SITES]
    assert [play.vote(name) for name in SITES[:2]] == [None, None]
    assert not decision.is_done
    assert play.vote("c") is None
    assert decision.value is COMMIT
    assert [wait.value for wait in waits] == [COMMIT] * 3


@pytest.mark.parametrize("against", SITES)
def test_one_vote_to_abort_is_enough(stage: RecipeStage, against: str) -> None:
    play = Play(stage)
    decision = play.decide()
    wait = play.outcome(against)
    play.vote(against, commit=False)
    assert (decision.value, wait.value) == (ABORT, ABORT)


def test_votes_before_the_decide_count(stage: RecipeStage) -> None:
    play = Play(stage, has_joined=False)
    for name in SITES:
        play.vote(name)
    assert play.decide(timeout_s=0).value is COMMIT


def test_progress_lists_all_votes(stage: RecipeStage) -> None:
    play = Play(stage)
    play.vote("b")
    play.vote("c", commit=False)
    progress = play.of(play.boss).progress()
    assert (progress.decision, progress.data) == (None, b"what")
    assert progress.votes == {"a": None, "b": COMMIT, "c": ABORT}
    assert progress.present == SITES


# The table of crashes.


def test_the_coordinator_dies_before_the_votes_are_complete(stage: RecipeStage) -> None:
    play = Play(stage)
    play.decide()
    play.vote("a")
    waits = [play.outcome(name) for name in ("a", "b")]
    play.boss.die()
    stage.pass_time(1_000)
    assert not any(wait.is_done for wait in waits)
    stage.pass_time(3_000)
    assert [wait.value for wait in waits] == [ABORT, ABORT]
    assert play.vote("c") is ABORT  # late, and told so


def test_the_coordinator_dies_with_all_votes_but_before_the_decision(stage: RecipeStage) -> None:
    play = Play(stage)
    waits = [play.outcome(name) for name in SITES]
    for name in SITES:
        play.vote(name)
    assert not any(wait.is_done for wait in waits)
    play.boss.die()
    stage.pass_time(4_000)
    assert [wait.value for wait in waits] == [COMMIT] * 3
    found = stage.member().do(get_or_none(PATH))
    assert found[1].version == 1  # decided once


def test_the_coordinator_dies_after_the_decision(stage: RecipeStage) -> None:
    play = Play(stage)
    for name in SITES:
        play.vote(name)
    assert play.decide().value is COMMIT
    play.boss.die()
    stage.pass_time(4_000)
    assert [play.outcome(name).value for name in SITES] == [COMMIT] * 3


def test_another_coordinator_continues(stage: RecipeStage) -> None:
    play = Play(stage)
    play.vote("a")
    play.boss.die()
    stage.pass_time(4_000)
    heir = stage.member()
    decision = heir.begin(play.of(heir).decide)
    wait = play.outcome("a")
    play.vote("b")
    assert not wait.is_done
    play.vote("c")
    assert (decision.value, wait.value) == (COMMIT, COMMIT)


def test_a_frozen_coordinator_changes_nothing_afterwards(stage: RecipeStage) -> None:
    play = Play(stage)
    decision = play.decide()
    wait = play.outcome("a")
    play.vote("a")
    play.boss.freeze()
    stage.pass_time(4_000)
    assert wait.value is ABORT
    play.boss.thaw()
    assert isinstance(decision.error, SessionExpiredError)
    again = stage.member()
    assert play.of(again).decide() is ABORT


def test_a_site_dies_before_it_votes(stage: RecipeStage) -> None:
    play = Play(stage)
    decision = play.decide()
    play.vote("a")
    play.vote("b")
    play.sites["c"].die()
    stage.pass_time(1_000)
    assert not decision.is_done
    stage.pass_time(3_000)
    assert decision.value is ABORT


def test_a_site_that_never_joined_has_until_the_timeout(stage: RecipeStage) -> None:
    play = Play(stage, has_joined=False)
    decision = play.decide(timeout_s=5)
    play.vote("a")
    play.vote("b")
    stage.pass_time(4_900)
    assert not decision.is_done
    stage.pass_time(200)
    assert decision.value is ABORT


def test_a_site_dies_after_it_voted_and_learns_the_decision(stage: RecipeStage) -> None:
    play = Play(stage)
    decision = play.decide()
    play.vote("c")
    play.sites["c"].die()
    stage.pass_time(4_000)
    assert not decision.is_done
    play.vote("a")
    play.vote("b")
    assert decision.value is COMMIT
    again = stage.member()
    assert play.of(again).join("c") == b"what"
    assert play.of(again).vote("c", commit=True) is COMMIT
    assert play.of(again).outcome() is COMMIT


def test_a_site_that_restarts_before_its_old_session_ends_is_not_dead(
    stage: RecipeStage,
) -> None:
    play = Play(stage)
    decision = play.decide()
    play.sites["c"].die()
    again = stage.member()
    play.of(again).join("c")
    stage.pass_time(4_000)
    assert not decision.is_done
    play.vote("a")
    play.vote("b")
    play.of(again).vote("c", commit=True)
    assert decision.value is COMMIT


def test_the_decision_outlives_all_processes(stage: RecipeStage) -> None:
    play = Play(stage)
    for name in SITES:
        play.vote(name)
    play.decide()
    for member in [play.boss, *play.sites.values()]:
        member.die()
    stage.pass_time(5_000)
    assert play.decided() is COMMIT


def test_the_votes_outlive_all_processes(stage: RecipeStage) -> None:
    play = Play(stage)
    for name in SITES:
        play.vote(name)
    for member in [play.boss, *play.sites.values()]:
        member.die()
    stage.pass_time(5_000)
    assert play.decided() is None
    assert play.of(stage.member()).outcome() is COMMIT


# Late, twice, otherwise.


def test_a_decision_is_never_changed(stage: RecipeStage) -> None:
    play = Play(stage)
    for name in SITES:
        play.vote(name)
    play.decide()
    assert play.of(stage.member()).abort() is COMMIT
    assert play.decided() is COMMIT


def test_any_process_may_abort_and_all_learn_it(stage: RecipeStage) -> None:
    play = Play(stage)
    for name in SITES:
        play.vote(name)
    wait = play.outcome("a")
    assert play.of(stage.member()).abort() is ABORT
    assert (wait.value, play.decide().value) == (ABORT, ABORT)


def test_repeated_changed_and_late_votes_are_handled(stage: RecipeStage) -> None:
    play = Play(stage)
    assert (play.vote("a"), play.vote("a")) == (None, None)
    with pytest.raises(RecipeError, match="a has voted otherwise"):
        play.vote("a", commit=False)
    play.of(play.boss).abort()
    assert (play.vote("a"), play.vote("b"), play.vote("b", commit=False)) == (ABORT,) * 3
    assert play.of(play.boss).progress().votes == {"a": COMMIT, "b": None, "c": None}


def test_a_process_that_is_not_a_site_is_refused(stage: RecipeStage) -> None:
    play = Play(stage)
    outsider = play.of(stage.member())
    with pytest.raises(RecipeError, match="has no site d"):
        outsider.join("d")
    with pytest.raises(RecipeError, match="has no site d"):
        outsider.vote("d", commit=True)
    play.of(play.boss).abort()
    with pytest.raises(RecipeError, match="has no site d"):
        outsider.vote("d", commit=True)


def test_a_transaction_is_begun_once(stage: RecipeStage) -> None:
    play = Play(stage)
    with pytest.raises(NodeExistsError):
        play.of(stage.member()).begin(["z"])
    assert sorted(play.of(play.boss).progress().votes) == SITES


# Costs, and what is left behind.


def test_each_event_wakes_only_the_process_that_needs_it(stage: RecipeStage) -> None:
    play = Play(stage)
    play.decide()
    waits = [play.outcome(name) for name in SITES]
    before = play.boss.events, [play.sites[name].events for name in SITES]
    for name in SITES:
        play.vote(name)
    assert all(wait.is_done for wait in waits)
    # One event for each vote and one for the decision; a site is woken by the decision alone. The
    # others tell that the watches are removed.
    assert play.boss.events - before[0] == 3 + 1 + 2
    assert [play.sites[n].events - e for n, e in zip(SITES, before[1], strict=True)] == [2] * 3


def test_it_sends_the_documented_number_of_requests(stage: RecipeStage) -> None:
    play = Play(stage, has_joined=False)
    site = play.sites["a"]
    play.of(site).join("a")
    play.of(site).vote("a", commit=True)
    assert dict(site.asked) == {"Multi": 3}
    site.asked.clear()
    wait = play.outcome("a")
    play.of(play.boss).abort()
    assert wait.value is ABORT
    assert dict(site.asked) == {"GetData": 3, "WatchRemoval": 1}


def test_a_wait_that_times_out_leaves_nothing_behind(stage: RecipeStage) -> None:
    play = Play(stage)
    site = play.sites["a"]
    for timeout_s in (0, 1):
        wait = play.outcome("a", timeout_s=timeout_s)
        stage.pass_time(1_200)
        with pytest.raises(WaitTimeoutError, match="nothing was decided on /transactions/t"):
            _ = wait.value
    before = site.events
    play.of(play.boss).abort()
    assert site.events == before


def test_a_cancelled_decide_leaves_it_undecided(stage: RecipeStage) -> None:
    play = Play(stage)
    play.decide().run.cancel()
    stage.rest()
    before = play.boss.events
    play.vote("a")
    assert (play.boss.events, play.decided()) == (before, None)
    play.boss.die()
    stage.pass_time(4_000)
    heir = stage.member()
    heir.begin(play.of(heir).decide).run.cancel()
    stage.rest()
    assert "coordinator" not in heir.do(get_children(PATH))


def test_a_finished_transaction_leaves_nothing_behind(stage: RecipeStage) -> None:
    play = Play(stage)
    with pytest.raises(RecipeError, match="nothing was decided"):
        play.of(play.boss).finish()
    assert "coordinator" in play.boss.do(get_children(PATH))
    play.vote("a")
    play.of(play.boss).abort()
    play.of(stage.member()).finish()
    assert play.boss.do(get_children("/transactions")) == []
    for call in ("finish", "progress", "outcome", "decide", "abort"):
        with pytest.raises(NoNodeError):
            getattr(play.of(play.boss), call)()
    with pytest.raises(NoNodeError):
        play.vote("a")
    with pytest.raises(NoNodeError):
        play.of(play.boss).join("a")
    play.of(play.boss).begin(["z"])


def test_a_lost_link_changes_nothing(stage: RecipeStage) -> None:
    play = Play(stage, timeout_ms=10_000)
    decision, wait = play.decide(), play.outcome("a")
    play.boss.cut()
    play.sites["a"].cut()
    vote = play.sites["a"].begin(play.of(play.sites["a"]).vote, "a", commit=True)
    play.vote("b")
    play.vote("c")
    stage.pass_time(300)
    play.boss.mend()
    play.sites["a"].mend()
    assert (vote.value, decision.value, wait.value) == (None, COMMIT, COMMIT)


def test_the_end_of_the_session_ends_every_wait(stage: RecipeStage) -> None:
    play = Play(stage)
    wait = play.outcome("a")
    play.sites["a"].cut()
    stage.pass_time(3_000)
    with pytest.raises(SessionExpiredError):
        _ = wait.value


def test_a_deleted_vote_does_not_count(stage: RecipeStage) -> None:
    play = Play(stage)
    for name in SITES:
        play.vote(name)
    play.boss.ask(Delete(f"{PATH}/votes/b", -1))
    decision = play.decide()
    assert not decision.is_done
    play.vote("b")
    assert decision.value is COMMIT


def test_a_foreign_decision_is_an_error(stage: RecipeStage) -> None:
    play = Play(stage)
    play.boss.ask(SetData(PATH, b"maybe", -1))
    for call in ("decide", "outcome", "progress"):
        with pytest.raises(InvalidValueError, match="maybe"):
            getattr(play.of(play.boss), call)()


@pytest.mark.parametrize("sites", [[], ["a/b"], [""], [7], [f"s{n}" for n in range(301)]])
def test_bad_arguments_are_refused(stage: RecipeStage, sites: list[str]) -> None:
    alice = stage.member()
    with pytest.raises(BadArgumentsError):
        alice.two_phase_commit(PATH).begin(sites)
    with pytest.raises(BadArgumentsError, match="data"):
        alice.two_phase_commit(PATH).begin(["a"], "text")  # type: ignore[arg-type]
    with pytest.raises(BadArgumentsError, match="timeout_s"):
        alice.two_phase_commit(PATH).decide(timeout_s=-1)


def test_a_transaction_takes_the_documented_number_of_sites(stage: RecipeStage) -> None:
    alice = stage.member()
    trip = alice.two_phase_commit(PATH)
    names = [f"s{n}" for n in range(300)]
    trip.begin(names)
    decision = alice.begin(trip.decide)
    alice.asked.clear()
    for name in names:
        trip.join(name)
        trip.vote(name, commit=True)
    assert decision.value is COMMIT
    assert alice.asked["GetData"] < 50_000
    trip.finish()
    assert alice.do(get_children("/transactions")) == []


def test_a_commit_is_finished_after_its_coordinator_has_died(stage: RecipeStage) -> None:
    boss, site = stage.member(), stage.member()
    boss.two_phase_commit(PATH).begin(["a"])
    boss.close()
    trip = site.two_phase_commit(PATH)
    assert trip.outcome() is ABORT
    trip.finish()
    stage.pass_time(1_000)
    assert site.do(get_children("/transactions")) == []
    assert site.ask(Query(Exists, "/transactions")) is not None  # where it will be begun again


def test_a_transaction_that_others_have_written_cannot_be_decided(stage: RecipeStage) -> None:
    alice = stage.member()
    trip = alice.two_phase_commit(PATH)
    trip.begin(["a"])
    alice.ask(SetData(PATH, b"", -1))
    with pytest.raises(InvalidValueError, match="others have written /transactions/"):
        trip.abort()


def test_a_server_that_lags_behind_hides_no_vote() -> None:
    stage = RecipeStage(3)
    boss, site = stage.member(server=1), stage.member(server=3)
    assert stage.servers.leader is stage.servers[3]
    transaction = boss.two_phase_commit(PATH)
    transaction.begin(["a"])
    stage.servers.hold(3, 1)
    assert site.two_phase_commit(PATH).vote("a", True) is None
    decision = boss.begin(transaction.decide, timeout_s=0)
    stage.servers.release(3, 1)
    stage.rest()
    assert decision.value is COMMIT
