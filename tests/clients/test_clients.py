"""Unchanged clients of ZooKeeper create, read, watch, lock and elect on a pure server over TCP."""

from collections.abc import Iterator

import pytest

from tests.clients.programs import PROGRAMS, running
from tests.harness.jute_port import JutePort

PATIENCE_S = 120.0


@pytest.fixture(scope="module")
def port() -> Iterator[JutePort]:
    with JutePort() as opened:
        yield opened


@pytest.mark.parametrize("name", PROGRAMS)
def test_a_client_finds_what_zookeeper_offers(port: JutePort, name: str) -> None:
    if missing := PROGRAMS[name].missing():
        pytest.skip(missing)
    with running(name, "tour", port.address) as program:
        told, complaint = program.communicate(timeout=PATIENCE_S)
    assert (program.returncode, told) == (0, "done\n"), complaint
