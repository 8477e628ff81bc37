"""Environments as users have them: a wheel in a virtual environment, and an empty home.

Which Python and which Ray is what pyproject.toml claims: its oldest of both, and with the newest
Ray the newest Python that it names of which there is an interpreter here.
"""

import json
import os
import re
import shutil
import subprocess
import tempfile
import tomllib
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

import psutil

ROOT = Path(__file__).parents[2]
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
PYTHONS = tuple(
    sorted(
        (x[1] for each in PROJECT["classifiers"] if (x := re.search(r":: (3\.\d+)$", each))),
        key=lambda version: int(version.partition(".")[2]),
    )
)
(OLDEST_RAY,) = (each.partition(">=")[2] for each in PROJECT["dependencies"] if each[:4] == "ray>")

NOT_IN_REGISTRY, NO_REGISTRY = "No matching distribution found for", "Retrying ("
INSTALL_TIMEOUT_S = 600.0
RUN_TIMEOUT_S = 200.0


class NoSuchRelease(Exception):
    """Raised when the registry has no such package for this Python."""


@dataclass(frozen=True)
class Combination:
    """A Python and a Ray to be tried together."""

    pythons: tuple[str, ...]
    """The versions that will do, such as 3.11; the first one that is there is taken."""
    variable: str
    """The environment variable that names another interpreter."""
    ray: str
    """What pip is asked for."""


OLDEST = Combination(PYTHONS[:1], "PYTHON_OLDEST", f"ray=={OLDEST_RAY}")
NEWEST = Combination(tuple(reversed(PYTHONS[1:])), "PYTHON_NEWEST", "ray")
LIBRARIES = Combination(PYTHONS[:1], "PYTHON_OLDEST", "ray[serve,train,data]")


def find_python(combination: Combination) -> str | None:
    """An interpreter that can make virtual environments, None if there is none of its versions."""
    named = os.environ.get(combination.variable)
    if named:
        return named
    pyenv = Path(os.environ.get("PYENV_ROOT", Path.home() / ".pyenv")) / "versions"
    for version in combination.pythons:
        candidates = [f"python{version}"]
        candidates += map(str, sorted(pyenv.glob(f"{version}.*/bin/python"), reverse=True))
        for candidate in filter(shutil.which, candidates):
            if version_of(candidate) == version:
                return candidate
    return None


def version_of(python: str) -> str:
    """The version of an interpreter, "" if it cannot make virtual environments."""
    # Without ensurepip, which Debian leaves out, a virtual environment has no pip.
    program = "import ensurepip, sys; print(*sys.version_info[:2], sep='.')"
    asked = subprocess.run([python, "-c", program], capture_output=True, text=True, check=False)
    return asked.stdout.strip()


def build_wheel(python: str, folder: Path) -> Path:
    """The wheel of the checkout, built from a copy, so that no older build is in it.

    `python` has what builds it.
    """
    ignored = shutil.ignore_patterns(".*", "build", "dist", "*.egg-info", "__pycache__", "tests")
    copy = folder / "checkout"
    shutil.copytree(ROOT, copy, symlinks=True, ignore=ignored)
    command = [python, "-m", "pip", "wheel", "--quiet", "--no-deps", "--no-build-isolation"]
    subprocess.run([*command, "-w", str(folder), str(copy)], check=True, timeout=INSTALL_TIMEOUT_S)
    (wheel,) = folder.glob("*.whl")
    return wheel


def end(process: psutil.Process) -> None:
    """Kill a process that was started here, and what it has started itself."""
    processes = [*process.children(recursive=True), process]
    for each in processes:
        with suppress(psutil.NoSuchProcess):
            each.kill()
    psutil.wait_procs(processes, timeout=30)


class Installed:
    """A virtual environment with the wheel, and a home in which nothing was done yet.

    RAY_TMPDIR keeps other Rays of this machine out of sight, and this one out of theirs. That is
    all that a user would not set.
    """

    def __init__(self, python: str) -> None:
        self.folder = Path(tempfile.mkdtemp(prefix="rk", dir="/tmp"))  # short: it has unix sockets
        self.python = python
        self.bin = self.folder / "venv/bin"
        self.home = self.folder / "home"
        self.home.mkdir()
        kept = {
            name: value
            for name, value in os.environ.items()
            if not name.startswith(("RAY_", "PYTHON", "VIRTUAL_ENV", "COV_"))
        }
        self._environment = {
            **kept,
            "PATH": f"{self.bin}:{kept['PATH']}",
            "HOME": str(self.home),
            "RAY_TMPDIR": str(self.folder),
            "RAY_memory_monitor_refresh_ms": "0",  # who is short of memory here is somebody else
        }

    def install(self, *packages: str) -> None:
        """Make the virtual environment.

        Raises:
            NoSuchRelease: the registry has none of the packages for this Python.
        """
        subprocess.run([self.python, "-m", "venv", self.bin.parent], check=True)
        pip = subprocess.run(
            [self.bin / "python", "-m", "pip", "install", "--quiet", *packages],
            capture_output=True,
            text=True,
            timeout=INSTALL_TIMEOUT_S,
            check=False,
        )
        if NOT_IN_REGISTRY in pip.stderr and NO_REGISTRY not in pip.stderr:
            raise NoSuchRelease(pip.stderr.strip().splitlines()[-1])
        assert pip.returncode == 0, pip.stderr

    def start(self, *command: str | Path, **exported: str) -> "subprocess.Popen[str]":
        """Begin a command, whose standard streams are pipes."""
        return subprocess.Popen(
            [self.bin / command[0], *command[1:]],
            cwd=tempfile.mkdtemp(dir=self.folder),
            env={**self._environment, **exported},
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )

    def run(self, *command: str | Path, **exported: str) -> str:
        """What a command prints to standard output; it must succeed."""
        process = self.start(*command, **exported)
        try:
            output, errors = process.communicate(timeout=RUN_TIMEOUT_S)
        except subprocess.TimeoutExpired:
            end(psutil.Process(process.pid))
            output, errors = process.communicate()
            raise AssertionError(f"{command} does not end:\n{output}\n{errors}") from None
        told = f"{command} ended with {process.returncode}:\n{output}\n{errors}"
        assert process.returncode == 0, told
        return output

    def remove(self) -> None:
        """Leave nothing behind, not even a head that a failed test left running."""
        record = self.home / ".raykeeper/head.json"
        if record.exists():
            with suppress(psutil.NoSuchProcess):
                end(psutil.Process(json.loads(record.read_text())["pid"]))
        shutil.rmtree(self.folder, ignore_errors=True)
