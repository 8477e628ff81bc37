"""Steps of flows: a call in the caller's thread, in turns with requests."""

from collections.abc import Callable
from typing import Any

import pytest

from raykeeper.client.core.flows import CallInCaller, Cancelled, Flow, Timeout
from raykeeper.client.core.scheduler import TaskState
from raykeeper.client.errors import SessionExpiredError
from raykeeper.zab.ids import Millis
from tests.unit.client.core.test_scheduler import DELETE, LIST, Caller, Desk, desk, start

__all__ = ["desk"]


def asking(*functions: Callable[[], Any]) -> Flow[Any]:
    results = []
    for function in functions:
        try:
            results.append((yield CallInCaller(function)))
        except LookupError:
            results.append("sorry")
        results.append((yield LIST))
    yield CallInCaller(functions[0])
    return results


def test_a_function_is_called_by_the_caller_between_the_requests(desk: Desk) -> None:
    def bad() -> None:
        raise LookupError

    waiter = Caller()
    task = desk.flows.start(asking(lambda: 1, bad), waiter)
    for _ in range(2):
        (step,) = waiter.outcomes
        assert desk.waiting == []  # nothing is under way while the caller calls it
        waiter = Caller()
        task.caller_returned(waiter, *step.call())
        assert waiter.outcomes == []
        desk.answer("x")
    task.caller_returned(last := Caller(), *waiter.outcomes[0].call())
    assert last.outcomes == [[1, ["x"], "sorry", ["x"]]]


@pytest.mark.parametrize("has_function", [True, False])
def test_an_interrupted_caller_cancels_the_flow(desk: Desk, has_function: bool) -> None:
    ends: list[str] = []

    def flow() -> Flow[None]:
        yield Timeout(Millis(500))
        yield LIST
        try:
            yield CallInCaller(list)
        except Cancelled:
            ends.append("cancelled")
            yield DELETE
            raise

    task, told = start(desk, flow())
    if has_function:
        desk.answer()
        assert told == [CallInCaller(list)]
        desk.pass_time(1_000)  # the timeout bounds it no more
        desk.flows.session_ended(SessionExpiredError())  # nor does this take the function away
        assert ends == []
    task.cancel()
    if not has_function:
        desk.answer()
    assert ends == ["cancelled"]
    assert desk.answer() is DELETE
    assert task.state is TaskState.UNDONE
    assert desk.reported == []


def test_a_background_flow_has_no_caller(desk: Desk) -> None:
    with pytest.raises(AssertionError, match="has no caller"):
        desk.flows.start(asking(list))
