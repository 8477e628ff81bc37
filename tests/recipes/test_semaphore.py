"""The semaphore: how many hold it, who is woken, and that all mean the same number."""

import pytest

from raykeeper.client.errors import LostError, RecipeError
from raykeeper.client.recipes.primitives import get_children, get_or_none
from raykeeper.znodes.errors import BadArgumentsError
from raykeeper.znodes.requests import Create, Delete, SetData
from tests.harness.recipe_stage import Member, Outcome, RecipeStage
from tests.recipes.freezing import freeze_at
from tests.recipes.giving_up import abandoned_at, places, watches

PATH = "/locks/x"
PERMITS = 4


def begin(member: Member) -> Outcome:
    return member.begin(member.semaphore(PATH, PERMITS).acquire)


def woken_by(member: Member) -> int:
    """How many events it was told, those of watches it took back itself left out."""
    return member.events - member.asked["WatchRemoval"]


def granted(waits: list[Outcome]) -> int:
    return sum(wait.is_done for wait in waits)


def test_as_many_hold_as_there_are_permits_in_order(stage: RecipeStage) -> None:
    waits = [begin(stage.member()) for _ in range(7)]
    assert [wait.is_done for wait in waits] == [True] * 4 + [False] * 3
    waits[2].value.release()
    assert [wait.is_done for wait in waits] == [True] * 5 + [False] * 2
    waits[5].run.cancel()
    stage.rest()
    waits[0].value.release()
    assert [wait.is_done for wait in waits] == [True] * 5 + [False, True]
    tokens = [wait.value.token for wait in waits if wait is not waits[5]]
    assert tokens == sorted(set(tokens))


@pytest.mark.parametrize(
    ("place", "woken"),
    [
        (0, 1),  # in the order in which they were taken
        (1, 2),
        (2, 3),
        (3, 4),  # the other way round: as many as there are permits, of a hundred who wait
    ],
)
def test_a_release_wakes_at_most_as_many_as_there_are_permits(
    stage: RecipeStage, place: int, woken: int
) -> None:
    members = [stage.member() for _ in range(104)]
    waits = [begin(member) for member in members]
    assert granted(waits) == 4
    before = [woken_by(member) for member in members]
    waits[place].value.release()
    events = [woken_by(member) - was for member, was in zip(members, before, strict=True)]
    assert sum(events[4:]) == woken
    assert max(events) == 1
    assert granted(waits) == 5


def test_all_contenders_are_served_in_order(stage: RecipeStage) -> None:
    members = [stage.member() for _ in range(30)]
    waits = [begin(member) for member in members]
    for place, wait in enumerate(waits):
        assert granted(waits) == min(place + PERMITS, 30)
        wait.value.release()
    # Each of its own deletion, and of those who waited each once.
    assert sum(map(woken_by, members)) == 30 + 26
    assert [watches(member) for member in members] == [0] * 30


def test_it_sends_the_documented_number_of_requests(stage: RecipeStage) -> None:
    alice, bob = stage.member(), stage.member()
    semaphore = alice.semaphore(PATH, PERMITS)
    held = [semaphore.acquire()]
    alice.asked.clear()
    held.append(semaphore.acquire())
    assert dict(alice.asked) == {"Multi": 1, "GetChildren": 1, "GetData": 1}
    held += [semaphore.acquire(), semaphore.acquire()]
    wait = begin(bob)
    assert (bob.asked["GetData"], watches(bob)) == (1 + PERMITS, 1 + PERMITS)
    held[0].release()
    assert wait.is_done
    assert (bob.asked["WatchRemoval"], watches(bob)) == (PERMITS - 1, 1)
    alice.asked.clear()
    held[1].release()
    assert dict(alice.asked) == {"Multi": 1}


def test_all_clients_must_give_the_same_number(stage: RecipeStage) -> None:
    alice, bob = stage.member(), stage.member()
    held = alice.semaphore(PATH, 2).acquire()
    with pytest.raises(RecipeError, match="has contenders for 2 permits, not 3"):
        bob.semaphore(PATH, 3).acquire()
    assert len(places(alice)) == 1
    held.release()
    stage.pass_time(1_000)  # the znode goes with the last contender, and the number with it
    bob.semaphore(PATH, 3).acquire()
    assert bob.do(get_or_none(PATH))[0] == b"3"


def test_an_unused_semaphore_takes_any_number(stage: RecipeStage) -> None:
    alice, bob, carol = (stage.member() for _ in range(3))
    alice.semaphore(PATH, 2).acquire().release()
    freeze_at(bob, 1)  # it is told of the old number
    wait = bob.begin(bob.semaphore(PATH, 3).acquire)
    held = carol.semaphore(PATH, 2).acquire()
    bob.thaw()
    with pytest.raises(RecipeError, match="has contenders for 2 permits"):
        _ = wait.value
    held.release()
    bob.semaphore(PATH, 3).acquire().release()


def test_an_existing_znode_without_a_number_gets_it(stage: RecipeStage) -> None:
    alice = stage.member()
    alice.ask(Create("/locks", b"", 0))
    alice.ask(Create(PATH, b"", 0))
    alice.ask(Create(f"{PATH}/readme", b"", 0))
    alice.semaphore(PATH, 2).acquire().release()
    alice.ask(Delete(f"{PATH}/readme", -1))
    assert alice.do(get_or_none(PATH))[0] == b"2"
    alice.ask(SetData(PATH, b"\xff", -1))
    with pytest.raises(RecipeError, match="not 2"):
        alice.semaphore(PATH, 2).acquire()


def test_permits_die_with_their_holders(stage: RecipeStage) -> None:
    alice, bob = stage.member(session_timeout_ms=2_000), stage.member()
    held = [alice.semaphore(PATH, 2).acquire() for _ in range(2)]
    waits = [bob.begin(bob.semaphore(PATH, 2).acquire) for _ in range(3)]
    alice.freeze()
    while granted(waits) < 2:
        assert not granted(waits) or all(each.lost.is_set() for each in held)
        stage.pass_time(50)
    assert all(each.lost.is_set() for each in held)
    assert not waits[2].is_done


def test_holders_and_waiters_are_listed(stage: RecipeStage) -> None:
    members = [stage.member() for _ in range(3)]
    for number, member in enumerate(members):
        member.begin(member.semaphore(PATH, 2, f"m{number}".encode()).acquire)
    semaphore = members[0].semaphore(PATH, 2)
    assert [each.identifier for each in semaphore.holders()] == [b"m0", b"m1"]
    assert [each.identifier for each in semaphore.contenders()] == [b"m0", b"m1", b"m2"]


def test_a_change_of_a_holders_value_changes_nothing(stage: RecipeStage) -> None:
    alice, bob = stage.member(), stage.member()
    held = alice.semaphore(PATH, 1).acquire()
    wait = bob.begin(bob.semaphore(PATH, 1).acquire)
    alice.ask(SetData(held.path, b"touched", -1))
    assert not wait.is_done
    held.release()
    assert wait.is_done


def test_a_contender_whose_znode_is_deleted_gets_an_error(stage: RecipeStage) -> None:
    alice, bob = stage.member(), stage.member()
    held = alice.semaphore(PATH, 1).acquire()
    wait = bob.begin(bob.semaphore(PATH, 1).acquire)
    last = max(alice.do(get_children(PATH)))
    alice.ask(SetData(f"{PATH}/{last}", b"", -1))
    assert not wait.is_done
    alice.ask(Delete(f"{PATH}/{last}", -1))
    with pytest.raises(LostError, match="while it waited"):
        _ = wait.value
    assert watches(bob) == 0
    held.release()


@pytest.mark.parametrize("answers", range(16))
def test_a_cancelled_call_leaves_nothing_at_any_step(stage: RecipeStage, answers: int) -> None:
    alice, bob = stage.member(), stage.member()
    for _ in range(PERMITS):
        alice.semaphore(PATH, PERMITS).acquire()
    before = places(alice)
    outcome = abandoned_at(bob, answers, bob.semaphore(PATH, PERMITS).acquire)
    outcome.run.cancel()
    stage.rest()
    assert places(alice) == before
    assert watches(bob) == 0


@pytest.mark.parametrize("permits", [0, -1, 1001, True, "3", 2.0])
def test_a_bad_number_is_refused(stage: RecipeStage, permits: int) -> None:
    with pytest.raises(BadArgumentsError, match="permits must be"):
        stage.member().semaphore(PATH, permits)
