"""Fate sharing: a process ends with its parent, reaped or not, and for no other reason."""

import os
import select
import signal
import subprocess
import sys

import psutil
import pytest

from raykeeper.actors.fate_sharing import share_fate_with_raylet

PATIENCE_S = 30.0
# A "raylet" that starts a "worker", and stands for what the worker writes.
_RAYLET = """
import os, subprocess, sys
environment = {**os.environ, "RAY_RAYLET_PID": str(os.getpid())}
subprocess.run([sys.executable, "-c", sys.argv[1]], env=environment, stdin=subprocess.DEVNULL)
"""
_SHARES_FATE = """
import os, sys, threading
from raykeeper.actors.fate_sharing import share_fate_with_raylet
assert share_fate_with_raylet(lambda: os.write(1, b"last words"))
os.write(1, b"x")
threading.Event().wait()
"""
_IS_AN_ACTOR = """
import os, threading
from raykeeper.actors.{module} import {name}
actor = {name}({arguments})
os.write(1, b"x")
threading.Event().wait()
"""
_TELLS_OF_EACH_LOOK = """
import os, threading
from raykeeper.actors.fate_sharing import wait_for_end_of_parent
wait_for_end_of_parent(os.getppid(), lambda: (threading.Event().wait(0.01), os.write(1, b".")))
os.write(1, b"!")
"""


def started(worker: str) -> "subprocess.Popen[bytes]":
    return subprocess.Popen([sys.executable, "-c", _RAYLET, worker], stdout=subprocess.PIPE)


def read(raylet: "subprocess.Popen[bytes]", count: int) -> bytes:
    assert raylet.stdout is not None
    data = b""
    while len(data) < count:
        assert select.select([raylet.stdout], [], [], PATIENCE_S)[0], data
        piece = os.read(raylet.stdout.fileno(), count - len(data))
        if not piece:
            break
        data += piece
    return data


@pytest.mark.parametrize(
    ("program", "last_words"),
    [
        (_SHARES_FATE, b"last words"),
        (_IS_AN_ACTOR.format(module="session_tracker", name="SessionTracker", arguments=""), b""),
        (_IS_AN_ACTOR.format(module="snapshotter", name="Snapshotter", arguments="'.'"), b""),
    ],
)
def test_a_worker_ends_with_an_unreaped_raylet(program: str, last_words: bytes) -> None:
    with started(program) as raylet:
        assert read(raylet, 1) == b"x"
        (worker,) = psutil.Process(raylet.pid).children()
        raylet.kill()
        # The end of what it writes is the end of the worker.
        assert read(raylet, 99) == last_words
        assert psutil.Process(raylet.pid).status() == psutil.STATUS_ZOMBIE
        worker.wait(PATIENCE_S)


def test_a_stopped_raylet_counts_as_alive() -> None:
    with started(_TELLS_OF_EACH_LOOK) as raylet:
        read(raylet, 3)
        raylet.send_signal(signal.SIGSTOP)
        os.waitid(os.P_PID, raylet.pid, os.WSTOPPED | os.WNOWAIT)
        assert read(raylet, 20) == b"." * 20
        raylet.kill()
        assert read(raylet, 10_000).endswith(b"!")


@pytest.mark.parametrize("told", [None, "", "x", "-1", "1.5", "own"])
def test_an_unknown_raylet_changes_nothing(
    told: str | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("RAY_RAYLET_PID", raising=False)
    if told is not None:
        monkeypatch.setenv("RAY_RAYLET_PID", str(os.getpid()) if told == "own" else told)
    assert share_fate_with_raylet() is False
