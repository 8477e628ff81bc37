"""The simple lock: its cost, its herd, and whose znode stands at the path."""

import pytest

from raykeeper.client.errors import LostError, RecipeError
from raykeeper.znodes.errors import BadArgumentsError
from raykeeper.znodes.requests import Create, Delete
from tests.harness.recipe_stage import RecipeStage

PATH = "/locks/x"


def test_a_release_wakes_all_waiters(stage: RecipeStage) -> None:
    members = [stage.member() for _ in range(101)]
    waits = [member.begin(member.simple_lock(PATH).acquire) for member in members]
    before = sum(member.events for member in members[1:])
    waits[0].value.release()
    assert sum(member.events for member in members[1:]) - before == 100
    assert sum(wait.is_done for wait in waits[1:]) == 1


def test_it_sends_the_documented_number_of_requests(stage: RecipeStage) -> None:
    alice, bob = stage.member(), stage.member()
    alice.simple_lock(PATH).acquire().release()
    alice.asked.clear()
    held = alice.simple_lock(PATH).acquire()
    assert dict(alice.asked) == {"Create": 1, "GetData": 1}
    with pytest.raises(TimeoutError):
        bob.simple_lock(PATH).acquire(timeout_s=0)
    assert dict(bob.asked) == {"Create": 1, "GetData": 1, "WatchRemoval": 1}
    held.release()
    assert alice.asked["Multi"] == 1


def test_a_waiter_woken_in_vain_sends_the_documented_number_of_requests(stage: RecipeStage) -> None:
    members = [stage.member() for _ in range(3)]
    waits = [member.begin(member.simple_lock(PATH).acquire) for member in members]
    for member in members:
        member.asked.clear()
    waits[0].value.release()
    (loser,) = [m for m, wait in zip(members, waits, strict=True) if not wait.is_done]
    assert dict(loser.asked) == {"Create": 1, "GetData": 1}


def test_the_holder_is_listed(stage: RecipeStage) -> None:
    alice = stage.member()
    lock = alice.simple_lock(PATH, b"me")
    assert lock.contenders() == []
    with lock:
        (holder,) = lock.contenders()
        assert (holder.name, holder.identifier) == ("x", b"me")
        assert holder.session_id == alice.core.session_id


def test_a_dead_holder_is_succeeded_by_the_next(stage: RecipeStage) -> None:
    alice, bob = stage.member(session_timeout_ms=2_000), stage.member()
    held = alice.simple_lock(PATH).acquire()
    wait = bob.begin(bob.simple_lock(PATH).acquire)
    alice.freeze()
    while not wait.is_done:
        stage.pass_time(50)
    assert held.lost.is_set()
    alice.thaw()
    with pytest.raises(LostError):
        held.release()
    assert wait.value.token > held.token
    assert not wait.value.lost.is_set()


def test_a_holder_whose_znode_was_replaced_is_lost(stage: RecipeStage) -> None:
    alice, bob = stage.member(), stage.member()
    held = alice.simple_lock(PATH).acquire()
    alice.cut()
    bob.ask(Delete(PATH, -1))
    other = bob.simple_lock(PATH).acquire()
    alice.mend()
    assert held.lost.is_set()
    with pytest.raises(LostError):
        held.release()
    assert not other.lost.is_set()
    other.release()


def test_a_foreign_znode_is_refused(stage: RecipeStage) -> None:
    alice = stage.member()
    alice.ask(Create("/locks", b"", 0))
    alice.ask(Create(PATH, b"", 0))
    with pytest.raises(RecipeError, match="not ephemeral"):
        alice.simple_lock(PATH).acquire()
    with pytest.raises(BadArgumentsError):
        alice.simple_lock("/")
