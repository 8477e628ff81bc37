"""Processes: how one is identified, and what the kernel says about it."""

import os
import signal
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest
from msgspec import structs

from raykeeper.links import processes
from raykeeper.links.processes import Process, is_running, this_pid_namespace, this_process

WAITS = "import sys; sys.stdout.write('x'); sys.stdout.flush(); sys.stdin.read()"
OUTLIVES_ITS_FIRST_THREAD = f"""
import ctypes, threading
def wait():
    {WAITS}
threading.Thread(target=wait).start()
ctypes.CDLL(None).pthread_exit(None)
"""


def runs(process: Process) -> bool | None:
    return is_running(process.pid, process.started, process.pid_namespace)


def of(pid: int) -> Process:
    found = processes._read_state(pid)
    assert found is not None
    return Process("", "", pid, found[1], this_pid_namespace())


def started(program: str) -> "subprocess.Popen[bytes]":
    child = subprocess.Popen(
        [sys.executable, "-c", program], stdin=subprocess.PIPE, stdout=subprocess.PIPE
    )
    assert child.stdout is not None and child.stdout.read(1) == b"x"
    return child


def killed(child: "subprocess.Popen[bytes]") -> None:
    child.kill()
    os.waitid(os.P_PID, child.pid, os.WEXITED | os.WNOWAIT)


@pytest.fixture
def child() -> Iterator["subprocess.Popen[bytes]"]:
    child = started(WAITS)
    yield child
    child.kill()
    child.communicate()


def test_this_process_runs() -> None:
    me = this_process("node", "worker")
    assert (me.node, me.worker, me.pid) == ("node", "worker", os.getpid())
    assert runs(me) is True


def test_a_stopped_process_runs(child: "subprocess.Popen[bytes]") -> None:
    process = of(child.pid)
    assert runs(process) is True
    child.send_signal(signal.SIGSTOP)
    os.waitid(os.P_PID, child.pid, os.WSTOPPED | os.WNOWAIT)
    assert runs(process) is True


def test_a_killed_process_does_not_run(child: "subprocess.Popen[bytes]") -> None:
    process = of(child.pid)
    killed(child)
    assert runs(process) is False  # nobody has asked for its end yet
    child.wait()
    assert runs(process) is False


def test_a_process_without_its_first_thread_runs() -> None:
    child = started(OUTLIVES_ITS_FIRST_THREAD)
    process = of(child.pid)
    ended = threading.Event()
    while (found := processes._read_state(child.pid)) is not None and found[0] != "Z":
        assert not ended.wait(0.01)
    assert runs(process) is True
    killed(child)
    assert runs(process) is False
    child.communicate()


def test_another_process_of_the_same_pid_does_not_count() -> None:
    me = this_process("", "")
    assert runs(structs.replace(me, started=me.started - 1)) is False


@pytest.mark.parametrize(
    "unknown", [{"started": 0}, {"pid_namespace": ""}, {"pid_namespace": "elsewhere"}]
)
def test_unknown_processes_leave_the_answer_unknown(unknown: dict[str, object]) -> None:
    assert runs(structs.replace(this_process("", ""), **unknown)) is None


def test_a_system_without_proc_leaves_the_answer_unknown(monkeypatch: pytest.MonkeyPatch) -> None:
    me = this_process("", "")
    monkeypatch.setattr(processes, "_BOOT_ID", Path("/nowhere"))
    this_pid_namespace.cache_clear()
    try:
        assert this_pid_namespace() == "" and runs(me) is None
    finally:
        this_pid_namespace.cache_clear()
