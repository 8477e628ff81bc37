"""The snapshot of a restore on its way to a node, and what is removed after a failure."""

from pathlib import Path

import pytest

from raykeeper.actors.disk.filesystem import OS_FILESYSTEM
from raykeeper.actors.disk.folder_lock import lock_folder
from raykeeper.actors.disk.identity import IDENTITY_FILE, read_identity
from raykeeper.actors.disk.snapshot_files import SnapshotChunks, SnapshotSummary, verify_snapshot
from raykeeper.actors.disk.storage_errors import FolderInUse, StorageError
from raykeeper.clusters.backups.staging import (
    SnapshotReceiver,
    _pieces,
    names_in_the_way,
    remove_restored_folder,
)
from raykeeper.clusters.node_discovery import RECORD_FILE, prepare_folder, staged_snapshot
from raykeeper.clusters.node_report import EnsembleRecord, RestoredHistory
from raykeeper.zab.ids import Epoch, ServerId, make_zxid
from raykeeper.znodes.snapshot import SnapshotWalk
from raykeeper.znodes.state import State

FIRST = make_zxid(Epoch(9), 1)
ONE = ServerId(1)
RESTORED = RestoredHistory("'old' as of 1:7, restore 1", FIRST)
CHUNKS = list(iter(SnapshotWalk(State()).next_chunk, None))
RECORD = EnsembleRecord("8c1f", 3)


@pytest.fixture
def data(tmp_path: Path) -> str:
    """A data_dir on which a snapshot was staged."""
    receiver = SnapshotReceiver(str(tmp_path), "coord", ONE, FIRST)
    receiver.write(CHUNKS[:1])
    receiver.write(CHUNKS[1:])
    receiver.finish()
    return str(tmp_path)


def test_a_staged_snapshot_becomes_the_first_of_its_folder(data: str, tmp_path: Path) -> None:
    staged = staged_snapshot(data, "coord", ONE)
    assert verify_snapshot(staged) == SnapshotSummary(FIRST, FIRST)
    assert list(SnapshotChunks(staged)) == CHUNKS
    assert names_in_the_way(data, "coord") == (str(tmp_path / "coord"), [])
    identity = prepare_folder(data, "coord", RECORD, ONE, True, restored=RESTORED)
    assert identity == read_identity(tmp_path / "coord" / "1")
    assert identity.restored_from == RESTORED.backup and identity.is_founding
    assert identity.incarnation == 1
    assert not staged.exists()
    assert names_in_the_way(data, "coord")[1] == ["1", RECORD_FILE]
    # Another launch that comes now finds what was restored.
    assert prepare_folder(data, "coord", RECORD, ONE, True) == identity


def test_a_staged_snapshot_is_replaced(data: str) -> None:
    SnapshotReceiver(data, "coord", ONE, FIRST)
    with pytest.raises(StorageError, match=r"has no footer|damaged"):
        verify_snapshot(staged_snapshot(data, "coord", ONE))


def test_what_a_failed_restore_has_left_is_removed(data: str, tmp_path: Path) -> None:
    folder = tmp_path / "coord" / "1"
    remove_restored_folder(data, "coord", ONE, RESTORED.backup)
    assert list(folder.parent.iterdir()) == []
    remove_restored_folder(data, "coord", ONE, RESTORED.backup)
    folder.mkdir()  # formatting was interrupted
    (folder / "generation-1").mkdir()
    remove_restored_folder(data, "coord", ONE, RESTORED.backup)
    assert not folder.exists()


def test_nothing_else_is_removed(data: str, tmp_path: Path) -> None:
    folder = tmp_path / "coord" / "1"
    prepare_folder(data, "coord", RECORD, ONE, True, restored=RESTORED)
    remove_restored_folder(data, "coord", ONE, "another backup")
    assert (folder / IDENTITY_FILE).exists()
    lock = lock_folder(OS_FILESYSTEM, folder)
    with pytest.raises(FolderInUse):
        remove_restored_folder(data, "coord", ONE, RESTORED.backup)
    OS_FILESYSTEM.close(lock)
    remove_restored_folder(data, "coord", ONE, RESTORED.backup)
    assert list(folder.parent.iterdir()) == []


def test_any_file_is_in_the_way(tmp_path: Path) -> None:
    home = tmp_path / "coord"
    assert names_in_the_way(str(tmp_path), "coord") == (str(home), [])
    home.mkdir()
    for name in ("lost+found", "2.restored.tmp", "2.stale-5", "notes"):
        (home / name).touch()
    assert names_in_the_way(str(tmp_path), "coord")[1] == ["2.stale-5", "notes"]
    with pytest.raises(StorageError, match="Not a directory"):
        names_in_the_way(str(home), "notes")


def test_chunks_travel_by_the_megabyte() -> None:
    chunks = [bytes(300_000)] * 10
    pieces = list(_pieces(chunks))
    assert [len(piece) for piece in pieces] == [4, 4, 2]
    assert list(_pieces([])) == []
