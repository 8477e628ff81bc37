"""Folders are set aside under a name of their own, unless a server or a vote needs them."""

from pathlib import Path

import pytest

from raykeeper.actors.disk.filesystem import OS_FILESYSTEM
from raykeeper.actors.disk.folder_lock import lock_folder
from raykeeper.actors.disk.storage_errors import FolderInUse
from raykeeper.clusters.node_discovery import inspect_node, prepare_folder
from raykeeper.clusters.node_report import EnsembleRecord
from raykeeper.clusters.stale_folders import remove_stale_folders, set_folder_aside
from raykeeper.zab.ids import FOUNDING_DISK, DiskId, ServerId

ONE = ServerId(1)
OTHER = DiskId("other")


def make(data: Path, *, is_founding: bool = True) -> DiskId:
    record = EnsembleRecord("uuid", 3)
    return prepare_folder(str(data), "coord", record, ONE, is_founding=is_founding).disk()


def aside(data: Path, voting: DiskId = OTHER, starts_since: int = 0) -> str | None:
    found = inspect_node(str(data), "coord").folders
    known = found[0].identity.incarnation if found and found[0].identity is not None else 0
    return set_folder_aside(str(data), "coord", ONE, voting, known - starts_since)


def test_a_folder_without_the_vote_is_set_aside(tmp_path: Path) -> None:
    make(tmp_path)
    stale = aside(tmp_path)
    assert stale is not None and Path(stale).parent == tmp_path / "coord"
    assert (Path(stale) / "identity").exists() and not (tmp_path / "coord/1").exists()
    # No launch sees it, and the server may get a new folder, which may be set aside in turn.
    assert inspect_node(str(tmp_path), "coord").folders == []
    make(tmp_path)
    assert aside(tmp_path) not in (None, stale)


def test_a_folder_that_is_needed_stays(tmp_path: Path) -> None:
    assert aside(tmp_path) is None
    make(tmp_path)
    assert aside(tmp_path, FOUNDING_DISK) is None
    lock = lock_folder(OS_FILESYSTEM, tmp_path / "coord/1")
    with pytest.raises(FolderInUse):
        aside(tmp_path)
    OS_FILESYSTEM.close(lock)
    (tmp_path / "coord/1/identity").write_bytes(b"damaged")
    assert aside(tmp_path) is None
    assert (tmp_path / "coord/1").is_dir()


def test_a_folder_stays_if_a_server_was_started_from_it_since(tmp_path: Path) -> None:
    """It may have got the vote: whoever wants the folder set aside does not know."""
    make(tmp_path, is_founding=False)
    assert aside(tmp_path, starts_since=1) is None
    assert (tmp_path / "coord/1").is_dir()
    assert aside(tmp_path) is not None


def test_a_later_disk_is_known_by_its_uuid(tmp_path: Path) -> None:
    disk = make(tmp_path, is_founding=False)
    assert aside(tmp_path, disk) is None
    assert aside(tmp_path, FOUNDING_DISK) is not None


def test_stale_folders_are_removed_when_they_are_old(tmp_path: Path) -> None:
    make(tmp_path)
    stale = aside(tmp_path)
    make(tmp_path)
    (tmp_path / "coord/1.stale-soon").mkdir()
    assert remove_stale_folders(str(tmp_path), "coord", 3_600) == []
    assert remove_stale_folders(str(tmp_path), "coord", 0) == [stale]
    assert sorted(each.name for each in (tmp_path / "coord").iterdir() if each.is_dir()) == [
        "1",
        "1.stale-soon",
    ]
    assert remove_stale_folders(str(tmp_path), "other", 0) == []
