"""Disks that fail under a running ensemble: repaired without a person, or a clear error."""

import os
import shutil
import signal
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import ray

from raykeeper.actors.disk.identity import DiskIdentity, read_identity
from raykeeper.actors.disk.storage_errors import StorageError
from raykeeper.actors.ray_actors import find_replica
from raykeeper.client import Client
from raykeeper.clusters import Ensemble, NoLeaderError
from raykeeper.zab.ids import ServerId
from tests.ray.conftest import Launch, all_serve, eventually, role_of


def flip_a_bit(folder: Path) -> None:
    # In the first transactions; what follows proves that they had been forced.
    (log, *_) = sorted(folder.glob("generation-*/log.*"))
    with log.open("r+b") as file:
        file.seek(150)
        (byte,) = file.read(1)
        file.seek(150)
        file.write(bytes([byte ^ 4]))


def empty(folder: Path) -> None:
    shutil.rmtree(folder)


def identity_of(folder: Path) -> DiskIdentity:
    identity = read_identity(folder)
    assert identity is not None
    return identity


def serves_with_its_vote(ensemble: Ensemble, server_id: ServerId) -> Any:
    (server,) = [s for s in ensemble.status().servers if s.server_id == server_id]
    return server.role in ("follower", "leader") and not server.problem


def written(client: Client, first: int, last: int) -> None:
    for number in range(first, last):
        client.create(f"/w{number}", bytes(200))


@pytest.mark.parametrize(("damage", "why"), [(flip_a_bit, "is damaged at byte"), (empty, "empty")])
def test_a_follower_whose_disk_fails_regains_its_vote(
    launch_one: Launch, tmp_path: Path, damage: Callable[[Path], None], why: str
) -> None:
    ensemble = launch_one()
    eventually(lambda: all_serve(ensemble))
    with ensemble.connect() as client:
        written(client, 0, 20)
        follower = role_of(ensemble, leads=False)
        folder = tmp_path / "data" / ensemble.name / str(follower.server_id)
        before = identity_of(folder)
        os.kill(follower.pid, signal.SIGSTOP)
        damage(folder)
        os.kill(follower.pid, signal.SIGKILL)
        eventually(lambda: read_identity(folder) not in (None, before))
        eventually(lambda: serves_with_its_vote(ensemble, follower.server_id))
        after = identity_of(folder)
        assert (before.is_founding, after.is_founding) == (True, False)
        assert why in after.reset_reason
        assert after.incarnation > before.incarnation
        eventually(lambda: not (folder / "damaged").exists())
        # Its vote counts: with it the ensemble does without another server.
        leader = role_of(ensemble, leads=True).server_id
        (third,) = {ServerId(1), ServerId(2), ServerId(3)} - {leader, follower.server_id}
        ray.kill(find_replica(ensemble.name, third), no_restart=True)
        written(client, 20, 25)
    with ensemble.connect() as client:
        assert len(client.get_children("/")) >= 25


def test_disks_that_fail_while_all_servers_are_down_are_repaired(
    launch_one: Launch, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    ensemble = launch_one()
    with ensemble.connect() as client:
        written(client, 0, 5)
    ensemble.shutdown()
    data = tmp_path / "data" / ensemble.name
    # One folder that nobody can read, and what was noted beside it: the majority starts.
    record = data / "ensemble.json"
    record.write_text("{")
    (data / "3").rename(data / "kept")
    (data / "3").write_text("not a folder")
    launch_one(ensemble.name)
    assert "server 3 of ensemble" in caplog.text
    assert f"{data}/3/identity: Not a directory" in caplog.text
    with ensemble.connect() as client:
        assert client.get("/w4")[0] == bytes(200)
    (data / "3").unlink()
    (data / "kept").rename(data / "3")
    assert record.read_text() == "{"
    launch_one(ensemble.name)
    eventually(lambda: serves_with_its_vote(ensemble, ServerId(3)))
    assert '"servers":3' in record.read_text()
    ensemble.shutdown()
    identity = data / "2/identity"
    identity.write_bytes(identity.read_bytes().replace(b"disk", b"disc"))
    launch_one(ensemble.name)
    eventually(lambda: serves_with_its_vote(ensemble, ServerId(2)))
    with ensemble.connect() as client:
        assert client.get("/w4")[0] == bytes(200)
    ensemble.shutdown()
    # A majority of them is too many: nobody can tell what was acknowledged.
    for server in (1, 3):
        (data / f"{server}/epochs").write_bytes(b"damaged")
    with pytest.raises(NoLeaderError):
        launch_one(ensemble.name, timeout_s=6.0)
    told = "servers 1, 3 have forgotten their promises"
    eventually(lambda: told in (ensemble.status().reason or ""))
    assert "has 7 bytes" in identity_of(data / "1").reset_reason
    # What is needed to help by hand is still there.
    for server in (1, 3):
        assert list((data / str(server)).glob("damaged/generation-1/log.*"))


def test_a_single_server_with_a_damaged_disk_reports_the_damage(
    launch_one: Launch, tmp_path: Path
) -> None:
    ensemble = launch_one(servers=1)
    ensemble.shutdown()
    (tmp_path / "data" / ensemble.name / "1/epochs").write_bytes(b"damaged")
    with pytest.raises(StorageError, match=r"1/epochs has 7 bytes.*only voter.*nobody to repair"):
        launch_one(ensemble.name, servers=1)
