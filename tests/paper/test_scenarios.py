"""The scenarios of `scenarios`, each a file that says what it shows and tells its steps.

The commands are in `tests/harness/zab_scenario.py`, the format in `tests/harness/datadriven.py`.
Properties of Zab are checked at every step; the file shows the rest. docs/PROTOCOL_BUGS.md lists
the issues of ZooKeeper that they replay.
"""

from pathlib import Path

import pytest

from tests.harness.datadriven import check
from tests.harness.zab_scenario import READERS, ZabScenario

FILES = sorted((Path(__file__).parent / "scenarios").glob("*.txt"))


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.stem)
def test_scenario(path: Path, rewrite: bool) -> None:
    check(path, ZabScenario, READERS, rewrite=rewrite)
