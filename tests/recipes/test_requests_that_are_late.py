"""Requests without an answer in time, in a session that lives on: nothing is left of them."""

import pytest

from raykeeper.client.errors import OperationTimeoutError
from raykeeper.znodes.requests import SetData
from tests.harness.recipe_stage import Member, RecipeStage
from tests.recipes.giving_up import places, watches
from tests.recipes.test_holding_family import KINDS, PATH, Make


@pytest.fixture
def slow(stage: RecipeStage) -> Member:
    """A member whose requests time out long before its session."""
    return stage.member(session_timeout_ms=60_000, request_timeout_ms=2_000)


@pytest.fixture(params=KINDS.values(), ids=KINDS.keys())
def make(request: pytest.FixtureRequest) -> Make:
    """What makes a recipe of a member."""
    made: Make = request.param
    return made


@pytest.mark.parametrize("answers", range(4))
def test_a_late_creation_is_undone(
    stage: RecipeStage, slow: Member, make: Make, answers: int
) -> None:
    alice = stage.member()
    make(alice).acquire().release()
    told = 0
    real = slow.submit

    def submit(ask: object, token: object) -> None:
        nonlocal told
        if told == answers:
            slow.cut()  # before the request leaves
        told += 1
        real(ask, token)  # type: ignore[arg-type]

    slow.submit = submit  # type: ignore[method-assign]
    outcome = slow.begin(make(slow).acquire)
    slow.submit = real  # type: ignore[method-assign]
    if not outcome.is_done:
        stage.pass_time(3_000)
        with pytest.raises(OperationTimeoutError) as raised:
            _ = outcome.value
        assert not raised.value.definite
        slow.mend()
        assert places(alice) == []
    else:
        outcome.value.release()
    slow.mend()
    make(alice).acquire(timeout_s=0).release()
    assert watches(slow) == 0


def test_a_late_reply_loses_no_hold(stage: RecipeStage, slow: Member, make: Make) -> None:
    held = make(slow).acquire()
    alice = stage.member()
    slow.freeze()
    alice.ask(SetData(held.path, b"held, and touched", -1))
    slow.thaw()
    slow.cut()
    slow.mend()
    slow.cut()
    stage.pass_time(10_000)
    slow.mend()
    assert not held.lost.is_set()
    held.release()
    assert places(alice) == []


def test_a_late_release_is_finally_done(stage: RecipeStage, slow: Member, make: Make) -> None:
    alice = stage.member()
    held = make(slow).acquire()
    wait = alice.begin(make(alice).acquire)
    slow.cut()
    release = slow.begin(held.release)
    stage.pass_time(3_000)
    with pytest.raises(OperationTimeoutError):
        _ = release.value
    slow.mend()
    assert wait.value.token > held.token


def test_a_latch_has_no_request_timeout(stage: RecipeStage, slow: Member) -> None:
    alice = stage.member()
    slow.cut()
    latch = slow.leader_latch(PATH)
    slow.begin(latch.start)
    stage.pass_time(10_000)
    slow.mend()
    assert latch.has_leadership
    latch.close()
    assert alice.election(PATH).candidates() == []
