"""The election: who leads, with which epoch, who is woken, who is told."""

import msgspec
import pytest

from raykeeper.client.errors import (
    InvalidValueError,
    LostError,
    SessionExpiredError,
    WaitTimeoutError,
)
from raykeeper.client.recipes.election import Leader
from raykeeper.client.recipes.primitives import get_children
from raykeeper.znodes.acl import Acl, Permission
from raykeeper.znodes.errors import BadArgumentsError, NoAuthError
from raykeeper.znodes.requests import Create, Delete, SetAcls, SetData
from tests.harness.recipe_stage import Member, Outcome, RecipeStage
from tests.recipes.freezing import abandoned_at, freeze_at
from tests.recipes.giving_up import watches

PATH = "/jobs/leader"


def lead(member: Member, identifier: bytes = b"") -> Outcome:
    return member.begin(member.election(PATH, identifier).lead)


def candidates(member: Member) -> int:
    return len(member.do(get_children(PATH)))


def test_each_leadership_has_the_next_epoch(stage: RecipeStage) -> None:
    members = [stage.member() for _ in range(5)]
    waits = [lead(member) for member in members]
    tokens = []
    for place, wait in enumerate(waits):
        assert [each.is_done for each in waits] == [True] * (place + 1) + [False] * (4 - place)
        assert wait.value.epoch == place + 1
        tokens.append(wait.value.token)
        wait.value.resign()
    assert tokens == sorted(set(tokens))


def test_the_epoch_outlives_all_candidates(stage: RecipeStage) -> None:
    alice = stage.member()
    for epoch in (1, 2, 3):
        with alice.election(PATH) as leadership:
            assert leadership.epoch == epoch
        stage.pass_time(5_000)  # a container would go
    assert candidates(alice) == 0


def test_a_resignation_wakes_one_of_a_hundred(stage: RecipeStage) -> None:
    members = [stage.member() for _ in range(101)]
    waits = [lead(member) for member in members]
    before = sum(member.events for member in members[1:])
    waits[0].value.resign()
    assert sum(member.events for member in members[1:]) - before == 1
    assert [wait.is_done for wait in waits[1:3]] == [True, False]


def test_it_sends_the_documented_number_of_requests(stage: RecipeStage) -> None:
    member = stage.member()
    member.election(PATH).lead().resign()
    member.asked.clear()
    leadership = member.election(PATH).lead()
    assert dict(member.asked) == {"Create": 1, "MultiRead": 1, "GetData": 3, "Multi": 1}
    leadership.resign()
    assert member.asked["Multi"] == 2
    member.asked.clear()
    member.election(PATH).leader()
    assert dict(member.asked) == {"Sync": 1, "GetData": 2}


@pytest.mark.parametrize("how", ["timeout", "abandon", "cut"])
def test_a_cancelled_wait_leaves_nothing_behind(stage: RecipeStage, how: str) -> None:
    alice, bob, carol = (stage.member() for _ in range(3))
    leadership = lead(alice).value
    wait = bob.begin(bob.election(PATH).lead, timeout_s=2)
    if how == "timeout":
        stage.pass_time(2_100)
        with pytest.raises(WaitTimeoutError, match="others led"):
            _ = wait.value
    elif how == "abandon":
        wait.run.cancel()
        stage.rest()
    else:
        bob.cut()
        stage.pass_time(2_100)
        bob.mend()
    assert candidates(alice) == 1
    with pytest.raises(WaitTimeoutError):
        bob.election(PATH).lead(timeout_s=0)
    leadership.resign()
    assert carol.election(PATH).lead(timeout_s=0).epoch == 2


def test_a_cancelled_candidate_gives_its_leadership_up(stage: RecipeStage) -> None:
    alice = stage.member()
    lead(alice).run.cancel()
    stage.rest()
    assert candidates(alice) == 0
    alice.cut()
    wait = alice.begin(alice.election(PATH).lead, timeout_s=1)
    stage.pass_time(1_100)
    assert wait.is_done
    alice.mend()
    assert candidates(alice) == 0
    assert alice.election(PATH).leader() is None


def test_a_dead_leader_is_succeeded_by_the_next_candidate(stage: RecipeStage) -> None:
    alice, bob = stage.member(session_timeout_ms=2_000), stage.member()
    old = lead(alice, b"alice").value
    wait = lead(bob, b"bob")
    alice.die()
    stage.pass_time(4_000)
    assert old.lost.is_set()
    assert wait.value.epoch == old.epoch + 1
    assert wait.value.token > old.token
    assert bob.election(PATH).leader() == Leader(b"bob", 2, wait.value.token)


def test_a_frozen_leader_knows_that_it_lost(stage: RecipeStage) -> None:
    alice, bob = stage.member(session_timeout_ms=2_000), stage.member()
    old = lead(alice).value
    wait = lead(bob)
    alice.freeze()
    while not wait.is_done:
        stage.pass_time(50)
    assert old.lost.is_set()
    alice.thaw()
    with pytest.raises(LostError):
        old.resign()


def test_a_deposed_candidate_raises_no_epoch(stage: RecipeStage) -> None:
    alice, bob = stage.member(), stage.member()
    bob.election(PATH).lead().resign()
    freeze_at(alice, 4)  # it comes first, and reads the epoch
    wait = lead(alice)
    (own,) = bob.do(get_children(PATH))
    bob.ask(Delete(f"{PATH}/{own}", -1))
    alice.thaw()
    with pytest.raises(LostError, match="when it came to lead"):
        _ = wait.value
    assert bob.election(PATH).lead().epoch == 2


def test_an_epoch_that_was_raised_meanwhile_is_read_again(stage: RecipeStage) -> None:
    alice, bob = stage.member(), stage.member()
    bob.election(PATH).lead().resign()
    freeze_at(alice, 4)
    wait = lead(alice)
    record = msgspec.json.encode({"epoch": 7, "candidate": "", "token": 0})
    bob.ask(SetData(PATH, record, -1))
    assert bob.election(PATH).leader() is None
    alice.thaw()
    assert wait.value.epoch == 8


@pytest.mark.parametrize("is_contested", [False, True])
def test_a_cancelled_call_leaves_nothing_at_any_step(
    stage: RecipeStage, is_contested: bool
) -> None:
    alice, bob = stage.member(), stage.member()
    held = [lead(alice).value] if is_contested else []
    point = 1
    while abandoned_at(bob, point, bob.election(PATH).lead):
        assert candidates(alice) == len(held)
        point += 1
    assert point > 4
    bob.begin(bob.election(PATH).lead).run.cancel()
    stage.rest()
    assert candidates(alice) == len(held)


def test_a_candidate_whose_znode_is_deleted_gets_an_error(stage: RecipeStage) -> None:
    alice, bob = stage.member(), stage.member()
    leadership = lead(alice).value
    wait = lead(bob)
    for each in alice.election(PATH).candidates()[::-1]:
        alice.ask(Delete(f"{PATH}/{each.name}", -1))
    with pytest.raises(LostError, match="while it waited"):
        _ = wait.value
    assert leadership.lost.is_set()
    with pytest.raises(LostError):
        leadership.resign()
    assert alice.election(PATH).leader() is None


def test_a_foreign_value_is_refused(stage: RecipeStage) -> None:
    alice = stage.member()
    alice.ask(Create("/other", b"my value", 0))
    election = alice.election("/other")
    for call in (election.lead, election.leader):
        with pytest.raises(InvalidValueError, match="/other"):
            call()
    with pytest.raises(InvalidValueError, match="/other"):
        election.observe(print)
    assert alice.do(get_children("/other")) == []
    stage.reported.clear()


def test_leader_names_the_current_leader(stage: RecipeStage) -> None:
    alice, bob, carol = (stage.member() for _ in range(3))
    assert carol.election("/nowhere").leader() is None
    old = lead(alice, b"alice").value
    wait = lead(bob, b"bob")
    assert carol.election(PATH).leader() == Leader(b"alice", 1, old.token)
    assert [each.identifier for each in carol.election(PATH).candidates()] == [b"alice", b"bob"]
    old.resign()
    assert carol.election(PATH).leader() == Leader(b"bob", 2, wait.value.token)


def test_an_observer_receives_each_leader(stage: RecipeStage) -> None:
    alice, bob, carol = (stage.member() for _ in range(3))
    told: list[Leader | None] = []
    observation = carol.election(PATH).observe(told.append)
    assert told == [None]
    first = lead(alice, b"alice").value
    second = lead(bob, b"bob")
    first.resign()
    second.value.resign()
    assert [each and (each.identifier, each.epoch) for each in told if each] == [
        (b"alice", 1),
        (b"bob", 2),
    ]
    assert told[-1] is None
    lead(alice, b"again")
    assert told[-1] is not None
    observation.close()
    observation.close()
    before, events = len(told), carol.events
    alice.close()
    assert (len(told), carol.events) == (before, events)  # not even a watch is left


def test_an_observer_misses_nothing_without_a_link(stage: RecipeStage) -> None:
    alice, bob, carol = (stage.member() for _ in range(3))
    told: list[Leader | None] = []
    carol.election(PATH).observe(told.append)
    first = lead(alice, b"alice").value
    carol.cut()
    second = lead(bob, b"bob")
    first.resign()
    carol.mend()
    assert told[-1] == Leader(b"bob", 2, second.value.token)


def test_an_observer_sees_that_a_leader_died(stage: RecipeStage) -> None:
    alice, carol = stage.member(session_timeout_ms=2_000), stage.member()
    lead(alice, b"alice")
    told: list[Leader | None] = []
    observation = carol.election(PATH).observe(told.append)
    assert [each and each.identifier for each in told] == [b"alice"]
    alice.die()
    stage.pass_time(4_000)
    assert [each and each.identifier for each in told] == [b"alice", None]
    stage.pass_time(1_000)
    carol.ask(Delete(PATH, -1))
    assert len(told) == 2
    lead(stage.member(), b"bob")
    assert told[-1] is not None
    with observation:
        assert not observation.is_over
    assert observation.is_closed


def test_an_observation_without_read_permission_leaves_no_watch(stage: RecipeStage) -> None:
    alice, carol = stage.member(), stage.member()
    leadership = lead(alice).value
    acls = [Acl(Permission.WRITE | Permission.ADMIN, "world", "anyone")]
    alice.ask(SetAcls(leadership.path, acls, -1))
    with pytest.raises(NoAuthError):
        carol.election(PATH).observe(carol.called.append)
    stage.reported.clear()
    assert watches(carol) == 0


def test_an_observation_cancelled_at_any_step_ends(stage: RecipeStage) -> None:
    alice, carol = stage.member(), stage.member()
    lead(alice)
    told: list[Leader | None] = []
    point = 1
    while abandoned_at(carol, point, carol.election(PATH).observe, told.append):
        point += 1
    assert point > 2
    told.clear()
    events = carol.events
    lead(stage.member())
    alice.close()
    assert (told, carol.events) == ([], events)


def test_the_end_of_the_session_ends_every_wait(stage: RecipeStage) -> None:
    alice, bob = stage.member(), stage.member(session_timeout_ms=2_000)
    lead(alice)
    wait = lead(bob)
    observation = bob.election(PATH).observe(bob.called.append)
    bob.cut()
    stage.pass_time(3_000)
    with pytest.raises(SessionExpiredError):
        _ = wait.value
    assert len(bob.called) == 1
    with pytest.raises(SessionExpiredError):
        bob.election(PATH).lead()
    observation.close()


def test_bad_arguments_are_refused(stage: RecipeStage) -> None:
    alice = stage.member()
    with pytest.raises(BadArgumentsError):
        alice.election("/")
    with pytest.raises(BadArgumentsError, match="identifier"):
        alice.election(PATH, "me")  # type: ignore[arg-type]
    with pytest.raises(BadArgumentsError, match="timeout_s"):
        alice.election(PATH).lead(timeout_s=-1)
