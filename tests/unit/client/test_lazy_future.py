"""LazyFuture behaves as the standard library's future: the same tests over both, and threads."""

import asyncio
import concurrent.futures
import logging
import os
import threading
from collections.abc import Callable
from concurrent.futures import (
    ALL_COMPLETED,
    FIRST_COMPLETED,
    FIRST_EXCEPTION,
    CancelledError,
    Future,
    InvalidStateError,
    as_completed,
    wait,
)
from typing import Any

import pytest

from raykeeper.client.lazy_future import LazyFuture
from tests.harness.client_stage import called

New = Callable[[], Future[Any]]
BOTH: list[New] = [Future, LazyFuture]
WAIT_S = 20


@pytest.fixture(params=BOTH, ids=["standard", "lazy"])
def new(request: pytest.FixtureRequest) -> New:
    made: New = request.param
    return made


def finished(new: New, result: object) -> Future[Any]:
    future = new()
    future.set_result(result)
    return future


def failed(new: New, error: BaseException) -> Future[Any]:
    future = new()
    future.set_exception(error)
    return future


class _Waiters(list[Any]):
    """The waiters of a future, which tell when there is one."""

    def __init__(self) -> None:
        self.is_there = threading.Event()

    def append(self, waiter: Any) -> None:
        super().append(waiter)
        self.is_there.set()


def watch_waiters(future: Future[Any]) -> threading.Event:
    """Return an event that is set when `wait` or `as_completed` waits for the future."""
    with future._condition:
        future._waiters = waiters = _Waiters()
    return waiters.is_there


# One thread.


def test_a_pending_future_has_no_outcome(new: New) -> None:
    future = new()
    assert isinstance(future, Future)
    assert (future.done(), future.running(), future.cancelled()) == (False, False, False)
    with pytest.raises(TimeoutError):
        future.result(0)
    with pytest.raises(TimeoutError):
        future.exception(0.001)
    assert "state=pending" in repr(future)


def test_a_result_stays(new: New) -> None:
    future = finished(new, 7)
    assert (future.done(), future.running(), future.cancelled()) == (True, False, False)
    assert [future.result(), future.result(0), future.result(timeout=1)] == [7, 7, 7]
    assert future.exception() is None
    assert "state=finished returned int" in repr(future)


@pytest.mark.parametrize("result", [None, False, ValueError("a result, not an outcome")])
def test_any_value_is_a_result(new: New, result: object) -> None:
    future = finished(new, result)
    assert future.result() is result
    assert future.exception() is None


def test_an_exception_is_raised_each_time(new: New) -> None:
    error = KeyError("lost")
    future = failed(new, error)
    assert future.done()
    for _ in range(2):
        with pytest.raises(KeyError) as raised:
            future.result()
        assert raised.value is error
    assert future.exception() is error
    assert "state=finished raised KeyError" in repr(future)


def test_an_error_without_a_traceback_keeps_no_cycle(new: New) -> None:
    future = failed(new, ValueError())
    with pytest.raises(ValueError):
        future.result()
    assert future.exception() is not None


@pytest.mark.parametrize("first", ["result", "exception"])
@pytest.mark.parametrize("is_looked_at", [False, True])
def test_there_is_one_outcome(new: New, first: str, is_looked_at: bool) -> None:
    future = finished(new, 1) if first == "result" else failed(new, OSError())
    if is_looked_at:
        wait([future])
    with pytest.raises(InvalidStateError):
        future.set_result(2)
    with pytest.raises(InvalidStateError):
        future.set_exception(ValueError())
    if first == "result":
        assert future.result() == 1
    else:
        assert isinstance(future.exception(), OSError)


def test_a_pending_future_is_cancelled_once(new: New) -> None:
    future, calls = new(), []
    future.add_done_callback(calls.append)
    assert future.cancel()
    assert future.cancel()
    assert (future.done(), future.cancelled(), calls) == (True, True, [future])
    with pytest.raises(CancelledError):
        future.result()
    with pytest.raises(CancelledError):
        future.exception()
    with pytest.raises(InvalidStateError):
        future.set_result(1)
    assert "state=cancelled" in repr(future)


def test_a_running_or_finished_future_is_not_cancelled(new: New) -> None:
    running = new()
    assert running.set_running_or_notify_cancel()
    assert running.running()
    assert not running.done()
    assert not running.cancel()
    running.set_result(3)
    assert (running.result(), running.running(), running.done()) == (3, False, True)
    assert not finished(new, 1).cancel()
    with pytest.raises(RuntimeError):
        running.set_running_or_notify_cancel()


def test_a_cancelled_future_tells_its_waiters(new: New) -> None:
    future = new()
    is_waited_for = watch_waiters(future)
    waiting = called(lambda: wait([future], WAIT_S))
    assert is_waited_for.wait(WAIT_S)
    future.cancel()
    assert not future.set_running_or_notify_cancel()
    assert waiting.result(WAIT_S).done == {future}


def test_callbacks_are_called_in_order_once(new: New) -> None:
    future, calls = new(), []
    for name in ("first", "second"):
        future.add_done_callback(lambda done, name=name: calls.append((name, done.result())))
    assert calls == []
    future.set_result(5)
    future.add_done_callback(lambda done: calls.append(("late", done.result())))
    assert calls == [("first", 5), ("second", 5), ("late", 5)]


@pytest.mark.parametrize("is_late", [False, True])
def test_a_callback_that_raises_keeps_no_other_from_its_call(
    new: New, is_late: bool, caplog: pytest.LogCaptureFixture
) -> None:
    future, calls = new(), []

    def fail(_: object) -> None:
        raise ValueError("callback")

    if is_late:
        future.set_result(None)
    future.add_done_callback(fail)
    future.add_done_callback(calls.append)
    if not is_late:
        with caplog.at_level(logging.ERROR, "concurrent.futures"):
            future.set_result(None)
    assert calls == [future]
    assert "exception calling callback" in caplog.text


def test_a_callback_sees_a_future_that_is_done(new: New) -> None:
    future = new()
    seen = []
    future.add_done_callback(lambda done: seen.append((done.done(), done.result(0), repr(done))))
    future.set_result(1)
    assert seen[0][:2] == (True, 1)


# wait() and as_completed().


def test_wait_returns_what_is_done(new: New) -> None:
    done, broken, pending = finished(new, 1), failed(new, OSError()), new()
    every = [done, broken, pending]
    assert wait(every, 0).done == {done, broken}
    assert wait(every, 0).not_done == {pending}
    assert wait(every, WAIT_S, FIRST_COMPLETED).done == {done, broken}
    assert wait(every, WAIT_S, FIRST_EXCEPTION).done == {done, broken}
    assert wait([done, broken, done], WAIT_S, ALL_COMPLETED).done == {done, broken}


@pytest.mark.parametrize("mode", [FIRST_COMPLETED, FIRST_EXCEPTION, ALL_COMPLETED])
def test_wait_is_woken(new: New, mode: str) -> None:
    first, second = new(), new()
    events = [watch_waiters(future) for future in (first, second)]
    waiting = called(lambda: wait([first, second], WAIT_S, mode))
    assert all(event.wait(WAIT_S) for event in events)
    first.set_exception(OSError())
    if mode == ALL_COMPLETED:
        assert not waiting.done()
        second.set_result(2)
        assert waiting.result(WAIT_S).done == {first, second}
    else:
        assert waiting.result(WAIT_S).done == {first}
        assert second._waiters == []


def test_wait_takes_both_kinds_together() -> None:
    standard, lazy = Future[int](), LazyFuture[int]()
    events = [watch_waiters(standard), watch_waiters(lazy)]
    waiting = called(lambda: wait([standard, lazy], WAIT_S))
    assert all(event.wait(WAIT_S) for event in events)
    lazy.set_result(1)
    standard.set_result(2)
    assert waiting.result(WAIT_S).not_done == set()


def test_as_completed_yields_in_the_order_of_completion(new: New) -> None:
    futures = [new() for _ in range(4)]
    futures[2].set_result(2)
    completing = as_completed(futures, WAIT_S)
    order = [next(completing)]
    for index in (3, 0, 1):
        futures[index].set_result(index)
        order.append(next(completing))
    assert [future.result() for future in order] == [2, 3, 0, 1]
    with pytest.raises(StopIteration):
        next(completing)
    with pytest.raises(TimeoutError):
        list(as_completed([new()], 0.001))


# Threads.


@pytest.mark.parametrize("error", [None, OSError("no")])
def test_threads_that_wait_get_the_outcome(new: New, error: OSError | None) -> None:
    future = new()
    errors = [called(lambda: future.exception(WAIT_S)) for _ in range(3)]
    results = [called(lambda: future.exception(WAIT_S) or future.result()) for _ in range(3)]
    if error is None:
        future.set_result(7)
    else:
        future.set_exception(error)
    assert [thread.result(WAIT_S) for thread in errors] == [error] * 3
    assert [thread.result(WAIT_S) for thread in results] == [error or 7] * 3


def test_no_thread_misses_an_outcome_that_comes_as_it_begins_to_wait(new: New) -> None:
    """Each way of waiting races with the outcome, over and over."""
    rounds = 300
    futures = [new() for _ in range(rounds)]
    barrier = threading.Barrier(5)
    calls: list[int] = []

    def each(act: Callable[[Future[Any]], object]) -> Callable[[], list[object]]:
        def run() -> list[object]:
            barrier.wait(WAIT_S)
            return [act(future) for future in futures]

        return run

    numbers = iter(range(rounds))
    threads = [
        called(each(lambda future: future.set_result(next(numbers)))),
        called(each(lambda future: future.result(WAIT_S))),
        called(each(lambda future: wait([future], WAIT_S).done.pop().result())),
        called(each(lambda future: next(as_completed([future], WAIT_S)).result())),
        called(each(lambda future: future.add_done_callback(lambda f: calls.append(f.result())))),
    ]
    found = [thread.result(60) for thread in threads]
    assert found[1] == found[2] == found[3] == list(range(rounds))
    assert sorted(calls) == list(range(rounds))


def test_of_two_threads_one_sets_the_outcome(new: New) -> None:
    for _ in range(100):
        future, barrier = new(), threading.Barrier(2)

        def set_one(number: int) -> bool:
            barrier.wait(WAIT_S)  # noqa: B023
            try:
                future.set_result(number)  # noqa: B023
            except InvalidStateError:
                return False
            return True

        threads = [called(lambda number=number: set_one(number)) for number in range(2)]
        won = [thread.result(WAIT_S) for thread in threads]
        assert sorted(won) == [False, True]
        assert future.result(0) == won.index(True)


# asyncio.


async def test_it_can_be_awaited(new: New) -> None:
    before, after = finished(new, 1), new()
    assert await asyncio.wrap_future(before) == 1
    awaited = asyncio.wrap_future(after)
    called(lambda: after.set_result(2))
    assert await awaited == 2
    with pytest.raises(OSError, match="no"):
        await asyncio.wrap_future(failed(new, OSError("no")))


async def test_to_cancel_the_await_cancels_it(new: New) -> None:
    future = new()
    asyncio.wrap_future(future).cancel()
    await asyncio.sleep(0)
    assert future.cancelled()


async def test_it_follows_an_asyncio_future(new: New) -> None:
    future = new()
    inner = asyncio.get_running_loop().create_future()
    asyncio.futures._chain_future(inner, future)  # type: ignore[attr-defined]
    inner.set_result(3)
    await asyncio.sleep(0)
    assert future.result(0) == 3


# What only the lazy one promises.


def test_a_future_that_nobody_waits_for_makes_no_condition() -> None:
    future = LazyFuture[int]()
    future.set_result(1)
    assert future.result() == 1
    assert future.done()
    broken = LazyFuture[int]()
    broken.set_exception(OSError())
    assert (future._made_condition, broken._made_condition) == (None, None)


@pytest.mark.filterwarnings("ignore:.*fork:DeprecationWarning")
def test_a_child_process_can_use_its_futures() -> None:
    """A fork may happen while another thread of the parent holds the lock of all futures."""
    from raykeeper.client import lazy_future

    with lazy_future._claim_lock:
        child = os.fork()
        if child == 0:
            future = LazyFuture[int]()
            future.set_result(7)
            os._exit(future.result(1))
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 7


def test_the_standard_library_has_the_attributes_that_are_declared() -> None:
    standard, lazy = Future[int](), LazyFuture[int]()
    assert lazy._condition is lazy._condition
    missing = [name for name in vars(standard) if not hasattr(lazy, name)]
    assert missing == []
    assert concurrent.futures._base.PENDING == lazy._state == standard._state
