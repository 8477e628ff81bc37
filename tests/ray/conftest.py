"""Ray for the tests: one local cluster per module, and ensembles with names of their own.

A local `ray.init` makes Ray's token in the home folder if there is none and sets RAY_AUTH_MODE for
this process, so later ones inherit it; tests that start processes pass their environment on.
"""

import json
import os
import shutil
import signal
import sys
import tempfile
import time
import uuid
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any, TypeVar

import pytest
import ray

from raykeeper.clusters import Ensemble, launch
from raykeeper.commands.command_line import main
from tests.ray import programs

for setting, value in programs.NO_MEMORY_MONITOR.items():
    os.environ.setdefault(setting, value)
PATIENCE_S = 90.0
T = TypeVar("T")
Launch = Callable[..., Ensemble]
Run = Callable[..., tuple[int, str, str]]


@pytest.fixture(scope="module")
def ray_session() -> Iterator[str]:
    """A local Ray of this module; its address."""
    context = ray.init(address="local", num_cpus=4, include_dashboard=False, log_to_driver=False)
    yield context.address_info["address"]
    ray.shutdown()


@pytest.fixture(scope="module")
def links() -> str:
    """The setting of that name of `shared`; a module may have its own."""
    return "auto"


@pytest.fixture(scope="module")
def shared(
    ray_session: str, tmp_path_factory: pytest.TempPathFactory, links: str
) -> Iterator[Ensemble]:
    """An ensemble that the tests of a module share and leave as it is."""
    ensemble = launch(
        name=new_name(), data_dir=tmp_path_factory.mktemp("data"), links=links, timeout_s=PATIENCE_S
    )
    eventually(lambda: all_serve(ensemble))
    yield ensemble
    ensemble.shutdown()


@pytest.fixture
def launch_one(ray_session: str, tmp_path: Path) -> Iterator[Launch]:
    """Launch an ensemble with short timeouts; it is shut down after the test."""
    launched: dict[str, Ensemble] = {}

    def start(name: str = "", **settings: Any) -> Ensemble:
        ensemble = launch(
            name=name or new_name(),
            **{
                "data_dir": tmp_path / "data",
                "session_timeout_min_s": 0.5,
                "timeout_s": PATIENCE_S,
                **settings,
            },
        )
        launched[ensemble.name] = ensemble
        return ensemble

    yield start
    for ensemble in launched.values():
        ensemble.shutdown()


@pytest.fixture
def run(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], tmp_path: Path) -> Run:
    """Run a command in this process: code, standard output, standard error."""
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setenv("COLUMNS", "120")

    def run_command(*words: str) -> tuple[int, str, str]:
        monkeypatch.setattr(sys, "argv", ["raykeeper", *words])
        with pytest.raises(SystemExit) as ended:
            main()
        printed = capsys.readouterr()
        code = ended.value.code
        assert isinstance(code, int | None)
        return code or 0, printed.out, printed.err

    return run_command


def new_name() -> str:
    return f"t{uuid.uuid4().hex[:8]}"


def eventually(
    found: Callable[[], T | None],
    *,
    patience_s: float = PATIENCE_S,
    ignoring: tuple[type[Exception], ...] = (),
) -> T:
    """What `found` returns once that is true; there is no event to wait for."""
    deadline = time.monotonic() + patience_s
    answer: object = None
    while True:
        with suppress(*ignoring):
            if answer := found():
                return answer
        assert time.monotonic() < deadline, f"{found} is still {answer}"
        time.sleep(0.02)


def all_serve(ensemble: Ensemble) -> bool:
    """A launch waits for a leader; the last follower may need a moment more."""
    return all(server.role in ("leader", "follower") for server in ensemble.status().servers)


def role_of(ensemble: Ensemble, *, leads: bool) -> Any:
    """The status of the leader, or of some follower."""
    leader = ensemble.wait_for_leader()
    servers = eventually(
        lambda: [
            server
            for server in ensemble.status().servers
            if server.role in ("leader", "follower") and (server.server_id == leader) == leads
        ]
    )
    return servers[0]


@pytest.fixture
def driver_environment(ray_session: str) -> dict[str, str]:
    """For a process that shall find the Ray of this module."""
    return {**os.environ, "RAY_ADDRESS": ray_session, "RAY_AUTH_MODE": "token"}


@pytest.fixture
def command(bare_machine: dict[str, str]) -> Callable[..., programs.Completed]:
    """Run a command in a process of its own, on a machine without Ray, with more environment."""

    def run_command(*words: str, **environment: str) -> programs.Completed:
        return programs.run(
            [programs.RAYKEEPER, *words],
            {**bare_machine, **environment},
            cwd=bare_machine["HOME"],
        )

    return run_command


@pytest.fixture
def bare_machine() -> Iterator[dict[str, str]]:
    """An environment in which no Ray runs, as far as a command can tell."""
    home = Path(tempfile.mkdtemp(prefix="rk", dir="/tmp"))  # short: it holds unix sockets
    kept = programs.environment_without("RAY_")
    yield {**kept, "HOME": str(home), "RAY_TMPDIR": str(home), "COLUMNS": "120"}
    record = home / ".raykeeper/head.json"
    if record.exists():  # the test failed half-way
        os.kill(json.loads(record.read_text())["pid"], signal.SIGTERM)
    shutil.rmtree(home, ignore_errors=True)
