"""Processes and nodes are killed, frozen and removed under load: nothing is lost or told wrong."""

import os
import re
import subprocess
import sys
from pathlib import Path

import msgspec
import pytest

from raykeeper.clusters.chaos.plan import KINDS
from tests.ray.chaos_nodes import PROGRESS, Verdict
from tests.ray.test_nodes import SETTINGS

ROOT = Path(__file__).parents[2]


@pytest.mark.ray
def test_faults_of_processes_and_nodes_under_load() -> None:
    kept = {k: v for k, v in os.environ.items() if not k.startswith("RAY_")}
    done = subprocess.run(
        [sys.executable, "-m", "tests.ray.chaos_nodes"],
        cwd=ROOT,
        env={**kept, **SETTINGS},
        capture_output=True,
        text=True,
        timeout=280,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    verdict = msgspec.json.decode(done.stdout.splitlines()[-1], type=Verdict)
    assert (verdict.lost, verdict.violations, verdict.undecided) == ([], [], [])
    assert len(verdict.faults) == len(KINDS) + 4
    assert verdict.operations > len(KINDS) * PROGRESS


def run_chaos(*words: str) -> "subprocess.CompletedProcess[str]":
    return subprocess.run(
        [Path(sys.executable).parent / "raykeeper", "chaos", *words],
        env={k: v for k, v in os.environ.items() if k != "RAY_ADDRESS"} | {"COLUMNS": "200"},
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )


@pytest.mark.ray
def test_the_command_prints_its_verdict() -> None:
    done = run_chaos("--minutes", "0.2", "--seed", "1")
    assert done.returncode == 0, done.stdout + done.stderr
    told = dict(re.findall(r"^(\w[\w ]+?)  +(\d+)", done.stdout, re.MULTILINE))
    assert told["seed"] == "1"
    assert int(told["acknowledged writes"]) > 0
    assert int(told["faults"]) > 0
    assert (told["lost acknowledged writes"], told["violations"]) == ("0", "0")


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["--minutes", "0"], "error: --minutes must be above 0"),
        (["--minutes", "nan"], "error: --minutes must be above 0"),
        (["--seed", "-1"], "error: --seed must not be negative"),
        (["--minutes", "many"], "Invalid value for '--minutes'"),
    ],
)
def test_bad_arguments_are_refused(words: list[str], said: str) -> None:
    done = run_chaos(*words)
    assert done.returncode == 2
    assert said in done.stderr
    assert "Traceback" not in done.stderr
