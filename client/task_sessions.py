"""The end of sessions that a Ray task has left open: they are closed after the task ends.

Ray runs one task after the other in the same process, so a session that a task leaves open would
live on in the next one, with its locks and memberships, for as long as the worker lives. An actor's
session lives as long as the actor, and a driver's as long as the driver.

The guarantees, for Ray tasks (not for actors, not for drivers):

-   A session that is open when its task ends, normally or by an error, is being closed 0.1 seconds
    later, as by `close()`. The poll reads one variable every 0.05 seconds, and only while a session
    is open in the task.
-   When a later task of that worker connects, the session is closed already.
-   A session of an `AsyncClient` whose loop has ended with the task ends by its timeout, because
    nothing can send for it. So does the session of a killed worker, unless Ray reports the death
    first.
-   A thread that outlives its task loses the session too, and so does a later task that finds it in
    a global variable.

Ray has no callback for the end of a task, so this module polls the task that the process runs
(`links/ray_internals.py`): each execution has an object of its own, so two attempts of one task
differ. With a version of Ray that does not tell the task, a session ends with its worker.
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
    """The part of a session that this file needs. Both methods may be called in any thread."""

    def has_ended(self) -> bool:
        """Return whether there is nothing left to close."""

    def close_soon(self) -> Future[Any] | None:
        """Begin to close the session. Return a future of the end, None if its loop does not run."""


class TaskSessions:
    """The open sessions of this process's tasks."""

    def __init__(
        self,
        running: Callable[[], object | None],
        later: Callable[[float, Callable[[], None]], object],
    ) -> None:
        """`running` returns the running task or None; `later` calls back after some seconds."""
        self._current_task = running
        self._call_later = later
        self._lock = threading.Lock()
        self._open: list[tuple[object, TaskSession]] = []
        self._closing: list[Future[Any]] = []
        self._is_polling = False

    def current_task(self) -> object | None:
        """Return the task that a session opened now belongs to, for `add`."""
        return self._current_task()

    def add(self, task: object | None, session: TaskSession) -> None:
        """Close `session` after `task` ends; do nothing if `task` is None, for no task."""
        if task is None:
            return
        with self._lock:
            self._open.append((task, session))
            is_looking, self._is_polling = self._is_polling, True
        if not is_looking:
            self._call_later(POLL_S, self._poll)

    def close_leftovers(self, timeout_s: float) -> None:
        """Close the sessions that ended tasks left open; wait at most `timeout_s` for the end."""
        if self.has_leftovers():
            self._begin_closing_leftovers()
            wait(self._closing, timeout_s)

    def has_leftovers(self) -> bool:
        """Return whether there may be any."""
        return bool(self._open or self._closing)

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
        except RuntimeError:  # the session's loop has been closed meanwhile
            return
        if ending is not None:
            self._closing.append(ending)


def running_task() -> object | None:
    """Return the Ray task of this process, None in an actor, in a driver and between two tasks."""
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
