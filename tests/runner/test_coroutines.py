"""A test that is a coroutine runs, can fail, and runs on the loop of its fixture `runner`."""

import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parents[2]
SUITE = {
    "conftest.py": "from tests.conftest import pytest_pyfunc_call\n",
    "test_coroutines.py": """
import asyncio
import pytest
@pytest.fixture
def runner():
    with asyncio.Runner() as runner: yield runner
async def test_that_fails(tmp_path): assert not tmp_path.exists()
async def test_on_its_own_loop(): await asyncio.sleep(0)
async def test_on_a_given_loop(runner): assert runner.get_loop() is asyncio.get_running_loop()
""",
}


def test_it_is_run(tmp_path: Path) -> None:
    for name, text in SUITE.items():
        (tmp_path / name).write_text(text)
    project = ("-c", str(ROOT / "pyproject.toml"), "-p", "no:cacheprovider")
    done = subprocess.run(
        [sys.executable, "-m", "pytest", "-q", *project, str(tmp_path)],
        cwd=ROOT,
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert "1 failed, 2 passed" in done.stdout, done.stdout + done.stderr
    assert "test_coroutines.py::test_that_fails" in done.stdout, done.stdout
