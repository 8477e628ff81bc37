"""A run of the project's own kind, of a few small tests, whose worker is lost."""

import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
BOUND_S = 60.0
"""A run that waits for a worker would never end."""
TIMEOUT_S = 3
SUITE = {
    "conftest.py": "from tests.conftest import pytest_configure\n",
    "test_other.py": "def test_one(): pass\ndef test_two(): pass\n",
    "test_lost.py": """
import os, signal
def test_before(): pass
def test_that_is_lost(): os.kill(os.getpid(), signal.{signal})
def test_after(): pass
""",
    "test_more.py": "def test_more(): pass\n",
}


@pytest.mark.parametrize(
    "options", [("-n", "2"), ("-n", "2", "--dist", "loadfile")], ids=["without-ray", "with-ray"]
)
@pytest.mark.parametrize("signal", ["SIGKILL", "SIGSTOP"])
def test_a_run_with_a_lost_worker_ends_with_an_error(
    tmp_path: Path, options: tuple[str, ...], signal: str
) -> None:
    """As `make test` runs the halves: with worker and files, and what either needs to end."""
    for name, text in SUITE.items():
        (tmp_path / name).write_text(text.replace("{signal}", signal))
    project = ("-c", str(ROOT / "pyproject.toml"), "-p", "no:cacheprovider")
    bound = ("--timeout", str(TIMEOUT_S))
    done = subprocess.run(
        [sys.executable, "-m", "pytest", "-q", *project, *options, *bound, str(tmp_path)],
        cwd=ROOT,
        capture_output=True,
        text=True,
        timeout=BOUND_S,
        check=False,
    )
    assert done.returncode == pytest.ExitCode.TESTS_FAILED, done.stdout + done.stderr
    assert "test_lost.py::test_that_is_lost" in done.stdout, done.stdout
    assert ("no test has ended for 6 s" in done.stderr) == (signal == "SIGSTOP"), done.stderr
