"""Which carrier the links of a real ensemble take, and what `links` in its settings does."""

import os
import signal
from collections.abc import Iterator
from pathlib import Path

import psutil
import pytest
import ray

from raykeeper.actors.ray_actors import find_replica
from raykeeper.client import ClientState, connect
from raykeeper.client.errors import ConnectionLossError
from raykeeper.clusters import Ensemble
from raykeeper.links.contract import STREAM
from raykeeper.links.ray_internals import session_log_folder
from raykeeper.zab.ids import ServerId
from tests.ray.conftest import Launch, all_serve, eventually, role_of


def streams_of(ensemble: Ensemble) -> list[int]:
    """How many streams each server has."""
    return [
        sum(carrier == STREAM for carrier in server.carriers.values())
        + server.clients.get(STREAM, 0)
        for server in ensemble.status().servers
    ]


@pytest.mark.parametrize(("links", "of_peers"), [("auto", 2), ("direct", 2), ("ray", 0)])
def test_the_settings_choose_the_carrier(launch_one: Launch, links: str, of_peers: int) -> None:
    ensemble = launch_one(links=links)
    eventually(lambda: all_serve(ensemble))
    eventually(lambda: streams_of(ensemble) == [of_peers] * 3)
    with ensemble.connect() as client:
        client.create("/a", b"v" * 100_000)
        assert client.get("/a")[0] == b"v" * 100_000
        eventually(lambda: sum(streams_of(ensemble)) == 3 * of_peers + bool(of_peers))


@pytest.fixture
def without_streams(monkeypatch: pytest.MonkeyPatch) -> Iterator[pytest.MonkeyPatch]:
    """This process may use TLS alone, which nobody here offers, so no stream opens."""
    monkeypatch.setenv("RAY_USE_TLS", "1")
    yield monkeypatch


def test_without_streams_ray_calls_carry_the_links_until_one_opens(
    launch_one: Launch, without_streams: pytest.MonkeyPatch
) -> None:
    without_streams.delenv("RAY_USE_TLS")
    ensemble = launch_one()
    eventually(lambda: streams_of(ensemble) == [2, 2, 2])
    without_streams.setenv("RAY_USE_TLS", "1")
    with ensemble.connect() as client:
        client.create("/a")
        assert client.state is ClientState.CONNECTED
        assert streams_of(ensemble) == [2, 2, 2]
        without_streams.delenv("RAY_USE_TLS")
        states: list[ClientState] = []
        client.add_listener(states.append)
        eventually(lambda: sum(streams_of(ensemble)) == 7)
        assert client.exists("/a")
        assert states == []


def test_with_streams_alone_the_status_gives_the_reason(
    launch_one: Launch, without_streams: pytest.MonkeyPatch
) -> None:
    without_streams.delenv("RAY_USE_TLS")
    ensemble = launch_one(links="direct")
    without_streams.setenv("RAY_USE_TLS", "1")
    with pytest.raises(ConnectionLossError, match=r"direct streams only; .*RAY_USE_TLS is set"):
        connect(ensemble.name, timeout_s=2.0)


def test_a_server_that_returns_is_linked_by_streams_again(
    launch_one: Launch, tmp_path: Path
) -> None:
    ensemble = launch_one()
    eventually(lambda: all_serve(ensemble))
    killed = role_of(ensemble, leads=True)
    with ensemble.connect() as client:
        client.create("/a")
        os.kill(killed.pid, signal.SIGKILL)
        client.set("/a", b"v")
        eventually(lambda: all_serve(ensemble))
        eventually(lambda: min(streams_of(ensemble)) >= 2)


@pytest.mark.parametrize("links", ["direct", "ray"])
def test_a_server_far_behind_receives_a_snapshot(launch_one: Launch, links: str) -> None:
    def digests() -> list[tuple[int, int]]:
        asked = [find_replica(ensemble.name, ServerId(i)).status.remote() for i in (1, 2, 3)]
        return [(status.last_zxid, status.digest) for status in ray.get(asked)]

    ensemble = launch_one(links=links)
    eventually(lambda: all_serve(ensemble))
    away = role_of(ensemble, leads=False)
    ray.kill(find_replica(ensemble.name, away.server_id), no_restart=True)
    eventually(lambda: not psutil.pid_exists(away.pid))
    with ensemble.connect() as client:
        # More than a leader keeps in memory and reads back from its log.
        for group in range(15):
            writes = [
                client.create_async(f"/{group}-{n}", bytes([n]) * (1 << 20)) for n in range(10)
            ]
            assert all(write.result() for write in writes)
        launch_one(ensemble.name, links=links)
        eventually(lambda: len(set(digests())) == 1)
    folder = session_log_folder()
    assert folder is not None
    logs = [log.read_text() for log in folder.glob(f"raykeeper-{ensemble.name}-*.log")]
    assert sum(f"sync.snapshot peer={away.server_id} " in log for log in logs) == 1
