"""Recipes that run in the background from `start` to `close`: a latch, an observation, a cache.

    with client.leader_latch("/jobs/leader") as latch:      # start() and close()
        ...

The invariant of this file: after `close` has returned nothing goes on and no callback begins. The
end of the session ends it in the same way. An error that ends it is raised in all that wait for it.

Curator: the recipes with `start` and `close`, each of which has its own executor.
"""

from collections.abc import Callable
from typing import Any, TypeVar

from raykeeper.client.call_forms import check_callbacks
from raykeeper.client.core.flows import (
    CallUser,
    Cancelled,
    Event,
    Flow,
    Spawn,
    Wait,
    with_cleanup,
)
from raykeeper.client.core.scheduler import Task
from raykeeper.client.errors import ClosedError, KeeperError, RayKeeperError, RecipeError
from raykeeper.client.recipes.primitives import timeout_after
from raykeeper.client.recipes.recipe import (
    ClosableRecipe,
    FlowRunner,
    K,
    PortableRecipe,
    operation,
)

T = TypeVar("T")


class Condition:
    """Like an event that many may wait for. It wakes those who wait, and is not set afterwards."""

    def __init__(self) -> None:
        self._events: list[Event] = []

    def notify_all(self) -> None:
        """Wake all that wait."""
        events, self._events = self._events, []
        for event in events:
            event.set()

    def wait(self) -> Flow[None]:
        """Wait until it is notified next.

        Raises:
            KeeperError: the session is over.
        """
        event = Event()
        self._events.append(event)
        try:
            yield Wait((event,))
        except (Cancelled, KeeperError):
            if event in self._events:
                self._events.remove(event)
            raise


class FlowMutex:
    """Has flows of one object wait for each other."""

    def __init__(self) -> None:
        self._is_held = False
        self._released = Condition()

    def wait(self) -> Flow[None]:
        """Wait until no flow holds it.

        Raises:
            KeeperError: the session is over.
        """
        while self._is_held:
            yield from self._released.wait()

    def hold(self, flow: Flow[T]) -> Flow[T]:
        """Hold it while `flow` runs, its clean-up included."""

        def release(_: bool) -> Flow[None]:
            yield from ()
            self._is_held = False
            self._released.notify_all()

        self._is_held = True
        return (yield from with_cleanup(flow, release))


class BackgroundRecipe(ClosableRecipe[K]):
    """A recipe with one flow in the background. It is started once; a `with` block closes it."""

    def __init__(self, client: FlowRunner, what: str) -> None:
        """`what` names it in errors."""
        super().__init__(client)
        self._what = what
        """The name of the recipe in errors."""
        self._changed = Condition()
        """Notified when there is news for those that wait."""
        self._task: Task | None = None
        self._is_closed = False
        self._is_over = False
        self._failure: Exception | None = None

    def _repr_parts(self) -> tuple[str, ...]:
        return self._what, self._life()

    def _life(self) -> str:
        """Return the state, for `repr`."""
        if self._failure is not None:
            return f"failed: {self._failure}"
        if self._is_closed:
            return "closed"
        if self._task is None:
            return "not started"
        return "over" if self._is_over or self._client._is_lost() else self._activity()

    def _activity(self) -> str:
        """Return what it does now, for `repr`."""
        return "running"

    @property
    def is_closed(self) -> bool:
        """Whether it was closed, or is being closed."""
        return self._is_closed

    @property
    def _was_started(self) -> bool:
        """Whether it was started, whatever has become of it."""
        return self._task is not None

    @property
    def is_over(self) -> bool:
        """Whether it was started and has ended, for whatever reason."""
        return self._is_over

    @operation
    def close(self, timeout_s: float | None = None) -> Flow[None]:
        """Give everything back and end. Calling it again does nothing. So does the session's end.

        Raises:
            WaitTimeoutError: it has not ended yet, and goes on with that in the background.
        """
        yield timeout_after(timeout_s, f"{self._what} is not closed yet")
        yield from self._close()

    def _work(self) -> Flow[None]:
        """Do the work of the background. `close` raises Cancelled in it, where it cleans up."""
        raise NotImplementedError

    def _start(self) -> Flow[None]:
        """`start` as a part of another flow.

        Raises:
            RecipeError: it was started before.
            ClosedError: it, or its client, was closed.
            SessionExpiredError: the session is over.
        """
        self._check_open()
        if self._task is not None:
            raise RecipeError(f"{self._what} was started before; make another one")
        if self._client._is_lost():
            yield Wait((Event(),))  # which raises why
        self._task = yield Spawn(self._run_work())

    def _start_until(self, predicate: Callable[[], object]) -> Flow[None]:
        """Start it, and wait until `predicate` is true. It has ended if that is cancelled.

        Raises:
            KeeperError: it failed.
        """
        yield from self._start()
        try:
            yield from self._wait_until(predicate)
        except (Cancelled, RayKeeperError):
            yield from self._release()
            if self._task is not None and not self._task.is_done:
                yield Wait((self._task.done,))
            raise

    def _close(self) -> Flow[None]:
        """See `ClosableRecipe`."""
        yield from self._release()
        try:
            while self._task is not None and not self._is_over:
                yield from self._changed.wait()
        except KeeperError:
            return  # everything ended with the session

    def _release(self) -> Flow[None]:
        """See `ClosableRecipe`."""
        yield from ()
        if not self._is_closed:
            self._is_closed = True
            if self._task is not None:
                self._task.cancel()
            self._changed.notify_all()

    def _call_user(self, callback: Callable[..., object], *arguments: Any) -> Flow[None]:
        """Have a callback called, unless the recipe is closed by then."""
        yield CallUser(self._call_unless_closed, (callback, arguments))

    def _call_unless_closed(
        self, callback: Callable[..., object], arguments: tuple[Any, ...]
    ) -> object:
        return None if self._is_closed else callback(*arguments)

    def _wait_until(self, predicate: Callable[[], object]) -> Flow[None]:
        """Wait until `predicate` is true; look again at each notification.

        Raises:
            RecipeError: it is not started.
            ClosedError: it, or its client, is closed.
            KeeperError: it failed, or the session is over.
        """
        while not predicate():
            if self._failure is not None:
                raise self._failure
            self._check_open()
            if self._task is None:
                raise RecipeError(f"{self._what} is not started")
            yield from self._changed.wait()

    def _check_open(self) -> None:
        if self._is_closed:
            raise ClosedError("", f"{self._what} was closed")

    def _run_work(self) -> Flow[None]:
        try:
            yield from self._work()
        except Cancelled:
            pass
        except Exception as error:  # whatever it is, those that wait or close must be told
            self._failure = error
        self._is_over = True
        self._changed.notify_all()
        if self._failure is not None and not self._client._is_lost():
            raise self._failure  # to be reported: perhaps nobody waits


class Report(BackgroundRecipe[K]):
    """Calls a callback with the present state of a znode and with each later one, until closed."""

    _instead = "pass the path on, and watch it there"

    def __init__(
        self, client: FlowRunner, what: str, path: str, callback: Callable[[Any], object]
    ) -> None:
        super().__init__(client, what)
        check_callbacks(client, callback=callback)
        self._path = path
        self._callback = callback
        self._has_reported = False

    def _open(self) -> Flow[None]:
        """Start it, and wait until it has reported the present state."""
        yield from self._start_until(lambda: self._has_reported)

    def _report(self, state: Any) -> Flow[None]:
        yield from self._call_user(self._callback, state)
        self._has_reported = True
        self._changed.notify_all()


class Startable(PortableRecipe[K], BackgroundRecipe[K]):
    """A background recipe that `start` starts, or the beginning of a `with` block."""

    path: str

    def _repr_parts(self) -> tuple[str, ...]:
        return self.path, self._life()

    def _stays(self) -> str:
        """See `PortableRecipe`."""
        if self._is_closed:
            return f"{self._what} was closed"
        return f"{self._what} was started in this process" if self._was_started else ""

    @operation
    def start(self) -> Flow[None]:
        """Start it. All requests are made in the background.

        Raises:
            RecipeError: it was started before.
            ClosedError: it, or its client, was closed.
            KeeperError: the session is over.
        """
        yield from self._start()

    def _begin_block(self) -> Flow[Any]:
        """See `BlockRecipe`."""
        yield from self._start()
        return self
