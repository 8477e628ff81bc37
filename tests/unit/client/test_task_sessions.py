"""TaskSessions: which session ends when; `tests/ray/test_task_sessions.py` tests it with Ray."""

import os
from collections.abc import Callable
from concurrent.futures import Future
from typing import Any

import pytest

from raykeeper.client import task_sessions
from raykeeper.client.task_sessions import POLL_S, TaskSessions, running_task


class Opened:
    """A session that closes when a test says so."""

    def __init__(self, *, ends: bool = True) -> None:
        self.closing: Future[Any] = Future()
        self.is_asked = False
        self.is_over = False
        self._ends = ends

    def has_ended(self) -> bool:
        return self.is_over

    def close_soon(self) -> Future[Any] | None:
        self.is_asked = True
        if self._ends:
            self.closing.set_result(None)
        return self.closing


class Loopless(Opened):
    """A session that cannot be closed."""

    def close_soon(self) -> None:
        self.is_asked = True


class Closing(Opened):
    """A session whose loop is closed during the request."""

    def close_soon(self) -> None:
        self.is_asked = True
        raise RuntimeError("Event loop is closed")


class Worker:
    """A process, the task that it runs, and its timers."""

    def __init__(self) -> None:
        self.task: object | None = "first"
        self.timers: list[tuple[float, Callable[[], None]]] = []
        self.sessions = TaskSessions(
            lambda: self.task, lambda delay_s, call: self.timers.append((delay_s, call))
        )

    def open(self, session: Opened) -> Opened:
        self.sessions.add(self.sessions.current_task(), session)
        return session

    def look(self) -> None:
        ((delay_s, call),) = self.timers
        assert delay_s == POLL_S
        self.timers.clear()
        call()


def test_a_session_lives_as_long_as_its_task() -> None:
    worker = Worker()
    session = worker.open(Opened())
    for _ in range(3):
        worker.look()
    assert not session.is_asked
    worker.task = None
    worker.look()
    assert session.is_asked
    assert worker.timers == [], "nothing is left to look after"


def test_a_loop_that_ends_does_not_stop_the_check() -> None:
    worker = Worker()
    first, second = worker.open(Closing()), worker.open(Opened())
    worker.task = "next"
    third = worker.open(Opened())
    worker.look()
    assert first.is_asked and second.is_asked
    worker.task = None
    worker.look()
    assert third.is_asked


def test_a_session_of_the_next_task_is_watched_too() -> None:
    worker = Worker()
    old = worker.open(Opened())
    worker.task = "second"
    new = worker.open(Opened())
    worker.look()
    assert (old.is_asked, new.is_asked) == (True, False)
    worker.task = None
    worker.look()
    assert new.is_asked
    worker.task = "third"
    later = worker.open(Opened())
    worker.task = None
    worker.look()
    assert later.is_asked


def test_a_closed_session_is_left_alone(caplog: pytest.LogCaptureFixture) -> None:
    worker = Worker()
    session = worker.open(Opened())
    session.is_over = True
    worker.task = None
    worker.look()
    assert not session.is_asked
    assert (worker.timers, caplog.text) == ([], "")


def test_a_forgotten_session_is_logged(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level("INFO")
    worker = Worker()
    worker.open(Opened())
    worker.task = None
    worker.look()
    assert "with connect(...)" in caplog.text


def test_a_session_outside_of_tasks_is_not_watched() -> None:
    worker = Worker()
    worker.task = None
    session = worker.open(Opened())
    assert worker.timers == []
    worker.task = "a task"
    worker.sessions.close_leftovers(0)
    assert not session.is_asked


def test_two_executions_of_a_task_are_distinct() -> None:
    worker = Worker()
    worker.task = ["the same id"]
    session = worker.open(Opened())
    worker.task = ["the same id"]
    worker.look()
    assert session.is_asked


def test_a_later_connect_waits_until_the_session_has_ended() -> None:
    worker = Worker()
    session, loopless = worker.open(Opened(ends=False)), worker.open(Loopless())
    worker.task = "second"
    worker.sessions.close_leftovers(0)
    assert session.is_asked and loopless.is_asked
    session.closing.set_result(None)
    worker.sessions.close_leftovers(1e6)


def test_a_process_without_ray_runs_no_task() -> None:
    assert running_task() is None


def test_a_forked_process_has_no_sessions_of_its_parent() -> None:
    inherited = task_sessions.task_sessions
    child = os.fork()
    if not child:
        os._exit(0 if task_sessions.task_sessions is not inherited else 1)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
