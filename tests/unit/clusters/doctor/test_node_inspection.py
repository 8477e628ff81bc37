"""What a task of the doctor finds on its node."""

import errno
import os
import time
from datetime import timedelta
from pathlib import Path

import pytest

from raykeeper.actors.disk.filesystem import OS_FILESYSTEM
from raykeeper.actors.disk.identity import IDENTITY_FILE
from raykeeper.actors.running_versions import running_versions
from raykeeper.clusters.doctor.folder_check import FolderCheck
from raykeeper.clusters.doctor.node_inspection import (
    NodeQuestion,
    examine_node,
    find_set_aside,
    folder_facts,
    measure_disk,
)
from raykeeper.clusters.doctor.rules.facts import DiskFacts, SetAsideFolder
from raykeeper.clusters.node_discovery import RECORD_FILE, prepare_folder
from raykeeper.clusters.node_report import EnsembleRecord, FoundFolder
from raykeeper.zab.ids import FOUNDING_DISK, ServerId
from tests.contract.server_folders import ServerFolder
from tests.harness.tls_files import TlsFolder
from tests.model.histories import START, written

ONE, TWO = ServerId(1), ServerId(2)


def question(data: Path | str, **more: object) -> NodeQuestion:
    given = {"servers": (ONE,), "runs_here": True, **more}
    return NodeQuestion(node_id="n", name="host/n", data_dir=str(data), ensemble="coord", **given)  # type: ignore[arg-type]


def make(data: Path, server: ServerId, *, is_founding: bool = True) -> Path:
    prepare_folder(str(data), "coord", EnsembleRecord("uuid", 3), server, is_founding=is_founding)
    return data / "coord" / str(server)


def test_a_node_is_told_with_its_folders_and_its_disk(tmp_path: Path) -> None:
    server = ServerFolder(tmp_path / "coord/1", OS_FILESYSTEM)
    server.append(written(START).log)
    server.storage.close()
    make(tmp_path, TWO, is_founding=False)
    facts = examine_node(question(tmp_path))
    assert (facts.node_id, facts.name, facts.problem) == ("n", "host/n", "")
    assert facts.versions == running_versions()
    first, second = facts.folders
    assert (first.server_id, first.disk, first.path) == (ONE, FOUNDING_DISK, f"{tmp_path}/coord/1")
    assert (first.damage, first.unread_files, second.damage) == ((), 0, ())
    assert first.segment_bytes > 0 and first.device == facts.disk.device  # type: ignore[union-attr]
    assert second.disk not in (None, FOUNDING_DISK)
    assert (facts.unreadable, facts.record_damage, facts.set_aside) == ((), "", ())
    left = sorted(each.name for each in (tmp_path / "coord").iterdir())
    assert left == ["1", "2", RECORD_FILE], "nothing of the doctor stays"


def test_damage_is_told_of_the_folders_that_are_asked_for(tmp_path: Path) -> None:
    for server in (ONE, TWO):
        (make(tmp_path, server) / "epochs").write_bytes(b"noise")
    (tmp_path / "coord" / RECORD_FILE).write_text("{")
    first, second = (facts := examine_node(question(tmp_path))).folders
    assert first.damage and second.damage == ()
    assert "is damaged" in facts.record_damage
    (tmp_path / "coord/1/identity").write_bytes(b"noise")
    first = examine_node(question(tmp_path)).folders[0]
    assert first.disk is None and first.damage


def test_a_folder_that_is_gone_by_now_is_on_no_file_system(tmp_path: Path) -> None:
    found = FoundFolder(ONE, str(tmp_path / "gone"), None, "identity is damaged")
    facts = folder_facts(found, FolderCheck(damage=[found.damage]))
    assert (facts.device, facts.disk, facts.damage) == (0, None, ("identity is damaged",))


def test_a_folder_that_cannot_be_read_is_told(tmp_path: Path) -> None:
    (tmp_path / "coord").write_text("a file")
    facts = examine_node(question(tmp_path))
    assert facts.unreadable and str(tmp_path / "coord") in facts.unreadable[0]
    (tmp_path / "coord").unlink()
    (tmp_path / "coord").mkdir()
    (tmp_path / "coord/1").symlink_to(tmp_path / "unmounted")
    facts = examine_node(question(tmp_path))
    assert "is a link to" in facts.unreadable[0]


def test_a_folder_of_another_version_is_not_one_that_cannot_be_read(tmp_path: Path) -> None:
    """Its permissions need no mending."""
    folder = make(tmp_path, ServerId(1))
    (folder / IDENTITY_FILE).write_text('{"format_version": 1}')
    facts = examine_node(question(tmp_path))
    assert facts.unreadable == ()
    (told,) = facts.folders
    assert (told.server_id, told.path, told.disk) == (1, str(folder), None)
    assert "has version 1; this program reads" in told.other_version


def test_only_where_a_server_runs_its_disk_and_its_certificate_matter(tmp_path: Path) -> None:
    folder = TlsFolder(tmp_path)
    folder.issue("own", valid_for=timedelta(days=-2))
    make(tmp_path, ONE)
    files = folder.of_server("own")
    there = examine_node(question(tmp_path, tls=files))
    assert [each.used_for for each in there.tls_files] == ["clients of ZooKeeper"]
    elsewhere = examine_node(question(tmp_path, tls=files, runs_here=False))
    assert (elsewhere.tls_files, elsewhere.disk) == ((), None)


def test_without_a_server_that_tells_its_folder_the_rest_is_told(tmp_path: Path) -> None:
    facts = examine_node(question(""))
    assert facts.folders == () and facts.versions == running_versions()


def test_rays_own_certificate_is_examined(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = TlsFolder(tmp_path)
    for setting, value in (
        ("RAY_USE_TLS", "1"),
        ("RAY_TLS_SERVER_CERT", folder.path("authority", "pem")),
        ("RAY_TLS_SERVER_KEY", folder.path("authority", "key")),
        ("RAY_TLS_CA_CERT", folder.path("missing", "ca")),
    ):
        monkeypatch.setenv(setting, value)
    own, authority = examine_node(question("")).tls_files
    assert (own.used_for, own.problem) == ("Ray", "")
    assert folder.path("missing", "ca") in authority.problem


def test_folders_set_aside_have_an_age(tmp_path: Path) -> None:
    now = time.time()
    old = tmp_path / f"2.stale-{int((now - 3.5 * 86_400) * 1e9)}"
    old.mkdir()
    (tmp_path / "2.stale-noise").mkdir()
    (tmp_path / f"3.stale-{int((now + 100) * 1e9)}").mkdir()
    assert find_set_aside(tmp_path, now)[0] == SetAsideFolder(str(old), 3)
    assert [each.age_days for each in find_set_aside(tmp_path, now)] == [3, 0]


def test_a_disk_that_takes_nothing_is_told(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    missing = measure_disk(tmp_path / "missing")
    assert missing == DiskFacts(force_problem=f"{tmp_path}/missing: No such file or directory")

    def fail(fd: int, offset: int, size: int) -> None:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr(os, "posix_fallocate", fail)
    full = measure_disk(tmp_path)
    assert full.force_us is None and full.free_bytes > 0
    assert full.force_problem == f"nothing can be written in {tmp_path}: No space left on device"


def test_a_slow_disk_is_forced_fewer_times(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    times = iter(range(0, 1_000, 1))
    monkeypatch.setattr(time, "monotonic", lambda: float(next(times)))
    assert measure_disk(tmp_path).force_us == 1_000_000
    assert next(times) <= 6, "three forces at most, of a second each"


def test_a_file_system_without_nameless_files_keeps_nothing_either(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    really = os.open

    def without(path: str, flags: int, mode: int = 0o777) -> int:
        if flags & os.O_TMPFILE == os.O_TMPFILE:
            raise OSError(errno.EOPNOTSUPP, "no such files")
        return really(path, flags, mode)

    monkeypatch.setattr(os, "open", without)
    assert measure_disk(tmp_path).force_us is not None
    assert list(tmp_path.iterdir()) == []
