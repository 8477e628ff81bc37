"""What an ensemble bears, and what it says when it cannot go on."""

import os
import shutil
import signal
import time
from pathlib import Path
from typing import Any

import psutil
import pytest
import ray

from raykeeper.actors import replica
from raykeeper.actors.disk.identity import FolderOwner, claim_folder, read_identity
from raykeeper.actors.disk.storage_errors import ForeignFolder, StorageError
from raykeeper.actors.ray_actors import find_replica
from raykeeper.actors.replica import start_replica
from raykeeper.actors.replica_config import ReplicaConfig
from raykeeper.client import Client, ClientState
from raykeeper.client.errors import OperationTimeoutError
from raykeeper.clusters import ConfigError, Ensemble, NoLeaderError
from raykeeper.clusters.ensemble_status import problems_of
from raykeeper.clusters.placement import PlacementError
from raykeeper.zab.ids import ServerId
from tests.ray.conftest import Launch, all_serve, eventually, new_name, role_of


class Writer:
    """Keeps a window of sequential creations outstanding and remembers what was acknowledged."""

    def __init__(self, client: Client, parent: str, window: int = 50) -> None:
        self._client = client
        self._parent = parent
        self._outstanding: list[Any] = []
        self._window = window
        self.acknowledged: list[str] = []
        client.create(parent)

    def write(self, count: int) -> None:
        """Send `count` more, and wait until all but the window are acknowledged."""
        for _ in range(count):
            path = f"{self._parent}/n-"
            self._outstanding.append(self._client.create_async(path, b"x", sequence=True))
            if len(self._outstanding) > self._window:
                self.acknowledged.append(self._outstanding.pop(0).result())

    def finish(self) -> None:
        self.acknowledged += [write.result() for write in self._outstanding]
        self._outstanding.clear()


def check_complete(writer: Writer, client: Client, parent: str) -> None:
    """Each write happened exactly once, in order: no gap, no duplicate."""
    numbers = [int(path[-10:]) for path in writer.acknowledged]
    assert numbers == list(range(len(numbers)))
    names = [path.rpartition("/")[2] for path in writer.acknowledged]
    assert sorted(client.get_children(parent)) == names


@pytest.mark.smoke
@pytest.mark.parametrize("links", ["direct", "ray"])
@pytest.mark.parametrize("leads", [True, False], ids=["leader", "follower"])
def test_writes_survive_kill_9(launch_one: Launch, leads: bool, links: str) -> None:
    ensemble = launch_one(links=links)
    with ensemble.connect(session_timeout_s=20.0) as client:
        writer = Writer(client, "/w")
        writer.write(300)
        victim = role_of(ensemble, leads=leads)
        os.kill(victim.pid, signal.SIGKILL)
        writer.write(300)
        writer.finish()
        assert len(writer.acknowledged) == 600
        assert client.state == ClientState.CONNECTED
        with ensemble.connect() as other:
            other.sync("/w")
            check_complete(writer, other, "/w")
    # Ray starts the killed one again, and it catches up.
    eventually(
        lambda: any(
            s.server_id == victim.server_id
            and s.role in ("leader", "follower")
            and s.pid != victim.pid
            and s.last_zxid >= victim.last_zxid
            for s in ensemble.status().servers
        )
    )


@pytest.mark.parametrize("links", ["direct", "ray"])
def test_an_ensemble_survives_the_kill_of_all_servers(launch_one: Launch, links: str) -> None:
    ensemble = launch_one(links=links)
    with ensemble.connect(session_timeout_s=50.0, timeout_s=90.0) as client:
        writer = Writer(client, "/w")
        writer.write(200)
        for server in ensemble.status().servers:
            os.kill(server.pid, signal.SIGKILL)
        writer.write(100)
        writer.finish()
        check_complete(writer, client, "/w")


def test_shutdown_and_launch_again_keep_every_znode(launch_one: Launch) -> None:
    ensemble = launch_one()
    with ensemble.connect() as client:
        writer = Writer(client, "/w")
        writer.write(200)
        writer.finish()
        stat = client.set("/w", b"last")
    ensemble.shutdown()
    with pytest.raises(Exception, match="there is no ensemble"):
        ensemble.status()
    launch_one(ensemble.name)
    with ensemble.connect() as client:
        check_complete(writer, client, "/w")
        value, again = client.get("/w")
        assert (value, again.mzxid, again.version) == (b"last", stat.mzxid, stat.version)


@pytest.mark.parametrize("links", ["direct", "ray"])
def test_a_killed_client_loses_its_session_and_its_ephemerals(
    launch_one: Launch, links: str
) -> None:
    class Member:
        def __init__(self, ensemble: Ensemble) -> None:
            self._client = ensemble.connect(session_timeout_s=3.0)

        def join(self) -> int:
            self._client.create("/member", ephemeral=True)
            return os.getpid()

    ensemble = launch_one(links=links)
    actor_class: Any = ray.remote(num_cpus=0, max_restarts=0)(Member)
    member = actor_class.remote(ensemble)
    pid = ray.get(member.join.remote())
    with ensemble.connect() as client:
        events: list[str] = []
        stat = client.exists("/member", watch=lambda event: events.append(event.type.name))
        assert stat is not None
        assert stat.ephemeral_owner != client.session_id
        os.kill(pid, signal.SIGKILL)
        eventually(lambda: events)
        assert events == ["DELETED"]
        assert client.exists("/member") is None


def test_a_missing_quorum_is_reported_after_the_timeout(launch_one: Launch) -> None:
    ensemble = launch_one()
    with ensemble.connect(session_timeout_s=60.0, timeout_s=3.0) as client:
        client.create("/kept", b"x")
        killed = [server for server in ensemble.status().servers if server.server_id < 3]
        for server in killed:
            ray.kill(find_replica(ensemble.name, server.server_id), no_restart=True)
        eventually(lambda: not any(psutil.pid_exists(server.pid) for server in killed))
        began = time.monotonic()
        with pytest.raises(OperationTimeoutError, match="/late"):
            client.create("/late")
        assert time.monotonic() - began < 10
        eventually(lambda: ensemble.status().leader is None)
        with pytest.raises(NoLeaderError) as caught:
            ensemble.wait_for_leader(timeout_s=0.2)
        assert "no leader after 0.2 s: heard server 3; 2 of 3 voters are needed" in str(
            caught.value
        )
        report = ensemble.status()
        assert [server.role for server in report.servers] == ["down", "down", "looking"]
        # Launching again completes it.
        launch_one(ensemble.name)
        assert client.get("/kept")[0] == b"x"


def test_launch_survives_the_kill_of_servers(
    launch_one: Launch, monkeypatch: pytest.MonkeyPatch
) -> None:
    def start_and_kill(config: ReplicaConfig, *where: Any) -> Any:
        handle = start_replica(config, *where)
        if config.server_id in killed:
            ray.kill(handle, no_restart=True)
            eventually(lambda: _is_gone(config.ensemble, config.server_id))
        return handle

    killed = {1}
    monkeypatch.setattr(replica, "start_replica", start_and_kill)
    ensemble = launch_one()
    assert ensemble.status().servers[0].role == "down"
    name, killed = new_name(), {1, 3}
    with pytest.raises(NoLeaderError) as caught:
        launch_one(name)
    stopped = "it was stopped meanwhile"
    assert f"did not start: server 1: {stopped}; " in str(caught.value)
    assert f"server 3: {stopped}" in str(caught.value)
    Ensemble(name).shutdown()


def _is_gone(ensemble: str, server_id: ServerId) -> bool:
    try:
        find_replica(ensemble, server_id)
    except ValueError:
        return True
    return False


def test_a_foreign_folder_names_node_and_folder(launch_one: Launch, tmp_path: Path) -> None:
    mine, other = launch_one(servers=1), launch_one(servers=1)
    mine.shutdown()
    other.shutdown()
    folder = tmp_path / "data" / mine.name / "1"
    shutil.rmtree(folder)
    shutil.copytree(tmp_path / "data" / other.name / "1", folder)
    with pytest.raises(ForeignFolder) as caught:
        launch_one(mine.name, servers=1)
    assert str(folder) in str(caught.value)
    assert os.uname().nodename in str(caught.value)
    assert other.name in str(caught.value)


def test_launch_refuses_another_number_than_the_disks_hold(launch_one: Launch) -> None:
    ensemble = launch_one()
    ensemble.shutdown()
    for servers in (1, 5):
        with pytest.raises(ConfigError, match="has 3 servers"):
            launch_one(ensemble.name, servers=servers)


def test_a_folder_in_use_by_another_process_is_refused(launch_one: Launch, tmp_path: Path) -> None:
    ensemble = launch_one()
    ensemble.shutdown()
    folder = tmp_path / "data" / ensemble.name / "3"
    identity = read_identity(folder)
    assert identity is not None
    claim = claim_folder(
        folder, FolderOwner(ensemble.name, identity.owner.ensemble_uuid, ServerId(3))
    )
    try:
        launch_one(ensemble.name, timeout_s=30.0)
        status = eventually(lambda: _find(ensemble, 3, "looking"))
        assert f"is in use by process {os.getpid()} on {os.uname().nodename}" in status.problem
    finally:
        os.close(claim.lock)
    eventually(lambda: _find(ensemble, 3, "follower"))


def test_a_silent_leader_is_reported_by_its_followers(launch_one: Launch) -> None:
    ensemble = launch_one(tick_ms=4_000)
    eventually(lambda: all_serve(ensemble))
    leader = role_of(ensemble, leads=True)
    os.kill(leader.pid, signal.SIGSTOP)
    try:
        # Its followers are asked twice before their links to it fall silent, after 1.8 s.
        report = ensemble.status(timeout_s=0.5)
    finally:
        os.kill(leader.pid, signal.SIGCONT)
    assert (report.leader, report.reason) == (leader.server_id, None)
    assert problems_of(report.servers) == [
        f"server {leader.server_id} leads, but Ray does not reach it: no answer within 0.5 s"
    ]
    eventually(lambda: _find(ensemble, leader.server_id, "leader"))


def test_an_unwritable_data_folder_is_refused(launch_one: Launch, tmp_path: Path) -> None:
    with pytest.raises(StorageError, match=r"/proc/data.*\(node .*\)"):
        launch_one(new_name(), data_dir="/proc/data")
    # What nobody can look into may hold anything.
    (tmp_path / "file").write_text("not a folder")
    with pytest.raises(PlacementError, match=r"not all could tell: .*/file/data.*Not a directory"):
        launch_one(new_name(), data_dir=tmp_path / "file" / "data")


def _find(ensemble: Ensemble, server_id: int, role: str) -> Any:
    return next(
        (s for s in ensemble.status().servers if (s.server_id, s.role) == (server_id, role)), None
    )
