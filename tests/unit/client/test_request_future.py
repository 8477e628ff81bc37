"""RequestFuture: completed after earlier callbacks, except for a callback that waits itself."""

import asyncio
import threading
from concurrent.futures import Future
from typing import Any

import pytest

from raykeeper.client.callback_thread import CallbackThread
from raykeeper.client.errors import NoNodeError, WrongContextError
from raykeeper.client.request_future import RequestFuture
from raykeeper.zab.ids import Zxid
from raykeeper.znodes.replies import EmptyReply


class Held:
    """A dispatcher whose thread is busy with a callback until `release`."""

    def __init__(self) -> None:
        self.dispatch = CallbackThread()
        self._begun, self._gate = threading.Event(), threading.Event()
        self.dispatch.put(self._hold)
        assert self._begun.wait(5)

    def _hold(self) -> None:
        self._begun.set()
        assert self._gate.wait(5)

    def release(self) -> None:
        self._gate.set()
        reached = threading.Event()
        self.dispatch.put(reached.set)
        assert reached.wait(5)


def test_without_callbacks_a_future_completes_at_once() -> None:
    value: RequestFuture[int] = RequestFuture(CallbackThread())
    value.succeed(7)
    assert value.result(0) == 7
    failed: RequestFuture[int] = RequestFuture(CallbackThread())
    failed.fail(NoNodeError("/a"))
    with pytest.raises(NoNodeError):
        failed.result(0)
    assert isinstance(failed.exception(0), NoNodeError)
    answered: RequestFuture[None] = RequestFuture(CallbackThread())
    answered.complete(EmptyReply(1, Zxid(1)))
    assert answered.result(0) is None


def test_a_request_cannot_be_called_back() -> None:
    reply: RequestFuture[int] = RequestFuture(CallbackThread())
    assert not reply.cancel()
    reply.succeed(1)
    assert reply.result(0) == 1


def test_a_future_waits_for_earlier_callbacks() -> None:
    held = Held()
    reply: RequestFuture[int] = RequestFuture(held.dispatch)
    reply.succeed(7)
    assert reply.has_arrived()
    assert not reply.done()
    with pytest.raises(TimeoutError):
        reply.result(0)
    held.release()
    assert reply.result(0) == 7


def test_callbacks_of_replies_and_others_keep_the_order_of_arrival() -> None:
    held, calls = Held(), []
    first: RequestFuture[str] = RequestFuture(held.dispatch)
    second: RequestFuture[str] = RequestFuture(held.dispatch)
    for reply in (second, first):
        reply.add_done_callback(lambda done: calls.append(done.result()))
    first.succeed("first")
    held.dispatch.put(lambda: calls.append("event"))
    second.succeed("second")
    held.release()
    assert calls == ["first", "event", "second"]


def test_a_callback_added_late_runs_on_the_thread_too() -> None:
    dispatch = CallbackThread()
    reply: RequestFuture[int] = RequestFuture(dispatch)
    reply.succeed(1)
    seen: Future[bool] = Future()
    reply.add_done_callback(lambda _: seen.set_result(dispatch.is_here()))
    assert seen.result(5)


def in_callback(dispatch: CallbackThread, act: Any) -> Future[Any]:
    """Run `act` as a callback; return a future of its result."""
    outcome: Future[Any] = Future()

    def call() -> None:
        try:
            outcome.set_result(act())
        except BaseException as error:
            outcome.set_exception(error)

    dispatch.put(call)
    return outcome


def test_in_a_callback_a_reply_overtakes_queued_callbacks() -> None:
    dispatch, calls = CallbackThread(), []
    reply: RequestFuture[int] = RequestFuture(dispatch)
    waits = threading.Event()

    def act() -> int:
        waits.set()
        value = reply.result(5)
        calls.append("reply")
        return value

    outcome = in_callback(dispatch, act)
    assert waits.wait(5)
    dispatch.put(lambda: calls.append("queued"))
    reply.succeed(7)
    assert outcome.result(5) == 7
    in_callback(dispatch, lambda: None).result(5)
    assert calls == ["reply", "queued"]


def test_in_a_callback_a_reply_that_has_arrived_is_there() -> None:
    held = Held()
    reply: RequestFuture[int] = RequestFuture(held.dispatch)
    outcome = in_callback(held.dispatch, lambda: reply.result(0))
    failed: RequestFuture[int] = RequestFuture(held.dispatch)
    error = in_callback(held.dispatch, lambda: failed.exception())
    reply.succeed(7)
    failed.fail(NoNodeError("/a"))
    held.release()
    assert outcome.result(0) == 7
    assert isinstance(error.result(0), NoNodeError)


def test_in_a_callback_a_reply_may_be_too_late() -> None:
    dispatch = CallbackThread()
    reply: RequestFuture[int] = RequestFuture(dispatch)
    with pytest.raises(TimeoutError):
        in_callback(dispatch, lambda: reply.result(0)).result(5)
    with pytest.raises(TimeoutError):
        in_callback(dispatch, lambda: reply.result(-3)).result(5)
    in_callback(dispatch, lambda: None).result(5)
    reply.succeed(1)
    in_callback(dispatch, lambda: None).result(5)
    assert reply.result(5) == 1


async def test_an_event_loop_must_await_it_instead() -> None:
    reply: RequestFuture[int] = RequestFuture(CallbackThread())
    with pytest.raises(WrongContextError, match="wrap_future"):
        reply.result()
    with pytest.raises(WrongContextError, match="wrap_future"):
        reply.exception(1)
    with pytest.raises(TimeoutError):
        reply.result(0)  # which does not wait
    awaited = asyncio.wrap_future(reply)
    reply.succeed(7)
    assert await awaited == reply.result() == 7
