"""What everything that is held has in common, whichever recipe it is: nothing is left behind."""

from collections.abc import Callable
from typing import Any

import pytest

from raykeeper.client.errors import LostError, SessionExpiredError, WaitTimeoutError
from raykeeper.client.recipes.acquirable import Acquirable
from raykeeper.znodes.errors import BadArgumentsError
from raykeeper.znodes.requests import Delete
from tests.harness.recipe_stage import Member, RecipeStage
from tests.recipes.giving_up import abandoned_at, places, watches

PATH = "/locks/x"
ME = b"held by me"

Make = Callable[[Member], Any]

KINDS: dict[str, Make] = {
    "lock": lambda member: member.lock(PATH, ME),
    "simple": lambda member: member.simple_lock(PATH, ME),
    "write": lambda member: member.read_write_lock(PATH, ME).write,
    "semaphore": lambda member: member.semaphore(PATH, 1, ME),
    "lease": lambda member: member.lease(PATH, 60, ME),
    "reentrant": lambda member: member.reentrant_lock(PATH, ME),
}


@pytest.fixture(params=KINDS.values(), ids=KINDS.keys())
def make(request: pytest.FixtureRequest) -> Any:
    """What makes a recipe of a member."""
    return request.param


@pytest.mark.parametrize("is_contended", [True, False])
@pytest.mark.parametrize("answers", range(12))
def test_a_cancelled_call_leaves_nothing_at_any_step(
    stage: RecipeStage, make: Make, is_contended: bool, answers: int
) -> None:
    alice, bob = stage.member(), stage.member()
    held = make(alice).acquire() if is_contended else None
    before = places(alice)
    outcome = abandoned_at(bob, answers, make(bob).acquire)
    if not outcome.run.is_done or not outcome.is_done:
        outcome.run.cancel()  # it waits
    elif outcome.error is None:
        outcome.run.cancel()  # it was just granted, and nobody takes it
    stage.rest()
    assert places(alice) == before
    assert watches(bob) == 0
    if held is not None:
        assert not held.lost.is_set()
        held.release()
    make(bob).acquire(timeout_s=0).release()
    assert places(alice) == []
    assert (watches(alice), watches(bob)) == (0, 0)


def test_a_grant_during_the_cancellation_leaves_nothing(stage: RecipeStage, make: Make) -> None:
    alice, bob, carol = stage.member(), stage.member(), stage.member()
    held = make(alice).acquire()
    wait = bob.begin(make(bob).acquire)
    bob.freeze()
    held.release()
    wait.run.cancel()
    bob.thaw()
    assert places(alice) == []
    make(carol).acquire(timeout_s=0).release()


@pytest.mark.parametrize("is_cut", [True, False])
def test_a_timeout_leaves_nothing(stage: RecipeStage, make: Make, is_cut: bool) -> None:
    alice, bob = stage.member(), stage.member()
    held = make(alice).acquire()
    before = places(alice)
    if is_cut:
        bob.cut()
    wait = bob.begin(make(bob).acquire, timeout_s=2)
    stage.pass_time(1_900)
    assert not wait.is_done
    stage.pass_time(200)
    with pytest.raises(WaitTimeoutError, match=PATH):
        _ = wait.value
    if is_cut:
        bob.mend()
    assert places(alice) == before
    assert watches(bob) == 0
    with pytest.raises(TimeoutError):
        make(bob).acquire(timeout_s=0)
    assert places(alice) == before
    held.release()


def test_tokens_grow_from_holder_to_holder(stage: RecipeStage, make: Make) -> None:
    members = [stage.member() for _ in range(4)]
    waits = [member.begin(make(member).acquire) for member in members]
    tokens = []
    for _ in members:
        (done,) = [wait for wait in waits if wait.is_done]
        waits.remove(done)
        tokens.append(done.value.token)
        done.value.release()
    assert tokens == sorted(set(tokens))


def test_a_lost_link_loses_nothing(stage: RecipeStage, make: Make) -> None:
    alice, bob = stage.member(), stage.member()
    held = make(alice).acquire()
    wait = bob.begin(make(bob).acquire)
    alice.cut()
    bob.cut()
    alice.mend()
    bob.mend()
    assert not held.lost.is_set()
    assert not wait.is_done
    bob.cut()
    held.release()
    bob.mend()
    assert wait.value.token > held.token


def test_a_release_waits_for_a_connection(stage: RecipeStage, make: Make) -> None:
    alice = stage.member()
    held = make(alice).acquire()
    alice.cut()
    released = alice.begin(held.release)
    assert not released.is_done
    alice.mend()
    assert released.value is None
    held.release()  # again: nothing
    assert held.is_released


def test_the_end_of_the_session_ends_the_wait(stage: RecipeStage, make: Make) -> None:
    alice, bob = stage.member(), stage.member(session_timeout_ms=2_000)
    make(alice).acquire()
    before = places(alice)
    wait = bob.begin(make(bob).acquire)
    bob.cut()
    stage.pass_time(4_000)
    with pytest.raises(SessionExpiredError):
        _ = wait.value
    assert places(alice) == before


@pytest.mark.parametrize("later_ms", [0, 3_000])  # later their parent is another one too
def test_a_deleted_znode_loses_the_holder_its_hold(
    stage: RecipeStage, make: Make, later_ms: int
) -> None:
    alice, bob = stage.member(), stage.member()
    held = make(alice).acquire()
    told = alice.begin(held.lost.wait)
    assert not told.is_done
    for path in places(bob):
        bob.ask(Delete(path, -1))
    assert told.is_done
    with pytest.raises(LostError):
        held.lost.check()
    stage.pass_time(later_ms)
    other = make(bob).acquire(timeout_s=0)
    with pytest.raises(LostError):
        held.release()
    assert not other.lost.is_set()  # what the next one holds is not taken from it
    other.release()


def test_a_with_block_releases_what_it_holds(stage: RecipeStage, make: Make) -> None:
    alice, bob = stage.member(), stage.member()
    recipe: Acquirable[Any, Any] = make(alice)
    with recipe as held:
        assert not held.lost.is_set()
        assert places(bob) != []
    assert places(bob) == []
    with pytest.raises(ZeroDivisionError), recipe:
        _ = 1 / 0
    assert places(bob) == []
    with pytest.raises(LostError), recipe:
        for path in places(bob):
            bob.ask(Delete(path, -1))


def test_bad_timeouts_are_refused(stage: RecipeStage, make: Make) -> None:
    alice = stage.member()
    with pytest.raises(BadArgumentsError, match="timeout_s"):
        make(alice).acquire(timeout_s=-1)
    assert places(alice) == []
