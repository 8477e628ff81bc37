"""Operations that take several requests, written as generators: what they are made of.

A flow is a generator that yields steps and is sent their results. It has no thread, no event loop
and no clock of its own, so the blocking client, the async client and the simulator run the same
code, by the engine in client/core/scheduler.py. The steps:

    a NewRequest    one request; its result, or its error is raised at the `yield`
    MappedRequest   the same, with a result that the flow makes of the reply
    Gather          several requests at once; their results or errors, in order
    Wait            until an event is set or a time comes; whether an event is set
    Now             the client's time
    Timeout         the bound of what the caller waits for, from now on
    Spawn           another flow beside this one; its Task
    CallUser        a call of the user's, in order with the client's other callbacks
    CallInCaller    a call where the caller of the flow runs, and the result of the call

Rules for flows:

-   A flow is cancelled only while it waits. Its caller may give up at any time, by a timeout, a
    cancelled task or an interrupt; `Cancelled` is then raised at the flow's next `Wait`, never at
    a request, because a request under way has an outcome that somebody must clean up. A flow that
    returns before it comes to a Wait has its result released (`Releasable`).
-   So a flow cleans up in `except (Cancelled, RayKeeperError)`, or by `with_cleanup`, by requests
    and without waiting, except for a flow of its own that it has cancelled: its caller waits until
    it has ended. The first request gives back what the caller would meet if it asked again, since
    it may do so at once without a connection. Never in `finally`: a generator that is dropped
    would run it anywhere, at any time.
-   A flow calls no code of the user's, because it runs under the lock of its client, in whichever
    thread that is. CallUser and CallInCaller have such code called where nothing is locked.
-   A request of a flow has an outcome as long as the session lives, however late. The caller is
    told OperationTimeoutError meanwhile, and has given up. The operations of
    client/core/compound_operations.py are the exception: they have nothing to clean up, so a
    request that is late fails with that error.
-   No flow outlives the session: the end of the session is raised at every Wait.
-   A flow raises the KeeperError of a request that fails. A docstring names an error only if it
    says more than that.

httpx: the generators of `Auth`. kazoo and Curator write each recipe around threads and latches.
"""

from collections.abc import Callable, Generator, Iterable
from typing import Any, Protocol, TypeVar, runtime_checkable

from msgspec import Struct

from raykeeper.client.core.effects import SuccessReply
from raykeeper.client.core.outstanding import NewRequest
from raykeeper.client.core.public_types import WatchedEvent
from raykeeper.client.core.results import result_of
from raykeeper.client.errors import KeeperError, RayKeeperError
from raykeeper.zab.ids import Millis

T = TypeVar("T")


class Event:
    """Something that a flow can wait for. A watch sets it (it is the watcher), or another flow.

    As asyncio's, but only one flow may wait for it, and it keeps the watch events that set it.
    """

    __slots__ = ("_is_set", "_wake", "_watch_events")

    def __init__(self) -> None:
        self._is_set = False
        self._watch_events: list[WatchedEvent] = []
        self._wake: Callable[[], None] | None = None

    def is_set(self) -> bool:
        """Whether it was set since it was drained last."""
        return self._is_set

    def set(self, event: WatchedEvent | None = None) -> None:
        """End the wait for it, or the next one."""
        self._is_set = True
        if event is not None:
            self._watch_events.append(event)
        wake, self._wake = self._wake, None
        if wake is not None:
            wake()

    def drain(self) -> list[WatchedEvent]:
        """Return the watch events that set it, the oldest first, and clear it."""
        self._is_set = False
        events, self._watch_events = self._watch_events, []
        return events

    def on_set(self, wake: Callable[[], None] | None) -> None:
        """For the engine: call `wake` once when it is set; None for nobody."""
        self._wake = wake


class MappedRequest(Struct, frozen=True):
    """One request, whose result is what `to_result` makes of the reply.

    `to_result` may raise a KeeperError.
    """

    request: NewRequest
    to_result: Callable[[SuccessReply], Any] = result_of


class Gather(Struct, frozen=True):
    """Requests that are sent at once, in this order. The result: of each its result or error."""

    requests: list[NewRequest]
    to_result: Callable[[SuccessReply], Any] = result_of


def raise_unexpected(outcomes: Iterable[Any], *expected: type[KeeperError]) -> None:
    """Raise the first error among the outcomes of a Gather that is none of the expected ones."""
    for outcome in outcomes:
        if isinstance(outcome, KeeperError) and not isinstance(outcome, expected):
            raise outcome


class Wait(Struct, frozen=True):
    """Wait until one of the events is set or the deadline passes; whether an event is set."""

    events: tuple[Event, ...] = ()
    deadline: Millis | None = None


class Now(Struct, frozen=True):
    """The result: the client's time, monotonic."""


class Timeout(Struct, frozen=True):
    """Cancel the flow when this much has passed from now; None for never.

    The caller is told WaitTimeoutError then, even if a request has no reply yet. With 0 it is told
    as soon as the flow would have to wait.
    """

    timeout_ms: Millis | None
    message: str = ""
    """The unmet expectation, for the error."""
    only_while_waiting: bool = False
    """Cancel while the flow waits only, not during a request: for what cannot be undone."""


class Spawn(Struct, frozen=True):
    """Run `flow` beside this one. The result: its `Task`."""

    flow: "Flow[Any]"


class CallUser(Struct, frozen=True):
    """Have `callback` called with `arguments`; nobody waits for it."""

    callback: Callable[..., object]
    arguments: tuple[Any, ...] = ()


class CallInCaller(Struct, frozen=True):
    """Have `function` called in the thread, or task, of the flow's caller. The result: its result.

    An error of the function is raised at the `yield`. It ends the bound of a `Timeout`. Not for a
    flow in the background, which has no caller.
    """

    function: Callable[..., Any]
    arguments: tuple[Any, ...] = ()

    def call(self) -> tuple[Any, Exception | None]:
        """For the caller: what the function returns, or what it raises."""
        try:
            return self.function(*self.arguments), None
        except Exception as error:
            return None, error


Step = NewRequest | MappedRequest | Gather | Wait | Now | Timeout | Spawn | CallUser | CallInCaller
Flow = Generator[Step, Any, T]


class Cancelled(Exception):
    """Raised in a flow at a Wait: its caller has given up. Clean up, and let it pass."""


def with_cleanup(body: Flow[T], cleanup: Callable[[bool], Flow[object]]) -> Flow[T]:
    """Run `body`, then `cleanup`, which is told whether `body` has failed or was cancelled."""
    try:
        result = yield from body
    except (Cancelled, RayKeeperError):
        yield from cleanup(True)
        raise
    yield from cleanup(False)
    return result


@runtime_checkable
class Releasable(Protocol):
    """A result that somebody has to take, or it must be released."""

    def _release(self) -> Flow[Any]:
        """Return the flow that gives it back."""
