"""Programs that a test runs in a process of its own, and the settings of Ray that they run with.

Ray reads its settings when it is loaded, and a driver does not survive every end of a cluster.
"""

import os
import subprocess
import sys
import tempfile
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

ROOT = Path(__file__).parents[2]
RAYKEEPER = Path(sys.executable).parent / "raykeeper"
NO_MEMORY_MONITOR = {"RAY_memory_monitor_refresh_ms": "0"}
"""Ray kills workers when the machine is short of memory, whoever uses it."""
QUICK_HEALTH_CHECKS = {
    "RAY_health_check_initial_delay_ms": "0",
    "RAY_health_check_period_ms": "500",
    "RAY_health_check_timeout_ms": "1000",
    "RAY_health_check_failure_threshold": "6",
}
"""Ray takes a silent node for dead after some seconds."""

Completed = subprocess.CompletedProcess[str]


def run(
    words: Sequence[str | Path],
    environment: Mapping[str, str] | None = None,
    *,
    cwd: Path | str | None = None,
    timeout_s: float = 100,
) -> Completed:
    """Run a program until it ends, whatever its exit code; `environment` replaces this one."""
    return subprocess.run(
        words,
        cwd=cwd,
        env=environment,
        capture_output=True,
        text=True,
        timeout=timeout_s,
        check=False,
    )


def run_module(module: str, settings: Mapping[str, str], *, timeout_s: float = 280) -> Completed:
    """Run a module that starts Ray with these settings and no others; it must succeed."""
    done = run(
        [sys.executable, "-m", module],
        {**environment_without("RAY_"), **NO_MEMORY_MONITOR, **settings},
        cwd=ROOT,
        timeout_s=timeout_s,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done


def run_raykeeper(
    *words: str, cwd: Path | None = None, timeout_s: float = 200, **environment: str
) -> Completed:
    """Run a command that starts a Ray of its own, with more environment; see `run`."""
    return run(
        [RAYKEEPER, *words],
        {**environment_without("RAY_ADDRESS"), "COLUMNS": "200", **environment},
        cwd=cwd,
        timeout_s=timeout_s,
    )


def environment_without(prefix: str) -> dict[str, str]:
    """This process's environment without the variables that begin with `prefix`."""
    return {name: value for name, value in os.environ.items() if not name.startswith(prefix)}


def in_temporary_folder(main: Callable[[Path], None]) -> None:
    """Run the main function of a program, with the folder of its Ray and its disks."""
    # The path is short because the folder has unix sockets in it.
    with tempfile.TemporaryDirectory(prefix="rk", dir="/tmp", ignore_cleanup_errors=True) as folder:
        os.environ["RAY_TMPDIR"] = folder
        main(Path(folder))
