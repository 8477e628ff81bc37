"""The priority queue: the lowest first, and what it shares with the queue."""

import pytest

from raykeeper.client.errors import WaitTimeoutError
from raykeeper.znodes.errors import BadArgumentsError
from tests.harness.recipe_stage import RecipeStage

PATH = "/queues/x"


def test_lower_priorities_come_first_and_equal_ones_in_order(stage: RecipeStage) -> None:
    alice, bob = stage.member(), stage.member()
    queue = alice.priority_queue(PATH)
    queue.put(b"c")
    queue.put_many([b"d", b"e"], 100)
    queue.put(b"f", 999)
    queue.put_many([b"a", b"b"], priority=0)
    other = bob.priority_queue(PATH)
    first = other.get()
    assert (first, first.priority, other.peek()) == (b"a", 0, b"b")
    assert [other.get_nowait() for _ in range(6)] == [b"b", b"c", b"d", b"e", b"f", None]


def test_a_new_element_with_a_lower_priority_comes_first(stage: RecipeStage) -> None:
    alice, bob = stage.member(), stage.member()
    alice.priority_queue(PATH).put_many([b"3", b"4"])
    other = bob.priority_queue(PATH)
    assert other.get() == b"3"
    alice.priority_queue(PATH).put(b"1", 1)
    assert other.get() == b"1"


def test_it_sends_the_documented_number_of_requests(stage: RecipeStage) -> None:
    alice = stage.member()
    queue = alice.priority_queue(PATH)
    queue.put_many([b"1", b"2"], 5)
    alice.asked.clear()
    assert [queue.get(), queue.get()] == [b"1", b"2"]
    assert dict(alice.asked) == {"GetChildren": 2, "Multi": 2}


def test_a_put_wakes_a_waiting_consumer(stage: RecipeStage) -> None:
    alice, bob = stage.member(), stage.member()
    wait = alice.begin(alice.priority_queue(PATH).get)
    bob.priority_queue(PATH).put(b"1", 7)
    assert wait.value == b"1"


def test_a_bound_counts_all_priorities(stage: RecipeStage) -> None:
    queue = stage.member().priority_queue(PATH, size_max=2)
    queue.put(b"1", 1)
    queue.put(b"2", 2)
    with pytest.raises(WaitTimeoutError):
        queue.put(b"3", 0, timeout_s=0)


@pytest.mark.parametrize("priority", [-1, 1_000, True, "1", 1.5])
def test_a_bad_priority_is_refused(stage: RecipeStage, priority: int) -> None:
    queue = stage.member().priority_queue(PATH)
    with pytest.raises(BadArgumentsError, match="priority must be 0 to 999"):
        queue.put(b"", priority)
    with pytest.raises(BadArgumentsError):
        queue.put_many([b""], priority)
