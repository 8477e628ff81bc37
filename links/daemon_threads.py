"""Blocking calls beside an event loop, in threads that keep no process from ending.

What asks Ray's GCS blocks, and in a process that Ray has already taken leave of it may block for
ever. The threads of an event loop's executor (`asyncio.to_thread`) are joined at the end of the
interpreter: one such call there, and a worker whose actor is gone stays for good. These threads are
daemons. So what they run must be a question: at the end it is left where it is.
"""

import asyncio
import contextvars
import threading
from collections.abc import Callable, Hashable
from concurrent.futures import Future
from functools import partial
from typing import Any, Generic, TypeVar

T = TypeVar("T")


async def to_daemon_thread(call: Callable[..., T], *arguments: Any) -> T:
    """What `call` returns or raises, in a thread of its own and this context.

    Who is cancelled does not wait any more; the call goes on.
    """
    future: Future[T] = Future()
    _start_thread(future, partial(call, *arguments))
    return await asyncio.wrap_future(future)


class SharedCall(Generic[T]):
    """A question of which one at a time is under way for the same arguments; see the module.

    Who asks it meanwhile shares the answer. So however often one is asked that does not return,
    it is one thread.
    """

    def __init__(self, call: Callable[..., T]) -> None:
        """The arguments of `call` must be hashable."""
        self._call = call
        self._running: dict[Hashable, Future[T]] = {}

    async def __call__(self, *arguments: Hashable) -> T:
        """What the call returns or raises for these arguments."""
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


def _start_thread(future: Future[T], call: Callable[[], T]) -> None:
    future.set_running_or_notify_cancel()  # so that nobody who waits can cancel it for the others
    context = contextvars.copy_context()

    def run() -> None:
        try:
            result = context.run(call)
        # It is the caller's, whatever it is.
        except BaseException as error:
            future.set_exception(error)
        else:
            future.set_result(result)

    threading.Thread(target=run, name="raykeeper-question", daemon=True).start()
