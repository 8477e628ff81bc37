"""A caller that gives up goes on when nothing is left of its operation, whatever its step was.

It gives up when the operation has sent its n-th request, for every n, or when it waits for others.
"""

import inspect
from typing import Any

import pytest

from raykeeper.client.errors import BarrierFullError, BrokenBarrierError, WaitTimeoutError
from raykeeper.client.recipes.double_barrier import OnCrash
from tests.harness.recipe_stage import Member, Outcome, RecipeStage
from tests.recipes.crew import PATH, Crew
from tests.recipes.giving_up import watches
from tests.recipes.test_double_barrier import MODES
from tests.recipes.test_every_step_of_recipes import CASES, STEPS_MAX, Strike, ephemerals

WITH_TIMEOUT = [
    name
    for name, case in CASES.items()
    if "timeout_s" in inspect.signature(case.begin(RecipeStage().member())).parameters
]


class Look:
    """What there is of a member's operation at some moment."""

    def __init__(self, stage: RecipeStage, member: Member) -> None:
        outstanding = member.core._outstanding
        self.asked = member.asked.total()
        self.left = [*ephemerals(stage, member), *outstanding._sent, *outstanding._queued]
        self.watches = watches(member)


def _given_up(name: str, nth: int, how: str) -> bool:
    """Whether the operation had so many steps."""
    stage, looks = RecipeStage(), list[Look]()
    alice, bob = stage.member(), stage.member()
    CASES[name].prepare(alice)
    strike = Strike(bob, nth)
    outcome = Outcome(bob._calls)
    outcome.when_told = lambda: looks.append(Look(stage, bob))
    options: dict[str, Any] = {} if how == "cancelled" else {"timeout_s": 1}
    bob.begin_for(outcome, CASES[name].begin(bob), **options)
    if outcome.is_done and not outcome.error:
        return False  # it did not have to wait
    strike.is_over()
    if how == "cut off":
        bob.cut()
        bob.thaw()
    if how == "cancelled":
        outcome.run.cancel()
        outcome.run.when_given_back(lambda _: looks.append(Look(stage, bob)))
    else:
        stage.pass_time(1_000)
        bob._is_frozen = False
        bob.pass_time()  # its time is over before it sees the answer
        if how == "cut off":
            assert isinstance(outcome.error, WaitTimeoutError)
            assert "is given back as soon as a server answers" in str(outcome.error)
            bob.mend()
    bob.thaw()
    stage.pass_time(5_000, 500)
    after, told = Look(stage, bob), looks.pop()
    assert not outcome.is_done or isinstance(outcome.error, WaitTimeoutError)
    assert (after.left, after.watches) == ([], 0)
    if how != "cut off":
        assert (told.asked, told.left, told.watches) == (after.asked, [], 0)
        assert "server answers" not in str(outcome.error)
    assert stage.reported == []
    return strike.is_reached


@pytest.mark.parametrize(
    ("name", "how"),
    [(name, how) for how in ("in time", "cut off") for name in WITH_TIMEOUT]
    + [(name, "cancelled") for name in CASES if name != "loss"],
)
def test_who_gives_up_goes_on_when_all_is_given_back(name: str, how: str) -> None:
    nth = 1
    while _given_up(name, nth, how):
        nth += 1
        assert nth < STEPS_MAX
    assert nth > 1


@pytest.mark.parametrize("cut", ["", "as it asks", "as it waits"])
@pytest.mark.parametrize("size", [2, 3])
@pytest.mark.parametrize("mode", MODES)
def test_who_enters_again_at_once_is_counted_once(
    stage: RecipeStage, mode: OnCrash, size: int, cut: str
) -> None:
    crew = Crew(stage, size, mode)
    alice, barrier = crew.members[0], crew.barriers[0]
    again, first = Outcome(), Outcome()
    first.when_told = lambda: alice.begin_for(again, barrier.enter)
    if cut == "as it asks":
        alice.cut()
    alice.begin_for(first, barrier.enter, timeout_s=1)
    if cut == "as it waits":
        alice.cut()
    stage.pass_time(1_000)
    assert isinstance(first.error, WaitTimeoutError)
    others = [crew.enter(place) for place in range(1, size - 1)]
    if cut:
        alice.mend()  # it was told at once, and what it asked for is done only now
    if cut and mode == "abort" and others:
        assert isinstance(others[0].error, BrokenBarrierError)  # as of any that gives up
        others = crew.begin(1)
    assert [each.is_done for each in (again, *others)] == [False] * (size - 1)
    others.append(crew.enter(size - 1))
    assert len({each.value.round for each in (again, *others)}) == 1
    with pytest.raises(BarrierFullError):
        stage.member().double_barrier(PATH, size).enter()
