"""Every branch of the pure rooms, by their own unit tests: python -m tests.tidy.pure_coverage.

Each room is measured by itself, so that a test of another room does not lend it coverage.
"""

import os
import subprocess
import sys
import tempfile
from pathlib import Path

ROOMS = (
    "zab",
    "znodes",
    "jute",
    "server",
    "chaos/checks",
    "clusters/healing",
    "clusters/member_steps",
    "clusters/doctor/rules",
)


def main() -> int:
    """Measure each room; the number of those that lack a branch."""
    short = []
    with tempfile.TemporaryDirectory() as folder:
        for room in ROOMS:
            environment = {**os.environ, "COVERAGE_FILE": str(Path(folder) / Path(room).name)}
            coverage = [sys.executable, "-m", "coverage"]
            run = [*coverage, "run", "--branch", f"--include={room}/*"]
            tests = ["-m", "pytest", "-q", f"tests/unit/{room}"]
            subprocess.run([*run, *tests], check=True, env=environment)
            report = [*coverage, "report", "--skip-covered", "--show-missing", "--fail-under=100"]
            if subprocess.run(report, check=False, env=environment).returncode:
                short.append(room)
    if short:  # last, where a reader of a long output looks first
        print(f"rooms with a branch that no test of their own takes: {', '.join(short)}")
    return len(short)


if __name__ == "__main__":
    sys.exit(main())
