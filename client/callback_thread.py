"""The thread on which one client runs the user's callbacks, one after the other, in order.

ZooKeeper: the event thread of `ClientCnxn`.
"""

import inspect
import logging
import threading
from collections.abc import Callable
from queue import SimpleQueue

log = logging.getLogger("raykeeper.client")

Call = Callable[[], object]


class CallbackThread:
    """A queue of calls and the thread that makes them, which starts with the first one."""

    def __init__(self) -> None:
        self._queue: SimpleQueue[Call | None] = SimpleQueue()
        self._lock = threading.Lock()
        self.unfinished = 0
        """The number of calls that were put and have not returned yet."""
        self._is_stopping = False
        self._thread: threading.Thread | None = None
        self._ident: int | None = None
        self._current: Call | None = None

    def put(self, call: Call) -> None:
        """Queue `call` behind the calls that were put before."""
        with self._lock:
            self.unfinished += 1
            self._queue.put(call)
            if self._thread is None:
                self._thread = threading.Thread(
                    target=self._run, name="raykeeper-callbacks", daemon=True
                )
                self._thread.start()

    def run_in_order(self, call: Call) -> None:
        """Make `call` at once on this thread, where it is its turn; elsewhere queue it."""
        if self.is_here():
            self._make(call)
        else:
            self.put(call)

    def stop(self) -> None:
        """End the thread once the queue is empty. A later `put` is served all the same."""
        with self._lock:
            if self._thread is not None:
                self._queue.put(None)

    def is_here(self) -> bool:
        """Return whether the caller runs on this thread, that is, in a callback."""
        return threading.get_ident() == self._ident

    def current(self) -> str:
        """Return the call that runs now, for an error message."""
        return repr(self._current)

    def _run(self) -> None:
        self._ident = threading.get_ident()
        while True:
            call = self._queue.get()
            if call is not None:
                self._current = call
                self._make(call)
                self._current = None
            with self._lock:
                if call is None:
                    self._is_stopping = True
                else:
                    self.unfinished -= 1
                if self._is_stopping and not self.unfinished:
                    self._thread = self._ident = None
                    return

    def _make(self, call: Call) -> None:
        try:
            returned = call()
        # No error of a callback, SystemExit included, may keep the next ones from running.
        except BaseException:
            log.exception("a callback raised")
            return
        if inspect.iscoroutine(returned):
            returned.close()
            log.error(
                "a Client does not await callbacks: %s did nothing, use an AsyncClient",
                returned.__qualname__,
            )
