"""Operations that take their time: recipes as generators, and what runs them.

A flow is a generator that yields steps and is sent their results. It knows no thread, no loop and
no clock of its own, so the blocking client, the one to await and the simulator run the same code.

    Ask, Request        one request; its result, or its error is raised at the `yield`
    Together            several requests at once; their results or errors, in order
    Wait                until a bell rings or a time comes; whether a bell has rung
    Now                 the client's time
    Timeout         the bound of what the caller waits for, from now on
    Fork                another flow beside this one; its Run
    Tell                a call of the user's, in order with the client's other callbacks

Rules of this file:

-   A flow is left only while it waits. Whoever asked may give up at any time, by a timeout, a
    cancelled task or an interrupt; `Cancelled` is then raised at the flow's next `Wait`, never at
    a request, because what is under way has an outcome that somebody must clean up. A flow that
    returns before it comes to a Wait has its result undone (`Releasable`).
-   So a flow cleans up in `except (Cancelled, RayKeeperError)`, by requests and without waiting.
    Never in `finally`: a generator that is dropped would run it anywhere, at any time.
-   A request of a flow has an outcome as long as the session lives, however late. Whoever waits
    for the flow is told OperationTimeoutError meanwhile, and has given up.
-   No flow outlives the session: its end is raised at every Wait.

httpx: the generators of `Auth`. kazoo and Curator write each recipe around threads and latches.
"""

from collections.abc import Callable, Generator
from typing import Any, Final, Protocol, TypeVar, runtime_checkable

from msgspec import Struct
from msgspec.structs import replace

from raykeeper.client.core.effects import SuccessReply
from raykeeper.client.core.outstanding import NewRequest
from raykeeper.client.core.public_types import WatchedEvent
from raykeeper.client.core.results import result_of
from raykeeper.client.errors import KeeperError, RayKeeperError, WaitTimeoutError
from raykeeper.client.flow_tokens import GatherToken, RequestOutcomeToken
from raykeeper.zab.ids import Millis
from raykeeper.znodes.errors import NotReadOnlyError

T = TypeVar("T")


class Event:
    """What a flow waits for. It is rung by a watch (it is the watcher), or by another flow."""

    __slots__ = ("_events", "_is_set", "_waiting_task")

    def __init__(self) -> None:
        self._is_set = False
        self._events: list[WatchedEvent] = []
        self._waiting_task: Task | None = None  # who waits

    @property
    def is_set(self) -> bool:
        """Whether it has rung since it was silenced last."""
        return self._is_set

    def set(self, event: WatchedEvent | None = None) -> None:
        """End the wait for it, or the next one."""
        self._is_set = True
        if event is not None:
            self._events.append(event)
        run, self._waiting_task = self._waiting_task, None
        if run is not None:
            run.wake()

    def drain(self) -> list[WatchedEvent]:
        """The events that rang it, the oldest first, once. It is silent again."""
        self._is_set = False
        events, self._events = self._events, []
        return events

    def set_waiting_task(self, run: "Task | None") -> None:
        """For `Task`: who is to be woken, None for nobody."""
        self._waiting_task = run


class MappedRequest(Struct, frozen=True):
    """One request, whose result is what `to_result` makes of the answer."""

    request: NewRequest
    to_result: Callable[[SuccessReply], Any] = result_of


class Gather(Struct, frozen=True):
    """Requests that are sent at once, in this order. The result: of each its result or error."""

    requests: list[NewRequest]
    to_result: Callable[[SuccessReply], Any] = result_of


class Wait(Struct, frozen=True):
    """Until one of the bells rings, or `deadline` has come. The result: whether a bell has rung."""

    events: tuple[Event, ...] = ()
    deadline: Millis | None = None


class Now(Struct, frozen=True):
    """The result: the client's time, monotonic."""


class Timeout(Struct, frozen=True):
    """Give up when this much has passed from now; None for never.

    The caller is told WaitTimeoutError then, even if a request has no answer yet. With 0 it is told
    as soon as the flow would have to wait.
    """

    timeout_ms: Millis | None
    message: str = ""
    """What did not come about, for the error."""
    only_while_waiting: bool = False
    """Give up while the flow waits only, not during a request: for what cannot be undone."""


class Spawn(Struct, frozen=True):
    """Run `flow` beside this one. The result: its `Task`."""

    flow: "Flow[Any]"


class CallUser(Struct, frozen=True):
    """Have `callback` called with `arguments`; nobody waits for it."""

    callback: Callable[..., object]
    arguments: tuple[Any, ...] = ()


Step = NewRequest | MappedRequest | Gather | Wait | Now | Timeout | Spawn | CallUser
Flow = Generator[Step, Any, T]


class Cancelled(Exception):
    """Raised in a flow at a Wait: whoever asked has given up. Clean up, and let it pass."""


@runtime_checkable
class Releasable(Protocol):
    """A result that somebody has to take, or it must be undone."""

    def _release(self) -> Flow[Any]:
        """What gives it back."""


class Waiter(Protocol):
    """Who waits for the outcome of a flow; told once, unless it gave up."""

    def succeed(self, value: Any) -> None:
        """The flow returned."""

    def fail(self, error: Exception) -> None:
        """The flow raised."""


class SchedulerHost(Protocol):
    """What a client, or the simulator, does for its flows."""

    def submit(self, ask: NewRequest, token: Any) -> None:
        """Submit a request; `token.complete` or `token.fail` is called, never from in here.

        And `token.request_timed_out` before, if there is no answer in time.
        """

    def now(self) -> Millis:
        """The client's time."""

    def later(self, at: Millis, wake: Callable[[], None]) -> Callable[[], None]:
        """Call `wake` at that time; what is returned prevents it."""

    def tell(self, callback: Callable[..., object], *arguments: Any) -> None:
        """Have a callback of the user called, in order with the others."""

    def report(self, error: Exception) -> None:
        """A flow for which nobody waits failed."""


class _NoWaiter:
    """The owner of a flow for which nobody waits."""

    def __init__(self, flows: "Scheduler") -> None:
        self._flows = flows

    def succeed(self, value: Any) -> None:
        pass

    def fail(self, error: Exception) -> None:
        if not self._flows.has_ended and not isinstance(error, Cancelled):
            self._flows.host.report(error)


class Scheduler:
    """The flows of one session. Everything here is called under the lock of its driver."""

    def __init__(self, host: SchedulerHost) -> None:
        self.host = host
        self._end: KeeperError | None = None
        self._waiting_tasks: dict[Task, None] = {}
        self._cleanups: dict[Task, None] = {}
        self._accepts_writes = False
        self._refused_writes: list[tuple[NewRequest, Any]] = []
        self._when_cleaned_up: list[Callable[[], object]] = []

    @property
    def has_ended(self) -> bool:
        """Whether the session is over."""
        return self._end is not None

    @property
    def end_error(self) -> KeeperError | None:
        """Why the session is over, None while it is not."""
        return self._end

    def start(self, flow: Flow[Any], owner: Waiter | None = None) -> "Task":
        """Run `flow` up to its first request or wait, and on as these end."""
        run = Task(self, flow, owner or _NoWaiter(self))
        try:
            run.resume(None, None)
        except BaseException:
            run.cancel()  # Ctrl-C, most likely; nobody knows of the run
            if getattr(flow, "gi_frame", None) is None:
                self.remove_cleanup(run)  # it struck inside of the flow
            raise
        return run

    def release_result(self, result: Releasable) -> None:
        """Give back what nobody takes."""
        run = Task(self, result._release(), _NoWaiter(self))
        self._cleanups[run] = None
        run.resume(None, None)

    @property
    def is_cleaning_up(self) -> bool:
        """Whether there is something that nobody waits for any more, and that is not given back."""
        return bool(self._cleanups)

    def when_cleaned_up(self, call: Callable[[], object]) -> None:
        """Call `call` as soon as everything is given back that nobody waits for any more."""
        if self._cleanups:
            self._when_cleaned_up.append(call)
        else:
            call()

    def add_cleanup(self, run: "Task") -> None:
        """For `Task`: nobody waits for it any more."""
        self._cleanups[run] = None

    def remove_cleanup(self, run: "Task") -> None:
        """For `Task`: it has ended."""
        if run not in self._cleanups:
            return
        del self._cleanups[run]
        if not self._cleanups:
            calls, self._when_cleaned_up = self._when_cleaned_up, []
            for call in calls:
                call()

    def session_ended(self, cause: KeeperError) -> None:
        """The session is over: nobody waits any more."""
        self._end = cause
        self._resubmit_refused()
        for run in list(self._waiting_tasks):
            if (
                run in self._waiting_tasks
            ):  # one that was interrupted may have rung the bell of another
                run.throw(cause)

    def connected(self, *, read_only: bool) -> None:
        """There is a server; if it has a leader, what one without refused is given back."""
        self._accepts_writes = not read_only
        if self._accepts_writes:
            self._resubmit_refused()

    def add_refused_write(self, ask: NewRequest, token: Any) -> None:
        """For `Task`: a request that is to be made again then."""
        self._refused_writes.append((ask, token))
        if self._accepts_writes:  # it was refused before, and is told so in its turn
            self._resubmit_refused()

    def _resubmit_refused(self) -> None:
        refused, self._refused_writes = self._refused_writes, []
        for ask, token in refused:
            self.host.submit(ask, token)

    def add_waiting(self, run: "Task") -> None:
        """For `Task`: it came to a Wait."""
        self._waiting_tasks[run] = None

    def remove_waiting(self, run: "Task") -> None:
        """For `Task`: it goes on."""
        self._waiting_tasks.pop(run, None)


_NOT_RETURNED: Final = object()


class Task:
    """One flow under way."""

    def __init__(self, scheduler: Scheduler, flow: Flow[Any], waiter: Waiter) -> None:
        self._scheduler = scheduler
        self._flow = flow
        self._waiter: Waiter | None = waiter
        self._is_cancelled = False
        self._is_cancel_delivered = False  # the flow knows that it is abandoned
        self._wait: Wait | None = None
        self._cancel_deadline: Callable[[], None] | None = None  # of the wait's end
        self._cancel_timeout: Callable[[], None] | None = None
        self._timeout: Timeout | None = None
        self._value: Any = _NOT_RETURNED
        self.is_done = False
        self.done = Event()
        """Rings when the flow has ended."""

    def cancel(self) -> None:
        """Nobody waits for the outcome any more. What it is, or will be, is undone."""
        if self.is_done:
            value, self._value = self._value, _NOT_RETURNED
            self._release_result(value)
            return
        self._waiter = None
        if self._is_cancelled:
            return
        self._is_cancelled = True
        self._scheduler.add_cleanup(self)
        self._clear_timeout()
        if self._wait is not None:
            self._is_cancel_delivered = True
            self.throw(Cancelled())

    def result_taken(self) -> None:
        """Whoever waited has the result, and looks after it from now on."""
        self._value = _NOT_RETURNED

    def request_timed_out(self, error: KeeperError) -> None:
        """A request has no answer in time: who waits is told. The flow waits on for the answer.

        It must: what the request did, or will do, somebody has to clean up. What runs in the
        background has no hurry.
        """
        owner = self._waiter
        if owner is not None and not isinstance(owner, _NoWaiter):
            self.cancel()
            owner.fail(error)

    def resubmit_later(self, ask: NewRequest, token: Any, error: KeeperError) -> bool:
        """For tokens: whether a write that was refused for now is to be repeated later.

        Who gives something back has nobody to tell, and else it would stay for as long as the
        session lives: a server without a leader takes no writes (`read_only`).
        """
        flows = self._scheduler
        if not isinstance(error, NotReadOnlyError) or self not in flows._cleanups or flows._end:
            return False
        flows.add_refused_write(ask, token)
        return True

    def throw(self, error: Exception) -> None:
        """Raise `error` where the flow waits."""
        assert self._wait is not None
        self._stop_waiting()
        self.resume(None, error)

    def wake(self) -> None:
        """A bell for which it waits has rung."""
        self._stop_waiting()
        self.resume(True, None)

    def resume(self, value: Any, error: Exception | None) -> None:
        """Run on, from a step that has this result or raises this error, to the next that waits."""
        while True:
            try:
                step = self._flow.send(value) if error is None else self._flow.throw(error)
            except StopIteration as end:
                self._finish(end.value)
                return
            except Exception as raised:
                self._fail(raised)
                return
            value = error = None
            match step:
                case Now():
                    value = self._scheduler.host.now()
                case CallUser():
                    self._scheduler.host.tell(step.callback, *step.arguments)
                case Spawn():
                    value = self._scheduler.start(step.flow)
                case Timeout():
                    self._set_timeout(step)
                case Wait():
                    error = self._reason_not_to_wait()
                    if error is None:
                        if not any(bell.is_set for bell in step.events):
                            self._begin_to_wait(step)
                            return
                        value = True
                case MappedRequest():
                    self._scheduler.host.submit(
                        step.request, RequestOutcomeToken(self, step.request, step.to_result)
                    )
                    return
                case Gather():
                    if step.requests:
                        GatherToken(self, step).submit(self._scheduler.host)
                        return
                    value = []
                case _:
                    self._scheduler.host.submit(step, RequestOutcomeToken(self, step, result_of))
                    return

    def _reason_not_to_wait(self) -> Exception | None:
        if self._is_cancelled and not self._is_cancel_delivered:
            self._is_cancel_delivered = True
            return Cancelled()
        return self._scheduler.end_error

    def _begin_to_wait(self, wait: Wait) -> None:
        flows = self._scheduler
        self._wait = wait
        flows.add_waiting(self)
        for bell in wait.events:
            bell.set_waiting_task(self)
        if wait.deadline is not None:
            self._cancel_deadline = flows.host.later(wait.deadline, self._on_deadline)
        if self._timeout is not None and self._timeout.timeout_ms == 0:
            self._on_timeout()

    def _stop_waiting(self) -> None:
        wait, self._wait = self._wait, None
        disarm, self._cancel_deadline = self._cancel_deadline, None
        self._scheduler.remove_waiting(self)
        if disarm is not None:
            disarm()
        if wait is not None:
            for bell in wait.events:
                bell.set_waiting_task(None)

    def _on_deadline(self) -> None:
        if self._wait is not None:
            self._cancel_deadline = None
            self._stop_waiting()
            self.resume(False, None)

    def _set_timeout(self, limit: Timeout) -> None:
        self._clear_timeout()
        if limit.timeout_ms is None or self._is_cancelled:
            return
        self._timeout = limit
        if limit.timeout_ms:
            host = self._scheduler.host
            self._cancel_timeout = host.later(
                Millis(host.now() + limit.timeout_ms), self._on_timeout
            )

    def _clear_timeout(self) -> None:
        cancel, self._cancel_timeout = self._cancel_timeout, None
        self._timeout = None
        if cancel is not None:
            cancel()

    def _on_timeout(self) -> None:
        limit, owner = self._timeout, self._waiter
        self._cancel_timeout = None
        if limit is None or self.is_done:
            return
        if limit.only_while_waiting and self._wait is None:
            self._timeout = replace(limit, timeout_ms=Millis(0))  # as soon as it has to wait again
            return
        # The flow first: what it gives back has left before the caller asks for anything else.
        self.cancel()
        if owner is not None:
            owner.fail(WaitTimeoutError(limit.message))

    def _finish(self, value: Any) -> None:
        self._mark_done()
        if self._is_cancelled:
            self._release_result(value)
        elif self._waiter is not None:
            self._value = value
            self._waiter.succeed(value)
        self._scheduler.remove_cleanup(self)
        self.done.set()

    def _fail(self, error: Exception) -> None:
        self._mark_done()
        if self._waiter is not None:
            self._waiter.fail(error)
        elif not isinstance(error, Cancelled | RayKeeperError):
            self._scheduler.host.report(error)
        self._scheduler.remove_cleanup(self)
        self.done.set()

    def _mark_done(self) -> None:
        self._clear_timeout()
        self.is_done = True

    def _release_result(self, value: Any) -> None:
        if isinstance(value, Releasable):
            self._scheduler.release_result(value)
