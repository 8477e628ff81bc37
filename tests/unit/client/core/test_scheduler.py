"""The scheduler: the steps of a flow, cancellation at any point, the end of the session.

The file is long because it follows the one diagram of client/core/scheduler.py.
"""

from collections.abc import Callable
from contextlib import suppress
from typing import Any

import pytest

from raykeeper.client.core.flows import (
    CallUser,
    Cancelled,
    Event,
    Flow,
    Gather,
    MappedRequest,
    Now,
    Spawn,
    Timeout,
    Wait,
)
from raykeeper.client.core.outstanding import Query
from raykeeper.client.core.public_types import ClientState, EventType, WatchedEvent
from raykeeper.client.core.scheduler import Scheduler, Task
from raykeeper.client.errors import KeeperError, RecipeError, WaitTimeoutError
from raykeeper.zab.ids import ZERO, Millis
from raykeeper.znodes.errors import (
    NoNodeError,
    NotReadOnlyError,
    OperationTimeoutError,
    SessionExpiredError,
)
from raykeeper.znodes.replies import GetChildrenReply
from raykeeper.znodes.requests import Delete, GetChildren

LIST = Query(GetChildren, "/a")
DELETE = Delete("/a", -1)
EVENT = WatchedEvent(EventType.DELETED, ClientState.CONNECTED, "/a", ZERO)


class Desk:
    """A host by hand: a test answers, rings and lets time pass."""

    def __init__(self) -> None:
        self.waiting: list[tuple[Any, Any]] = []
        self.time = Millis(1_000)
        self.alarms: dict[int, tuple[Millis, Callable[[], None]]] = {}
        self.told: list[tuple[Any, ...]] = []
        self.reported: list[Exception] = []
        self.flows = Scheduler(self)

    def submit(self, ask: Any, token: Any) -> None:
        self.waiting.append((ask, token))

    def now(self) -> Millis:
        return self.time

    def call_at(self, at: Millis, wake: Callable[[], None]) -> Callable[[], None]:
        key = len(self.alarms)
        while key in self.alarms:
            key += 1
        self.alarms[key] = (at, wake)
        return lambda: (self.alarms.pop(key, None), None)[1]

    def call_user(self, callback: Callable[..., object], *arguments: Any) -> None:
        callback(*arguments)

    def report(self, error: Exception) -> None:
        self.reported.append(error)

    # What the tests do.

    def answer(self, *names: str, error: KeeperError | None = None) -> Any:
        ask, token = self.waiting.pop(0)
        if error is not None:
            token.fail(error)
        else:
            token.complete(GetChildrenReply(1, ZERO, list(names), None))
        return ask

    def pass_time(self, ms: int) -> None:
        self.time = Millis(self.time + ms)
        for key, (at, wake) in list(self.alarms.items()):
            if at <= self.time and self.alarms.pop(key, None):
                wake()


class Caller:
    def __init__(self) -> None:
        self.outcomes: list[Any] = []

    def succeed(self, value: Any) -> None:
        self.outcomes.append(value)

    def fail(self, error: Exception) -> None:
        self.outcomes.append(type(error))


@pytest.fixture
def desk() -> Desk:
    return Desk()


def start(desk: Desk, flow: Flow[Any]) -> tuple[Task, list[Any]]:
    caller = Caller()
    return desk.flows.start(flow, caller), caller.outcomes


def test_a_request_has_a_result_or_raises(desk: Desk) -> None:
    def flow() -> Flow[Any]:
        names = yield LIST
        count = yield MappedRequest(LIST, lambda answer: len(answer.children))  # type: ignore[union-attr]
        try:
            yield LIST
        except NoNodeError:
            return names, count
        return None

    run, told = start(desk, flow())
    desk.answer("x", "y")
    desk.answer("x", "y", "z")
    assert not run.is_done
    desk.answer(error=NoNodeError("/a"))
    assert told == [(["x", "y"], 3)]
    assert run.is_done


def test_an_error_of_a_shape_is_the_outcome(desk: Desk) -> None:
    def shape(_: Any) -> Any:
        raise NoNodeError("/a")

    def flow() -> Flow[Any]:
        (one,) = yield Gather([LIST], shape)
        assert isinstance(one, NoNodeError)
        yield MappedRequest(LIST, shape)

    _, told = start(desk, flow())
    desk.answer()
    desk.answer()
    assert told == [NoNodeError]


def test_gathered_requests_leave_at_once_and_keep_their_order(desk: Desk) -> None:
    def flow() -> Flow[Any]:
        nothing = yield Gather([])
        return nothing, (yield Gather([LIST, DELETE, LIST]))

    _, told = start(desk, flow())
    assert [ask for ask, _ in desk.waiting] == [LIST, DELETE, LIST]
    error = NoNodeError("/a")
    desk.answer("x")
    desk.answer(error=error)
    assert told == []
    desk.answer("y")
    assert told == [([], [["x"], error, ["y"]])]


def test_an_event_ends_a_wait_and_keeps_its_items(desk: Desk) -> None:
    event, other = Event(), Event()

    def flow() -> Flow[Any]:
        first = yield Wait((other, event))
        events = event.drain()
        yield Wait((event,), Millis(9_000))
        return first, events, event.drain(), (yield Now())

    _, told = start(desk, flow())
    event.set(EVENT)
    assert told == []
    assert not event.is_set()
    event.set()
    assert told == [(True, [EVENT], [], 1_000)]
    assert desk.alarms == {}


def test_a_set_event_ends_the_wait_at_once(desk: Desk) -> None:
    event = Event()
    event.set()

    def flow() -> Flow[Any]:
        return (yield Wait((event,)))

    _, told = start(desk, flow())
    assert told == [True]


def test_a_wait_ends_at_its_timeout(desk: Desk) -> None:
    event = Event()

    def flow() -> Flow[Any]:
        rung = yield Wait((event,), Millis(3_000))
        return rung, (yield Wait((event,), Millis(4_000)))

    _, told = start(desk, flow())
    desk.pass_time(1_999)
    assert told == []
    desk.pass_time(1)
    desk.pass_time(1_000)
    assert told == [(False, False)]
    event.set()  # nobody waits


def test_a_spawned_flow_runs_concurrently(desk: Desk) -> None:
    said: list[Any] = []

    def beside() -> Flow[None]:
        yield LIST
        yield CallUser(said.append, ("beside",))

    def flow() -> Flow[Any]:
        run = yield Spawn(beside())
        yield CallUser(said.append, ("first",))
        yield Wait((run.done,))
        return run.is_done

    _, told = start(desk, flow())
    assert said == ["first"]
    desk.answer()
    assert (said, told) == (["first", "beside"], [True])


@pytest.mark.parametrize("error", [NoNodeError("/a"), RecipeError("odd"), ValueError("bug")])
def test_the_error_of_a_flow_without_a_caller_is_reported(desk: Desk, error: Exception) -> None:
    def flow() -> Flow[None]:
        yield LIST
        raise error

    desk.flows.start(flow())
    desk.answer()
    assert desk.reported == [error]
    desk.flows.start(flow())
    desk.flows.session_ended(SessionExpiredError())  # then it is no wonder
    desk.answer()
    assert desk.reported == [error]


def test_a_bug_in_a_cancelled_flow_is_reported(desk: Desk) -> None:
    def flow() -> Flow[None]:
        yield LIST
        raise ValueError("bug")

    run, told = start(desk, flow())
    run.cancel()
    desk.answer()
    assert told == []
    assert [type(error) for error in desk.reported] == [ValueError]


class Prize:
    """A result that must be given back if nobody takes it."""

    def _release(self) -> Flow[None]:
        yield DELETE


def grabbing(event: Event, log: list[str]) -> Flow[Prize]:
    yield LIST
    try:
        yield Wait((event,))
    except Cancelled:
        log.append("abandoned")
        yield DELETE
        log.append("cleaned")
        raise
    yield LIST
    return Prize()


def test_a_flow_cancelled_in_a_wait_cleans_up(desk: Desk) -> None:
    log: list[str] = []
    run, told = start(desk, grabbing(Event(), log))
    desk.answer()
    run.cancel()
    run.cancel()
    assert desk.answer() is DELETE
    assert (log, told, desk.reported) == (["abandoned", "cleaned"], [], [])
    assert run.is_done


def test_a_flow_cancelled_in_a_request_ends_at_the_next_wait(desk: Desk) -> None:
    log: list[str] = []
    run, told = start(desk, grabbing(Event(), log))
    run.cancel()
    assert log == []
    desk.answer()
    assert log == ["abandoned"]
    desk.answer()
    assert told == []


def test_a_flow_cancelled_after_its_last_wait_releases_its_result(desk: Desk) -> None:
    event = Event()
    run, told = start(desk, grabbing(event, []))
    desk.answer()
    event.set()
    run.cancel()
    desk.answer()
    assert desk.answer() is DELETE
    assert told == []


@pytest.mark.parametrize("is_taken", [True, False])
def test_a_result_not_taken_by_its_caller_is_released(desk: Desk, is_taken: bool) -> None:
    event = Event()
    event.set()
    run, told = start(desk, grabbing(event, []))
    desk.answer()
    desk.answer()
    assert isinstance(told[0], Prize)
    if is_taken:
        run.result_taken()
    run.cancel()
    run.cancel()
    assert [ask for ask, _ in desk.waiting] == [DELETE] * (not is_taken)


def test_when_cleaned_up_follows_the_last_clean_up(desk: Desk) -> None:
    told: list[int] = []
    event = Event()
    run, _ = start(desk, grabbing(event, []))
    desk.flows.when_cleaned_up(lambda: told.append(1))  # nothing is given up yet
    desk.answer()
    event.set()
    run.cancel()
    assert desk.flows.is_cleaning_up
    desk.flows.when_cleaned_up(lambda: told.append(2))
    desk.answer()
    assert told == [1]
    assert desk.answer() is DELETE
    assert told == [1, 2]
    assert not desk.flows.is_cleaning_up


def test_a_flow_interrupted_at_its_start_is_cancelled(desk: Desk) -> None:
    def interrupted() -> Flow[None]:
        raise KeyboardInterrupt
        yield

    with pytest.raises(KeyboardInterrupt):
        start(desk, interrupted())
    assert not desk.flows.is_cleaning_up

    log: list[str] = []

    def submit(ask: Any, token: Any) -> None:
        desk.waiting.append((ask, token))
        raise KeyboardInterrupt

    desk.submit = submit  # type: ignore[method-assign]
    with pytest.raises(KeyboardInterrupt):
        start(desk, grabbing(Event(), log))
    del desk.submit  # type: ignore[method-assign]
    desk.answer()
    assert desk.answer() is DELETE
    assert not desk.flows.is_cleaning_up
    assert log == ["abandoned", "cleaned"]


def limited(timeout_ms: int | None, event: Event, log: list[str]) -> Flow[Prize]:
    yield Timeout(None if timeout_ms is None else Millis(timeout_ms), "the prize")
    return (yield from grabbing(event, log))


def test_a_timeout_fails_the_caller_and_cancels_the_flow(desk: Desk) -> None:
    log: list[str] = []
    _, told = start(desk, limited(500, Event(), log))
    desk.answer()
    desk.pass_time(499)
    assert told == []
    desk.pass_time(1)
    assert (told, log) == ([WaitTimeoutError], ["abandoned"])
    assert desk.answer() is DELETE  # which had left before the caller was told
    assert desk.reported == []


def test_a_timeout_fails_the_caller_during_a_request(desk: Desk) -> None:
    log: list[str] = []
    _, told = start(desk, limited(500, Event(), log))
    desk.pass_time(500)
    assert (told, log) == ([WaitTimeoutError], [])
    desk.answer()
    desk.answer()
    assert log == ["abandoned", "cleaned"]


class Told(Caller):
    def fail(self, error: Exception) -> None:
        self.outcomes.append(str(error))


LATER = "the prize; what it made is given back as soon as a server answers"


@pytest.mark.parametrize("is_result", [False, True])
@pytest.mark.parametrize("end", ["answered", "cut off", "read-only", "over", "late"])
def test_a_caller_that_gives_up_waits_for_the_clean_up(
    desk: Desk, end: str, is_result: bool
) -> None:
    desk.flows.connected(read_only=False)
    waiter, event, given_back = Told(), Event(), list[bool]()
    run = desk.flows.start(limited(500, event, []), waiter)
    desk.answer()
    if is_result:  # it comes after the timeout, and must be given back
        event.set()
    desk.pass_time(500)
    run.when_given_back(given_back.append)
    if is_result:
        desk.answer()
    assert (waiter.outcomes, given_back) == ([], [])
    match end:
        case "answered":
            desk.answer()
        case "cut off":
            desk.flows.disconnected()
        case "read-only":
            desk.flows.connected(read_only=True)
        case "over":
            desk.flows.session_ended(SessionExpiredError())
        case "late":
            desk.waiting[0][1].late(OperationTimeoutError())
    is_done = end == "answered"
    told = ["the prize" if is_done else LATER], [is_done]
    assert (waiter.outcomes, given_back) == told
    if not is_done:
        assert desk.answer() is DELETE
    run.when_given_back(given_back.append)
    assert (waiter.outcomes, given_back) == (told[0], [is_done, True])


def test_a_caller_that_gives_up_after_its_timeout_is_told_nothing(desk: Desk) -> None:
    desk.flows.connected(read_only=False)
    run, told = start(desk, limited(500, Event(), []))
    desk.answer()
    desk.pass_time(500)
    run.cancel()
    assert desk.answer() is DELETE
    assert (run.is_done, told, desk.reported) == (True, [], [])


@pytest.mark.parametrize("has_release", [False, True])
def test_who_gives_up_when_the_result_is_there_waits_for_its_release(
    desk: Desk, has_release: bool
) -> None:
    desk.flows.connected(read_only=False)
    given_back: list[bool] = []

    class Trifle(Prize):
        def _release(self) -> Flow[None]:
            yield Gather([DELETE] * has_release)

    def flow() -> Flow[Trifle]:
        yield LIST
        return Trifle()

    for is_early in (True, False):
        run, _ = start(desk, flow())
        if is_early:
            run.cancel()
            run.when_given_back(given_back.append)
        desk.answer()
        if not is_early:
            run.cancel()
            run.when_given_back(given_back.append)
        assert given_back == [True] * (not has_release)
        if has_release:
            desk.answer()
        assert given_back.pop()


def test_a_timeout_of_zero_lets_no_wait_begin(desk: Desk) -> None:
    event, log = Event(), list[str]()
    _, told = start(desk, limited(0, event, log))
    desk.answer()
    assert (told, log) == ([WaitTimeoutError], ["abandoned"])
    event.set()
    _, told = start(desk, limited(0, event, []))
    desk.waiting.clear()


@pytest.mark.parametrize("timeout_ms", [None, 5_000])
def test_a_timeout_ends_with_its_flow(desk: Desk, timeout_ms: int | None) -> None:
    event = Event()
    event.set()
    _, told = start(desk, limited(timeout_ms, event, []))
    desk.answer()
    desk.answer()
    assert desk.alarms == {}
    desk.pass_time(10_000)
    assert len(told) == 1


def test_a_new_timeout_replaces_the_old(desk: Desk) -> None:
    event = Event()

    def flow() -> Flow[str]:
        yield Timeout(Millis(500))
        yield Wait((event,), Millis(1_400))
        yield Timeout(None)
        yield Wait((event,))
        return "done"

    _, told = start(desk, flow())
    desk.pass_time(400)
    desk.pass_time(10_000)
    event.set()
    assert told == ["done"]


def test_the_end_of_the_session_is_raised_at_every_wait(desk: Desk) -> None:
    log: list[str] = []
    run, told = start(desk, grabbing(Event(), log))
    beside = desk.flows.start(grabbing(Event(), log))
    desk.answer()
    desk.answer()
    assert not desk.flows.has_ended
    desk.flows.session_ended(SessionExpiredError())
    assert desk.flows.has_ended
    assert (told, log) == ([SessionExpiredError], [])
    assert run.is_done
    assert beside.is_done
    assert desk.reported == []
    _, told = start(desk, grabbing(Event(), log))  # too late
    desk.answer()
    assert told == [SessionExpiredError]


def test_the_end_of_the_session_finds_flows_that_wake_each_other(desk: Desk) -> None:
    events = Event(), Event()
    ends: list[str] = []

    def wait(own: Event, other: Event) -> Flow[None]:
        try:
            yield Wait((own,))
        except KeeperError:
            ends.append("ended")
            other.set()
        else:
            ends.append("woken")

    for own, other in (events, events[::-1]):
        desk.flows.start(wait(own, other))
    desk.flows.session_ended(SessionExpiredError(""))
    assert ends == ["ended", "woken"]
    assert desk.reported == []


def test_a_recipe_error_of_a_cancelled_flow_is_not_reported(desk: Desk) -> None:
    def look() -> Flow[None]:
        yield LIST
        raise RecipeError("it is gone")

    run, told = start(desk, look())
    run.cancel()
    desk.answer()
    assert (told, desk.reported) == ([], [])


@pytest.mark.parametrize("together", [True, False])
def test_a_late_reply_ends_the_call_but_not_the_flow(desk: Desk, together: bool) -> None:
    def flow() -> Flow[Any]:
        yield Gather([LIST]) if together else LIST
        return Prize()

    run, told = start(desk, flow())
    behind = desk.flows.start(flow())  # nobody waits for this one
    for _, token in desk.waiting:
        token.late(OperationTimeoutError())
        token.late(OperationTimeoutError())
    assert told == [OperationTimeoutError]
    assert not run.is_done
    desk.answer()
    desk.answer()
    assert run.is_done
    assert behind.is_done
    assert desk.answer() is DELETE  # the prize is undone
    assert desk.reported == []
    assert told == [OperationTimeoutError]


@pytest.mark.parametrize("together", [True, False])
@pytest.mark.parametrize("is_over", [True, False])
def test_a_release_that_fails_now_is_done_later(desk: Desk, together: bool, is_over: bool) -> None:
    def flow(event: Event) -> Flow[None]:
        with suppress(NotReadOnlyError):  # who waits for it is told
            yield DELETE
        try:
            yield Wait((event,))
        except Cancelled:
            yield Gather([DELETE]) if together else DELETE
            raise

    run, told = start(desk, flow(Event()))
    desk.answer(error=NotReadOnlyError())
    run.cancel()
    desk.answer(error=NotReadOnlyError())
    assert desk.waiting == []
    assert not run.is_done
    if is_over:
        desk.flows.session_ended(SessionExpiredError())
        desk.answer(error=SessionExpiredError())
    else:
        desk.flows.connected(read_only=True)
        assert desk.waiting == []
        desk.flows.connected(read_only=False)
        desk.answer(error=NotReadOnlyError())  # it was refused before that
        assert desk.answer() is DELETE
    assert run.is_done
    assert (told, desk.reported, desk.flows.is_cleaning_up) == ([], [], False)


def test_a_late_request_may_end_the_flow(desk: Desk) -> None:
    def flow() -> Flow[Any]:
        yield LIST

    waiter = Caller()
    task = desk.flows.start(flow(), waiter, fails_late_requests=True)
    (_, token), *_ = desk.waiting
    assert not hasattr(token, "late")  # so that the core fails it
    token.fail(OperationTimeoutError())
    assert waiter.outcomes == [OperationTimeoutError]
    assert task.is_done
