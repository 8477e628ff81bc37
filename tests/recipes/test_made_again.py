"""A parent that somebody deleted and that was made again has the same names for other things.

What a recipe remembers of a parent, between two requests or two calls, is of that very one.
"""

from collections.abc import Callable
from typing import Any

import pytest

from raykeeper.client.core.flows import Flow
from raykeeper.client.errors import LostError, NoNodeError, StaleTokenError
from raykeeper.client.ray_tools.gang import finish
from raykeeper.client.recipes.primitives import ensure_parent, get_children
from raykeeper.client.recipes.two_phase_commit import Decision
from raykeeper.znodes.requests import Create, CreateMode, Delete, Multi, SetData
from tests.harness.recipe_stage import Member, Outcome, RecipeStage
from tests.recipes.crew import Between
from tests.recipes.giving_up import watches

PATH = "/recipes/x"


def delete_all(path: str = PATH) -> Flow[None]:
    """Delete a znode and all below it."""
    for name in (yield from get_children(path)):
        yield from delete_all(f"{path}/{name}")
    yield Delete(path, -1)


def again(member: Member, make: Callable[[], object]) -> Callable[[], None]:
    """Have the member delete everything, and make it again."""

    def do() -> None:
        member.do(delete_all())
        make()

    return do


def put(member: Member, *values: bytes, of: str = "queue") -> Callable[[], object]:
    return lambda: getattr(member, of)(PATH).put_many(values)


def test_a_queue_is_in_order_for_who_knew_the_old_one(stage: RecipeStage) -> None:
    alice, bob = stage.member(), stage.member()
    queue = alice.queue(PATH)
    put(bob, b"o0", b"o1", b"o2", b"o3")()
    assert queue.get() == b"o0"
    again(bob, put(bob, b"n0", b"n1", b"n2", b"n3"))()
    assert [queue.get() for _ in range(4)] == [b"n0", b"n1", b"n2", b"n3"]


@pytest.mark.parametrize("waits", [False, True])
@pytest.mark.parametrize("kind", ["queue", "priority_queue", "lock_queue"])
def test_a_queue_is_in_order_for_who_has_listed_the_old_one(
    stage: RecipeStage, kind: str, waits: bool
) -> None:
    alice, bob, carol = (stage.member() for _ in range(3))
    put(bob, b"o0", b"o1", of=kind)()
    for _ in range(2 if waits else 1):
        taken = getattr(bob, kind)(PATH).get()
        if kind == "lock_queue":
            taken.consume()
    wait = None
    if waits:
        wait = alice.begin(getattr(alice, kind)(PATH).get)
    new = again(bob, put(bob, b"n0", b"n1", b"n2", of=kind))
    alice.flows.host = Between(alice, 1, new, Multi)  # right before it takes what it has listed
    if wait is None:
        wait = alice.begin(getattr(alice, kind)(PATH).get)
    else:
        put(carol, b"o2", of=kind)()
    assert bytes(getattr(wait.value, "value", wait.value)) == b"n0"


@pytest.mark.parametrize("is_made_again", [False, True])
def test_an_element_of_a_deleted_queue_goes_to_the_end(
    stage: RecipeStage, is_made_again: bool
) -> None:
    alice, bob = stage.member(), stage.member()
    put(bob, b"0", b"1", b"2")()
    assert [bob.queue(PATH).get(), bob.queue(PATH).get()] == [b"0", b"1"]
    wait = alice.begin(alice.queue(PATH).get)
    bob.do(delete_all())
    if is_made_again:
        put(bob, b"n")()
    wait.run.cancel()  # it gives its element back, whose place is not of this queue
    stage.rest()
    for _ in range(4):
        put(bob, b"more")()
    values = [bob.queue(PATH).get() for _ in range(5 + is_made_again)]
    assert values == [b"n"] * is_made_again + [b"2"] + [b"more"] * 4


def test_a_consumer_removes_only_the_element_that_it_has_worked_on(stage: RecipeStage) -> None:
    alice, bob = stage.member(), stage.member()
    put(bob, b"old", of="lock_queue")()
    job = alice.lock_queue(PATH).get()
    bob.do(delete_all(f"{PATH}/elements"))
    put(bob, b"new", of="lock_queue")()
    with pytest.raises(LostError, match="somebody deleted /recipes/x/elements/"):
        job.consume()
    assert bob.lock_queue(PATH).get().value == b"new"


@pytest.mark.parametrize("kind", ["lock", "election"])
def test_a_place_whose_number_was_given_again_is_no_place(stage: RecipeStage, kind: str) -> None:
    alice, bob = stage.member(), stage.member()
    prefix = "lock-" if kind == "lock" else "candidate-"
    bob.do(ensure_parent(PATH, stays=True))

    def others() -> None:
        bob.do(delete_all())
        bob.do(ensure_parent(PATH, stays=True))
        bob.ask(Create(f"{PATH}/{prefix}", b"", CreateMode.EPHEMERAL | CreateMode.SEQUENTIAL))

    alice.flows.host = Between(alice, 2, others)  # its place is made, and not looked at
    recipe = getattr(alice, kind)(PATH)
    with pytest.raises(LostError):
        recipe.acquire() if kind == "lock" else recipe.lead()
    assert len(bob.do(get_children(PATH))) == 1
    assert watches(alice) == 0


def test_a_semaphore_sets_its_number_only_where_none_is_set(stage: RecipeStage) -> None:
    alice, bob = stage.member(), stage.member()
    bob.do(ensure_parent(PATH, stays=True))
    begun = again(bob, bob.semaphore(PATH, 2).acquire)
    alice.flows.host = Between(alice, 2, begun, Multi)  # it was told that there is no number
    with pytest.raises(Exception, match="has contenders for 2 permits, not 3"):
        alice.semaphore(PATH, 3).acquire()


def test_a_member_of_an_older_rendezvous_breaks_no_newer_one(stage: RecipeStage) -> None:
    alice, bob, carol, dave = (stage.member() for _ in range(4))

    def meet(*members: Member) -> list[Outcome]:
        return [each.begin(each.rendezvous(PATH, 2).join) for each in members]

    old = [each.value for each in meet(alice, bob)]
    alice.freeze()
    bob.freeze()
    carol.do(delete_all())
    new = [each.value for each in meet(carol, dave)]
    assert [each.generation for each in (*old, *new)] == [1] * 4
    alice.thaw()
    bob.thaw()
    assert [each.broken.is_set() for each in (*old, *new)] == [True, True, False, False]


def test_a_member_of_an_older_gang_does_not_finish_a_newer_one(stage: RecipeStage) -> None:
    alice, bob, carol, dave = (stage.member() for _ in range(4))
    old = [each.begin(each.rendezvous(PATH, 2).join) for each in (alice, bob)]
    alice.freeze()
    carol.do(delete_all())
    new = [each.begin(each.rendezvous(PATH, 2).join) for each in (carol, dave)]
    late = alice.begin(lambda: alice._run_flow(finish(old[0].value), "finish"))
    alice.thaw()
    first = carol.begin(lambda: carol._run_flow(finish(new[0].value), "finish"))
    assert not first.is_done, "dave has not finished"
    dave._run_flow(finish(new[1].value), "finish")
    assert first.value is None
    assert late.error is not None


def test_a_partitioner_whose_name_was_given_again_gets_a_new_one(stage: RecipeStage) -> None:
    members = alice, bob, carol = stage.member(), stage.member(), stage.member()
    parts = [each.partitioner(PATH, "abc") for each in members]
    parts[0].start()
    parts[1].start()
    names = bob.do(get_children(f"{PATH}/members"))
    alice.freeze()
    bob.freeze()
    carol.do(delete_all(f"{PATH}/members"))
    parts[2].start()
    assert carol.do(get_children(f"{PATH}/members"))[0] in names
    alice.thaw()
    bob.thaw()
    stage.rest()
    assert [len(each.owned) for each in parts] == [1, 1, 1]
    assert [len(part.wait(timeout_s=0)) for part in parts] == [1, 1, 1]
    parts[0].close()
    assert sorted(len(each.owned) for each in parts) == [0, 1, 2]


@pytest.mark.parametrize("act", ["decide", "outcome", "decide in time"])
def test_a_transaction_that_was_begun_again_is_not_decided_by_the_old_one(
    stage: RecipeStage, act: str
) -> None:
    alice, bob = stage.member(), stage.member()

    def begin(*sites: str) -> Any:
        trip = bob.two_phase_commit(PATH)
        trip.begin(sites)
        return trip

    def begin_again() -> None:
        bob.two_phase_commit(PATH).abort()
        bob.do(delete_all())
        begin("a", "b").vote("a", commit=True)

    old = begin("a")
    if act == "outcome":
        bob.ask(Delete(f"{PATH}/coordinator", -1))
    elif act == "decide":
        old.vote("a", commit=True)
    # All have voted, or nobody decides, or the time is over: it has read the votes.
    alice.flows.host = Between(alice, 1, begin_again, Multi)
    trip = alice.two_phase_commit(PATH)
    wait = alice.begin(trip.outcome if act == "outcome" else trip.decide, timeout_s=0)
    stage.pass_time(50)
    with pytest.raises(NoNodeError, match="begun anew"):
        _ = wait.value
    assert bob.two_phase_commit(PATH).progress().decision is None


def test_who_waits_for_a_decision_learns_none_of_a_later_transaction(stage: RecipeStage) -> None:
    alice, bob = stage.member(), stage.member()
    bob.two_phase_commit(PATH).begin(["a"])
    waits = [
        alice.begin(getattr(alice.two_phase_commit(PATH), each)) for each in ("outcome", "decide")
    ]
    alice.freeze()
    bob.do(delete_all())
    trip = bob.two_phase_commit(PATH)
    trip.begin(["b"])
    trip.vote("b", commit=True)
    assert trip.decide() is Decision.COMMIT
    alice.thaw()
    assert [type(each.error) for each in waits] == [NoNodeError] * 2
    stage.rest()
    assert watches(alice) == 0


def test_a_guard_stores_no_older_token_in_a_znode_that_was_made_again(stage: RecipeStage) -> None:
    alice, bob = stage.member(), stage.member()
    bob.fenced_resource(PATH).check(1)
    bob.ask(SetData(PATH, b"2 2", -1))

    def store() -> None:
        bob.ask(Delete(PATH, -1))
        bob.ask(Create(PATH, b"", 0))
        bob.fenced_resource(PATH).check(9)  # at the same version

    alice.flows.host = Between(alice, 2, store)
    with pytest.raises(StaleTokenError):
        alice.fenced_resource(PATH).check(5)
    assert bob.fenced_resource(PATH).check(9) is None
