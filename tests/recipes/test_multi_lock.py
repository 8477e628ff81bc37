"""Several locks as one: all or none, without a deadlock."""

import pytest

from raykeeper.client.errors import LostError, WaitTimeoutError
from raykeeper.client.recipes.primitives import get_children
from raykeeper.znodes.errors import BadArgumentsError, NoAuthError
from raykeeper.znodes.requests import Delete
from tests.harness.recipe_stage import Member, RecipeStage
from tests.recipes.giving_up import abandoned_at, places, watches

A, B, C = "/locks/a", "/locks/b", "/locks/c"


def test_all_parts_are_held_and_each_has_its_token(stage: RecipeStage) -> None:
    alice, bob = stage.member(), stage.member()
    lock = alice.multi_lock([C, A, alice.read_write_lock(B).write])
    assert lock.paths == [A, B, C]
    with lock as held:
        tokens = [held.tokens[path] for path in (A, B, C)]
        assert tokens == sorted(set(tokens)) == [part.token for part in held.parts]
        assert [len(listed) for listed in lock.contenders().values()] == [1, 1, 1]
        with pytest.raises(TimeoutError):
            bob.lock(C).acquire(timeout_s=0)
    assert places(bob) == []
    assert watches(alice) == 0


def test_two_locks_of_the_same_parts_never_deadlock(stage: RecipeStage) -> None:
    alice, bob, carol = stage.member(), stage.member(), stage.member()
    both = carol.multi_lock([A, B]).acquire()
    waits = [
        alice.begin(alice.multi_lock([A, B]).acquire),
        bob.begin(bob.multi_lock([B, A]).acquire),
    ]
    both.release()
    assert [wait.is_done for wait in waits] == [True, False]
    waits[0].value.release()
    assert waits[1].is_done


def test_a_timeout_covers_all_parts_and_releases_those_acquired(stage: RecipeStage) -> None:
    alice, bob = stage.member(), stage.member()
    last = alice.lock(C).acquire()
    wait = bob.begin(bob.multi_lock([A, B, C]).acquire, timeout_s=2)
    assert len(places(alice)) == 4
    stage.pass_time(1_900)
    assert not wait.is_done
    stage.pass_time(200)
    with pytest.raises(WaitTimeoutError, match="/locks/a, /locks/b, /locks/c"):
        _ = wait.value
    assert places(alice) == [last.path]
    assert watches(bob) == 0
    with pytest.raises(WaitTimeoutError):
        bob.multi_lock([A, C]).acquire(timeout_s=0)
    assert places(alice) == [last.path]


@pytest.mark.parametrize("answers", range(16))
@pytest.mark.parametrize("is_contended", [True, False])
def test_a_cancelled_call_leaves_nothing_at_any_step(
    stage: RecipeStage, answers: int, is_contended: bool
) -> None:
    alice, bob = stage.member(), stage.member()
    if is_contended:
        alice.lock(B).acquire()
    before = places(alice)
    outcome = abandoned_at(bob, answers, bob.multi_lock([A, B]).acquire)
    outcome.run.cancel()
    stage.rest()
    assert places(alice) == before
    assert watches(bob) == 0


def test_a_multi_lock_is_lost_when_one_part_is(stage: RecipeStage) -> None:
    alice, bob = stage.member(), stage.member()
    held = alice.multi_lock([A, B]).acquire()
    told = alice.begin(held.lost.wait)
    (first, second) = held.parts
    bob.ask(Delete(second.path, -1))
    assert told.is_done
    assert held.lost.is_set()
    assert not first.lost.is_set()
    with pytest.raises(LostError):
        held.release()
    assert places(bob) == []
    held.release()  # again: nothing
    assert held.is_released


def test_a_part_lost_during_the_wait_for_another_ends_the_attempt(stage: RecipeStage) -> None:
    alice, bob = stage.member(), stage.member()
    last = alice.lock(B).acquire()
    wait = bob.begin(bob.multi_lock([A, B]).acquire)
    (name,) = alice.do(get_children(A))
    alice.ask(Delete(f"{A}/{name}", -1))
    last.release()
    with pytest.raises(LostError, match="/locks/a"):
        _ = wait.value
    assert places(alice) == []


def test_a_dead_holder_is_succeeded_by_the_next(stage: RecipeStage) -> None:
    alice, bob = stage.member(session_timeout_ms=2_000), stage.member()
    held = alice.multi_lock([A, B]).acquire()
    wait = bob.begin(bob.multi_lock([A, B]).acquire)
    alice.freeze()
    while not wait.is_done:
        stage.pass_time(50)
    assert held.lost.is_set()
    alice.thaw()
    stage.rest()
    with pytest.raises(LostError):
        held.release()
    assert all(wait.value.tokens[path] > held.tokens[path] for path in (A, B))


def test_a_failed_release_may_be_tried_again(
    stage: RecipeStage, monkeypatch: pytest.MonkeyPatch
) -> None:
    alice = stage.member()
    held = alice.multi_lock([A, B]).acquire()
    first = held.parts[0]

    def refused() -> object:
        raise NoAuthError(first.path)
        yield

    monkeypatch.setattr(first, "_remove", refused)
    with pytest.raises(NoAuthError):
        held.release()
    assert places(alice) == [first.path]
    monkeypatch.undo()
    assert not held.is_released
    held.release()
    assert places(alice) == []


def test_reentrant_locks_stay_reentrant(stage: RecipeStage) -> None:
    alice = stage.member()
    inner = alice.reentrant_lock(A)
    lock = alice.multi_lock([inner, B])
    with inner as outer, lock as held:
        assert held.tokens[A] == outer.token
    assert places(alice) == []


def test_a_release_forgets_the_parts(stage: RecipeStage) -> None:
    alice = stage.member()
    held = alice.multi_lock([A, B]).acquire()
    for part in held.parts:
        assert part.lost._events != []
    held.release()
    for part in held.parts:
        assert part.lost._events == []


def refused(alice: Member, bob: Member) -> list[tuple[list[object], str]]:
    return [
        ([], "0 locks"),
        ([A, A], "twice"),
        ([alice.read_write_lock(A).read, alice.read_write_lock(A).write], "twice"),
        ([A, bob.lock(B)], "another client"),
        ([7], "neither"),
        ([alice.rendezvous(A, 2)], "neither"),
        ([alice.multi_lock([A])], "neither"),
        ([f"/locks/{n}" for n in range(1001)], "1001 locks"),
        (["locks"], "locks"),
    ]


def test_an_election_may_be_a_part(stage: RecipeStage) -> None:
    alice, bob = stage.member(), stage.member()
    with alice.multi_lock([alice.election(A), B]) as held:
        assert held.parts[0].epoch == 1
        listed = alice.multi_lock([alice.election(A), B]).contenders()
        assert [len(listed[path]) for path in (A, B)] == [1, 1]
        with pytest.raises(WaitTimeoutError):
            bob.multi_lock([bob.election(A), B]).acquire(timeout_s=0)


def test_bad_arguments_are_refused(stage: RecipeStage) -> None:
    alice, bob = stage.member(), stage.member()
    for locks, why in refused(alice, bob):
        with pytest.raises(BadArgumentsError, match=why):
            alice.multi_lock(locks)  # type: ignore[arg-type]
