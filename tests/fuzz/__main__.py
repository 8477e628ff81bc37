"""Long runs of the fuzz tests: `python -m tests.fuzz --minutes 60`.

Round after round of all tests, each with examples that were not tried before. The first failure
ends it, with the smallest example that hypothesis found.
"""

import argparse
import os
import subprocess
import sys
import time
from pathlib import Path

FACTOR = 10


def main() -> int:
    """Run until the time is over or a test fails. The exit code is pytest's."""
    parser = argparse.ArgumentParser(prog="python -m tests.fuzz", description=__doc__)
    parser.add_argument("--minutes", type=float, default=10.0)
    parser.add_argument("--seed", type=int, default=0, help="of the first round")
    parser.add_argument("-k", dest="only", default="", help="tests to run, as pytest's -k")
    given = parser.parse_args()
    until = time.monotonic() + given.minutes * 60
    seed = given.seed
    while True:
        print(f"round with --seed {seed}", flush=True)
        command = [sys.executable, "-m", "pytest", "-q", "-x", f"--hypothesis-seed={seed}"]
        command += ["--timeout=0", "-k", given.only, str(Path(__file__).parent)]
        ended = subprocess.run(command, env={**os.environ, "FUZZ_FACTOR": str(FACTOR)}, check=False)
        if ended.returncode or time.monotonic() >= until:
            return ended.returncode
        seed += 1


if __name__ == "__main__":
    sys.exit(main())
