"""Backups on real Ray: taken under writes and faults, restored, and refused where they must be."""

import json
import os
import signal
import threading
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path

import pytest
import ray

from raykeeper.actors.ray_actors import find_replica
from raykeeper.client import CREATOR_ALL_ACL
from raykeeper.client.errors import NoAuthError, NoNodeError
from raykeeper.clusters import Ensemble, NoLeaderError, launch
from raykeeper.clusters.backups import (
    BackupProgress,
    FollowEvent,
    FollowSettings,
    follow,
    restore,
)
from raykeeper.zab.ids import ServerId, Zxid
from tests.ray.conftest import PATIENCE_S, Run, all_serve, eventually, new_name

pytestmark = pytest.mark.ray


@pytest.fixture(scope="module")
def origin(ray_session: str, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Ensemble]:
    """An ensemble that takes a snapshot every hundred writes; each of its servers has one."""
    data = tmp_path_factory.mktemp("origin")
    ensemble = launch(name=new_name(), data_dir=data, snapshot_every_txns=100, timeout_s=PATIENCE_S)
    eventually(lambda: all_serve(ensemble))
    with ensemble.connect() as client:
        client.create("/job")
        client.create("/job/count", b"0")
        client.create("/big")
        for number in range(300):
            client.create(f"/big/{number:03}", bytes(4000))
    eventually(lambda: len({path.parent for path in data.rglob("snapshot.*")}) == 3)
    yield ensemble
    ensemble.shutdown()


class Writer(threading.Thread):
    """Counts up in a znode until it is stopped; `acknowledged` is what it knows to be written."""

    def __init__(self, ensemble: Ensemble) -> None:
        super().__init__(daemon=True)
        self.acknowledged = 0
        self.is_stopped = False
        self._ensemble = ensemble

    def run(self) -> None:
        with self._ensemble.connect(timeout_s=PATIENCE_S) as client:
            while not self.is_stopped:
                client.set("/job/count", b"%d" % (self.acknowledged + 1))
                self.acknowledged += 1

    def __enter__(self) -> "Writer":
        self.start()
        eventually(lambda: self.acknowledged > 50)
        return self

    def __exit__(self, *_error: object) -> None:
        self.is_stopped = True
        self.join(PATIENCE_S)
        assert not self.is_alive()


def test_a_backup_under_writes_has_all_that_was_acknowledged(
    origin: Ensemble, tmp_path: Path
) -> None:
    """The server that is read is killed meanwhile; the tokens of the restored one are higher."""
    killed: list[int] = []

    def kill_the_followers(told: BackupProgress) -> None:
        """One of them is read; Ray starts them again."""
        if not killed:
            assert told.step == "snapshot"
            killed.extend(s.pid for s in origin.status().servers if s.role == "follower")
            for pid in killed:
                os.kill(pid, signal.SIGKILL)

    file = tmp_path / "job.rkb"
    with origin.connect() as client, Writer(origin) as writer:
        client.create("/job/live", b"", ephemeral=True)
        client.add_auth("scrypt", "ann:secret")
        client.create("/job/anns", b"of ann", acl=CREATOR_ALL_ACL)
        uuid = client.ensemble_uuid
        known = writer.acknowledged
        report = origin.backup(file, tell=kill_the_followers)
        known_after = writer.acknowledged
        with client.lock("/job/lock") as lock:
            token = lock.token
    assert len(killed) == 2 and report.digest is not None
    assert file.stat().st_size == report.bytes and [p.name for p in tmp_path.iterdir()] == [
        file.name
    ]
    restored = restore(file, new_name(), data_dir=tmp_path / "data", timeout_s=PATIENCE_S)
    try:
        assert (restored.origin, restored.zxid) == (origin.name, report.zxid)
        with restored.ensemble.connect() as client:
            count = int(client.get("/job/count")[0])
            assert known <= count <= known_after + 1
            assert len(client.get_children("/big")) == 300
            assert client.exists("/job/live") is None
            with pytest.raises(NoAuthError):
                client.get("/job/anns")
            with client.lock("/job/lock") as lock:
                assert lock.token > max(token, restored.first_zxid)
        eventually(lambda: len({s.last_zxid for s in restored.ensemble.status().servers}) == 1)
    finally:
        restored.ensemble.shutdown()
    again = launch(name=restored.ensemble.name, data_dir=tmp_path / "data", timeout_s=PATIENCE_S)
    with again.connect() as client:
        assert int(client.get("/job/count")[0]) == count
        client.add_auth("scrypt", "ann:secret")  # salted with the uuid of the old ensemble
        assert (client.get("/job/anns")[0], client.ensemble_uuid) == (b"of ann", uuid)
    again.shutdown()


class Archiving(threading.Thread):
    """Keeps an archive until the block ends; `said` are the events."""

    def __init__(self, ensemble: Ensemble, folder: str, **settings: float) -> None:
        super().__init__(daemon=True)
        self.said: list[FollowEvent] = []
        self._ends = threading.Event()
        self._arguments = ensemble.name, folder, FollowSettings(interval_s=0.1, **settings)

    def run(self) -> None:
        follow(*self._arguments, say=self.said.append, stop=self._ends)

    def kinds(self) -> list[str]:
        return [event.kind for event in self.said if event.kind != "archived"]

    def reached(self, zxid: Zxid) -> bool:
        return any((event.zxid or 0) >= zxid for event in list(self.said))

    def __enter__(self) -> "Archiving":
        self.start()
        return self

    def __exit__(self, *_error: object) -> None:
        self._ends.set()
        self.join(PATIENCE_S)
        assert not self.is_alive()


def test_an_archive_is_followed_and_restored_at_a_time(origin: Ensemble, tmp_path: Path) -> None:
    """Over a change of leader, a restart of the command, and a log that was pruned meanwhile."""
    folder = f"memory://{tmp_path}/archive"
    stats = []
    with origin.connect(timeout_s=PATIENCE_S) as client:
        client.create("/job/value", b"")

        def write(number: int) -> None:
            stats.append(client.set("/job/value", b"%d" % number))

        with Archiving(origin, folder) as archiving:
            eventually(lambda: "full" in archiving.kinds())
            for number in range(20):
                write(number)
            eventually(lambda: archiving.reached(stats[-1].mzxid))
            leader = origin.wait_for_leader()
            os.kill(next(s.pid for s in origin.status().servers if s.server_id == leader), 9)
            write(20)
            eventually(lambda: archiving.reached(stats[-1].mzxid))
        assert archiving.kinds()[0] == "begun" and "pruned" not in archiving.kinds()
        write(21)
        with Archiving(origin, folder, full_every_s=0.0) as archiving:
            write(22)
            eventually(lambda: archiving.reached(stats[-1].mzxid) and "full" in archiving.kinds())
        assert archiving.kinds()[0] == "resumed"
        for _ in range(600):
            client.set("/big/000", bytes(12_000))
        eventually(lambda: all_serve(origin))
        with Archiving(origin, folder) as archiving:
            write(23)
            eventually(lambda: archiving.reached(stats[-1].mzxid) and "full" in archiving.kinds())
        assert "pruned" in archiving.kinds()
    for number in (7, 21):
        moment = datetime.fromtimestamp(stats[number].mtime / 1000, UTC)
        expected = sum(stat.mtime <= stats[number].mtime for stat in stats) - 1
        restored = restore(
            folder, new_name(), at_time=moment, data_dir=tmp_path / "data", servers=1
        ).ensemble
        with restored.connect() as client:
            assert client.get("/job/value")[0] == b"%d" % expected
        restored.shutdown()


def own(printed: str) -> str:
    """What a command printed, without what Ray prints of servers that were killed before."""
    return "".join(line for line in printed.splitlines(True) if "(raylet)" not in line)


def test_the_commands_and_what_they_refuse(origin: Ensemble, run: Run, tmp_path: Path) -> None:
    file, data = tmp_path / "b.rkb", str(tmp_path / "restored")
    code, out, _ = run("backup", origin.name, str(file), "--json")
    told = json.loads(own(out))
    assert (code, told["ensemble"], told["bytes"]) == (0, origin.name, file.stat().st_size)
    whole = file.read_bytes()
    cut, altered = tmp_path / "cut.rkb", tmp_path / "altered.rkb"
    cut.write_bytes(whole[:-1])
    altered.write_bytes(whole[:500] + b"!" + whole[501:])
    used = tmp_path / "restored" / "used"
    used.mkdir(parents=True)
    (used / "notes.txt").write_text("mine")

    def refused(*words: str) -> tuple[int, str]:
        code, out, err = run(*words, "--data-dir", data) if words[0] == "restore" else run(*words)
        assert own(out) == ""
        assert err.startswith("error: ") and err.count("\n") == 1, err
        return code, err

    for words, code, problem in (
        (("backup", origin.name, str(file)), 1, "exists already"),
        (("backup", origin.name, __file__, "--follow"), 1, "is no folder"),
        (("backup", "nobody", str(tmp_path / "x.rkb")), 3, "nobody"),
        (("backup", origin.name, str(tmp_path / "no" / "x.rkb")), 1, "No such file"),
        (("restore", str(file), "--name", origin.name), 1, "runs in this Ray cluster"),
        (("restore", str(file), "--name", "used"), 1, "is not empty, it holds notes.txt"),
        (("restore", str(file), "--name", "a b"), 2, "name"),
        (("restore", str(cut), "--name", "new"), 1, "was cut"),
        (("restore", str(altered), "--name", "new"), 1, "is altered"),
        (("restore", __file__, "--name", "new"), 1, "is no backup"),
        (("restore", str(tmp_path / "none"), "--name", "new"), 1, "does not exist"),
        (("restore", str(file), "--name", "new", "--at-zxid", "1:999999"), 1, "no state as of"),
        (("restore", str(file), "--name", "new", "--at-time", "soon"), 2, "--at-time"),
        (("restore", str(file), "--name", "new", "--first-epoch", "1"), 1, "epoch 1 cannot be"),
    ):
        found, text = refused(*words)
        assert (found, problem in text) == (code, True), (words, text)
    assert [path.name for path in (tmp_path / "restored").iterdir()] == ["used"]  # nothing written
    code, out, _ = run("restore", str(file), "--name", "new", "--data-dir", data, "--json")
    restored = json.loads(own(out))
    assert (code, restored["origin"], restored["zxid"]) == (0, origin.name, told["zxid"])
    ensemble = Ensemble("new")
    with ensemble.connect() as client, pytest.raises(NoNodeError):
        client.get("/zookeeper/keeper")
    ensemble.shutdown()


def test_without_a_leader_nothing_is_backed_up(origin: Ensemble, tmp_path: Path) -> None:
    leader = origin.wait_for_leader()
    for server in {ServerId(n) for n in (1, 2, 3)} - {leader}:
        ray.kill(find_replica(origin.name, server), no_restart=True)
    eventually(lambda: origin.status().leader is None)
    with pytest.raises(NoLeaderError, match="has no leader"):
        origin.backup(tmp_path / "b.rkb")
    assert list(tmp_path.iterdir()) == []
