"""The client's clock: its source, its users, and its time after the machine slept."""

import inspect
import runpy
import time
from collections.abc import Callable
from typing import Any

import pytest

from raykeeper.client import driver
from raykeeper.client.async_client import AsyncClient
from raykeeper.client.client import Client
from raykeeper.client.core.public_types import ClientState
from raykeeper.client.driver import Driver, client_clock
from raykeeper.client.session import BlockingSession
from raykeeper.client.session_options import SessionOptions
from tests.harness.client_stage import ClientStage

SLEPT_S = 3_600.0


def test_the_clock_counts_the_time_a_machine_slept(monkeypatch: pytest.MonkeyPatch) -> None:
    """Load the module where CLOCK_BOOTTIME is an hour ahead of CLOCK_MONOTONIC."""
    ticks = time.clock_gettime

    def slept(which: int) -> float:
        return ticks(which) + (SLEPT_S if which == time.CLOCK_BOOTTIME else 0.0)

    monkeypatch.setattr(time, "clock_gettime", slept)
    loaded = runpy.run_path(driver.__file__)["client_clock"]
    before = slept(time.CLOCK_BOOTTIME)
    assert before <= loaded() <= slept(time.CLOCK_BOOTTIME)
    assert before >= time.monotonic() + SLEPT_S - 1


def test_without_boottime_the_clock_is_monotonic(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delattr(time, "CLOCK_BOOTTIME")
    assert driver._best_clock() is time.monotonic


@pytest.mark.parametrize("who", [Driver.__init__, BlockingSession.open, AsyncClient.open])
def test_every_client_uses_the_clock(who: Callable[..., Any]) -> None:
    assert inspect.signature(who).parameters["clock"].default is client_clock


def test_a_client_that_slept_does_not_believe_in_its_session(stage: ClientStage) -> None:
    slept_s = 0.0
    session = BlockingSession.open(
        stage.ensemble.servers,
        stage.ensemble,
        SessionOptions(session_timeout_s=9, timeout_s=1e6),
        loop=stage.loop,
        clock=lambda: stage.loop.time() + slept_s,
    )
    client = Client(session)
    stage.clients.append(client)
    assert client.state is ClientState.CONNECTED
    slept_s = 60.0  # no timer of the loop has noticed
    assert client.state is ClientState.LOST
    assert client._is_lost()
