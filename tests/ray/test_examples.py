"""Each larger system of examples/systems, run by the command in its docstring: it ends well and
tells the story it is for. (The programs to begin with run from a wheel, in tests/wheel.)

They share a Ray, as systems do that find RAY_ADDRESS set; one of them also starts its own.
"""

import importlib
import re
import sys
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.ray import programs

SYSTEMS = programs.ROOT / "examples/systems"
EXAMPLES = sorted(p.stem for p in SYSTEMS.glob("*.py") if "\ndef main() " in p.read_text())
Run = Callable[[str], list[str]]


def run_example(name: str, environment: dict[str, str]) -> list[str]:
    """The lines it prints, without the times."""
    module = importlib.import_module(f"raykeeper.examples.systems.{name}")
    command = re.search(
        r"^    python (-m raykeeper\.examples\.systems \w+)$", module.__doc__ or "", re.MULTILINE
    )
    assert command is not None
    began = time.monotonic()
    words = [sys.executable, *command.group(1).split()]
    done = programs.run(words, environment, cwd=programs.ROOT, timeout_s=250)
    print(f"{name}: {time.monotonic() - began:.1f} s")
    assert done.returncode == 0, done.stdout + done.stderr
    return [line.partition(" s  ")[2] for line in done.stdout.splitlines()]


@pytest.fixture
def run(driver_environment: dict[str, str]) -> Run:
    return lambda name: run_example(name, driver_environment)


def count(pattern: str, story: list[str]) -> int:
    return sum(1 for line in story if re.fullmatch(pattern, line))


def test_every_example_has_a_test_and_is_in_the_index() -> None:
    tests = re.findall(
        r"^def test_(\w+)_runs\(run: Run\)", Path(__file__).read_text(), re.MULTILINE
    )
    index = re.findall(r"^\| \[(\w+)\.py\]", (SYSTEMS / "README.md").read_text(), re.M)
    assert sorted(tests) == sorted(index) == EXAMPLES


def test_the_command_lists_the_examples() -> None:
    done = programs.run([sys.executable, "-m", "raykeeper.examples.systems"])
    assert done.returncode == 0, done.stderr
    assert (
        re.findall(r"^python -m raykeeper\.examples\.systems (\w+) +\w.*:.*\.$", done.stdout, re.M)
        == EXAMPLES
    )


def test_an_example_brings_its_own_ray(bare_machine: dict[str, str]) -> None:
    story = run_example("paused_holder", bare_machine)
    assert story[-1] == "on the disk: one, two"


def test_message_broker_runs(run: Run) -> None:
    story = run("message_broker")
    assert count(r"topic-\d: primary broker-\d, backup broker-\d", story) == 8
    assert count(r"killing broker-\d, process \d+", story) == 2
    assert count(r"topic-\d moved to its backup broker-[123], whose backup is .*", story) == 2
    assert count(r"topic-\d moved to broker-[23] only after migration was allowed again", story) > 1
    assert "120 messages were acknowledged, 120 are there, none is lost" in story


def test_katta_runs(run: Run) -> None:
    story = run("katta")
    assert count(r"12 shards served, by worker: worker-1 4, worker-2 4, worker-3 4; .*", story) == 1
    assert count(r"killing worker-2, process \d+", story) == 1
    assert count(r"12 shards served, by worker: worker-1 6, worker-3 6; .*", story) == 1
    assert count(r"killing master-\d, the master of epoch 1, process \d+", story) == 1
    assert count(r"12 shards served, by worker: worker-1 4, worker-3 4, worker-4 4; .*", story) == 1
    assert count(r"master-\d is the master of epoch 2", story) == 1


def test_map_reduce_runs(run: Run) -> None:
    story = run("map_reduce")
    assert count(r"coordinator-\d, the coordinator of epoch 1, has killed itself .*", story) == 1
    assert count(r"coordinator-\d has finished the job", story) == 1
    marked = [re.fullmatch(r"tasks marked in epoch 1: (\d+), in epoch 2: (\d+)", s) for s in story]
    assert [int(number) > 1 for match in marked if match for number in match.groups()] == [True] * 2
    assert "a late order of epoch 1 is refused" in story
    assert count(r"\d+ words, counted as a plain loop counts them", story) == 1


def test_fetching_service_runs(run: Run) -> None:
    story = run("fetching_service")
    assert "all fetchers report that they are configured anew" in story
    assert count(r"half of the pages are fetched; killed master-\d, .* and fetcher-2", story) == 1
    assert count(r"fetcher-1: its disk is full, fetched \d+ pages", story) == 1
    assert count(r"fetcher-2: gone, fetched 0 pages", story) == 1
    assert count(r"48 pages of the site are fetched, [0-4] of them twice", story) == 1


def test_feature_flags_runs(run: Run) -> None:
    story = run("feature_flags")
    assert count(r"25 percent are to get it: \d+ ms to all shops", story) == 1
    assert "two people added 20 experiments at once, all are there" in story
    assert "the shops go on with the last valid flags" in story
    assert count(r"killed server \d, the leader, process \d+", story) == 1
    assert "everybody gets the new checkout all the same" in story


def test_load_balancer_runs(run: Run) -> None:
    story = run("load_balancer")
    answered = [line.partition("answered by ")[2] for line in story if "answered by" in line]
    assert answered[0] == "{'backend-1': 10, 'backend-2': 10, 'backend-3': 10}"
    assert count(r"killing backend-2, process \d+", story) == 1
    assert answered[2:] == [
        "{'backend-1': 10, 'backend-3': 10}",
        "{'backend-3': 10, 'backend-4': 10}",
    ]


def test_paused_holder_runs(run: Run) -> None:
    story = run("paused_holder")
    tokens = [int(token) for token in re.findall(r"holds the lock, token (\d+)", "\n".join(story))]
    assert len(tokens) == 2
    assert tokens[0] < tokens[1]
    refusal = f"the disk refuses token {tokens[0]}: it has seen {tokens[1]} of a later holder"
    assert f"writer 1 writes 'late': refused, {refusal}" in story
    assert story[-1] == "on the disk: one, two"


def test_training_ranks_runs(run: Run) -> None:
    story = run("training_ranks")
    assert "a rank was killed at step 37; another actor is started in its place" in story
    assert [f"generation 1, rank {rank}: from step 0" in story for rank in range(4)] == [
        *(True, True, False, True)  # the dead one tells nothing
    ]
    assert count(r"generation 2, rank [0-3]: from step 30", story) == 4
    assert count(r"all ranks have the line .*, that of a quiet training", story) == 1


def test_two_phase_commit_runs(run: Run) -> None:
    story = run("two_phase_commit")
    ends = [line.partition(" to the south: ")[2] for line in story if " to the south: " in line]
    assert ends == [
        "COMMIT, now {'north': 70, 'south': 130}",
        "ABORT, now {'north': 70, 'south': 130}",
        "ABORT, now {'north': 70, 'south': 130}",
        "COMMIT, now {'north': 60, 'south': 140}",
        "COMMIT, now {'north': 40, 'south': 160}",
    ]
    assert story.count("south has died, and is opened again") == 2
    assert count(r"both banks have voted; killed the coordinator, process \d+", story) == 1
