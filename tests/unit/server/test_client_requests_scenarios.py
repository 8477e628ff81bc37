"""ClientRequests: the order of what clients receive; each file in data/ is one theme."""

from pathlib import Path

import pytest

from tests.harness.datadriven import check
from tests.unit.server.servers_stage import ServersStage

FILES = sorted(Path(__file__).with_name("data").glob("*.txt"))


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.stem)
def test_scenario(path: Path, rewrite: bool) -> None:
    check(path, ServersStage, rewrite=rewrite)
