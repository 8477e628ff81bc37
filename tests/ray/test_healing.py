"""The keeper moves a server whose node is lost or drained, and no acknowledged write is lost."""

import os
import subprocess
import sys
from pathlib import Path

from tests.ray.test_nodes import SETTINGS

ROOT = Path(__file__).parents[2]


def test_a_server_whose_node_is_lost_gets_its_vote_on_another_node() -> None:
    kept = {k: v for k, v in os.environ.items() if not k.startswith("RAY_")}
    done = subprocess.run(
        [sys.executable, "-m", "tests.ray.lost_server_nodes"],
        cwd=ROOT,
        env={**kept, **SETTINGS},
        capture_output=True,
        text=True,
        timeout=280,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    assert done.stdout.endswith("all is well\n")
