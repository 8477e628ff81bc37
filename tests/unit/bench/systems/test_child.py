"""A server process: killed, started again, stopped; and one that ends by itself."""

import sys
from pathlib import Path

import psutil
import pytest

from raykeeper.bench.errors import BenchError
from raykeeper.bench.systems.child import ChildProcess, free_ports, wait_until

WAITS = [sys.executable, "-c", "import time; print('up', flush=True); time.sleep(600)"]


def test_a_child_is_killed_and_started_again(tmp_path: Path) -> None:
    child = ChildProcess(WAITS, tmp_path / "printed")
    assert child.pid == 0
    child.start()
    first = child.pid
    child.start()
    assert child.pid == first > 0  # it runs already
    child.kill()
    assert child.pid == 0 and not psutil.pid_exists(first)
    child.start()
    assert child.pid not in (0, first)
    child.stop()
    assert not child.is_up()
    child.stop()


def test_who_does_not_serve_in_time_is_told_of(tmp_path: Path) -> None:
    child = ChildProcess(WAITS, tmp_path / "printed")
    child.start()
    try:
        with pytest.raises(BenchError, match=r"does not serve after 0\.01 s"):
            wait_until(lambda: False, 0.01, [child])
    finally:
        child.stop()


def test_who_ends_is_told_of_with_its_words(tmp_path: Path) -> None:
    child = ChildProcess(
        [sys.executable, "-c", "import sys; sys.exit('no port')"], tmp_path / "printed"
    )
    child.start()
    with pytest.raises(BenchError, match="a server ended: no port"):
        wait_until(lambda: False, 30.0, [child])


def test_free_ports_are_different() -> None:
    assert len(set(free_ports(9))) == 9
