"""A session that a Ray task opened and did not close ends with the task.

Ray runs one task after the other in the same process, so what a task forgets would live on in the
next one: its locks held, its memberships listed, for as long as the worker is kept. An actor's
session lives as long as the actor, and a driver's as long as the driver.

What is guaranteed, of tasks of Ray (not of actors, not of drivers):

-   A session that is open when its task ends, normally or by an error, is being closed 0.1 seconds
    later, as by `close()`. The watch costs a look at one variable every 0.05 seconds, and only
    while a session is open in the task.
-   Whoever connects in a later task of that worker finds it closed already.
-   A session of an `AsyncClient` whose loop has ended with the task ends by its timeout: nobody
    can send for it. So does one of a worker that is killed, unless Ray tells of its death first.
-   A thread that outlives its task loses the session all the same, and so does a later task that
    was left one in a global variable.

Ray has no call for the end of a task, so the task that the process runs is looked at
(`links/ray_internals.py`): an object of its own for each execution, so two attempts of one task
differ. With a Ray that does not tell it a session ends with its worker.
"""

import logging
import os
import sys
import threading
from collections.abc import Callable
from concurrent.futures import Future, wait
from typing import Any, Final, Protocol

from raykeeper.client.loop_thread import shared_loop
from raykeeper.links.ray_internals import current_task

log = logging.getLogger("raykeeper.client")

POLL_S: Final = 0.05


class TaskSession(Protocol):
    """A session, as this file needs it. Both methods may be called in any thread."""

    def has_ended(self) -> bool:
        """Whether there is nothing left to end."""

    def close_soon(self) -> Future[Any] | None:
        """Close it; the future of that, None if nobody would do it."""


class TaskSessions:
    """The sessions that tasks of this process opened."""

    def __init__(
        self,
        running: Callable[[], object | None],
        later: Callable[[float, Callable[[], None]], object],
    ) -> None:
        """`running` tells the task, None if there is none; `later` calls back after seconds."""
        self._current_task = running
        self._call_later = later
        self._lock = threading.Lock()
        self._open: list[tuple[object, TaskSession]] = []
        self._closing: list[Future[Any]] = []
        self._is_polling = False

    def current_task(self) -> object | None:
        """Whose session one that is opened now will be, for `add`."""
        return self._current_task()

    def add(self, task: object | None, session: TaskSession) -> None:
        """The session was opened in that task, if it is one."""
        if task is None:
            return
        with self._lock:
            self._open.append((task, session))
            is_looking, self._is_polling = self._is_polling, True
        if not is_looking:
            self._call_later(POLL_S, self._poll)

    def close_leftovers(self, timeout_s: float) -> None:
        """End what tasks that are over left open, and wait for that, at most this long."""
        if self._open or self._closing:
            self._begin_closing_leftovers()
            wait(self._closing, timeout_s)

    def _poll(self) -> None:
        self._begin_closing_leftovers()
        with self._lock:
            self._is_polling = bool(self._open)
            if not self._is_polling:
                return
        self._call_later(POLL_S, self._poll)

    def _begin_closing_leftovers(self) -> None:
        now = self._current_task()
        with self._lock:
            kept = [each for each in self._open if not each[1].has_ended()]
            self._open = [each for each in kept if each[0] is now]
            self._closing = [future for future in self._closing if not future.done()]
            for task, session in kept:
                if task is not now:
                    self._begin_closing(session)

    def _begin_closing(self, session: TaskSession) -> None:
        log.info(
            "a task ended and left its session open, which ends now; "
            "use `with connect(...) as client:` or @with_session"
        )
        try:
            ending = session.close_soon()
        except RuntimeError:  # its loop is closed, since it was looked at
            return
        if ending is not None:
            self._closing.append(ending)


def running_task() -> object | None:
    """The Ray task that this process runs; None in an actor, in a driver, and between two tasks."""
    if "ray" not in sys.modules:
        return None
    import ray

    if not ray.is_initialized() or ray.get_runtime_context().get_actor_id() is not None:
        return None
    return current_task()


def _call_later(delay_s: float, call: Callable[[], None]) -> None:
    loop = shared_loop()
    loop.call_soon_threadsafe(loop.call_later, delay_s, call)


def _after_fork() -> None:
    global task_sessions
    task_sessions = TaskSessions(running_task, _call_later)


task_sessions = TaskSessions(running_task, _call_later)
os.register_at_fork(after_in_child=_after_fork)
