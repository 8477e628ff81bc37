"""Operations that take their time: recipes as generators, and what runs them.

A flow is a generator that yields steps and is sent their results. It knows no thread, no loop and
no clock of its own, so the blocking client, the one to await and the simulator run the same code.

    Ask, Request        one request; its result, or its error is raised at the `yield`
    Together            several requests at once; their results or errors, in order
    Wait                until a bell rings or a time comes; whether a bell has rung
    Now                 the client's time
    GiveUpAfter         the bound of what the caller waits for, from now on
    Fork                another flow beside this one; its Run
    Tell                a call of the user's, in order with the client's other callbacks

Rules of this file:

-   A flow is left only while it waits. Whoever asked may give up at any time, by a timeout, a
    cancelled task or an interrupt; `Abandoned` is then raised at the flow's next `Wait`, never at
    a request, because what is under way has an outcome that somebody must clean up. A flow that
    returns before it comes to a Wait has its result undone (`Releasable`).
-   So a flow cleans up in `except (Abandoned, RayKeeperError)`, by requests and without waiting.
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

from raykeeper.client.core.effects import Answer
from raykeeper.client.core.outstanding import Ask
from raykeeper.client.core.results import result_of
from raykeeper.client.core.watched_event import WatchedEvent
from raykeeper.client.errors import KeeperError, RayKeeperError, WaitTimeoutError
from raykeeper.client.flow_tokens import AnswerToken, Batch
from raykeeper.zab.ids import Millis
from raykeeper.znodes.errors import NotReadOnlyError

T = TypeVar("T")


class Bell:
    """What a flow waits for. It is rung by a watch (it is the watcher), or by another flow."""

    __slots__ = ("_events", "_is_rung", "_run")

    def __init__(self) -> None:
        self._is_rung = False
        self._events: list[WatchedEvent] = []
        self._run: Run | None = None  # who waits

    @property
    def is_rung(self) -> bool:
        """Whether it has rung since it was silenced last."""
        return self._is_rung

    def ring(self, event: WatchedEvent | None = None) -> None:
        """End the wait for it, or the next one."""
        self._is_rung = True
        if event is not None:
            self._events.append(event)
        run, self._run = self._run, None
        if run is not None:
            run.rung()

    def take(self) -> list[WatchedEvent]:
        """The events that rang it, the oldest first, once. It is silent again."""
        self._is_rung = False
        events, self._events = self._events, []
        return events

    def attach(self, run: "Run | None") -> None:
        """For `Run`: who is to be woken, None for nobody."""
        self._run = run


class Request(Struct, frozen=True):
    """One request, whose result is what `shape` makes of the answer."""

    ask: Ask
    shape: Callable[[Answer], Any] = result_of


class Together(Struct, frozen=True):
    """Requests that are sent at once, in this order. The result: of each its result or error."""

    asks: list[Ask]
    shape: Callable[[Answer], Any] = result_of


class Wait(Struct, frozen=True):
    """Until one of the bells rings, or `until` has come. The result: whether a bell has rung."""

    bells: tuple[Bell, ...] = ()
    until: Millis | None = None


class Now(Struct, frozen=True):
    """The result: the client's time, monotonic."""


class GiveUpAfter(Struct, frozen=True):
    """Give up when this much has passed from now; None for never.

    The caller is told WaitTimeoutError then, even if a request has no answer yet. With 0 it is told
    as soon as the flow would have to wait.
    """

    timeout_ms: Millis | None
    awaited: str = ""
    """What did not come about, for the error."""
    has_patience: bool = False
    """Give up while the flow waits only, not during a request: for what cannot be undone."""


class Fork(Struct, frozen=True):
    """Run `flow` beside this one. The result: its `Run`."""

    flow: "Flow[Any]"


class Tell(Struct, frozen=True):
    """Have `callback` called with `arguments`; nobody waits for it."""

    callback: Callable[..., object]
    arguments: tuple[Any, ...] = ()


Step = Ask | Request | Together | Wait | Now | GiveUpAfter | Fork | Tell
Flow = Generator[Step, Any, T]


class Abandoned(Exception):
    """Raised in a flow at a Wait: whoever asked has given up. Clean up, and let it pass."""


@runtime_checkable
class Releasable(Protocol):
    """A result that somebody has to take, or it must be undone."""

    def _release(self) -> Flow[Any]:
        """What gives it back."""


class Owner(Protocol):
    """Who waits for the outcome of a flow; told once, unless it gave up."""

    def succeed(self, value: Any) -> None:
        """The flow returned."""

    def fail(self, error: Exception) -> None:
        """The flow raised."""


class Host(Protocol):
    """What a client, or the simulator, does for its flows."""

    def submit(self, ask: Ask, token: Any) -> None:
        """Submit a request; `token.complete` or `token.fail` is called, never from in here.

        And `token.late` before, if there is no answer in time.
        """

    def now(self) -> Millis:
        """The client's time."""

    def later(self, at: Millis, wake: Callable[[], None]) -> Callable[[], None]:
        """Call `wake` at that time; what is returned prevents it."""

    def tell(self, callback: Callable[..., object], *arguments: Any) -> None:
        """Have a callback of the user called, in order with the others."""

    def report(self, error: Exception) -> None:
        """A flow for which nobody waits failed."""


class _Background:
    """The owner of a flow for which nobody waits."""

    def __init__(self, flows: "Flows") -> None:
        self._flows = flows

    def succeed(self, value: Any) -> None:
        pass

    def fail(self, error: Exception) -> None:
        if not self._flows.has_ended and not isinstance(error, Abandoned):
            self._flows.host.report(error)


class Flows:
    """The flows of one session. Everything here is called under the lock of its driver."""

    def __init__(self, host: Host) -> None:
        self.host = host
        self._end: KeeperError | None = None
        self._waiting: dict[Run, None] = {}
        self._leaving: dict[Run, None] = {}
        self._takes_writes = False
        self._refused: list[tuple[Ask, Any]] = []
        self._when_left: list[Callable[[], object]] = []

    @property
    def has_ended(self) -> bool:
        """Whether the session is over."""
        return self._end is not None

    @property
    def end_error(self) -> KeeperError | None:
        """Why the session is over, None while it is not."""
        return self._end

    def start(self, flow: Flow[Any], owner: Owner | None = None) -> "Run":
        """Run `flow` up to its first request or wait, and on as these end."""
        run = Run(self, flow, owner or _Background(self))
        try:
            run.go_on(None, None)
        except BaseException:
            run.abandon()  # Ctrl-C, most likely; nobody knows of the run
            if getattr(flow, "gi_frame", None) is None:
                self.remove_leaving(run)  # it struck inside of the flow
            raise
        return run

    def undo(self, result: Releasable) -> None:
        """Give back what nobody takes."""
        run = Run(self, result._release(), _Background(self))
        self._leaving[run] = None
        run.go_on(None, None)

    @property
    def is_leaving(self) -> bool:
        """Whether there is something that nobody waits for any more, and that is not given back."""
        return bool(self._leaving)

    def when_left(self, call: Callable[[], object]) -> None:
        """Call `call` as soon as everything is given back that nobody waits for any more."""
        if self._leaving:
            self._when_left.append(call)
        else:
            call()

    def add_leaving(self, run: "Run") -> None:
        """For `Run`: nobody waits for it any more."""
        self._leaving[run] = None

    def remove_leaving(self, run: "Run") -> None:
        """For `Run`: it has ended."""
        if run not in self._leaving:
            return
        del self._leaving[run]
        if not self._leaving:
            calls, self._when_left = self._when_left, []
            for call in calls:
                call()

    def ended(self, cause: KeeperError) -> None:
        """The session is over: nobody waits any more."""
        self._end = cause
        self._ask_again()
        for run in list(self._waiting):
            if run in self._waiting:  # one that was interrupted may have rung the bell of another
                run.interrupt(cause)

    def connected(self, *, read_only: bool) -> None:
        """There is a server; if it has a leader, what one without refused is given back."""
        self._takes_writes = not read_only
        if self._takes_writes:
            self._ask_again()

    def add_refused(self, ask: Ask, token: Any) -> None:
        """For `Run`: a request that is to be made again then."""
        self._refused.append((ask, token))
        if self._takes_writes:  # it was refused before, and is told so in its turn
            self._ask_again()

    def _ask_again(self) -> None:
        refused, self._refused = self._refused, []
        for ask, token in refused:
            self.host.submit(ask, token)

    def add_waiting(self, run: "Run") -> None:
        """For `Run`: it came to a Wait."""
        self._waiting[run] = None

    def remove_waiting(self, run: "Run") -> None:
        """For `Run`: it goes on."""
        self._waiting.pop(run, None)


_UNKNOWN: Final = object()


class Run:
    """One flow under way."""

    def __init__(self, flows: Flows, flow: Flow[Any], owner: Owner) -> None:
        self._flows = flows
        self._flow = flow
        self._owner: Owner | None = owner
        self._is_abandoned = False
        self._is_told = False  # the flow knows that it is abandoned
        self._wait: Wait | None = None
        self._disarm: Callable[[], None] | None = None  # of the wait's end
        self._cancel_limit: Callable[[], None] | None = None
        self._limit: GiveUpAfter | None = None
        self._value: Any = _UNKNOWN
        self.is_done = False
        self.done = Bell()
        """Rings when the flow has ended."""

    def abandon(self) -> None:
        """Nobody waits for the outcome any more. What it is, or will be, is undone."""
        if self.is_done:
            value, self._value = self._value, _UNKNOWN
            self._undo(value)
            return
        self._owner = None
        if self._is_abandoned:
            return
        self._is_abandoned = True
        self._flows.add_leaving(self)
        self._lift_limit()
        if self._wait is not None:
            self._is_told = True
            self.interrupt(Abandoned())

    def taken(self) -> None:
        """Whoever waited has the result, and looks after it from now on."""
        self._value = _UNKNOWN

    def late(self, error: KeeperError) -> None:
        """A request has no answer in time: who waits is told. The flow waits on for the answer.

        It must: what the request did, or will do, somebody has to clean up. What runs in the
        background has no hurry.
        """
        owner = self._owner
        if owner is not None and not isinstance(owner, _Background):
            self.abandon()
            owner.fail(error)

    def asks_again(self, ask: Ask, token: Any, error: KeeperError) -> bool:
        """For tokens: whether a write that was refused for now is to be repeated later.

        Who gives something back has nobody to tell, and else it would stay for as long as the
        session lives: a server without a leader takes no writes (`read_only`).
        """
        flows = self._flows
        if not isinstance(error, NotReadOnlyError) or self not in flows._leaving or flows._end:
            return False
        flows.add_refused(ask, token)
        return True

    def interrupt(self, error: Exception) -> None:
        """Raise `error` where the flow waits."""
        assert self._wait is not None
        self._stop_waiting()
        self.go_on(None, error)

    def rung(self) -> None:
        """A bell for which it waits has rung."""
        self._stop_waiting()
        self.go_on(True, None)

    def go_on(self, value: Any, error: Exception | None) -> None:
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
                    value = self._flows.host.now()
                case Tell():
                    self._flows.host.tell(step.callback, *step.arguments)
                case Fork():
                    value = self._flows.start(step.flow)
                case GiveUpAfter():
                    self._set_limit(step)
                case Wait():
                    error = self._reason_not_to_wait()
                    if error is None:
                        if not any(bell.is_rung for bell in step.bells):
                            self._begin_to_wait(step)
                            return
                        value = True
                case Request():
                    self._flows.host.submit(step.ask, AnswerToken(self, step.ask, step.shape))
                    return
                case Together():
                    if step.asks:
                        Batch(self, step).submit(self._flows.host)
                        return
                    value = []
                case _:
                    self._flows.host.submit(step, AnswerToken(self, step, result_of))
                    return

    def _reason_not_to_wait(self) -> Exception | None:
        if self._is_abandoned and not self._is_told:
            self._is_told = True
            return Abandoned()
        return self._flows.end_error

    def _begin_to_wait(self, wait: Wait) -> None:
        flows = self._flows
        self._wait = wait
        flows.add_waiting(self)
        for bell in wait.bells:
            bell.attach(self)
        if wait.until is not None:
            self._disarm = flows.host.later(wait.until, self._is_time)
        if self._limit is not None and self._limit.timeout_ms == 0:
            self._give_up()

    def _stop_waiting(self) -> None:
        wait, self._wait = self._wait, None
        disarm, self._disarm = self._disarm, None
        self._flows.remove_waiting(self)
        if disarm is not None:
            disarm()
        if wait is not None:
            for bell in wait.bells:
                bell.attach(None)

    def _is_time(self) -> None:
        if self._wait is not None:
            self._disarm = None
            self._stop_waiting()
            self.go_on(False, None)

    def _set_limit(self, limit: GiveUpAfter) -> None:
        self._lift_limit()
        if limit.timeout_ms is None or self._is_abandoned:
            return
        self._limit = limit
        if limit.timeout_ms:
            host = self._flows.host
            self._cancel_limit = host.later(Millis(host.now() + limit.timeout_ms), self._give_up)

    def _lift_limit(self) -> None:
        cancel, self._cancel_limit = self._cancel_limit, None
        self._limit = None
        if cancel is not None:
            cancel()

    def _give_up(self) -> None:
        limit, owner = self._limit, self._owner
        self._cancel_limit = None
        if limit is None or self.is_done:
            return
        if limit.has_patience and self._wait is None:
            self._limit = replace(limit, timeout_ms=Millis(0))  # as soon as it has to wait again
            return
        # The flow first: what it gives back has left before the caller asks for anything else.
        self.abandon()
        if owner is not None:
            owner.fail(WaitTimeoutError(limit.awaited))

    def _finish(self, value: Any) -> None:
        self._ended()
        if self._is_abandoned:
            self._undo(value)
        elif self._owner is not None:
            self._value = value
            self._owner.succeed(value)
        self._flows.remove_leaving(self)
        self.done.ring()

    def _fail(self, error: Exception) -> None:
        self._ended()
        if self._owner is not None:
            self._owner.fail(error)
        elif not isinstance(error, Abandoned | RayKeeperError):
            self._flows.host.report(error)
        self._flows.remove_leaving(self)
        self.done.ring()

    def _ended(self) -> None:
        self._lift_limit()
        self.is_done = True

    def _undo(self, value: Any) -> None:
        if isinstance(value, Releasable):
            self._flows.undo(value)
