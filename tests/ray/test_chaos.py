"""Processes and nodes are killed, frozen and removed under load: nothing is lost or told wrong."""

import os
import subprocess
import sys
from pathlib import Path

import msgspec
import pytest

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
    assert len(verdict.faults) == 15
    assert verdict.operations > 14 * PROGRESS
