"""The settings of a ZooKeeper ensemble, and what its servers say of themselves."""

from pathlib import Path

import pytest

from raykeeper.bench.systems.contract import EnsembleShape
from raykeeper.bench.systems.raykeeper import port_places
from raykeeper.bench.systems.zookeeper import ZooKeeper, configure, mode_of
from raykeeper.bench.systems.zookeeper_loads import missing_client
from raykeeper.zab.ids import ServerId


def lines(folder: Path) -> list[str]:
    return (folder / "zoo.cfg").read_text().splitlines()


def test_every_server_has_the_addresses_of_all(tmp_path: Path) -> None:
    ports = list(range(10, 22))
    configure(tmp_path / "2", 2, EnsembleShape(3, 1), ports)
    assert (tmp_path / "2/myid").read_text() == "2"
    assert "clientPort=13" in lines(tmp_path / "2")
    assert lines(tmp_path / "2")[-4:] == [
        "server.1=127.0.0.1:11:12",
        "server.2=127.0.0.1:14:15",
        "server.3=127.0.0.1:17:18",
        "server.4=127.0.0.1:20:21:observer",
    ]
    assert "peerType=observer" not in lines(tmp_path / "2")


def test_an_observer_is_configured_as_one(tmp_path: Path) -> None:
    configure(tmp_path / "4", 4, EnsembleShape(3, 1), list(range(12)))
    assert "peerType=observer" in lines(tmp_path / "4")


def test_a_single_server_has_no_ensemble(tmp_path: Path) -> None:
    configure(tmp_path / "1", 1, EnsembleShape(1), [5, 6, 7])
    assert not [line for line in lines(tmp_path / "1") if line.startswith("server.")]


@pytest.mark.parametrize(
    ("answer", "mode"),
    [
        ("Zookeeper version: 3.8.0\nZxid: 0x0\nMode: follower\nNode count: 5\n", "follower"),
        ("Mode: standalone", "standalone"),
        ("This ZooKeeper instance is not currently serving requests\n", ""),
        ("", ""),
    ],
)
def test_the_mode_of_a_server_is_read(answer: str, mode: str) -> None:
    assert mode_of(answer) == mode


def test_without_its_jars_zookeeper_is_missing(tmp_path: Path) -> None:
    assert str(tmp_path) in ZooKeeper(tmp_path).missing()
    assert str(tmp_path) in missing_client("java", tmp_path)
    assert missing_client("kazoo", tmp_path) == "", "kazoo needs no jar"


@pytest.mark.parametrize(
    ("where", "places"),
    [("bench", "h:1,h:2"), ("bench/2", "h:2"), ("bench/1;bench/2", "h:1;h:2")],
)
def test_places_of_native_clients_become_addresses(where: str, places: str) -> None:
    assert port_places(where, {ServerId(1): "h:1", ServerId(2): "h:2"}) == places
