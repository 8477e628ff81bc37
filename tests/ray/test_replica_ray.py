"""Replicas as real actors: they form an ensemble, die by SIGKILL, and lose nothing."""

import os
import shutil
import signal
import struct
import subprocess
import uuid
import zlib
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, TypeVar

import pytest
import ray
from msgspec.structs import replace

from raykeeper.actors.disk.epochs import EPOCHS_FILE, EPOCHS_VERSION
from raykeeper.actors.disk.identity import DiskIdentity, format_folder, read_identity
from raykeeper.actors.disk.members_file import read_members
from raykeeper.actors.disk.snapshot_files import snapshot_zxids
from raykeeper.actors.disk.storage import Storage
from raykeeper.actors.disk.storage_errors import ForeignFolder, StorageError
from raykeeper.actors.ray_actors import find_replica
from raykeeper.actors.replica import start_replica
from raykeeper.actors.replica_config import ReplicaConfig
from raykeeper.actors.replica_status import (
    FAILED,
    REMOVED,
    STARTING,
    ReconfigOutcome,
    ReplicaStatus,
)
from raykeeper.client import connect
from raykeeper.client.errors import NoNodeError
from raykeeper.links.ray_names import NAMESPACE, snapshotter_name, tracker_name
from raykeeper.zab.errors import RayKeeperError
from raykeeper.zab.ids import Millis, ServerId, Zxid, format_zxid
from raykeeper.znodes.errors import Code
from raykeeper.znodes.requests import Reconfig
from tests.ray.conftest import eventually

T = TypeVar("T")


@pytest.fixture(scope="module", autouse=True)
def ray_started() -> Iterator[None]:
    ray.init(address="local", num_cpus=4, include_dashboard=False, log_to_driver=False)
    yield
    ray.shutdown()


class Ensemble:
    """Servers on this machine, under a name of their own."""

    def __init__(self, folder: Path, servers: int = 3, first: int = 1, **settings: Any) -> None:
        self.name = f"t{uuid.uuid4().hex[:8]}"
        voters = tuple(ServerId(number) for number in range(first, first + servers))
        self.configs = [
            ReplicaConfig(
                ensemble=self.name,
                ensemble_uuid=self.name,
                server_id=server,
                voters=voters,
                folder=str(folder / str(server)),
                **settings,
            )
            for server in voters
        ]

    def newcomer(self, server: int) -> ReplicaConfig:
        """Start a server that no list has yet, on an empty folder; return once it follows."""
        first, (leader, *_) = self.configs[0], self.wait_active()
        folder = str(first.path.parent / str(server))
        described = ray.get(self.handle(leader.server_id).status.remote())
        config = replace(
            first, server_id=ServerId(server), folder=folder, members=described.members
        )
        self.configs.append(config)
        ray.get(start_replica(config).ready.remote())
        wait_until(lambda: self.status(server).is_active)
        return config

    def step(self, joining: int = 0, leaving: int = 0, *, observes: bool = False) -> Zxid:
        """Change the member list, as soon as that is possible; return its version."""
        op = Reconfig(joining, leaving, observes)
        not_yet = (Code.NEW_CONFIG_NO_QUORUM, Code.RECONFIG_IN_PROGRESS)

        def done() -> ReconfigOutcome | None:
            outcome: ReconfigOutcome = ray.get(
                self.handle(self.leader().server_id).reconfig.remote(op)
            )
            assert outcome.code in (0, *not_yet), outcome
            return None if outcome.code else outcome

        return wait_until(done).version

    def format(self) -> "Ensemble":
        for config in self.configs:
            identity = DiskIdentity(config.owner(), str(uuid.uuid4()), is_founding=True)
            format_folder(config.path, identity)
        return self

    def start(self) -> "Ensemble":
        ray.get([start_replica(config).ready.remote() for config in self.configs])
        return self

    def handle(self, server: int) -> Any:
        return find_replica(self.name, ServerId(server))

    def status(self, server: int) -> ReplicaStatus:
        status: ReplicaStatus = ray.get(self.handle(server).status.remote())
        return status

    def all_status(self) -> list[ReplicaStatus]:
        return [self.status(config.server_id) for config in self.configs]

    def wait_active(self) -> list[ReplicaStatus]:
        """Every server serves clients."""

        def active() -> list[ReplicaStatus]:
            found = self.all_status()
            return found if all(status.is_active for status in found) else []

        return wait_until(active)

    def leader(self) -> ReplicaStatus:
        return next(status for status in self.wait_active() if status.role == "leader")

    def stop(self) -> None:
        for config in self.configs:
            try:
                handle = self.handle(config.server_id)
            except ValueError:
                continue
            ray.kill(handle)
            for companion in find_companions(self.name, config.server_id):
                ray.kill(companion)


def find_companions(ensemble: str, server_id: ServerId) -> list[Any]:
    """The SessionTracker and the Snapshotter beside a server, as far as they are there."""
    found = []
    for name in (tracker_name(ensemble, server_id), snapshotter_name(ensemble, server_id)):
        try:
            found.append(ray.get_actor(name, namespace=NAMESPACE))
        except ValueError:
            continue
    return found


def wait_until(probe: Callable[[], T | None]) -> T:
    """The first answer of `probe` that says something; an actor that restarts says nothing."""
    return eventually(probe, ignoring=(ray.exceptions.RayActorError,))


@pytest.fixture
def ensemble(tmp_path: Path) -> Iterator[Ensemble]:
    made = Ensemble(tmp_path, session_timeout_min_ms=Millis(500)).format().start()
    yield made
    made.stop()


@pytest.fixture
def single(tmp_path: Path) -> Iterator[Ensemble]:
    made = Ensemble(tmp_path, servers=1, snapshot_every_txns=200)
    yield made
    made.stop()


def disk_of(folder: Path) -> str:
    identity = read_identity(folder)
    assert identity is not None
    return identity.disk_uuid


def kill(pid: int) -> None:
    os.kill(pid, signal.SIGKILL)


def test_all_servers_serve_the_same(ensemble: Ensemble) -> None:
    statuses = ensemble.wait_active()
    assert sorted(status.role for status in statuses) == ["follower", "follower", "leader"]
    # The followers need each other only for the next election, and may still be dialing.
    wait_until(
        lambda: {s for each in ensemble.all_status() for s in each.links.values()} == {"linked"}
    )
    with connect(ensemble.name) as client:
        client.create("/a", b"x")
        assert sum(status.sessions for status in ensemble.all_status()) >= 1
    wait_until(lambda: len({s.digest for s in ensemble.all_status()}) == 1)
    description = ray.get(ensemble.handle(2).describe.remote())
    assert (description.ensemble, description.voters) == (ensemble.name, (1, 2, 3))


@pytest.mark.parametrize("role", ["leader", "follower"])
def test_no_acked_write_is_lost_or_doubled_by_a_kill(ensemble: Ensemble, role: str) -> None:
    with connect(ensemble.name, session_timeout_s=30) as client:
        client.create("/counter")
        writes = [client.set_async("/counter", b"%d" % number) for number in range(100)]
        victim = next(s for s in ensemble.wait_active() if s.role == role)
        kill(victim.pid)
        writes += [client.set_async("/counter", b"%d" % number) for number in range(100, 400)]
        assert [write.result().version for write in writes] == list(range(1, 401))
        assert client.get("/counter")[0] == b"399"
    ensemble.wait_active()
    assert ensemble.status(victim.server_id).incarnation > victim.incarnation


def test_everything_survives_the_kill_of_all_servers(ensemble: Ensemble) -> None:
    with connect(ensemble.name, session_timeout_s=50, timeout_s=90) as client:
        for number in range(20):
            client.create(f"/n{number}", b"%d" % number)
        for status in ensemble.wait_active():
            kill(status.pid)
        client.create("/after")
        for number in range(20):
            assert client.get(f"/n{number}")[0] == b"%d" % number


def test_a_stopped_server_returns_with_its_data(ensemble: Ensemble) -> None:
    with connect(ensemble.name) as client:
        client.create("/kept", b"x")
    for config in ensemble.configs:
        ray.get(ensemble.handle(config.server_id).stop.remote())
        Storage.open(config.path, config.owner()).close()  # it was given back
    ensemble.stop()
    wait_until(lambda: ensemble.start() is ensemble)
    with connect(ensemble.name) as client:
        assert client.get("/kept")[0] == b"x"


@pytest.mark.parametrize("tracker_dies", [False, True])
def test_the_session_of_a_paused_client_expires(ensemble: Ensemble, tracker_dies: bool) -> None:
    name = ensemble.name

    @ray.remote(num_cpus=0)
    class Worker:
        def join(self) -> int:
            self.client = connect(name, session_timeout_s=3)
            self.client.create("/worker", ephemeral=True)
            return os.getpid()

    with connect(name) as client:
        worker = Worker.remote()
        pid = ray.get(worker.join.remote())
        if tracker_dies:
            tracker = find_companions(name, ensemble.leader().server_id)[0]
            kill(ray.get(tracker.pid.remote()))
        client.sync()
        assert client.exists("/worker")
        os.kill(pid, signal.SIGSTOP)
        wait_until(lambda: client.exists("/worker") is None)
        kill(pid)


def test_snapshots_are_published_and_loaded(single: Ensemble, tmp_path: Path) -> None:
    single.format().start()
    single.wait_active()
    folder = tmp_path / "1" / "generation-1"
    with connect(single.name, session_timeout_s=50, timeout_s=90) as client:
        client.create("/a")

        def write_until_published(count: int) -> bool:
            for future in [client.set_async("/a", b"%d" % n) for n in range(100)]:
                future.result()
            return len(snapshot_zxids([file.name for file in folder.iterdir()])) >= count

        wait_until(lambda: write_until_published(1))
        _, snapshotter = find_companions(single.name, ServerId(1))
        kill(ray.get(snapshotter.pid.remote()))
        wait_until(lambda: write_until_published(2))
        before = client.get("/a")
        kill(single.status(1).pid)
        assert client.get("/a") == before


def test_a_server_whose_folder_was_emptied_restarts(ensemble: Ensemble) -> None:
    with connect(ensemble.name) as client:
        client.create("/a", b"x")
        victim = next(s for s in ensemble.wait_active() if s.role == "follower")
        shutil.rmtree(ensemble.configs[victim.server_id - 1].path)
        kill(victim.pid)
        again = wait_until(lambda: s if (s := ensemble.status(victim.server_id)).votes else None)
        assert (again.reset_reason, again.has_disk_space) == ("its folder was empty", True)
        assert again.incarnation > 1_700_000_000
        client.create("/b")
        wait_until(lambda: len({s.digest for s in ensemble.all_status()}) == 1)


def test_a_server_whose_tree_diverged_restarts_without_its_disk(ensemble: Ensemble) -> None:
    """A snapshot of the wrong tree may be on its disk, so a restart alone is not enough."""

    def diverge(replica: Any) -> None:
        replica._runner.server.state.tree.digest += 1

    with connect(ensemble.name) as client:
        victim = next(s for s in ensemble.wait_active() if s.role == "follower")
        folder = ensemble.configs[victim.server_id - 1].path
        disk = disk_of(folder)
        ray.get(ensemble.handle(victim.server_id).__ray_call__.remote(diverge))

        def write_until_it_began_anew() -> ReplicaStatus | None:
            client.create("/b/n", sequence=True)
            status = ensemble.status(victim.server_id)
            return status if status.votes and status.pid != victim.pid else None

        client.create("/b")
        again = wait_until(write_until_it_began_anew)
        assert "this server's tree differs from that of a quorum" in again.reset_reason
        assert disk_of(folder) != disk
        wait_until(lambda: len({s.digest for s in ensemble.all_status()}) == 1)


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Path]:
    """A file system of 5 MiB."""
    folder = tmp_path / "3"
    folder.mkdir()
    mount = ["mount", "-t", "tmpfs", "-o", "size=5m", "tmpfs", str(folder)]
    tried = subprocess.run(mount, capture_output=True, text=True, check=False)
    if tried.returncode != 0:
        pytest.skip(f"a file system cannot be mounted here: {tried.stderr.strip()}")
    yield folder
    subprocess.run(["umount", "--lazy", str(folder)], check=True)


def test_a_full_disk_stops_no_write(small_disk: Path, tmp_path: Path) -> None:
    # The server with the highest id leads, as a rule; then it hands over.
    made = Ensemble(tmp_path, segment_bytes=1 << 20).format().start()
    try:
        made.wait_active()
        before = made.status(3)
        (small_disk / "ballast").write_bytes(bytes(os.statvfs(small_disk).f_bavail << 12))
        with connect(made.name) as client:
            for number in range(200):
                client.create(f"/w{number}", bytes(10_000))
            full = wait_until(lambda: s if _follows_without_room(s := made.status(3)) else None)
            assert full.pid == before.pid
            (small_disk / "ballast").unlink()
            again = wait_until(lambda: s if _has_room_and_vote(s := made.status(3)) else None)
            # It began anew from its disk, on which it keeps its vote.
            assert (again.pid != before.pid, again.reset_reason) == (True, "")
            client.create("/later")
            wait_until(lambda: len({s.digest for s in made.all_status()}) == 1)
    finally:
        made.stop()


def _follows_without_room(status: ReplicaStatus) -> bool:
    return not status.has_disk_space and status.role == "follower" and status.is_active


def _has_room_and_vote(status: ReplicaStatus) -> bool:
    return status.is_active and status.has_disk_space and status.votes


def test_a_bug_at_the_start_is_reported(single: Ensemble) -> None:
    config = single.format().configs[0]
    # Whole, but never written by this program: a current epoch above the accepted one.
    slot = struct.pack("<8sIQIIIQ", b"RKEPOCHS", EPOCHS_VERSION, 1, 1, 2, 0, 0)
    slot = (slot + struct.pack("<I", zlib.crc32(slot))).ljust(4096, b"\0")
    (config.path / EPOCHS_FILE).write_bytes(2 * slot)
    handle = start_replica(config)
    for _ in range(2):
        with pytest.raises(RayKeeperError, match="the start failed: AssertionError"):
            ray.get(handle.ready.remote())
        status = single.status(1)
        assert (status.role, "AssertionError" in status.failure) == (FAILED, True)


def test_a_foreign_folder_is_an_error_that_names_it(single: Ensemble) -> None:
    config = single.configs[0]
    other = Ensemble(Path("unused"), servers=1).configs[0].owner()
    format_folder(config.path, DiskIdentity(other, "disk", is_founding=True))
    handle = start_replica(config)
    with pytest.raises(ForeignFolder, match=f"{config.folder} on .* belongs to server 1 of"):
        ray.get(handle.ready.remote())
    status = single.status(1)
    assert status.role == FAILED
    assert config.folder in status.failure


def test_a_folder_that_cannot_be_written_is_an_error(single: Ensemble) -> None:
    single.configs[0].path.write_text("a file in its place")
    with pytest.raises(StorageError, match=single.configs[0].folder):
        ray.get(start_replica(single.configs[0]).ready.remote())
    single.configs[0].path.unlink()
    single.format()
    ray.get(single.handle(1).ready.remote())  # once it is put right
    single.wait_active()


def test_a_start_waits_for_a_folder_in_use(single: Ensemble) -> None:
    single.format()
    config = single.configs[0]
    storage = Storage.open(config.path, config.owner())
    handle = start_replica(config)
    assert ray.get(handle.status.remote()).role == STARTING
    with pytest.raises(ray.exceptions.GetTimeoutError):
        ray.get(handle.ready.remote(), timeout=1.5)
    storage.close()
    ray.get(handle.ready.remote())
    single.wait_active()


def test_servers_join_and_leave(tmp_path: Path) -> None:
    """All servers are replaced by others with lower ids; a writing client sees no error."""
    ensemble = Ensemble(tmp_path, 1, first=9, promotion_wait_ms=Millis(200)).format().start()
    for server in (2, 1):
        ensemble.newcomer(server)
        refused = ray.get(ensemble.handle(server).reconfig.remote(Reconfig(server)))
        reason = f"server {server} does not lead; server 9 does"
        assert (refused.code, refused.reason) == (Code.SYSTEM_ERROR, reason)
        assert not ensemble.status(server).is_member
        ensemble.step(server, observes=True)
        ensemble.step(server)
    for status in ensemble.wait_active():
        assert status.is_member and status.members is not None and status.change == ""
        assert status.members.servers == (1, 2, 9)
    with connect(ensemble.name, session_timeout_s=30) as client:
        client.create("/counter")
        writes = [client.set_async("/counter", b"") for _ in range(50)]
        moved = ray.get(ensemble.handle(9).transfer_leadership.remote(None, 10_000, 1_000))
        assert moved.is_done, moved
        version = ensemble.step(0, 9)
        writes += [client.set_async("/counter", b"") for _ in range(50)]
        reason = f"left the ensemble by the change of version {format_zxid(version)}"
        gone = wait_until(lambda: s if (s := ensemble.status(9)).role == REMOVED else None)
        assert gone.failure == f"server 9 {reason}"
        assert [write.result().version for write in writes] == list(range(1, 101))
    config = ensemble.configs.pop(0)
    stored = read_members(config.path)
    assert stored is not None
    assert (stored.members.servers, stored.removed) == ((1, 2), reason)
    kill(gone.pid)  # Ray starts it again, and it does not come back
    wait_until(lambda: ensemble.status(9).pid != gone.pid)
    with pytest.raises(RayKeeperError, match=reason):
        ray.get(ensemble.handle(9).ready.remote())
    assert ensemble.status(9).role == REMOVED
    described = ray.get(ensemble.handle(9).describe.remote())
    assert (described.voters, described.members_version) == ((1, 2), version)
    assert described.founding_voters == (9,)
    # One that joins now finds the others by what its launch knows, for the founder is gone.
    ensemble.newcomer(8)
    ensemble.step(8, observes=True)
    ensemble.step(8)
    wait_until(lambda: len({s.digest for s in ensemble.all_status()}) == 1)
    # One that stands still while it is removed has a lower id than all others, which dial it no
    # more: so it dials them, and learns of it.
    leader, frozen = ensemble.leader().server_id, ensemble.status(1).pid
    to_2 = ensemble.handle(leader).transfer_leadership.remote(ServerId(2), 10_000, 1_000)
    assert ray.get(to_2).is_done
    os.kill(frozen, signal.SIGSTOP)
    outcome = ray.get(ensemble.handle(2).reconfig.remote(Reconfig(0, 1)))
    assert (outcome.code, outcome.reason) == (0, "")
    wait_until(lambda: 1 not in ensemble.status(2).links)
    os.kill(frozen, signal.SIGCONT)
    wait_until(lambda: ensemble.status(1).role == REMOVED)
    assert ensemble.status(1).pid == frozen
    ensemble.configs.append(config)
    ensemble.stop()


def test_a_missing_znode_is_an_error_of_that_request_alone(single: Ensemble) -> None:
    single.format().start()
    with connect(single.name) as client:
        with pytest.raises(NoNodeError):
            client.get("/missing")
        client.create("/found")
