"""The shared loop: one per process, and no blocking call inside another one."""

import asyncio
import builtins
import os
import subprocess
import sys
import threading
from typing import Any

import pytest
import uvloop

from raykeeper.client import loop_thread
from raykeeper.client.errors import WrongContextError
from raykeeper.client.loop_thread import refuse_running_loop, shared_loop
from tests.contract.blocking_calls import not_refused, unlisted
from tests.harness.client_stage import ClientStage


def test_a_process_has_one_running_loop() -> None:
    loop = shared_loop()
    assert shared_loop() is loop

    async def where() -> str:
        return threading.current_thread().name

    assert asyncio.run_coroutine_threadsafe(where(), loop).result(5) == "raykeeper-client"


def test_a_forked_process_has_its_own_loop(monkeypatch: pytest.MonkeyPatch) -> None:
    loop, pid = shared_loop(), os.getpid()
    monkeypatch.setattr(os, "getpid", lambda: -1)
    other = shared_loop()
    assert other is not loop
    other.call_soon_threadsafe(other.stop)
    del loop_thread._loops[-1]
    monkeypatch.setattr(os, "getpid", lambda: pid)
    assert shared_loop() is loop


LINGERS = """
import atexit, ctypes, time
from raykeeper.client.loop_thread import shared_loop

loop = shared_loop()

@atexit.register
def linger():
    "Arm a timer for the second in which the interpreter is gone and its threads are not."
    loop.call_soon_threadsafe(loop.call_later, 0.6, print)
    time.sleep(0.1)  # the loop waits in C now; where it does not, the test only sees less
    libc = ctypes.CDLL(None)
    sleep = ctypes.cast(libc.sleep, ctypes.c_void_p)
    libc.__cxa_atexit(sleep, ctypes.c_void_p(1), None)
"""


def test_a_timer_does_not_outlive_the_interpreter() -> None:
    command = [sys.executable, "-c", LINGERS]
    ended = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)
    assert (ended.returncode, ended.stderr) == (0, "")


def test_the_loop_is_that_of_uvloop() -> None:
    assert isinstance(shared_loop(), uvloop.Loop)


def test_without_uvloop_the_loop_is_that_of_asyncio(monkeypatch: pytest.MonkeyPatch) -> None:
    real = builtins.__import__

    def without(name: str, *args: Any, **named: Any) -> Any:
        if name == "uvloop":
            raise ImportError(name)
        return real(name, *args, **named)

    monkeypatch.setattr(builtins, "__import__", without)
    loop = loop_thread._new_loop()
    assert isinstance(loop, asyncio.BaseEventLoop)
    loop.close()


def test_a_blocking_call_in_a_loop_is_refused() -> None:
    refuse_running_loop("get")

    async def main() -> None:
        with pytest.raises(WrongContextError, match=r"get\(\) would block.*AsyncClient"):
            refuse_running_loop("get")

    asyncio.run(main())


def test_every_blocking_call_of_a_client_is_refused_in_a_loop(stage: ClientStage) -> None:
    client = stage.open()

    async def main() -> list[str]:
        return not_refused(client)

    assert asyncio.run(main()) == []
    assert unlisted() == set()
