"""A plugin of pytest: each of its processes notes which lines of the shells it executes."""

import os
from pathlib import Path
from typing import Final

import pytest
from coverage import Coverage

FOLDER: Final = "SHELL_COVERAGE"
"""The environment variable that says where the notes go."""
ROOMS: Final = ("actors", "chaos", "links", "client", "clusters")


def _started() -> Coverage:
    coverage = Coverage(
        data_file=str(Path(os.environ[FOLDER]) / "lines"),
        data_suffix=True,
        include=[f"{room}/*" for room in ROOMS],
        messages=False,
    )
    # A process that only hands out the tests executes nothing of ours.
    coverage.set_option("run:disable_warnings", ["no-data-collected"])
    coverage.start()
    return coverage


# At once, before any conftest.py imports a module: what that executes counts, too.
_coverage = _started() if FOLDER in os.environ else None


@pytest.hookimpl(tryfirst=True)
def pytest_sessionfinish() -> None:
    """The tests of this process are done; a worker is killed soon after it has said so."""
    assert _coverage is not None, "the plugin is for tests.tidy.shell_coverage alone"
    _coverage.stop()
    _coverage.save()
