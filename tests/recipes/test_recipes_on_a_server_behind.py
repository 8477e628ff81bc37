"""Every recipe on a server that falls behind at each of its steps: it comes out right all the same.

The server answers reads with what it has; writes, and what others do, come to it later.
"""

import pytest

from tests.harness.recipe_stage import RecipeStage
from tests.recipes.giving_up import watches
from tests.recipes.test_every_step_of_recipes import (
    CASES,
    COARSE_MS,
    STEPS_MAX,
    Case,
    Strike,
    ephemerals,
)


def _behind(case: Case, nth: int) -> bool:
    """Whether the operation had so many steps."""
    stage = RecipeStage(3)
    leader = stage.servers.leader.server_id
    near, far = (number for number in (1, 2, 3) if number != leader)
    alice, carol = stage.member(server=near), stage.member(server=leader)
    bob = stage.member(server=far)
    go_on = case.prepare(alice)
    blow = Strike(bob, nth, lambda: stage.servers.hold(leader, far))
    outcome = bob.begin(case.begin(bob))
    go_on()
    blow.is_over()
    stage.servers.release(leader, far)
    stage.rest()
    stage.servers.run()
    stage.rest()
    stage.pass_time(200)
    assert outcome.is_done
    assert outcome.error is None
    outcome.run.cancel()
    stage.pass_time(6_000, COARSE_MS)
    assert ephemerals(stage, bob) == []
    assert watches(bob) == 0
    case.check(carol)
    assert stage.reported == []
    return blow.is_reached


# What is lost here is what is deleted, which may not be there yet.
@pytest.mark.parametrize("name", [name for name in CASES if name != "loss"])
def test_a_recipe_survives_a_server_that_falls_behind(name: str) -> None:
    nth = 1
    while _behind(CASES[name], nth):
        nth += 1
        assert nth < STEPS_MAX
    assert nth > 1
