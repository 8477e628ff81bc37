"""The barrier: who waits, who goes on, what is left behind."""

import pytest

from raykeeper.client.errors import SessionExpiredError, WaitTimeoutError
from raykeeper.znodes.errors import BadArgumentsError
from raykeeper.znodes.requests import Delete, SetData
from tests.harness.recipe_stage import Member, RecipeStage

PATH = "/barriers/x"


def up(member: Member) -> None:
    assert member.barrier(PATH).create()


def test_all_wait_until_the_barrier_is_removed(stage: RecipeStage) -> None:
    members = [stage.member() for _ in range(5)]
    up(members[0])
    waits = [member.begin(member.barrier(PATH).wait) for member in members]
    assert not any(wait.is_done for wait in waits)
    assert members[3].barrier(PATH).remove()
    assert all(wait.is_done for wait in waits)
    members[0].barrier(PATH).wait()  # there is none


def test_a_barrier_is_created_once_and_removed_once(stage: RecipeStage) -> None:
    alice, bob = stage.member(), stage.member()
    up(alice)
    assert not bob.barrier(PATH).create()
    assert bob.barrier(PATH).remove()
    assert not alice.barrier(PATH).remove()


def test_it_sends_the_documented_number_of_requests(stage: RecipeStage) -> None:
    alice, bob = stage.member(), stage.member()
    up(alice)
    bob.asked.clear()
    wait = bob.begin(bob.barrier(PATH).wait)
    alice.barrier(PATH).remove()
    assert wait.is_done
    assert (dict(bob.asked), bob.events) == ({"GetData": 1}, 1)


def test_a_barrier_outlives_the_session_that_created_it(stage: RecipeStage) -> None:
    alice, bob = stage.member(session_timeout_ms=2_000), stage.member()
    up(alice)
    wait = bob.begin(bob.barrier(PATH).wait)
    alice.die()
    stage.pass_time(5_000)
    assert not wait.is_done
    bob.ask(Delete(PATH, -1))
    assert wait.is_done


def test_a_change_of_the_value_ends_no_wait(stage: RecipeStage) -> None:
    alice, bob = stage.member(), stage.member()
    up(alice)
    wait = bob.begin(bob.barrier(PATH).wait)
    alice.ask(SetData(PATH, b"still", -1))
    assert not wait.is_done
    alice.barrier(PATH).remove()
    assert wait.is_done


def test_a_barrier_removed_and_created_again_ends_the_wait(stage: RecipeStage) -> None:
    alice, bob = stage.member(), stage.member()
    up(alice)
    wait = bob.begin(bob.barrier(PATH).wait)
    bob.cut()
    alice.barrier(PATH).remove()
    up(alice)
    bob.mend()
    assert wait.is_done


@pytest.mark.parametrize("timeout_s", [0, 2])
def test_a_wait_that_times_out_leaves_nothing_behind(stage: RecipeStage, timeout_s: float) -> None:
    alice, bob = stage.member(), stage.member()
    up(alice)
    wait = bob.begin(bob.barrier(PATH).wait, timeout_s=timeout_s)
    stage.pass_time(2_100)
    with pytest.raises(WaitTimeoutError, match="the barrier /barriers/x was not removed"):
        _ = wait.value
    before = bob.events
    alice.barrier(PATH).remove()
    assert bob.events == before


def test_a_cancelled_wait_leaves_nothing_behind(stage: RecipeStage) -> None:
    alice, bob = stage.member(), stage.member()
    up(alice)
    bob.begin(bob.barrier(PATH).wait).run.cancel()
    stage.rest()
    before = bob.events
    alice.barrier(PATH).remove()
    assert bob.events == before


def test_the_end_of_the_session_ends_the_wait(stage: RecipeStage) -> None:
    alice, bob = stage.member(), stage.member(session_timeout_ms=2_000)
    up(alice)
    wait = bob.begin(bob.barrier(PATH).wait)
    bob.cut()
    stage.pass_time(3_000)
    with pytest.raises(SessionExpiredError):
        _ = wait.value


@pytest.mark.parametrize("path", ["", "x", "/"])
def test_a_bad_path_is_refused(stage: RecipeStage, path: str) -> None:
    with pytest.raises(BadArgumentsError):
        stage.member().barrier(path)
