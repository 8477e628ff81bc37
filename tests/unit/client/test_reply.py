"""Reply: settled behind the callbacks that wait, except for a callback that waits itself."""

import asyncio
import threading
from concurrent.futures import Future
from typing import Any

import pytest

from raykeeper.client.dispatch import Dispatch
from raykeeper.client.errors import NoNodeError, WrongContextError
from raykeeper.client.reply import Reply
from raykeeper.zab.ids import Zxid
from raykeeper.znodes.replies import Done


class Held:
    """A dispatch whose thread is busy with a callback until `release`."""

    def __init__(self) -> None:
        self.dispatch = Dispatch()
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


def test_without_callbacks_it_is_settled_at_once() -> None:
    value: Reply[int] = Reply(Dispatch())
    value.succeed(7)
    assert value.result(0) == 7
    failed: Reply[int] = Reply(Dispatch())
    failed.fail(NoNodeError("/a"))
    with pytest.raises(NoNodeError):
        failed.result(0)
    assert isinstance(failed.exception(0), NoNodeError)
    answered: Reply[None] = Reply(Dispatch())
    answered.complete(Done(1, Zxid(1)))
    assert answered.result(0) is None


def test_a_request_cannot_be_called_back() -> None:
    reply: Reply[int] = Reply(Dispatch())
    assert not reply.cancel()
    reply.succeed(1)
    assert reply.result(0) == 1


def test_behind_callbacks_it_waits_for_them() -> None:
    held = Held()
    reply: Reply[int] = Reply(held.dispatch)
    reply.succeed(7)
    assert reply.has_arrived()
    assert not reply.done()
    with pytest.raises(TimeoutError):
        reply.result(0)
    held.release()
    assert reply.result(0) == 7


def test_callbacks_of_replies_and_others_keep_the_order_of_arrival() -> None:
    held, calls = Held(), []
    first: Reply[str] = Reply(held.dispatch)
    second: Reply[str] = Reply(held.dispatch)
    for reply in (second, first):
        reply.add_done_callback(lambda done: calls.append(done.result()))
    first.succeed("first")
    held.dispatch.put(lambda: calls.append("event"))
    second.succeed("second")
    held.release()
    assert calls == ["first", "event", "second"]


def test_a_callback_added_late_runs_on_the_thread_too() -> None:
    dispatch = Dispatch()
    reply: Reply[int] = Reply(dispatch)
    reply.succeed(1)
    seen: Future[bool] = Future()
    reply.add_done_callback(lambda _: seen.set_result(dispatch.is_here()))
    assert seen.result(5)


def in_callback(dispatch: Dispatch, act: Any) -> Future[Any]:
    """Run `act` as a callback; its result."""
    outcome: Future[Any] = Future()

    def call() -> None:
        try:
            outcome.set_result(act())
        except BaseException as error:
            outcome.set_exception(error)

    dispatch.put(call)
    return outcome


def test_in_a_callback_a_reply_overtakes_those_queued() -> None:
    dispatch, calls = Dispatch(), []
    reply: Reply[int] = Reply(dispatch)
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
    reply: Reply[int] = Reply(held.dispatch)
    outcome = in_callback(held.dispatch, lambda: reply.result(0))
    failed: Reply[int] = Reply(held.dispatch)
    error = in_callback(held.dispatch, lambda: failed.exception())
    reply.succeed(7)
    failed.fail(NoNodeError("/a"))
    held.release()
    assert outcome.result(0) == 7
    assert isinstance(error.result(0), NoNodeError)


def test_in_a_callback_a_reply_may_be_too_late() -> None:
    dispatch = Dispatch()
    reply: Reply[int] = Reply(dispatch)
    with pytest.raises(TimeoutError):
        in_callback(dispatch, lambda: reply.result(0)).result(5)
    with pytest.raises(TimeoutError):
        in_callback(dispatch, lambda: reply.result(-3)).result(5)
    in_callback(dispatch, lambda: None).result(5)
    reply.succeed(1)
    in_callback(dispatch, lambda: None).result(5)
    assert reply.result(5) == 1


def test_an_event_loop_must_await_it_instead() -> None:
    async def main() -> None:
        reply: Reply[int] = Reply(Dispatch())
        with pytest.raises(WrongContextError, match="wrap_future"):
            reply.result()
        with pytest.raises(WrongContextError, match="wrap_future"):
            reply.exception(1)
        with pytest.raises(TimeoutError):
            reply.result(0)  # which does not wait
        awaited = asyncio.wrap_future(reply)
        reply.succeed(7)
        assert await awaited == reply.result() == 7

    asyncio.run(main())
