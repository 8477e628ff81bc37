"""The base of followed data: the newest state, and a callback for each change.

The newest state can be read as soon as it has arrived, also inside a callback about an older state.
Callbacks come in order with all other callbacks of the client, each with the state after and before
the change. The invariant of this file: a state is reported once, a bad state never replaces a good
one, and the last known state stays when no newer one can be known: because the link is lost, the
session is over, or the znode is deleted or holds an invalid value.

Curator: `NodeCache`, `CuratorCache`.
"""

import inspect
import logging
import threading
from collections import deque
from collections.abc import Awaitable, Callable, Iterable
from functools import partial
from typing import Any, Generic, TypeVar

from raykeeper.client.call_forms import check_callbacks
from raykeeper.client.core.flows import CallUser, Flow
from raykeeper.client.errors import KeeperError, RayKeeperError
from raykeeper.client.recipes.recipe import ClosableRecipe, FlowRunner, K, operation

log = logging.getLogger("raykeeper.client")

V = TypeVar("V")
OnChange = Callable[[V | None, V | None], object]
"""Called with the state after and before a change; None for no state."""
OnError = Callable[[Exception], object]
"""Called with the errors of the followed data, and with those that `on_change` raises."""


def call_guarded(
    callback: Callable[..., object], arguments: tuple[Any, ...], on_error: OnError | None
) -> object:
    """Call a callback; pass an error that it raises, now or when it is awaited, to `on_error`.

    Without `on_error` the error goes to the client's log, as does an error of `on_error` itself.
    """
    if on_error is None:
        return callback(*arguments)
    try:
        returned = callback(*arguments)
    except Exception as error:
        return on_error(error)
    return _await_guarded(returned, on_error) if inspect.isawaitable(returned) else returned


async def _await_guarded(returned: Awaitable[object], on_error: OnError) -> None:
    try:
        await returned
    except Exception as error:
        handled = on_error(error)
        if inspect.isawaitable(handled):
            await handled


def log_failure(error: Exception) -> None:
    """Log an error. This is the default `on_error`."""
    log.error("a follower failed: %s: %s", type(error).__name__, error)


class FollowingRecipe(ClosableRecipe[K]):
    """A recipe that follows data until it is closed; the end of a `with` block closes it."""

    @operation
    def close(self) -> Flow[None]:
        """Stop following; no callback begins afterwards. The last known state stays readable."""
        yield from self._release()


class Live(FollowingRecipe[K], Generic[K, V]):
    """A state that is followed until this is closed; the end of a `with` block closes it."""

    _instead = "pass the path on, and follow it there"

    def __init__(
        self,
        client: FlowRunner,
        paths: Iterable[str],
        parse: Callable[[Any], V],
        end: Callable[[], Flow[None]],
        on_change: OnChange[Any] | None,
        on_error: OnError | None,
    ) -> None:
        """Use the recipe. `parse` may raise RecipeError; it runs outside of flows."""
        super().__init__(client)
        check_callbacks(client, on_change=on_change, on_error=on_error)
        self._paths = tuple(paths)
        self._parse = parse
        self._end = end
        self._on_change = on_change
        self._on_error = on_error
        self._lock = threading.RLock()
        self._arrived: deque[Any] = deque()
        self._callbacks: deque[Callable[[], object]] = deque()
        self._newest: V | None = None
        self._last_state: V | None = None
        self._is_missing = True
        self._error: Exception | None = None
        self._is_closed = False
        self._has_failed = False

    def _repr_parts(self) -> tuple[str, ...]:
        is_missing = self.is_missing
        if self._is_closed:
            state = "closed"
        elif not self.is_current:
            state = "not current any more"
        else:
            state = "missing" if is_missing else f"at version {self._shown_version()}"
        error = "" if self._error is None else f"last error: {self._error}"
        return (*self._paths, state, error)

    def _shown_version(self) -> object:
        """Return the version of the newest state, for `repr`."""
        return getattr(self._newest, "version", None)

    @property
    def newest(self) -> V | None:
        """The last good state; None if there never was one."""
        self._process_arrived()
        return self._newest

    @property
    def is_missing(self) -> bool:
        """Whether the znode does not exist, as far as is known."""
        self._process_arrived()
        return self._is_missing

    @property
    def last_error(self) -> Exception | None:
        """The error of the last state that arrived; None if it is good or there is none."""
        self._process_arrived()
        return self._error

    @property
    def is_closed(self) -> bool:
        """Whether this was closed: no callback begins any more."""
        return self._is_closed

    @property
    def is_current(self) -> bool:
        """Whether the state is still followed: this was not closed and has not failed, and the
        session is not over. Without a connection it may still be behind, see the client's state."""
        return not self._is_closed and not self._has_failed and not self._client._is_lost()

    def _release(self) -> Flow[None]:
        """See `ClosableRecipe`."""
        self._is_closed = True
        yield from self._end()

    def _on_state(self, state: Any) -> Flow[None]:
        """Accept the next state: None for no state, or an exception."""
        self._arrived.append(state)
        yield CallUser(self._call_next)

    def _on_failure(self, error: KeeperError) -> Flow[None]:
        """Stop after an error. The end of the session calls no callback here: the client tells its
        listeners about it."""
        self._has_failed = True
        if not self._client._is_lost():
            yield from self._on_state(error)

    def _call_next(self) -> object:
        self._process_arrived()
        callback = self._callbacks.popleft()
        return None if self._is_closed else callback()

    def _process_arrived(self) -> None:
        """Turn all states that have arrived into callbacks."""
        with self._lock:
            while self._arrived:
                self._callbacks.append(self._accept(self._arrived.popleft()))

    def _accept(self, state: Any) -> Callable[[], object]:
        try:
            if isinstance(state, Exception):
                raise state
            made = None if state is None else self._parse(state)
        except RayKeeperError as error:
            self._error = error
            return partial(self._on_error or log_failure, error)
        before, self._last_state = self._last_state, made
        self._is_missing = made is None
        self._error = None
        if made is not None:
            self._newest = made
        if self._on_change is None or (before is None and made is None):
            return _nothing
        states = (self._shown(made), self._shown(before))
        return partial(call_guarded, self._on_change, states, self._on_error)

    def _shown(self, state: V | None) -> Any:
        """Return a state in the form that callbacks get."""
        return state


def _nothing() -> None:
    """Stand in for a callback where there is nothing to report."""
