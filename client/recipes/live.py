"""What is followed: its newest state, and a callback for each change.

The newest state is there as soon as it has arrived, also inside a callback that is about an older
one; callbacks come in order with all others of the client, each with the state after and before.
The invariant of this file: a state is told once, a bad one never takes the place of a good one, and
what was known last stays known when nothing newer can be: the link is lost, the session is over,
the znode is deleted or holds something invalid.

Curator: `NodeCache`, `CuratorCache`.
"""

import inspect
import logging
import threading
from collections import deque
from collections.abc import Awaitable, Callable
from functools import partial
from types import TracebackType
from typing import Any, Generic, Self, TypeVar

from raykeeper.client.core.flows import CallUser, Flow
from raykeeper.client.errors import KeeperError, RayKeeperError
from raykeeper.client.recipes.recipe import Awaited, Blocking, FlowRunner, K, Recipe, operation

log = logging.getLogger("raykeeper.client")

V = TypeVar("V")
OnChange = Callable[[V | None, V | None], object]
"""Called with the state after and before; None for none."""
OnError = Callable[[Exception], object]
"""Called with what is wrong with what is followed, and with what `on_change` raises."""


def call_guarded(
    callback: Callable[..., object], arguments: tuple[Any, ...], on_error: OnError | None
) -> object:
    """Call a callback; give what it raises, now or when it is awaited, to `on_error`.

    Without `on_error`, and what that raises itself, is for the client's log.
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
    """What happens to an error for which nobody has given an `on_error`."""
    log.error("what is followed: %s: %s", type(error).__name__, error)


class ClosableRecipe(Recipe[K]):
    """Something that is followed until it is closed; the end of a `with` block closes it."""

    @operation
    def close(self) -> Flow[None]:
        """Follow it no more; no callback begins afterwards. What was known stays readable."""
        yield from self._release()

    def _release(self) -> Flow[None]:
        """`close` as a part of another flow, or for whom nobody waited."""
        raise NotImplementedError

    def __exit__(
        self: "ClosableRecipe[Blocking]",
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self.close()

    async def __aexit__(
        self: "ClosableRecipe[Awaited]",
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        await self.close()


class Live(ClosableRecipe[K], Generic[K, V]):
    """Something that is followed until it is closed; a `with` block closes it."""

    def __init__(
        self,
        client: FlowRunner,
        parse: Callable[[Any], V],
        end: Callable[[], Flow[None]],
        on_change: OnChange[Any] | None,
        on_error: OnError | None,
    ) -> None:
        """Use the recipe. `parse` may raise RecipeError; it runs outside of flows."""
        super().__init__(client)
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

    @property
    def newest(self) -> V | None:
        """The last good state; None if there never was one."""
        self._process_arrived()
        return self._newest

    @property
    def is_missing(self) -> bool:
        """Whether there is no such znode, as far as is known."""
        self._process_arrived()
        return self._is_missing

    @property
    def last_error(self) -> Exception | None:
        """What is wrong with what came last; None if it is good, or if there is none."""
        self._process_arrived()
        return self._error

    @property
    def is_closed(self) -> bool:
        """Whether nothing will be told any more."""
        return self._is_closed

    @property
    def is_current(self) -> bool:
        """Whether it is followed still: it is not closed, has not failed, nor is the session over.
        While there is no connection it may be behind all the same, see the client's state."""
        return not self._is_closed and not self._has_failed and not self._client._is_lost()

    def _release(self) -> Flow[None]:
        """See `ClosableRecipe`."""
        self._is_closed = True
        yield from self._end()

    def _on_state(self, state: Any) -> Flow[None]:
        """The next state, None for that there is none, or what went wrong."""
        self._arrived.append(state)
        yield CallUser(self._call_next)

    def _on_failure(self, error: KeeperError) -> Flow[None]:
        """It can be followed no more. The end of the session is told to nobody here:
        listeners of the client are told that."""
        self._has_failed = True
        if not self._client._is_lost():
            yield from self._on_state(error)

    def _call_next(self) -> object:
        self._process_arrived()
        told = self._callbacks.popleft()
        return None if self._is_closed else told()

    def _process_arrived(self) -> None:
        """Make of all that has arrived what is told of it."""
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
        """What callbacks get of a state."""
        return state

    def __enter__(self) -> Self:
        return self

    async def __aenter__(self) -> Self:
        return self

    def __reduce__(self) -> tuple[Any, ...]:
        raise TypeError("what is followed is not passed on to another process: follow it there")


def _nothing() -> None:
    """There is no callback for it."""
