"""Each example, run by the command in its docstring: it ends well and tells the story it is for.

They share a Ray, as examples do that find RAY_ADDRESS set; one of them also starts its own.
"""

import importlib
import re
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
SHARED = {"__init__", "scene", "ymb_broker"}
EXAMPLES = sorted(p.stem for p in (ROOT / "examples").glob("*.py") if p.stem not in SHARED)
Run = Callable[[str], list[str]]


def run_example(name: str, environment: dict[str, str]) -> list[str]:
    """The lines it prints, without the times."""
    module = importlib.import_module(f"examples.{name}")
    command = re.search(r"^    python (-m examples\.\w+)$", module.__doc__ or "", re.MULTILINE)
    assert command is not None
    began = time.monotonic()
    done = subprocess.run(
        [sys.executable, *command.group(1).split()],
        cwd=ROOT,
        env=environment,
        capture_output=True,
        text=True,
        timeout=150,
        check=False,
    )
    print(f"{name}: {time.monotonic() - began:.1f} s")
    assert done.returncode == 0, done.stdout + done.stderr
    return [line.partition(" s  ")[2] for line in done.stdout.splitlines()]


@pytest.fixture
def run(driver_environment: dict[str, str]) -> Run:
    return lambda name: run_example(name, driver_environment)


def count(pattern: str, story: list[str]) -> int:
    return sum(1 for line in story if re.fullmatch(pattern, line))


def test_every_example_has_a_test_and_is_in_the_index() -> None:
    tests = re.findall(r"^def test_(\w+)\(run: Run\)", Path(__file__).read_text(), re.MULTILINE)
    index = re.findall(r"^\| \[(\w+)\.py\]", (ROOT / "examples/README.md").read_text(), re.M)
    assert sorted(tests) == sorted(index) == EXAMPLES


def test_an_example_brings_its_own_ray(bare_machine: dict[str, str]) -> None:
    story = run_example("message_broker", bare_machine)
    assert story[-1] == "shutdown: both brokers have left"


def test_message_broker(run: Run) -> None:
    story = run("message_broker")
    assert count(r"topic-\d: primary broker-\d, backup broker-\d", story) == 8
    assert count(r"killing broker-\d, process \d+", story) == 2
    assert count(r"topic-\d moved to its backup broker-[123], whose backup is .*", story) == 2
    assert count(r"topic-\d moved to broker-[23] only after migration was allowed again", story) > 1
    assert "120 messages were acknowledged, 120 are there, none is lost" in story
