"""The texts of `scenarios` and `one_server`, each of which says what it shows and tells its steps.

Those of `scenarios` have several servers, whose properties are checked at every step, and the
commands of `tests/harness/zab_scenario.py`. Those of `one_server` play all that is around one
server, with the commands of `tests/unit/zab/peer_stage.py`. docs/PROTOCOL_BUGS.md lists the issues
of ZooKeeper that they replay.
"""

from pathlib import Path

import pytest

from tests.harness import zab_scenario
from tests.harness.datadriven import check
from tests.harness.zab_scenario import ZabScenario
from tests.unit.zab import peer_stage
from tests.unit.zab.peer_stage import PeerStage


def texts(folder: str) -> list[Path]:
    return sorted((Path(__file__).parent / folder).glob("*.txt"))


@pytest.mark.parametrize("path", texts("scenarios"), ids=lambda path: path.stem)
def test_scenario(path: Path, rewrite: bool) -> None:
    check(path, ZabScenario, zab_scenario.READERS, rewrite=rewrite)


@pytest.mark.parametrize("path", texts("one_server"), ids=lambda path: path.stem)
def test_one_server(path: Path, rewrite: bool) -> None:
    check(path, PeerStage, peer_stage.READERS, rewrite=rewrite)
