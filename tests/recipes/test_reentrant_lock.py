"""The reentrant lock: who its owner is, what a hold costs, and which release gives it back."""

import threading
from collections.abc import Callable
from typing import Any

import pytest

from raykeeper.client.errors import LostError
from raykeeper.znodes.errors import NoAuthError
from raykeeper.znodes.requests import Delete
from tests.harness.recipe_stage import RecipeStage

PATH = "/locks/x"


def elsewhere(call: Callable[[], Any]) -> Any:
    """The result of a call in another thread, which has ended then."""
    results = []
    thread = threading.Thread(target=lambda: results.append(call()))
    thread.start()
    thread.join()
    return results[0]


def test_the_owner_acquires_again_without_a_request(stage: RecipeStage) -> None:
    alice = stage.member()
    lock = alice.reentrant_lock(PATH, b"alice")
    with lock as outer:
        alice.asked.clear()
        with lock as inner:
            third = lock.acquire(timeout_s=0)
            assert outer.token == inner.token == third.token
            assert outer.path == inner.path
            third.release()
            third.release()  # again: nothing
        assert not alice.asked
        assert [each.identifier for each in lock.contenders()] == [b"alice"]
    assert lock.contenders() == []
    assert alice.asked["Multi"] == 1


def test_the_last_release_of_any_hold_frees_the_lock(stage: RecipeStage) -> None:
    alice, bob = stage.member(), stage.member()
    lock = alice.reentrant_lock(PATH)
    outer, inner = lock.acquire(), lock.acquire()
    wait = bob.begin(bob.reentrant_lock(PATH).acquire)
    outer.release()
    assert not wait.is_done
    elsewhere(inner.release)
    assert wait.value.token > inner.token


def test_another_thread_is_another_owner(stage: RecipeStage) -> None:
    alice = stage.member()
    lock = alice.reentrant_lock(PATH)
    held = lock.acquire()
    wait = elsewhere(lambda: alice.begin(lock.acquire))
    assert not wait.is_done
    with pytest.raises(TimeoutError):
        elsewhere(lambda: alice.begin(lock.acquire, timeout_s=0)).value  # noqa: B018
    again = lock.acquire()
    held.release()
    assert not wait.is_done
    again.release()
    assert wait.is_done
    # That thread has ended; one that has its number now does not own the lock.
    assert not elsewhere(lambda: alice.begin(lock.acquire)).is_done


def test_calls_of_one_owner_wait_for_the_first(stage: RecipeStage) -> None:
    alice, bob = stage.member(), stage.member()
    held = alice.reentrant_lock(PATH).acquire()
    lock = bob.reentrant_lock(PATH)
    first, second = bob.begin(lock.acquire), bob.begin(lock.acquire)
    third, fourth = bob.begin(lock.acquire), bob.begin(lock.acquire)
    assert len(lock.contenders()) == 2
    first.run.cancel()  # the next of them takes a place
    second.run.cancel()
    stage.rest()
    assert len(lock.contenders()) == 2
    held.release()
    assert third.value.token == fourth.value.token
    third.value.release()
    assert len(lock.contenders()) == 1
    fourth.value.release()
    assert lock.contenders() == []


def test_a_cancelled_hold_is_released(stage: RecipeStage) -> None:
    alice = stage.member()
    lock = alice.reentrant_lock(PATH)
    outer = lock.acquire()
    alice.begin(lock.acquire).run.cancel()
    outer.release()
    assert lock.contenders() == []


def test_a_lost_lock_is_not_reacquired(stage: RecipeStage) -> None:
    alice, bob = stage.member(), stage.member()
    lock = alice.reentrant_lock(PATH)
    outer, inner = lock.acquire(), lock.acquire()
    bob.ask(Delete(outer.path, -1))
    assert inner.lost.is_set()
    with pytest.raises(LostError):
        lock.acquire()
    with pytest.raises(LostError):
        inner.release()
    with pytest.raises(LostError):
        outer.release()
    with lock as held:
        assert held.token > outer.token


def test_an_acquire_during_the_release_queues(stage: RecipeStage) -> None:
    alice = stage.member()
    lock = alice.reentrant_lock(PATH)
    held = lock.acquire()
    alice.freeze()
    releasing = alice.begin(held.release)
    acquiring = alice.begin(lock.acquire)
    alice.thaw()
    assert releasing.is_done
    assert acquiring.value.token > held.token


def test_a_failed_release_may_be_tried_again(
    stage: RecipeStage, monkeypatch: pytest.MonkeyPatch
) -> None:
    alice = stage.member()
    lock = alice.reentrant_lock(PATH)
    held = lock.acquire()

    def refused(_: Any) -> Any:
        raise NoAuthError(held.path)
        yield

    monkeypatch.setattr(type(held._root), "_remove", refused)
    with pytest.raises(NoAuthError):
        held.release()
    monkeypatch.undo()
    assert not held.is_released
    held.release()
    assert lock.contenders() == []
