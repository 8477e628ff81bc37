"""A fair mutex for threads and asyncio tasks alike: waiters get it in order of arrival.

It combines `threading.Lock`, for threads, and `asyncio.Lock`, for tasks, of any number of loops.
The invariant of this file: every turn that begins ends exactly once, also if its waiter has gone.
"""

import asyncio
import threading
from collections import deque
from concurrent.futures import Future

from raykeeper.client.errors import WrongContextError
from raykeeper.client.loop_thread import in_running_loop


class FairMutex:
    """A lock that its waiters get in the order in which they came."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._is_taken = False
        self._queue: deque[Future[None]] = deque()

    def acquire(self) -> None:
        """Wait for a turn, in a thread.

        Raises:
            WrongContextError: the call would have to wait in an event loop.
        """
        turn = self._enqueue()
        if turn.done():
            return
        try:
            if in_running_loop():
                raise WrongContextError("another caller is inside: use `async with` in a loop")
            turn.result()
        except BaseException:
            self._give_up(turn)
            raise

    async def acquire_async(self) -> None:
        """Wait for a turn, in a task."""
        turn = self._enqueue()
        if turn.done():
            return
        try:
            await asyncio.wrap_future(turn)
        except BaseException:
            self._give_up(turn)
            raise

    def release(self) -> None:
        """End the turn, and begin the next waiter's turn."""
        with self._lock:
            while self._queue:
                turn = self._queue.popleft()
                if turn.set_running_or_notify_cancel():
                    break
            else:
                self._is_taken = False
                return
        turn.set_result(None)

    def _enqueue(self) -> "Future[None]":
        turn: Future[None] = Future()
        with self._lock:
            if self._is_taken:
                self._queue.append(turn)
                return turn
            self._is_taken = True
        turn.set_result(None)
        return turn

    def _give_up(self, turn: "Future[None]") -> None:
        if not turn.cancel():
            turn.result()  # the turn is just beginning
            self.release()
