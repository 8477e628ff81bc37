"""Every recipe on a server that falls behind at each of its steps: it comes out right all the same.

The server answers reads with what it has; writes, and what others do, come to it later. What must
be the newest is so when it is the first thing that a client asks for.
"""

from collections.abc import Callable
from typing import Any

import pytest

from raykeeper.client.errors import StaleTokenError
from tests.harness.recipe_stage import Member, Outcome, RecipeStage
from tests.recipes.giving_up import watches
from tests.recipes.test_every_step_of_recipes import (
    CASES,
    COARSE_MS,
    PATH,
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


def _value(expected: Any) -> Callable[[Outcome], None]:
    def check(outcome: Outcome) -> None:
        assert outcome.value == expected

    return check


def _leads(identifier: bytes) -> Callable[[Outcome], None]:
    def check(outcome: Outcome) -> None:
        assert outcome.value.identifier == identifier

    return check


def _about(data: bytes) -> Callable[[Outcome], None]:
    def check(outcome: Outcome) -> None:
        assert outcome.value.data == data

    return check


def _waits(outcome: Outcome) -> None:
    assert not outcome.is_done


def _refused(outcome: Outcome) -> None:
    assert isinstance(outcome.error, StaleTokenError)


NEWEST: dict[
    str,
    tuple[
        Callable[[Member], Any], Callable[[Member], Callable[..., Any]], Callable[[Outcome], None]
    ],
] = {
    "barrier": (lambda one: one.barrier(PATH).create(), lambda two: two.barrier(PATH).wait, _waits),
    "queue.size": (
        lambda one: one.queue(PATH).put(b"1"),
        lambda two: two.queue(PATH).size,
        _value(1),
    ),
    "queue.peek": (
        lambda one: one.queue(PATH).put(b"1"),
        lambda two: two.queue(PATH).peek,
        _value(b"1"),
    ),
    "queue.get_nowait": (
        lambda one: one.queue(PATH).put(b"1"),
        lambda two: two.queue(PATH).get_nowait,
        _value(b"1"),
    ),
    "lock_queue.held": (
        lambda one: [one.lock_queue(PATH).put(b"1"), one.lock_queue(PATH).get()],
        lambda two: two.lock_queue(PATH).held,
        _value(1),
    ),
    "counter.compare_and_set": (
        lambda one: one.counter(PATH).set(5),
        lambda two: lambda: two.counter(PATH).compare_and_set(5, 6),
        _value(True),
    ),
    "election.leader": (
        lambda one: one.election(PATH, b"one").lead(),
        lambda two: two.election(PATH).leader,
        _leads(b"one"),
    ),
    "commit.progress": (
        lambda one: one.two_phase_commit(PATH).begin(["a"], b"about"),
        lambda two: lambda: two.two_phase_commit(PATH).progress(),
        _about(b"about"),
    ),
    "guard": (
        lambda one: one.fenced_resource(PATH).check(9),
        lambda two: lambda: two.fenced_resource(PATH).check(5),
        _refused,
    ),
}


@pytest.mark.parametrize("name", NEWEST)
def test_what_must_be_the_newest_is_so_on_a_server_behind(name: str) -> None:
    act, ask, check = NEWEST[name]
    stage = RecipeStage(3)
    leader = stage.servers.leader.server_id
    far = min({1, 2, 3} - {leader})
    one, two = stage.member(server=leader), stage.member(server=far)
    stage.servers.hold(leader, far)
    act(one)
    outcome = two.begin(ask(two))
    stage.servers.release(leader, far)
    stage.rest()
    check(outcome)
