"""CallbackThread: one call after the other, whatever they raise."""

import logging
import threading

import pytest

from raykeeper.client.callback_thread import CallbackThread


def wait_idle(dispatch: CallbackThread) -> None:
    """Return when all submitted callbacks have been called."""
    reached = threading.Event()
    dispatch.put(reached.set)
    assert reached.wait(5)


def test_calls_run_in_order_on_one_thread() -> None:
    dispatch, calls, threads = CallbackThread(), [], set()

    def call(number: int) -> None:
        calls.append(number)
        threads.add(threading.get_ident())

    for number in range(100):
        dispatch.put(lambda number=number: call(number))
    wait_idle(dispatch)
    assert calls == list(range(100))
    assert len(threads) == 1
    assert not dispatch.is_here()


@pytest.mark.parametrize("error", [ValueError("mine"), SystemExit(1)])
def test_a_callback_that_raises_is_logged_and_forgotten(
    error: BaseException, caplog: pytest.LogCaptureFixture
) -> None:
    dispatch = CallbackThread()

    def bad() -> None:
        raise error

    with caplog.at_level(logging.ERROR, "raykeeper.client"):
        dispatch.put(bad)
        wait_idle(dispatch)
    assert "in bad" in caplog.text
    assert type(error).__name__ in caplog.text


def test_run_in_order_is_immediate_only_on_the_thread_itself() -> None:
    dispatch, calls = CallbackThread(), []

    def outer() -> None:
        assert dispatch.is_here()
        assert "outer" in dispatch.current()
        dispatch.run_in_order(lambda: calls.append("nested"))
        calls.append("outer")

    dispatch.run_in_order(outer)
    dispatch.put(lambda: calls.append("later"))
    wait_idle(dispatch)
    assert calls == ["nested", "outer", "later"]


def test_stop_ends_the_thread_after_the_last_call_and_a_later_one_is_served() -> None:
    dispatch = CallbackThread()
    dispatch.stop()  # nothing to stop
    threads: list[threading.Thread] = []
    held = threading.Event()

    def first() -> None:
        threads.append(threading.current_thread())
        assert held.wait(5)

    dispatch.put(first)
    dispatch.stop()
    dispatch.put(lambda: threads.append(threading.current_thread()))
    assert dispatch.unfinished
    held.set()
    while not threads:
        pass
    threads[0].join(5)
    assert threads == [threads[0]] * 2
    assert not threads[0].is_alive()
    assert not dispatch.unfinished
    wait_idle(dispatch)
    dispatch.stop()
