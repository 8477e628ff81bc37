"""A run whose worker is lost ends with an error, instead of waiting for it for ever.

`make test` spreads tests over processes. One that was killed ends the run by xdist itself, with
`--max-worker-restart 0` (pyproject.toml): a replacement would make `--dist loadfile` wait for ever.
One that stands still, or hangs where no signal reaches Python, is beyond pytest-timeout, which
runs inside of it. So the process that hands out the tests watches: if for twice the time that one
test may take none has ended, it kills the workers, and xdist names the tests that they were at.
"""

import os
import sys
import threading
from contextlib import suppress
from typing import Final

import psutil
import pytest

TICK_S: Final = 1.0
FIRST_TICKS: Final = 300
"""Ticks that workers have to load the tests."""
LAST_TICKS: Final = 60
"""Ticks after the workers were killed until the run is ended by force."""


class LostWorkers:
    """Counts ticks since a test began or ended. While the machine stands still there are none."""

    def __init__(self, ticks_max: int) -> None:
        self._ticks_max = ticks_max
        self._ticks = -FIRST_TICKS
        self._is_over = threading.Event()
        threading.Thread(target=self._watch, name="lost-workers", daemon=True).start()

    def pytest_runtest_logstart(self) -> None:
        self._ticks = 0

    def pytest_runtest_logreport(self) -> None:
        self._ticks = 0

    def pytest_unconfigure(self) -> None:
        self._is_over.set()

    def _watch(self) -> None:
        while not self._is_over.wait(TICK_S):
            self._ticks += 1
            if self._ticks == self._ticks_max:
                _tell(f"no test has ended for {self._ticks * TICK_S:g} s: the workers are killed")
                for worker in psutil.Process().children():
                    with suppress(psutil.NoSuchProcess):
                        worker.kill()
            elif self._ticks == self._ticks_max + LAST_TICKS:
                _tell("the run does not end although its workers were killed")
                os._exit(pytest.ExitCode.INTERNAL_ERROR)


def watch(config: pytest.Config) -> None:
    """Watch over the workers of this run, if it has any and this process hands out their tests."""
    timeout_s = config.getoption("timeout") or config.getini("timeout")
    if config.getoption("tx", None) and not hasattr(config, "workerinput") and timeout_s:
        config.pluginmanager.register(LostWorkers(round(2 * float(timeout_s) / TICK_S)))


def _tell(text: str) -> None:
    sys.__stderr__.write(f"\n{text}\n")  # type: ignore[union-attr]
    sys.__stderr__.flush()  # type: ignore[union-attr]
