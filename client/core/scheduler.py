"""The engine that runs flows (client/core/flows.py): recipes and composed operations of clients.

A Task is one flow under way. A request whose outcome has not come belongs to RUNNING: it cannot be
interrupted. The states, and every transition by its name:

                   start
                     │         wait, call_in_caller
                     ▼ ────────────────────────────────▶
     resume ┌──▶  RUNNING                                 WAITING
            └───    │ │ ◀────────────────────────────────   │
                    │ │         wake, throw                 │
                    │ └── cancel ──▶ CANCELLED              │ cancel
                    │                  │   │                │
                    │                  │   │ deliver_cancel │
             finish │           finish │   ▼                ▼
                    │         (early)  │  CLEANING_UP ◀─────┘
                    ▼                  ▼   │
                 FINISHED            UNDONE ◀┘ finish
                    └─── undo ─────────▲

    start           Scheduler.start: the flow runs up to its first request or Wait
    resume          the outcomes of a step's requests have come
    wait            a Wait, none of whose events is set
    call_in_caller  a CallInCaller; the caller has the function
    wake            an event is set, the deadline has come, or the caller's function has returned
    throw           the session is over: its error is raised at the Wait
    cancel          the caller gives up, its Timeout has passed, or a request of it is late
    deliver_cancel  the flow comes to a Wait: Cancelled is raised there, once
    finish          the flow returns or raises. FINISHED: its waiter is told, once. UNDONE: nobody
                    waits any more; early, without having seen Cancelled, or when it has cleaned up.
                    A result that somebody has to take (`Releasable`) is released by a task of its
                    own
    undo            it was cancelled when the result had come, but was not taken: it is released

A caller that gives up is told so, or goes on, when everything is given back: nobody then finds a
trace of the operation. It does not wait for that while there is no connection to a server with a
leader, nor for a request that is late (`Task.when_given_back`).

In CLEANING_UP a flow goes on by requests, and a write that a read-only server refuses is sent again
when there is a leader: otherwise what it gives back would stay for as long as the session lives.

The file is long because Scheduler and Task are the two sides of this diagram.
"""

from collections.abc import Callable
from enum import Enum, auto
from functools import partial
from typing import Any, Final, Protocol

from msgspec.structs import replace

from raykeeper.client.core.effects import SuccessReply
from raykeeper.client.core.flows import (
    CallInCaller,
    CallUser,
    Cancelled,
    Event,
    Flow,
    Gather,
    MappedRequest,
    Now,
    Releasable,
    Spawn,
    Timeout,
    Wait,
)
from raykeeper.client.core.outstanding import NewRequest
from raykeeper.client.core.results import result_of
from raykeeper.client.errors import KeeperError, RayKeeperError, WaitTimeoutError
from raykeeper.zab.ids import Millis
from raykeeper.znodes.errors import NotReadOnlyError


class Waiter(Protocol):
    """The receiver of a flow's outcome; told once, unless the task is cancelled before."""

    def succeed(self, value: Any) -> None:
        """Take what the flow returned.

        Or the CallInCaller at which it stands: call the function, then `Task.caller_returned`.
        """

    def fail(self, error: Exception) -> None:
        """Take what the flow raised."""


class SchedulerHost(Protocol):
    """The services of a client, or of the simulator, for its flows."""

    def submit(self, request: NewRequest, token: Any) -> None:
        """Submit a request; call `token.complete` or `token.fail` later, never from in here.

        Call `token.late` before, if it has that and there is no reply in time.
        """

    def now(self) -> Millis:
        """Return the client's time."""

    def call_at(self, at: Millis, wake: Callable[[], None]) -> Callable[[], None]:
        """Call `wake` at that time; return what prevents it."""

    def call_user(self, callback: Callable[..., object], *arguments: Any) -> None:
        """Have a callback of the user called, in order with the others."""

    def report(self, error: Exception) -> None:
        """Log the error of a flow for which nobody waits."""


class _NoWaiter:
    """Stands for the waiter of a flow in the background: its errors are reported."""

    def __init__(self, scheduler: "Scheduler") -> None:
        self._scheduler = scheduler

    def succeed(self, value: Any) -> None:
        assert not isinstance(value, CallInCaller), "a flow in the background has no caller"

    def fail(self, error: Exception) -> None:
        if not self._scheduler.has_ended and not isinstance(error, Cancelled):
            self._scheduler.host.report(error)


class Scheduler:
    """The flows of one session. Everything here is called under the lock of its driver."""

    def __init__(self, host: SchedulerHost) -> None:
        self.host = host
        self._end_error: KeeperError | None = None
        self._waiting_tasks: dict[Task, None] = {}
        self._cleanups: dict[Task, None] = {}  # cancelled, or releasing a result; not over yet
        self.can_write = False
        """Whether there is a connection to a server with a leader."""
        self._refused_writes: list[tuple[NewRequest, Any]] = []
        self._when_cleaned_up: list[Callable[[], object]] = []

    @property
    def has_ended(self) -> bool:
        """Whether the session is over."""
        return self._end_error is not None

    @property
    def end_error(self) -> KeeperError | None:
        """Why the session is over, None while it is not."""
        return self._end_error

    def start(
        self, flow: Flow[Any], waiter: Waiter | None = None, *, fails_late_requests: bool = False
    ) -> "Task":
        """Run `flow` up to its first request or wait, and on as these end.

        Args:
            flow: What to run.
            waiter: Of the outcome; None for a flow in the background.
            fails_late_requests: A request without a reply in time fails, which ends the flow;
                otherwise the waiter is told, and the flow waits on for the outcome.
        """
        told = _NoWaiter(self) if waiter is None else waiter
        task = Task(self, flow, told, fails_late_requests=fails_late_requests)
        try:
            task.resume(None, None)
        except BaseException:
            task.cancel()  # Ctrl-C, most likely; nobody knows of the task
            if getattr(flow, "gi_frame", None) is None:
                self.remove_cleanup(task)  # it struck inside of the flow
            raise
        return task

    def release_result(self, result: Releasable) -> "Task":
        """Give back what nobody takes; return the task that does so."""
        task = Task(self, result._release(), _NoWaiter(self))
        self.add_cleanup(task)
        task.resume(None, None)
        return task

    @property
    def is_cleaning_up(self) -> bool:
        """Whether there is something that nobody waits for any more and that is not given back."""
        return bool(self._cleanups)

    def when_cleaned_up(self, call: Callable[[], object]) -> None:
        """Call `call` as soon as everything is given back that nobody waits for any more."""
        if self._cleanups:
            self._when_cleaned_up.append(call)
        else:
            call()

    def add_cleanup(self, task: "Task") -> None:
        """For `Task`: nobody waits for it any more."""
        self._cleanups[task] = None

    def remove_cleanup(self, task: "Task") -> None:
        """For `Task`: it has ended."""
        if task not in self._cleanups:
            return
        del self._cleanups[task]
        if not self._cleanups:
            calls, self._when_cleaned_up = self._when_cleaned_up, []
            for call in calls:
                call()

    def session_ended(self, cause: KeeperError) -> None:
        """End all waits: the session is over."""
        self._end_error = cause
        self._resubmit_refused()
        for task in list(self._waiting_tasks):
            if task in self._waiting_tasks:  # one that was thrown into may have woken another
                task.throw(cause)
        self.disconnected()

    def connected(self, *, read_only: bool) -> None:
        """Take note of a server; if it has a leader, send what one without refused."""
        if read_only:
            self.disconnected()
        else:
            self.can_write = True
            self._resubmit_refused()

    def disconnected(self) -> None:
        """Take note that there is no server with a leader: callers that give up wait no longer."""
        self.can_write = False
        for task in list(self._cleanups):
            task.tell_if_given_back(False)

    def resubmit_later(self, task: "Task", token: "_Token", error: KeeperError) -> bool:
        """For tokens: whether a write of a cleanup that was refused is kept, to be sent again."""
        is_refused = isinstance(error, NotReadOnlyError) and task in self._cleanups
        if not is_refused or self.has_ended:
            return False
        self._refused_writes.append((token.request, token))
        if self.can_write:  # it was refused before, and is told so in its turn
            self._resubmit_refused()
        return True

    def _resubmit_refused(self) -> None:
        refused, self._refused_writes = self._refused_writes, []
        for request, token in refused:
            self.host.submit(request, token)

    def add_waiting(self, task: "Task") -> None:
        """For `Task`: it came to a Wait."""
        self._waiting_tasks[task] = None

    def remove_waiting(self, task: "Task") -> None:
        """For `Task`: it goes on."""
        self._waiting_tasks.pop(task, None)


class TaskState(Enum):
    """Where a task is, see the module."""

    RUNNING = auto()
    WAITING = auto()
    CANCELLED = auto()
    CLEANING_UP = auto()
    FINISHED = auto()
    UNDONE = auto()


_NOTHING: Final = object()
"""Stands for the result of a flow that has returned none, or whose result was taken."""


class Task:
    """One flow under way; its methods are the transitions of the module's diagram."""

    def __init__(
        self,
        scheduler: Scheduler,
        flow: Flow[Any],
        waiter: Waiter,
        *,
        fails_late_requests: bool = False,
    ) -> None:
        self.state = TaskState.RUNNING
        self.done = Event()
        """Set when the flow has ended."""
        self.scheduler = scheduler
        self._flow = flow
        self._waiter: Waiter | None = waiter
        self._timed_out_waiter: Waiter | None = None  # not told yet
        self._token_type = _Token if fails_late_requests else _OutcomeToken
        self._outcomes: list[Any] = []  # of the requests of the step
        self._outcomes_missing = 0
        self._is_gather = False
        self._wait: Wait | None = None
        self._cancel_deadline: Callable[[], None] | None = None  # of the wait
        self._timeout: Timeout | None = None
        self._cancel_timeout: Callable[[], None] | None = None
        self._result: Any = _NOTHING
        self._release: Task | None = None  # gives the result back
        self._when_given_back: list[Callable[[bool], object]] = []

    @property
    def is_done(self) -> bool:
        """Whether the flow has ended."""
        return self.state is TaskState.FINISHED or self.state is TaskState.UNDONE

    def cancel(self) -> None:
        """Take note that nobody waits for the outcome; what it is, or will be, is undone."""
        self._waiter = self._timed_out_waiter = None
        if self.state is TaskState.FINISHED:
            self.state = TaskState.UNDONE
            self._release_result()
        elif self.state is TaskState.RUNNING or self.state is TaskState.WAITING:
            was_waiting = self.state is TaskState.WAITING
            self.state = TaskState.CANCELLED
            self.scheduler.add_cleanup(self)
            self._clear_timeout()
            if was_waiting:
                self.state = TaskState.CLEANING_UP
                self.throw(Cancelled())

    def when_given_back(self, call: Callable[[bool], object]) -> None:
        """After `cancel`: call `call` with True when everything is given back.

        Call it with False as soon as nobody can know how long that takes: there is no connection to
        a server with a leader, or a request is late.
        """
        task = self._release or self
        if task.is_done or not self.scheduler.can_write:
            call(task.is_done)
        else:
            task._when_given_back.append(call)

    def tell_if_given_back(self, is_given_back: bool) -> None:
        """Make the calls of `when_given_back`."""
        calls, self._when_given_back = self._when_given_back, []
        for call in calls:
            call(is_given_back)

    def result_taken(self) -> None:
        """Forget the result: the waiter has it, and looks after it from now on."""
        self._result = _NOTHING

    def caller_returned(self, waiter: Waiter, value: Any, error: Exception | None) -> None:
        """Go on with what the function of a CallInCaller returned or raised."""
        assert self.state is TaskState.WAITING, self.state
        self._waiter = waiter
        self._stop_waiting()
        self.resume(value, error)

    def request_timed_out(self, error: KeeperError) -> None:
        """Tell the waiter that a request has no reply in time. The flow waits on for the outcome.

        It must: somebody has to clean up what the request did, or will do. A flow in the background
        has no hurry.
        """
        waiter = self._waiter
        if waiter is None or isinstance(waiter, _NoWaiter):
            self.tell_if_given_back(False)
        else:
            self.cancel()
            waiter.fail(error)

    def put_outcome(self, place: int, outcome: Any) -> None:
        """For tokens: take the result or the error of a request; go on when it is the last."""
        self._outcomes[place] = outcome
        self._outcomes_missing -= 1
        if self._outcomes_missing:
            return
        if self._is_gather:
            self.resume(self._outcomes, None)
        elif isinstance(outcome, KeeperError):
            self.resume(None, outcome)
        else:
            self.resume(outcome, None)

    def throw(self, error: Exception) -> None:
        """Raise `error` where the flow waits."""
        self._stop_waiting()
        self.resume(None, error)

    def resume(self, value: Any, error: Exception | None) -> None:
        """Run on, from a step that has this result or raises this error, to the next that waits."""
        scheduler = self.scheduler
        while True:
            try:
                step = self._flow.send(value) if error is None else self._flow.throw(error)
            except StopIteration as end:
                self._finish(end.value, None)
                return
            except Exception as raised:
                self._finish(_NOTHING, raised)
                return
            value = error = None
            match step:
                case Now():
                    value = scheduler.host.now()
                case CallUser():
                    scheduler.host.call_user(step.callback, *step.arguments)
                case Spawn():
                    value = scheduler.start(step.flow)
                case Timeout():
                    self._set_timeout(step)
                case Wait():
                    error = self._deliver_cancel() or scheduler.end_error
                    if error is None:
                        if not any(event.is_set() for event in step.events):
                            self._begin_wait(step)
                            return
                        value = True
                case CallInCaller():
                    error = self._deliver_cancel()
                    if error is None:
                        self._call_in_caller(step)
                        return
                case Gather(requests=[]):
                    value = []
                case Gather():
                    self._send(step.requests, step.to_result, is_gather=True)
                    return
                case MappedRequest():
                    self._send([step.request], step.to_result)
                    return
                case _:
                    self._send([step], result_of)
                    return

    def _send(
        self,
        requests: list[NewRequest],
        to_result: Callable[[SuccessReply], Any],
        *,
        is_gather: bool = False,
    ) -> None:
        self._is_gather = is_gather
        self._outcomes = [None] * len(requests)
        self._outcomes_missing = len(requests)
        for place, request in enumerate(requests):
            token = self._token_type(self, place, request, to_result)
            self.scheduler.host.submit(request, token)

    def _deliver_cancel(self) -> Exception | None:
        if self.state is not TaskState.CANCELLED:
            return None
        self.state = TaskState.CLEANING_UP
        return Cancelled()

    def _begin_wait(self, wait: Wait) -> None:
        if self.state is TaskState.RUNNING:
            self.state = TaskState.WAITING
        self._wait = wait
        self.scheduler.add_waiting(self)
        for event in wait.events:
            event.on_set(self._on_event)
        if wait.deadline is not None:
            self._cancel_deadline = self.scheduler.host.call_at(wait.deadline, self._on_deadline)
        if self._timeout is not None and self._timeout.timeout_ms == 0:
            self._on_timeout()

    def _stop_waiting(self) -> None:
        if self.state is TaskState.WAITING:
            self.state = TaskState.RUNNING
        wait, self._wait = self._wait, None
        cancel, self._cancel_deadline = self._cancel_deadline, None
        self.scheduler.remove_waiting(self)
        if cancel is not None:
            cancel()
        if wait is not None:
            for event in wait.events:
                event.on_set(None)

    def _call_in_caller(self, call: CallInCaller) -> None:
        # No event and no end of the session wakes it, but the caller, or its giving up.
        self.state = TaskState.WAITING
        self._clear_timeout()
        waiter, self._waiter = self._waiter, None
        assert waiter is not None, "a flow that cleans up has no caller"
        waiter.succeed(call)

    def _on_event(self) -> None:
        self._stop_waiting()
        self.resume(True, None)

    def _on_deadline(self) -> None:
        if self._wait is not None:
            self._cancel_deadline = None
            self._stop_waiting()
            self.resume(False, None)

    def _set_timeout(self, timeout: Timeout) -> None:
        self._clear_timeout()
        if timeout.timeout_ms is None or self.state is not TaskState.RUNNING:
            return
        self._timeout = timeout
        if timeout.timeout_ms:
            host = self.scheduler.host
            at = Millis(host.now() + timeout.timeout_ms)
            self._cancel_timeout = host.call_at(at, self._on_timeout)

    def _clear_timeout(self) -> None:
        cancel, self._cancel_timeout = self._cancel_timeout, None
        self._timeout = None
        if cancel is not None:
            cancel()

    def _on_timeout(self) -> None:
        timeout, waiter = self._timeout, self._waiter
        self._cancel_timeout = None
        if timeout is None or self.is_done:
            return
        if timeout.only_while_waiting and self.state is not TaskState.WAITING:
            # As soon as it has to wait again.
            self._timeout = replace(timeout, timeout_ms=Millis(0))
            return
        self.cancel()
        if waiter is not None:
            self._timed_out_waiter = waiter
            self.when_given_back(partial(self._tell_timeout, timeout.message))

    def _tell_timeout(self, message: str, is_given_back: bool) -> None:
        waiter, self._timed_out_waiter = self._timed_out_waiter, None
        if waiter is not None:
            later = "; what it made is given back as soon as a server answers"
            waiter.fail(WaitTimeoutError(message if is_given_back else message + later))

    def _finish(self, result: Any, error: Exception | None) -> None:
        self._clear_timeout()
        is_wanted = self.state is TaskState.RUNNING
        self.state = TaskState.FINISHED if is_wanted else TaskState.UNDONE
        self._result = result
        waiter = self._waiter
        if error is None:
            if waiter is None:
                self._release_result()
            else:
                waiter.succeed(result)
        elif waiter is not None:
            waiter.fail(error)
        elif not isinstance(error, Cancelled | RayKeeperError):
            self.scheduler.host.report(error)
        self.scheduler.remove_cleanup(self)
        self.done.set()
        if self._release is None or self._release.is_done:
            self.tell_if_given_back(True)
        else:
            self._release._when_given_back += self._when_given_back

    def _release_result(self) -> None:
        result, self._result = self._result, _NOTHING
        if isinstance(result, Releasable):
            self._release = self.scheduler.release_result(result)


class _Token:
    """The token of one request of a task: the client core gives it the outcome."""

    __slots__ = ("_place", "_task", "_to_result", "request")

    def __init__(
        self,
        task: Task,
        place: int,
        request: NewRequest,
        to_result: Callable[[SuccessReply], Any],
    ) -> None:
        self.request = request
        self._task = task
        self._place = place
        self._to_result = to_result

    def complete(self, reply: SuccessReply) -> None:
        outcome: Any
        try:
            outcome = self._to_result(reply)
        except KeeperError as error:
            outcome = error
        self._task.put_outcome(self._place, outcome)

    def fail(self, error: KeeperError) -> None:
        task = self._task
        if not task.scheduler.resubmit_later(task, self, error):
            task.put_outcome(self._place, error)


class _OutcomeToken(_Token):
    """One whose request has an outcome, however late it comes."""

    __slots__ = ()

    def late(self, error: KeeperError) -> None:
        self._task.request_timed_out(error)
