"""A `concurrent.futures.Future` that makes its condition only when somebody needs one.

The standard library's future makes a condition, a lock and two lists when it is made, which takes
several times as long as all else that a client does for a pipelined request outside of its core.
Most futures of a pipeline have their result before anybody asks for it, and nobody calls back.

The invariant of this file: a future without a condition changes its state under `_claim_lock`; one
with a condition changes it under the condition, as the standard library's does. A condition is made
under `_claim_lock` too. So whoever holds the condition sees no change of the state, on which
`concurrent.futures.wait` relies, which reads it twice. Nothing is called and no other lock is taken
under `_claim_lock`, so it cannot take part in a deadlock.

Source: `concurrent/futures/_base.py` of CPython 3.11 to 3.14: its functions use the attributes that
are declared here.
"""

import os
import threading
from collections.abc import Callable
from concurrent.futures import Future
from concurrent.futures._base import FINISHED, PENDING
from typing import Any, TypeVar

T = TypeVar("T")

_claim_lock = threading.Lock()
"""Of all futures; held for moments."""


def _forked() -> None:
    global _claim_lock
    _claim_lock = threading.Lock()  # another thread of the parent may have held it


os.register_at_fork(after_in_child=_forked)


class LazyFuture(Future[T]):
    """A future that costs little until somebody waits for it or adds a callback."""

    _state: str = PENDING
    _result: T | None = None
    _exception: BaseException | None = None
    _made_condition: threading.Condition | None = None
    _waiters: list[Any]
    _done_callbacks: list[Callable[[Future[T]], object]]

    def __init__(self) -> None:
        # Not `super().__init__()`, which makes what `_condition` makes when it is needed.
        pass

    @property
    def _condition(self) -> threading.Condition:  # type: ignore[override]  # an attribute there
        """The condition; every function of the standard library that needs more asks for it."""
        condition = self._made_condition
        if condition is None:
            fresh = threading.Condition()
            with _claim_lock:
                condition = self._made_condition
                if condition is None:
                    self._waiters = []
                    self._done_callbacks = []
                    self._made_condition = condition = fresh
        return condition

    def done(self) -> bool:
        """Return whether the future has an outcome or was cancelled."""
        return self._state is FINISHED or (self._state is not PENDING and super().done())

    def result(self, timeout: float | None = None) -> T:
        """Return the result, after at most `timeout` seconds.

        Raises:
            TimeoutError: it takes longer.
            CancelledError: the future was cancelled.
            Exception: the exception that is the outcome.
        """
        if self._state is not FINISHED:
            self._before_wait(timeout)
        elif self._exception is None:
            return self._result  # type: ignore[return-value]  # stored before the state
        return super().result(timeout)

    def exception(self, timeout: float | None = None) -> BaseException | None:
        """Return the exception that is the outcome, None for a result; else as `result`."""
        if self._state is not FINISHED:
            self._before_wait(timeout)
        return super().exception(timeout)

    def _before_wait(self, timeout: float | None) -> None:
        """Called before a wait for the outcome, which may not have to wait after all."""

    def set_result(self, result: T) -> None:
        """Finish the future.

        Raises:
            InvalidStateError: it is finished or cancelled.
        """
        if not self._finish_alone(result, None):
            super().set_result(result)

    def set_exception(self, exception: BaseException | None) -> None:
        """Finish the future with an exception.

        Raises:
            InvalidStateError: it is finished or cancelled.
        """
        if not self._finish_alone(None, exception):
            super().set_exception(exception)

    def _finish_alone(self, result: T | None, exception: BaseException | None) -> bool:
        """Finish a future that nobody waits for. Return False if it has to be done in full."""
        with _claim_lock:
            if self._made_condition is not None or self._state is not PENDING:
                return False
            self._result = result
            self._exception = exception
            self._state = FINISHED
        return True
