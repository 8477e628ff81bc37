"""Several Ray nodes: servers spread, keep to their disks, and return with their node."""

import os
import subprocess
import sys
from pathlib import Path

SETTINGS = {
    "RAY_memory_monitor_refresh_ms": "0",
    "RAY_health_check_initial_delay_ms": "0",
    "RAY_health_check_period_ms": "500",
    "RAY_health_check_timeout_ms": "1000",
    "RAY_health_check_failure_threshold": "6",
}


def test_an_ensemble_spreads_over_three_nodes() -> None:
    kept = {k: v for k, v in os.environ.items() if not k.startswith("RAY_")}
    done = subprocess.run(
        [sys.executable, Path(__file__).with_name("three_nodes.py")],
        env={**kept, **SETTINGS},
        capture_output=True,
        text=True,
        timeout=200,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    assert done.stdout.endswith("all is well\n")
