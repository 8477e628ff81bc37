"""Snapshot files: whole, or not used."""

import random
from pathlib import Path

import pytest

from raykeeper.actors.disk.snapshot_files import (
    SnapshotChunks,
    SnapshotWriter,
    read_summary,
    remove_temp_snapshots,
    snapshot_name,
    snapshot_zxids,
    temp_snapshot_path,
    verify_snapshot,
)
from raykeeper.actors.disk.storage_errors import CorruptRecord, StorageError, UnknownVersion
from raykeeper.zab.ids import ZERO, Zxid
from tests.contract.faulty_files import FaultyFiles, Loss, fail_at

PATH = Path("/snapshot.tmp")
CHUNKS = [b"first", bytes(300), b"x"]


def written(chunks: list[bytes]) -> FaultyFiles:
    files = FaultyFiles()
    writer = SnapshotWriter(PATH, Zxid(7), files)
    for chunk in chunks:
        writer.write(chunk)
    writer.finish(Zxid(9))
    assert files.open_files() == 0
    return files


@pytest.mark.parametrize("chunks", [[], [b"x"], CHUNKS, [bytes(3 << 20)] * 3])
def test_a_snapshot_is_read_as_written(chunks: list[bytes]) -> None:
    files = written(chunks)
    assert read_summary(PATH, files) == verify_snapshot(PATH, files) == (7, 9)
    found = SnapshotChunks(PATH, files)
    assert list(found) == chunks
    assert list(found) == chunks, "each time anew"
    assert files.open_files() == 0


def test_a_finished_snapshot_is_forced() -> None:
    files = written(CHUNKS)
    files.sync_folder(Path("/"))
    after = files.crash(Loss.ALL, random.Random(0))
    assert list(SnapshotChunks(PATH, after)) == CHUNKS


def test_a_growing_snapshot_is_forced() -> None:
    files = FaultyFiles()
    operations: list[str] = []
    writer = SnapshotWriter(PATH, Zxid(7), files)
    files.on_operation = lambda _number, name: operations.append(name)
    for _ in range(5):
        writer.write(bytes(2 << 20))
    assert operations == ["write", "write", "sync", "write", "write", "sync", "write"]
    writer.discard()


def test_every_damaged_byte_is_detected() -> None:
    for offset in range(len(written(CHUNKS).content(PATH))):
        files = written(CHUNKS)
        files.content(PATH)[offset] ^= 4
        with pytest.raises(CorruptRecord):
            verify_snapshot(PATH, files)


def test_every_missing_end_is_detected() -> None:
    whole = bytes(written(CHUNKS).content(PATH))
    for size in range(len(whole)):
        files = written(CHUNKS)
        files.content(PATH)[:] = whole[:size]
        with pytest.raises(CorruptRecord):
            read_summary(PATH, files)


def test_a_missing_chunk_is_detected() -> None:
    files = written(CHUNKS)
    content = files.content(PATH)
    start = content.index(b"first") - 8
    del content[start : start + 8 + len(b"first")]
    assert read_summary(PATH, files) == (7, 9)
    with pytest.raises(CorruptRecord, match="do not match its footer"):
        list(SnapshotChunks(PATH, files))


def test_a_length_is_not_trusted_before_it_is_checked() -> None:
    # It would be read as a whole: of a large snapshot, gigabytes.
    files = written([bytes(3 << 20)] * 3)
    files.read_max = 4 << 20
    files.flip(PATH, 24 + 2, 0x40)  # 3 MiB become 7 MiB
    with pytest.raises(CorruptRecord, match=r"chunk 0 of .* is damaged"):
        verify_snapshot(PATH, files)


def test_chunks_may_be_large() -> None:
    large = [bytes(range(256)) * (9 << 12), b"x" * (4 << 20), bytes((4 << 20) + 1)]
    assert list(SnapshotChunks(PATH, written(large))) == large


def test_temporary_snapshots_are_removed() -> None:
    files = written(CHUNKS)
    for name in ("snapshot.0000000000000007", "received.tmp", "snapshot.0000000000000007.tmp"):
        files.close(files.create(Path("/") / name))
    remove_temp_snapshots(Path("/"), files)
    assert files.names(Path("/")) == ["received.tmp", "snapshot.0000000000000007"]


def test_the_finished_file_is_compared_with_what_was_written() -> None:
    files = FaultyFiles()
    writer = SnapshotWriter(PATH, Zxid(7), files)
    writer.write(b"chunk")
    files.content(PATH)[-1] ^= 1
    with pytest.raises(CorruptRecord, match=r"chunk 0 of /snapshot\.tmp is damaged"):
        writer.finish(Zxid(7))
    writer.discard()
    assert files.names(Path("/")) == []


def test_a_discarded_or_unfinished_snapshot_allows_the_next() -> None:
    files = FaultyFiles()
    SnapshotWriter(PATH, Zxid(1), files).discard()
    SnapshotWriter(PATH, Zxid(2), files).write(b"forgotten")
    writer = SnapshotWriter(PATH, Zxid(3), files)
    writer.finish(Zxid(3))
    assert verify_snapshot(PATH, files) == (3, 3)


def test_a_broken_disk_is_a_storage_error() -> None:
    for number in range(1, 6):
        files = FaultyFiles()
        files.on_operation = fail_at(number)
        with pytest.raises(StorageError, match="failed"):
            writer = SnapshotWriter(PATH, Zxid(7), files)
            writer.write(b"chunk")
            writer.finish(Zxid(7))
            writer.discard()


def test_other_files_are_not_snapshots(tmp_path: Path) -> None:
    other = tmp_path / "snapshot"
    for content in (b"", b"x" * 10, b"x" * 1000):
        other.write_bytes(content)
        with pytest.raises(CorruptRecord):
            read_summary(other)
    with pytest.raises(StorageError, match="missing"):
        read_summary(tmp_path / "missing")


@pytest.mark.parametrize("version", [0, 2])
def test_another_version_is_refused(version: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("raykeeper.actors.disk.snapshot_files.SNAPSHOT_VERSION", version)
    files = written(CHUNKS)
    monkeypatch.undo()
    with pytest.raises(UnknownVersion, match=f"version {version}; this program reads 1"):
        read_summary(PATH, files)


def test_file_names_are_parsed() -> None:
    names = [snapshot_name(Zxid(n)) for n in (1 << 50, 3)]
    assert snapshot_zxids([*names, "log.0000000000000003"]) == [3, 1 << 50]
    assert temp_snapshot_path(Path("/d"), Zxid(3)) == Path("/d/snapshot.0000000000000003.tmp")
    with pytest.raises(CorruptRecord, match=r"snapshot\.latest is not"):
        snapshot_zxids(["snapshot.latest"])


def test_misuse_raises_an_assertion_error() -> None:
    writer = SnapshotWriter(PATH, Zxid(7), FaultyFiles())
    with pytest.raises(AssertionError):
        writer.write(b"")
    with pytest.raises(AssertionError):
        writer.finish(ZERO)
