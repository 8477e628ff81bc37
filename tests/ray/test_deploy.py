"""The files of deploy/, tried as far as one machine allows: labelled nodes, jobs, restarts."""

import os
import subprocess
import sys
from pathlib import Path

from tests.ray.test_nodes import SETTINGS

ROOT = Path(__file__).parents[2]


def test_an_ensemble_runs_on_the_slots_of_the_deployment() -> None:
    kept = {k: v for k, v in os.environ.items() if not k.startswith("RAY_")}
    done = subprocess.run(
        [sys.executable, "-m", "tests.ray.deployed"],
        cwd=ROOT,
        env={**kept, **SETTINGS, "RAY_gcs_storage": "rocksdb"},
        capture_output=True,
        text=True,
        timeout=200,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    assert done.stdout.endswith("all is well\n")
