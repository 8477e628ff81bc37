"""Blocking calls beside an event loop, in threads that do not keep a process from ending.

A question to Ray's GCS blocks, and in a process that Ray has already disconnected it may block for
ever. The threads of an event loop's executor (`asyncio.to_thread`) are joined at the end of the
interpreter: after one such call a worker whose actor is gone would stay for good. The threads here
are daemons, which the interpreter abandons at its end. So they may only run calls that change
nothing.
"""

import asyncio
import contextvars
import threading
from collections.abc import Callable, Hashable
from concurrent.futures import Future
from functools import partial
from queue import SimpleQueue
from typing import Any, Final, Generic, TypeVar

_THREAD: Final = "raykeeper-question"
T = TypeVar("T")


async def to_daemon_thread(call: Callable[..., T], *arguments: Any) -> T:
    """Run `call` in a thread of its own and in this context; return or raise its outcome.

    A caller that is cancelled stops waiting; the call continues.
    """
    return await asyncio.wrap_future(begin_in_daemon_thread(call, *arguments))


def begin_in_daemon_thread(call: Callable[..., T], *arguments: Any) -> "Future[T]":
    """Begin `call` in a thread of its own and in this context; return the future of its outcome."""
    future: Future[T] = Future()
    _start_thread(future, partial(call, *arguments))
    return future


class SharedCall(Generic[T]):
    """A call of which at most one runs for the same arguments, in a daemon thread.

    Everyone who calls it meanwhile shares the outcome. So a call that never returns takes one
    thread, however often it is made.
    """

    def __init__(self, call: Callable[..., T]) -> None:
        """Share `call`, whose arguments must be hashable."""
        self._call = call
        self._running: dict[Hashable, Future[T]] = {}

    async def __call__(self, *arguments: Hashable) -> T:
        """Return or raise the outcome of the call for these arguments."""
        future = self._running.get(arguments)
        if future is None:
            future = self._running[arguments] = Future()
            _start_thread(future, partial(self._run, arguments))
        return await asyncio.wrap_future(future)

    def _run(self, arguments: tuple[Hashable, ...]) -> T:
        try:
            return self._call(*arguments)
        finally:
            self._running.pop(arguments, None)


class GroupedCall(Generic[T]):
    """A call without arguments, of which one at a time runs. Safe for threads.

    Everyone gets the outcome of a call that began after they asked: all who ask while one runs
    share the next one. So a call that hangs takes one thread, however many wait. The thread stays:
    to start one takes half as long again as the call of Ray for which this was made.
    """

    def __init__(self, call: Callable[[], T]) -> None:
        self._call = call
        self._lock = threading.Lock()
        self._next: Future[T] | None = None
        self._asked: SimpleQueue[Future[T]] = SimpleQueue()
        self._has_thread = False

    def __call__(self) -> "Future[T]":
        """Return the future of the outcome."""
        with self._lock:
            future = self._next
            if future is None:
                future = self._next = Future()
                future.set_running_or_notify_cancel()
                self._asked.put(future)
            if not self._has_thread:
                self._has_thread = True
                threading.Thread(target=self._run, name=_THREAD, daemon=True).start()
            return future

    def _run(self) -> None:
        while True:
            future = self._asked.get()
            with self._lock:
                self._next = None
            _carry_out(future, self._call)


def _start_thread(future: Future[T], call: Callable[[], T]) -> None:
    future.set_running_or_notify_cancel()  # no waiter can cancel it for the others
    context = contextvars.copy_context()

    run = partial(_carry_out, future, partial(context.run, call))
    threading.Thread(target=run, name=_THREAD, daemon=True).start()


def _carry_out(future: "Future[T]", call: Callable[[], T]) -> None:
    try:
        result = call()
    # Every error belongs to the caller.
    except BaseException as error:
        future.set_exception(error)
    else:
        future.set_result(result)
