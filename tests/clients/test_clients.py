"""Unchanged clients of ZooKeeper create, read, watch, lock and elect on a pure server over TCP."""

from collections.abc import Iterator

import pytest

from tests.clients.programs import PROGRAMS, running
from tests.harness.jute_caller import connected
from tests.harness.jute_port import JutePort
from tests.harness.pure_servers import PureServers

PATIENCE_S = 120.0


@pytest.fixture(scope="module")
def port() -> Iterator[JutePort]:
    with JutePort() as opened:
        yield opened


@pytest.fixture(scope="module")
def port_without_leader() -> Iterator[JutePort]:
    """One server of three, which has lost the others."""
    servers = PureServers(3)
    connected(servers[1]).create("/kept")
    for other in (2, 3):
        servers.crash(other)
    with JutePort(host=servers[1]) as opened:
        yield opened


def run(name: str, word: str, address: str) -> None:
    """Run a program to its end, if it is installed."""
    if missing := PROGRAMS[name].missing():
        pytest.skip(missing)
    with running(name, word, address) as program:
        told, complaint = program.communicate(timeout=PATIENCE_S)
    assert (program.returncode, told) == (0, "done\n"), complaint


@pytest.mark.parametrize("name", PROGRAMS)
def test_a_client_finds_what_zookeeper_offers(port: JutePort, name: str) -> None:
    run(name, "tour", port.address)


@pytest.mark.parametrize("name", ["kazoo", "c", "curator"])
def test_a_read_only_client_is_served_without_a_leader(
    port_without_leader: JutePort, name: str
) -> None:
    run(name, "readonly", port_without_leader.address)
