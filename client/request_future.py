"""The future of one request of the blocking client, settled in the client's order.

The order of the paper: a client is told of a change before it can read its effect, and its replies
come in the order of its requests. So a reply that arrives while callbacks are still to run is
settled behind them, on the dispatch thread; with none it is settled at once, without a hop. The
one exception is a callback that itself waits for a reply: that one overtakes the queued callbacks,
because they cannot run before it returns.
"""

import threading
from collections.abc import Callable
from concurrent.futures import Future, InvalidStateError
from functools import partial
from typing import Any, TypeVar

from raykeeper.client.callback_thread import CallbackThread
from raykeeper.client.core.effects import SuccessReply
from raykeeper.client.core.results import result_of
from raykeeper.client.errors import WrongContextError
from raykeeper.client.loop_thread import in_running_loop

T = TypeVar("T")


class RequestFuture(Future[T]):
    """A `concurrent.futures.Future` whose callbacks run on the client's dispatch thread.

    A request that was submitted cannot be called back, so `cancel` always returns False.
    """

    def __init__(self, dispatch: CallbackThread) -> None:
        super().__init__()
        self._dispatch = dispatch
        self._outcome: tuple[Any, Exception | None] | None = None
        self._callback_gate: threading.Lock | None = None

    def complete(self, answer: SuccessReply) -> None:
        """The request succeeded; on the loop."""
        self._on_outcome(result_of(answer), None)

    def succeed(self, value: Any) -> None:
        """The whole operation succeeded; on the loop."""
        self._on_outcome(value, None)

    def fail(self, error: Exception) -> None:
        """The request failed; on the loop, or before it was submitted."""
        self._on_outcome(None, error)

    def has_arrived(self) -> bool:
        """Whether there is an outcome, though callbacks may have to run before it is shown."""
        return self._outcome is not None

    def cancel(self) -> bool:
        """Never possible."""
        return False

    def result(self, timeout: float | None = None) -> T:
        """The outcome; in a callback it overtakes the callbacks that are queued.

        Raises:
            KeeperError: the request failed.
            TimeoutError: no outcome within `timeout` seconds; the request goes on.
            WrongContextError: there is none yet, and the caller runs in an event loop.
        """
        self._resolve_in_callback(timeout)
        return super().result(timeout)

    def exception(self, timeout: float | None = None) -> BaseException | None:
        """The error the request failed with, or None; else as `result`.

        Raises:
            TimeoutError: no outcome within `timeout` seconds; the request goes on.
            WrongContextError: there is none yet, and the caller runs in an event loop.
        """
        self._resolve_in_callback(timeout)
        return super().exception(timeout)

    def add_done_callback(self, fn: Callable[[Future[T]], object]) -> None:
        """Have `fn` called with this future on the client's dispatch thread."""
        super().add_done_callback(partial(self._call, fn))

    def _call(self, fn: Callable[[Future[T]], object], _: Future[T]) -> None:
        self._dispatch.run_in_order(partial(fn, self))

    def _on_outcome(self, value: Any, error: Exception | None) -> None:
        self._outcome = (value, error)
        # Stored before the look: a callback that begins to wait looks in the opposite order.
        if self._callback_gate is not None:
            self._callback_gate.release()
        if self._dispatch.is_idle():
            self._resolve()
        else:
            self._dispatch.put(self._resolve)

    def _resolve_in_callback(self, timeout: float | None) -> None:
        """In a callback, take the outcome as soon as it arrives."""
        if self.done():
            return
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
        if self._outcome is None and not gate.acquire(
            timeout=-1 if timeout is None else max(timeout, 0)
        ):
            raise TimeoutError
        self._resolve()

    def _resolve(self) -> None:
        assert self._outcome is not None
        value, error = self._outcome
        try:
            if error is None:
                self.set_result(value)
            else:
                self.set_exception(error)
        except InvalidStateError:
            pass  # a callback that waited for it was quicker
