"""The queue: who gets what, the bound, who is woken, what a crash leaves."""

from collections.abc import Callable

import pytest

from raykeeper.client.core.flows import Flow
from raykeeper.client.errors import LostError, SessionExpiredError, WaitTimeoutError
from raykeeper.client.recipes.primitives import get_children
from raykeeper.client.recipes.queue import Element
from raykeeper.znodes.errors import BadArgumentsError
from raykeeper.znodes.requests import Create, Delete, SetData
from tests.harness.recipe_stage import Member, RecipeStage
from tests.recipes.freezing import freeze_at

PATH = "/queues/x"


def line(member: Member) -> list[str]:
    return sorted(member.do(get_children(f"{PATH}/line")))


def test_elements_come_first_in_first_out(stage: RecipeStage) -> None:
    alice, bob = stage.member(), stage.member()
    alice.queue(PATH).put(b"1")
    bob.queue(PATH).put_many([b"2", b"3"])
    alice.queue(PATH).put(b"")
    queue = bob.queue(PATH)
    assert (queue.size(), queue.peek()) == (4, b"1")
    assert [queue.get(), alice.queue(PATH).get(), queue.get()] == [b"1", b"2", b"3"]
    assert [queue.get_nowait(), queue.get_nowait(), queue.peek()] == [b"", None, None]
    assert (queue.size(), alice.queue("/queues/none").size()) == (0, 0)


def test_an_element_is_bytes_with_a_priority(stage: RecipeStage) -> None:
    alice = stage.member()
    alice.queue(PATH).put(b"1")
    value = alice.queue(PATH).get()
    assert isinstance(value, bytes) and isinstance(value, Element)
    assert value.priority == 100


def test_each_element_goes_to_one_of_many_consumers(stage: RecipeStage) -> None:
    members = [stage.member() for _ in range(8)]
    members[0].queue(PATH).put_many([b"%d" % n for n in range(5)])
    waits = [member.begin(member.queue(PATH).get, timeout_s=1) for member in members]
    got = [wait.value for wait in waits if wait.is_done]
    assert sorted(got) == [b"%d" % n for n in range(5)]
    stage.pass_time(1_200)
    assert sum(isinstance(wait.error, WaitTimeoutError) for wait in waits) == 3
    assert line(members[0]) == []


def test_a_cancelled_get_stops_after_its_current_element(stage: RecipeStage) -> None:
    alice, bob = stage.member(), stage.member()
    queue = alice.queue(PATH)
    queue.put_many([b"%d" % n for n in range(9)])
    assert queue.get() == b"0"
    for _ in range(8):
        bob.queue(PATH).get()
    alice.asked.clear()
    alice.freeze()
    alice.begin(queue.get).run.cancel()
    alice.thaw()
    assert alice.asked == {"Multi": 1}


def test_it_sends_the_documented_number_of_requests(stage: RecipeStage) -> None:
    alice, bob = stage.member(), stage.member()
    alice.queue(PATH, size_max=9).put(b"0")
    alice.asked.clear()
    alice.queue(PATH).put(b"1")
    alice.queue(PATH, size_max=9).put(b"2")
    assert dict(alice.asked) == {"Multi": 2}
    queue = bob.queue(PATH)
    assert [queue.get(), queue.get(), queue.get()] == [b"0", b"1", b"2"]
    assert dict(bob.asked) == {"GetChildren": 1, "Multi": 3}
    assert bob.events == 0


def test_a_put_wakes_two_of_a_hundred(stage: RecipeStage) -> None:
    members = [stage.member() for _ in range(100)]
    alice = stage.member()
    waits = [member.begin(member.queue(PATH).get) for member in members]
    before = sum(member.events for member in members)
    asked = sum(member.asked.total() for member in members)
    alice.queue(PATH).put(b"1")
    assert [wait.is_done for wait in waits] == [True] + [False] * 99
    woken = sum(member.events for member in members) - before
    # The first: of its element, of its place; the second: of the place before it.
    assert woken <= 4
    assert sum(member.asked.total() for member in members) - asked <= 6
    alice.queue(PATH).put_many([b"2", b"3"])
    assert sum(wait.is_done for wait in waits) == 3
    assert [wait.value for wait in waits[:3]] == [b"1", b"2", b"3"]


def test_a_bound_holds_for_concurrent_puts(stage: RecipeStage) -> None:
    members = [stage.member() for _ in range(6)]
    puts = [m.begin(m.queue(PATH, size_max=4).put, b"%d" % n) for n, m in enumerate(members)]
    assert [put.is_done for put in puts] == [True] * 4 + [False] * 2
    assert members[0].queue(PATH).size() == 4
    with pytest.raises(WaitTimeoutError, match="the queue /queues/x was full"):
        members[0].queue(PATH, size_max=4).put(b"", timeout_s=0)
    members[0].queue(PATH).get()
    assert [put.is_done for put in puts] == [True] * 5 + [False]
    members[0].queue(PATH).get()
    assert all(put.is_done for put in puts)
    assert members[0].queue(PATH).size() == 4
    assert line(members[0]) == []


def test_put_many_puts_all_or_nothing(stage: RecipeStage) -> None:
    alice, bob = stage.member(), stage.member()
    queue = alice.queue(PATH, size_max=3)
    queue.put_many([])
    queue.put_many([b"1", b"2"])
    wait = bob.begin(bob.queue(PATH, size_max=3).put_many, [b"3", b"4"])
    assert (wait.is_done, queue.size()) == (False, 2)
    queue.get()
    assert (wait.is_done, queue.size()) == (True, 3)
    with pytest.raises(BadArgumentsError, match="4 never fit into a queue of 3"):
        queue.put_many([b""] * 4)


def test_values_have_a_limit(stage: RecipeStage) -> None:
    queue = stage.member().queue(PATH)
    queue.put(bytes(1 << 20))
    for values in ([bytes((1 << 20) + 1)], [b""] * 32_768, ["text"], [None]):
        with pytest.raises(BadArgumentsError):
            queue.put_many(values)  # type: ignore[arg-type]
    assert queue.size() == 1


def test_a_consumer_that_dies_during_its_wait_takes_nothing(stage: RecipeStage) -> None:
    alice, bob = stage.member(session_timeout_ms=2_000), stage.member()
    carol = stage.member()
    alice.begin(alice.queue(PATH).get)
    wait = bob.begin(bob.queue(PATH).get)
    alice.die()
    carol.queue(PATH).put(b"1")
    stage.pass_time(3_000)
    assert wait.value == b"1"


@pytest.mark.parametrize("ms", range(0, 400, 50))
def test_an_element_taken_during_the_timeout_is_put_back(stage: RecipeStage, ms: int) -> None:
    alice, bob = stage.member(), stage.member()
    bob.queue(PATH).put_many([b"1", b"2"])
    alice.cut()
    wait = alice.begin(alice.queue(PATH).get, timeout_s=0.2)
    stage.pass_time(ms)
    alice.mend()
    if wait.error is None:
        assert wait.value == b"1"
    else:
        assert bob.queue(PATH).size() == 2
        assert [bob.queue(PATH).get(), bob.queue(PATH).get()] == [b"1", b"2"]


def test_a_cancelled_get_puts_its_element_back(stage: RecipeStage) -> None:
    alice, bob = stage.member(), stage.member()
    bob.queue(PATH).put_many([b"1", b"2"])
    alice.begin(alice.queue(PATH).get).run.cancel()
    stage.rest()
    assert bob.queue(PATH).get() == b"1"
    wait = alice.begin(alice.queue(PATH).get)
    bob.do(clear())
    wait.run.cancel()
    stage.rest()
    assert bob.queue(PATH).get() == b"2"


def clear() -> Flow[None]:
    for name in ("elements", "line"):
        for child in (yield from get_children(f"{PATH}/{name}")):
            yield Delete(f"{PATH}/{name}/{child}", -1)
    yield Delete(f"{PATH}/elements", -1)


@pytest.mark.parametrize("timeout_s", [0, 1])
def test_a_wait_that_times_out_leaves_nothing_behind(stage: RecipeStage, timeout_s: float) -> None:
    alice, bob = stage.member(), stage.member()
    wait = alice.begin(alice.queue(PATH).get, timeout_s=timeout_s)
    stage.pass_time(1_200)
    with pytest.raises(WaitTimeoutError, match="the queue /queues/x was empty"):
        _ = wait.value
    assert line(bob) == []
    before = alice.events
    bob.queue(PATH).put(b"1")
    assert (alice.events, bob.queue(PATH).size()) == (before, 1)


def test_a_cancelled_waiter_lets_the_next_one_go_on(stage: RecipeStage) -> None:
    alice, bob, carol = (stage.member() for _ in range(3))
    first = alice.begin(alice.queue(PATH).get)
    second = bob.begin(bob.queue(PATH).get)
    first.run.cancel()
    stage.rest()
    carol.queue(PATH).put(b"1")
    assert second.value == b"1"


def test_a_lost_link_loses_no_element(stage: RecipeStage) -> None:
    alice, bob = stage.member(), stage.member()
    wait = alice.begin(alice.queue(PATH).get)
    alice.cut()
    bob.queue(PATH).put_many([b"1", b"2"])
    assert not wait.is_done
    alice.mend()
    assert wait.value == b"1"
    alice.cut()
    put = alice.begin(alice.queue(PATH).put, b"3")
    alice.mend()
    assert put.is_done
    assert [bob.queue(PATH).get(), bob.queue(PATH).get()] == [b"2", b"3"]


def test_the_end_of_the_session_ends_every_wait(stage: RecipeStage) -> None:
    alice, bob = stage.member(session_timeout_ms=2_000), stage.member()
    get = alice.begin(alice.queue(PATH).get)
    alice.cut()
    stage.pass_time(3_000)
    with pytest.raises(SessionExpiredError):
        _ = get.value
    assert line(bob) == []


@pytest.mark.parametrize("touch_first", [True, False])
def test_a_waiter_whose_znode_is_deleted_is_lost(stage: RecipeStage, touch_first: bool) -> None:
    alice, bob = stage.member(), stage.member()
    wait = alice.begin(alice.queue(PATH).get)
    (place,) = line(bob)
    if touch_first:
        bob.ask(SetData(f"{PATH}/line/{place}", b"", -1))
        assert not wait.is_done
    bob.ask(Delete(f"{PATH}/line/{place}", -1))
    with pytest.raises(LostError, match="while it waited"):
        _ = wait.value


def test_a_deleted_queue_is_created_again(stage: RecipeStage) -> None:
    alice, bob = stage.member(), stage.member()
    wait = alice.begin(alice.queue(PATH).get)
    bob.ask(Delete(f"{PATH}/elements", -1))
    assert not wait.is_done
    bob.queue(PATH, size_max=2).put(b"1")
    assert wait.value == b"1"


@pytest.mark.parametrize("is_full", [False, True])
def test_a_put_in_doubt_does_not_time_out(stage: RecipeStage, is_full: bool) -> None:
    alice, bob = stage.member(session_timeout_ms=60_000), stage.member()
    queue = bob.queue(PATH)
    queue.put_many([b"0", b"1"])
    if is_full:
        wait = alice.begin(alice.queue(PATH, 2).put, b"2", timeout_s=5)
        freeze_at(alice, 2)  # the list of elements, and the transaction
        queue.get()
        assert alice._is_frozen
        alice.cut()
        alice.thaw()
    else:
        alice.cut()
        wait = alice.begin(alice.queue(PATH, 3).put, b"2", timeout_s=5)
    stage.pass_time(6_000)
    assert not wait.is_done
    alice.mend()
    assert wait.value is None
    assert [queue.get_nowait() for _ in range(4 - is_full)][-2:] == [b"2", None]


def test_a_put_after_its_timeout_is_not_done(stage: RecipeStage) -> None:
    alice, bob = stage.member(session_timeout_ms=60_000), stage.member()
    queue = bob.queue(PATH)
    queue.put(b"1")
    alice.cut()
    wait = alice.begin(alice.queue(PATH, 1).put, b"2", timeout_s=5)
    stage.pass_time(6_000)
    alice.mend()
    with pytest.raises(WaitTimeoutError):
        _ = wait.value
    assert line(bob) == []
    assert [queue.get_nowait(), queue.get_nowait()] == [b"1", None]


def _puts_back(stage: RecipeStage, alice: Member) -> None:
    alice.queue(PATH).put(b"1")
    wait = alice.begin(alice.queue(PATH).get)
    stage.member().do(clear())
    wait.run.cancel()


@pytest.mark.parametrize(
    "use",
    [
        lambda _, alice: alice.queue(PATH).put(b"1"),
        lambda _, alice: alice.begin(alice.queue(PATH).get).run.cancel(),
        _puts_back,
    ],
)
def test_the_parent_of_the_elements_stays(
    stage: RecipeStage, use: Callable[[RecipeStage, Member], object]
) -> None:
    """Else the numbers, by which elements are ordered, would begin anew."""
    alice = stage.member()
    use(stage, alice)
    stage.rest()
    alice.queue(PATH).put(b"2")
    while alice.queue(PATH).get_nowait() is not None:
        pass
    stage.pass_time(5_000)
    assert alice.do(get_children(PATH)) == ["elements"]


def test_a_foreign_child_is_ignored(stage: RecipeStage) -> None:
    alice = stage.member()
    queue = alice.queue(PATH)
    queue.put(b"1")
    for name in ("readme", "e-1-0000000000", "e-²²²-0000000000", "e-100-000", "x-100-0000000000"):
        alice.ask(Create(f"{PATH}/elements/{name}", b"", 0, None, 0))
    assert [queue.get_nowait(), queue.get_nowait()] == [b"1", None]


@pytest.mark.parametrize("size_max", [0, -1, True, 1.5, "2"])
def test_bad_arguments_are_refused(stage: RecipeStage, size_max: int) -> None:
    alice = stage.member()
    with pytest.raises(BadArgumentsError, match="size_max"):
        alice.queue(PATH, size_max)
    with pytest.raises(BadArgumentsError):
        alice.queue("/")
    with pytest.raises(BadArgumentsError, match="timeout_s"):
        alice.queue(PATH).get(timeout_s=-1)
