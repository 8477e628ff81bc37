"""Recipes of clients whose root is a znode: they meet others there, and say so if it is missing."""

from typing import Any

import pytest

from raykeeper.znodes.errors import NoNodeError
from raykeeper.znodes.requests import Create
from tests.harness.recipe_stage import RecipeStage
from tests.recipes.test_every_step_of_recipes import CASES, PATH


@pytest.mark.parametrize("name", CASES)
def test_every_recipe_works_below_a_chroot(stage: RecipeStage, name: str) -> None:
    stage.member().ask(Create("/app", b"", 0, None, 0))
    alice, bob, carol = (stage.member(chroot="/app") for _ in range(3))
    case = CASES[name]
    go_on = case.prepare(alice)
    outcome = bob.begin(case.begin(bob))
    go_on()
    assert outcome.is_done
    assert outcome.error is None
    outcome.run.cancel()
    stage.pass_time(6_000, 500)
    case.check(carol)


@pytest.mark.parametrize(
    "operation",
    [
        lambda member: member.lock(PATH).acquire,
        lambda member: member.lock_queue(PATH).get,
        lambda member: lambda: member.queue(PATH).put(b"1"),
        lambda member: lambda: member.queue(PATH, 5).put(b"1"),
        lambda member: member.counter(PATH).increment,
        lambda member: lambda: member.counter(PATH).set(3),
        lambda member: member.election(PATH).lead,
        lambda member: member.semaphore(PATH, 3).acquire,
        lambda member: member.rendezvous(PATH, 1).join,
        lambda member: member.double_barrier(PATH, 1).cross,
        lambda member: member.barrier(PATH).create,
        lambda member: member.group(PATH).join,
        lambda member: member.lease(PATH, 1).acquire,
    ],
)
def test_a_missing_root_is_an_error(stage: RecipeStage, operation: Any) -> None:
    alice = stage.member(chroot="/app")
    with pytest.raises(NoNodeError):
        operation(alice)()
    assert alice.asked.total() < 10
