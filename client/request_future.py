"""The future of one request of the blocking client, resolved in the client's order.

The order of the paper: a client sees a watch event before it can read the changed data, and its
replies come in the order of its requests. So a reply that arrives while callbacks are queued is
resolved behind them, on the callback thread; without such callbacks it is resolved at once. A
callback that itself waits for a reply is the one exception: that reply overtakes the queued
callbacks, because they cannot run before the callback returns.
"""

import threading
from collections.abc import Callable
from concurrent.futures import Future
from concurrent.futures._base import FINISHED
from functools import partial
from typing import Any, NoReturn, TypeVar

from raykeeper.client.call_forms import Unready
from raykeeper.client.callback_thread import CallbackThread
from raykeeper.client.core.effects import SuccessReply
from raykeeper.client.core.results import result_of
from raykeeper.client.errors import WrongContextError
from raykeeper.client.lazy_future import LazyFuture
from raykeeper.client.loop_thread import in_running_loop
from raykeeper.client.session_objects import SessionObject

T = TypeVar("T")


class RequestFuture(Unready, SessionObject, LazyFuture[T]):
    """A `concurrent.futures.Future` whose callbacks run on the client's callback thread.

    A submitted request cannot be withdrawn, so `cancel` always returns False.
    """

    _instead = "pass its result on"

    _waiting_outcome: tuple[Any, Exception | None] | None = None
    _callback_gate: "threading.Lock | None" = None

    def __init__(self, dispatch: CallbackThread) -> None:
        self._dispatch = dispatch

    def complete(self, answer: SuccessReply) -> None:
        """The request succeeded. Called on the loop."""
        self.succeed(result_of(answer))

    def succeed(self, value: Any) -> None:
        """The whole operation succeeded. Called on the loop."""
        if self._dispatch.unfinished:
            self._put_outcome(value, None)
            return
        if not self._finish_alone(value, None):
            self.set_result(value)
        if self._callback_gate is not None:
            self._callback_gate.release()

    def fail(self, error: Exception) -> None:
        """The request failed. Called on the loop, or before the request was submitted."""
        if self._dispatch.unfinished:
            self._put_outcome(None, error)
            return
        self.set_exception(error)
        if self._callback_gate is not None:
            self._callback_gate.release()

    def _repr_parts(self) -> tuple[str, ...]:
        if self._state is not FINISHED:
            return ("no result yet",)
        error = self._exception
        return (
            f"returned a {type(self._result).__name__}" if error is None else f"raised {error!r}",
        )

    def _not_ready(self, right_form: str, kind: type[TypeError] = TypeError) -> NoReturn:
        right_form = right_form.removeprefix("async ").format("future.result()")
        raise kind(
            f"this is a future, not the result: use `{right_form}`, or in an event loop "
            "`await asyncio.wrap_future(future)`"
        )

    def has_arrived(self) -> bool:
        """Return whether there is an outcome, though callbacks may have to run before it shows."""
        return self._waiting_outcome is not None or self.done()

    def cancel(self) -> bool:
        """Return False: a submitted request cannot be withdrawn."""
        return False

    def add_done_callback(self, fn: Callable[[Future[T]], object]) -> None:
        """Have `fn` called with this future on the client's callback thread."""
        super().add_done_callback(partial(self._call, fn))

    def _call(self, fn: Callable[[Future[T]], object], _: Future[T]) -> None:
        self._dispatch.run_in_order(partial(fn, self))

    def _put_outcome(self, value: Any, error: Exception | None) -> None:
        """Resolve the future behind the callbacks that are queued, or run now."""
        self._waiting_outcome = (value, error)
        # Stored before the gate is read: a callback that begins to wait does both in reverse order.
        if self._callback_gate is not None:
            self._callback_gate.release()
        self._dispatch.put(self._resolve)

    def _before_wait(self, timeout: float | None) -> None:
        """In a callback, resolve the future as soon as the outcome arrives."""
        if in_running_loop() and timeout != 0:
            raise WrongContextError(
                "to wait for this future would block the running event loop; "
                "use `await asyncio.wrap_future(future)`"
            )
        if not self._dispatch.is_here():
            return
        gate = threading.Lock()
        gate.acquire()
        self._callback_gate = gate
        if not self.has_arrived() and not gate.acquire(
            timeout=-1 if timeout is None else max(timeout, 0)
        ):
            raise TimeoutError
        self._resolve()

    def _resolve(self) -> None:
        """On the callback thread, show the outcome; a callback that waited for it has done so."""
        if self._waiting_outcome is None or self.done():
            return
        value, error = self._waiting_outcome
        if error is None:
            self.set_result(value)
        else:
            self.set_exception(error)
