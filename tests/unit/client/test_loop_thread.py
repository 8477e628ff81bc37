"""The shared loop: one per process, and no blocking call inside another one."""

import asyncio
import builtins
import os
import threading
from typing import Any

import pytest
import uvloop

from raykeeper.client import loop_thread
from raykeeper.client.errors import WrongContextError
from raykeeper.client.loop_thread import refuse_running_loop, shared_loop
from tests.contract.blocking_calls import not_refused, unlisted
from tests.harness.client_stage import ClientStage


def test_one_loop_that_runs() -> None:
    loop = shared_loop()
    assert shared_loop() is loop

    async def where() -> str:
        return threading.current_thread().name

    assert asyncio.run_coroutine_threadsafe(where(), loop).result(5) == "raykeeper-client"


def test_a_forked_process_has_its_own(monkeypatch: pytest.MonkeyPatch) -> None:
    loop, pid = shared_loop(), os.getpid()
    monkeypatch.setattr(os, "getpid", lambda: -1)
    other = shared_loop()
    assert other is not loop
    other.call_soon_threadsafe(other.stop)
    del loop_thread._loops[-1]
    monkeypatch.setattr(os, "getpid", lambda: pid)
    assert shared_loop() is loop


def test_it_is_uvloops() -> None:
    assert isinstance(shared_loop(), uvloop.Loop)


def test_without_uvloop_it_is_asyncios(monkeypatch: pytest.MonkeyPatch) -> None:
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


def test_every_call_of_a_client_that_waits_is_refused(stage: ClientStage) -> None:
    client = stage.open()

    async def main() -> list[str]:
        return not_refused(client)

    assert asyncio.run(main()) == []
    assert unlisted() == set()
