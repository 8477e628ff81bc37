"""Snapshotter: which files exist after each call."""

import os
from pathlib import Path

import pytest

from raykeeper.actors.disk.snapshot_files import (
    SnapshotChunks,
    SnapshotSummary,
    temp_snapshot_path,
    verify_snapshot,
)
from raykeeper.actors.disk.storage_errors import StorageError
from raykeeper.actors.snapshotter import Snapshotter
from raykeeper.zab.ids import Zxid

Z5, Z6, Z9 = Zxid(5), Zxid(6), Zxid(9)


@pytest.fixture
def snapshotter(tmp_path: Path) -> Snapshotter:
    return Snapshotter(str(tmp_path))


def names(folder: Path) -> list[str]:
    return sorted(file.name for file in folder.iterdir())


def test_a_finished_snapshot_is_whole_and_under_its_temporary_name(
    snapshotter: Snapshotter, tmp_path: Path
) -> None:
    snapshotter.begin(Z5)
    snapshotter.write(Z5, b"one")
    snapshotter.write(Z5, b"two")
    snapshotter.finish(Z5, Z9)
    path = temp_snapshot_path(tmp_path, Z5)
    assert names(tmp_path) == [path.name]
    assert verify_snapshot(path) == SnapshotSummary(Z5, Z9)
    assert list(SnapshotChunks(path)) == [b"one", b"two"]


def test_the_next_snapshot_keeps_a_finished_one_for_the_replica(
    snapshotter: Snapshotter, tmp_path: Path
) -> None:
    snapshotter.begin(Z5)
    snapshotter.write(Z5, b"one")
    snapshotter.finish(Z5, Z5)
    temp_snapshot_path(tmp_path, Z5).rename(tmp_path / "published")
    snapshotter.begin(Z6)
    assert names(tmp_path) == ["published", temp_snapshot_path(tmp_path, Z6).name]


def test_the_next_snapshot_drops_an_unfinished_one(
    snapshotter: Snapshotter, tmp_path: Path
) -> None:
    snapshotter.begin(Z5)
    snapshotter.begin(Z6)
    assert names(tmp_path) == [temp_snapshot_path(tmp_path, Z6).name]


@pytest.mark.parametrize("is_finished", [False, True])
def test_abort_removes_the_file(
    snapshotter: Snapshotter, tmp_path: Path, is_finished: bool
) -> None:
    snapshotter.begin(Z5)
    if is_finished:
        snapshotter.write(Z5, b"one")
        snapshotter.finish(Z5, Z5)
    snapshotter.abort(Z6)
    assert names(tmp_path) == [temp_snapshot_path(tmp_path, Z5).name]
    snapshotter.abort(Z5)
    assert names(tmp_path) == []
    snapshotter.abort(Z5)


def test_a_snapshot_that_was_not_begun_here_is_refused(snapshotter: Snapshotter) -> None:
    with pytest.raises(StorageError, match="no snapshot as of 0x5 was begun"):
        snapshotter.write(Z5, b"one")
    snapshotter.begin(Z6)
    with pytest.raises(StorageError, match="no snapshot as of 0x5 was begun"):
        snapshotter.finish(Z5, Z5)
    snapshotter.abort(Z5)


def test_the_process_of_the_snapshotter_is_reported(snapshotter: Snapshotter) -> None:
    assert snapshotter.pid() == os.getpid()


def test_the_next_snapshot_forgets_one_removed_by_the_replica(
    snapshotter: Snapshotter, tmp_path: Path
) -> None:
    # It was restarted in the middle, and its start removes unfinished files.
    snapshotter.begin(Z5)
    temp_snapshot_path(tmp_path, Z5).unlink()
    snapshotter.begin(Z6)
    snapshotter.write(Z6, b"one")
    snapshotter.finish(Z6, Z9)
    assert list(SnapshotChunks(temp_snapshot_path(tmp_path, Z6))) == [b"one"]


@pytest.mark.parametrize("is_finished", [False, True])
def test_the_next_snapshot_drops_one_of_an_earlier_process(
    tmp_path: Path, is_finished: bool
) -> None:
    # Killed each time, it would fill the disk; or finished after the replica had given it up.
    killed = Snapshotter(str(tmp_path))
    killed.begin(Z5)
    killed.write(Z5, b"one")
    if is_finished:
        killed.finish(Z5, Z5)
    Snapshotter(str(tmp_path)).begin(Z6)
    assert names(tmp_path) == [temp_snapshot_path(tmp_path, Z6).name]


def test_the_next_snapshot_drops_one_that_was_finished_late(
    snapshotter: Snapshotter, tmp_path: Path
) -> None:
    snapshotter.begin(Z5)
    snapshotter.finish(Z5, Z5)
    snapshotter.begin(Z6)
    assert names(tmp_path) == [temp_snapshot_path(tmp_path, Z6).name]
