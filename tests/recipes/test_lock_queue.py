"""The lock queue: who holds an element, what a crash of its consumer does, who may remove it."""

from typing import Any

import pytest

from raykeeper.client.errors import (
    BadArgumentsError,
    LostError,
    NodeExistsError,
    RecipeError,
    SessionExpiredError,
    WaitTimeoutError,
)
from raykeeper.client.recipes.lock_queue import HeldElement
from raykeeper.client.recipes.primitives import get_children
from raykeeper.client.request_builder import RequestBuilder
from raykeeper.client.transaction import Transaction
from raykeeper.znodes.requests import Create, Delete
from tests.harness.recipe_stage import Member, Outcome, RecipeStage

PATH = "/queues/x"


def left(member: Member) -> list[int]:
    """Elements, locks, and places in the line."""
    places = ("elements", "locks", "line")
    return [len(member.do(get_children(f"{PATH}/{name}"))) for name in places]


def filled(member: Member, count: int) -> None:
    member.lock_queue(PATH).put_many([b"%d" % n for n in range(count)])


def test_one_consumer_holds_and_removes_an_element(stage: RecipeStage) -> None:
    alice, bob = stage.member(), stage.member()
    filled(alice, 3)
    first, second = alice.lock_queue(PATH).get(), bob.lock_queue(PATH).get()
    assert (first.value, second.value) == (b"0", b"1")
    assert alice.lock_queue(PATH).held() == 2
    first.consume()
    assert left(alice) == [2, 1, 0]
    assert not first.lost.is_set()
    with pytest.raises(RecipeError, match="released or consumed before"):
        first.consume()
    first.release()  # nothing
    second.consume()
    alice.lock_queue(PATH).get().consume()
    assert left(alice) == [0, 0, 0]
    assert alice.lock_queue("/queues/none").held() == 0


def test_a_released_element_keeps_its_place(stage: RecipeStage) -> None:
    alice, bob = stage.member(), stage.member()
    filled(alice, 2)
    held = alice.lock_queue(PATH).get()
    held.release()
    with pytest.raises(RecipeError, match="released or consumed before"):
        held.consume()
    again = bob.lock_queue(PATH).get()
    assert (again.value, again.token > held.token) == (b"0", True)


def test_lower_priorities_come_first(stage: RecipeStage) -> None:
    alice = stage.member()
    queue = alice.lock_queue(PATH, size_max=2)
    queue.put(b"late", 7)
    queue.put(b"soon", 1)
    with pytest.raises(WaitTimeoutError):
        queue.put(b"never", timeout_s=0)
    held = queue.get()
    assert (held.value, queue.peek(), queue.size()) == (b"soon", b"soon", 2)


def test_it_sends_the_documented_number_of_requests(stage: RecipeStage) -> None:
    alice, bob = stage.member(), stage.member()
    filled(alice, 2)
    alice.lock_queue(PATH).get().consume()
    bob.asked.clear()
    held = bob.lock_queue(PATH).get()
    assert dict(bob.asked) == {"GetChildren": 2, "Multi": 1, "GetData": 1}
    held.consume()
    assert bob.asked["Multi"] == 2


def test_a_put_wakes_two_of_fifty(stage: RecipeStage) -> None:
    members = [stage.member() for _ in range(50)]
    alice = stage.member()
    waits = [member.begin(member.lock_queue(PATH).get) for member in members]
    before = [member.events for member in members]
    alice.lock_queue(PATH).put(b"1")
    assert [wait.is_done for wait in waits] == [True] + [False] * 49
    woken = [member.events > events for member, events in zip(members, before, strict=True)]
    assert woken == [True, True] + [False] * 48


def test_a_dead_consumer_is_succeeded_by_the_next(stage: RecipeStage) -> None:
    alice, bob = stage.member(session_timeout_ms=2_000), stage.member()
    filled(alice, 1)
    held = alice.lock_queue(PATH).get()
    wait = bob.begin(bob.lock_queue(PATH).get)
    alice.die()
    stage.pass_time(1_000)
    assert not wait.is_done
    stage.pass_time(3_000)
    assert (wait.value.value, wait.value.token > held.token) == (b"0", True)
    assert held.lost.is_set()
    wait.value.consume()
    assert left(bob) == [0, 0, 0]


def test_a_frozen_consumer_removes_nothing(stage: RecipeStage) -> None:
    alice, bob = stage.member(session_timeout_ms=2_000), stage.member()
    filled(alice, 1)
    held = alice.lock_queue(PATH).get()
    wait = bob.begin(bob.lock_queue(PATH).get)
    alice.freeze()
    while not wait.is_done:
        stage.pass_time(50)
    assert held.lost.is_set()
    alice.thaw()
    with pytest.raises(LostError):
        held.consume()
    assert left(bob) == [1, 1, 0]


def test_a_deleted_lock_loses_the_element(stage: RecipeStage) -> None:
    alice, bob, carol = (stage.member() for _ in range(3))
    filled(alice, 1)
    held = alice.lock_queue(PATH).get()
    alice.cut()
    carol.ask(Delete(held.path, -1))
    other = bob.lock_queue(PATH).get()
    consumed = alice.begin(held.consume)  # before it can know
    alice.mend()
    with pytest.raises(LostError, match="was lost before it was consumed"):
        _ = consumed.value
    assert held.lost.is_set()
    assert left(bob) == [1, 1, 0]
    other.consume()


def test_a_lock_of_another_consumer_is_not_released(stage: RecipeStage) -> None:
    alice, bob, carol = (stage.member() for _ in range(3))
    filled(alice, 1)
    held = alice.lock_queue(PATH).get()
    alice.cut()
    carol.ask(Delete(held.path, -1))
    other = bob.lock_queue(PATH).get()
    released = alice.begin(held.release)
    alice.mend()
    with pytest.raises(LostError):
        _ = released.value
    assert not other.lost.is_set()


def test_a_deleted_element_is_an_error(stage: RecipeStage) -> None:
    alice, bob = stage.member(), stage.member()
    filled(alice, 1)
    held = alice.lock_queue(PATH).get()
    bob.ask(Delete(held.value.path, -1))
    with pytest.raises(LostError, match="somebody deleted"):
        held.consume()
    assert left(bob) == [0, 0, 0]


@pytest.mark.parametrize("timeout_s", [0, 1])
def test_a_wait_that_times_out_leaves_nothing_behind(stage: RecipeStage, timeout_s: float) -> None:
    alice, bob = stage.member(), stage.member()
    filled(alice, 1)
    held = alice.lock_queue(PATH).get()
    wait = bob.begin(bob.lock_queue(PATH).get, timeout_s=timeout_s)
    stage.pass_time(1_200)
    with pytest.raises(WaitTimeoutError, match="no free element"):
        _ = wait.value
    assert left(alice) == [1, 1, 0]
    before = bob.events
    held.release()
    assert (bob.events, left(alice)) == (before, [1, 0, 0])


def test_a_cancelled_consume_releases_its_element(stage: RecipeStage) -> None:
    alice, bob = stage.member(), stage.member()
    filled(alice, 1)
    alice.begin(alice.lock_queue(PATH).get).run.cancel()
    stage.rest()
    assert left(bob) == [1, 0, 0]
    alice.cut()
    wait = alice.begin(alice.lock_queue(PATH).get, timeout_s=1)
    stage.pass_time(1_200)
    with pytest.raises(WaitTimeoutError):
        _ = wait.value
    alice.mend()
    assert left(bob) == [1, 0, 0]


def test_a_lost_link_loses_no_element(stage: RecipeStage) -> None:
    alice, bob = stage.member(), stage.member()
    filled(bob, 1)
    held = alice.lock_queue(PATH).get()
    alice.cut()
    consumed = alice.begin(held.consume)
    assert not consumed.is_done
    alice.mend()
    assert consumed.value is None
    assert left(bob) == [0, 0, 0]


def test_the_end_of_the_session_ends_the_wait(stage: RecipeStage) -> None:
    alice, bob = stage.member(session_timeout_ms=2_000), stage.member()
    wait = alice.begin(alice.lock_queue(PATH).get)
    alice.cut()
    stage.pass_time(3_000)
    with pytest.raises(SessionExpiredError):
        _ = wait.value
    assert left(bob) == [0, 0, 0]


def test_a_consume_during_the_end_of_the_session_fails(stage: RecipeStage) -> None:
    alice, bob = stage.member(session_timeout_ms=2_000), stage.member()
    filled(bob, 1)
    held = alice.lock_queue(PATH).get()
    alice.cut()
    consumed = alice.begin(held.consume)
    stage.pass_time(3_000)
    with pytest.raises(SessionExpiredError):
        _ = consumed.value
    assert held.lost.is_set()
    with pytest.raises(LostError):
        held.consume()
    assert bob.lock_queue(PATH).get().value == b"0"


def transaction_of(member: Member, job: HeldElement[Any]) -> Transaction:
    """Begin a transaction that consumes the element and says what was done."""
    t = Transaction(member, RequestBuilder(1_000))
    t.consume(job)
    t.create("/done", job.value)
    return t


def committed(member: Member, t: Transaction) -> Outcome:
    return member.begin(lambda: member.do(t._flow()))


def test_an_element_is_consumed_together_with_its_effect(stage: RecipeStage) -> None:
    alice, bob = stage.member(), stage.member()
    filled(alice, 2)
    with alice.lock_queue(PATH).get() as job:
        t = transaction_of(alice, job)
        assert committed(alice, t).value == [None, None, "/done"]
    stage.pass_time(100)
    assert (t.succeeded, job.is_released, job.lost.is_set()) == (True, True, False)
    assert left(bob) == [1, 0, 0]
    assert alice.lock_queue(PATH).get().value == b"1"


def test_a_transaction_that_does_nothing_keeps_the_element(stage: RecipeStage) -> None:
    alice, bob = stage.member(), stage.member()
    filled(alice, 1)
    job = alice.lock_queue(PATH).get()
    unmet = transaction_of(alice, job)
    unmet.when("/none", "exists", "==", True)
    assert (committed(alice, unmet).value, unmet.succeeded) == ([], False)
    alice.ask(Create("/done", b"", 0, None, 0))
    with pytest.raises(NodeExistsError):
        _ = committed(alice, transaction_of(alice, job)).value
    assert (job.is_released, job.lost.is_set(), left(bob)) == (False, False, [1, 1, 0])
    bob.ask(Delete(job.path, -1))  # the guard goes on
    assert job.lost.is_set()


def test_an_element_that_was_lost_is_not_consumed(stage: RecipeStage) -> None:
    alice, bob, carol = (stage.member() for _ in range(3))
    filled(alice, 1)
    job = alice.lock_queue(PATH).get()
    alice.cut()
    carol.ask(Delete(job.path, -1))
    other = bob.lock_queue(PATH).get()
    t = transaction_of(alice, job)
    outcome = committed(alice, t)  # before it can know
    alice.mend()
    assert (outcome.value, t.succeeded, job.lost.is_set()) == ([], False, True)
    assert not other.lost.is_set()
    with pytest.raises(LostError):
        transaction_of(alice, job)


def test_a_consumption_over_a_lost_link_is_no_loss(stage: RecipeStage) -> None:
    alice, bob = stage.member(), stage.member()
    filled(alice, 1)
    job = alice.lock_queue(PATH).get()
    alice.cut()
    outcome = committed(alice, transaction_of(alice, job))
    alice.mend()
    assert outcome.value == [None, None, "/done"]
    assert (job.is_released, job.lost.is_set(), left(bob)) == (True, False, [0, 0, 0])


def test_an_element_that_cannot_be_consumed_is_refused(stage: RecipeStage) -> None:
    alice, bob = stage.member(), stage.member()
    filled(alice, 1)
    job = alice.lock_queue(PATH).get()
    with pytest.raises(BadArgumentsError, match="another client"):
        transaction_of(bob, job)
    with pytest.raises(BadArgumentsError, match="named twice"):
        transaction_of(alice, job).consume(job)
    job.release()
    with pytest.raises(RecipeError, match="released or consumed before"):
        transaction_of(alice, job)
