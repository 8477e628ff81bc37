"""BackupReader: what it opens stays readable, whatever its server removes."""

import os
import zlib
from pathlib import Path

import pytest

from raykeeper.actors.backup_reader import BackupReader, OpenedSnapshot
from raykeeper.actors.disk.backup_frames import decode_log_frame
from raykeeper.actors.disk.storage import StorageLimits
from raykeeper.actors.disk.storage_errors import CorruptRecord, LogPruned, StorageError
from raykeeper.zab.ids import ZERO, Zxid
from raykeeper.znodes.snapshot import SnapshotLoader
from tests.contract.faulty_files import FaultyFiles
from tests.contract.server_folders import ServerFolder, UnforcedFiles
from tests.model.histories import START, written

LOG = written(START * 3).log
LIMITS = StorageLimits(segment_bytes=600, snapshots_kept=1)


def grown(upto: int = len(LOG)) -> ServerFolder:
    server = ServerFolder(limits=LIMITS)
    server.append(LOG[:upto])
    return server


def test_a_young_server_has_a_log_only() -> None:
    server = grown()
    reader = BackupReader(str(server.folder), server.files)
    assert reader.open_snapshot() is None
    assert reader.read_snapshot(100) == []
    assert reader.open_log(ZERO, holds=False) == 0
    frames = [decode_log_frame(body.data) for body in reader.read_log(LOG[-1][0], 1 << 20)]
    assert [txn for frame in frames for txn in frame.txns] == [data for _, data in LOG]
    assert reader.read_log(LOG[-1][0], 1 << 20) == []


def test_the_newest_snapshot_outlives_its_file() -> None:
    server = grown(4)
    server.snapshot(LOG[4:6], chunk_bytes=1)
    reader = BackupReader(str(server.folder), server.files)
    opened = reader.open_snapshot()
    (path,) = server.snapshots()
    assert isinstance(server.files, FaultyFiles)
    size = len(server.files.content(path))
    assert opened == OpenedSnapshot(LOG[3][0], LOG[5][0], size)
    assert reader.open_log(opened.zxid, holds=True) > 0
    digest = server.state.digest()
    server.append(LOG[6:])
    server.snapshot()
    assert path not in server.snapshots()
    loader = SnapshotLoader()
    pieces = 0
    while chunks := reader.read_snapshot(1):
        pieces += 1
        for chunk in chunks:
            assert chunk.crc == zlib.crc32(chunk.data)
            loader.load(chunk.data)
    assert pieces > 2
    state = loader.finish(opened.zxid, opened.consistent_at)
    for body in reader.read_log(LOG[5][0], 1 << 20):
        for number, txn in enumerate(decode_log_frame(body.data).txns):
            state.apply(Zxid(body.first + number), txn)
    assert state.digest() == digest
    with pytest.raises(LogPruned):
        reader.open_log(opened.zxid, holds=True)


def test_a_damaged_snapshot_is_passed_over_or_told() -> None:
    server = ServerFolder(limits=StorageLimits(segment_bytes=600, snapshots_kept=2))
    server.append(LOG[:3])
    server.snapshot()
    server.append(LOG[3:6])
    server.snapshot()
    assert isinstance(server.files, FaultyFiles)
    old, new = server.snapshots()
    server.files.flip(new, 0)
    reader = BackupReader(str(server.folder), server.files)
    opened = reader.open_snapshot()
    assert opened is not None and opened.zxid == LOG[2][0]
    server.files.flip(old, 0)
    with pytest.raises(CorruptRecord, match="header"):
        reader.open_snapshot()


def test_real_files_and_a_missing_folder(tmp_path: Path) -> None:
    server = ServerFolder(tmp_path / "coord" / "1", UnforcedFiles(), LIMITS)
    server.append(LOG)
    server.snapshot()
    reader = BackupReader(str(server.folder))
    opened = reader.open_snapshot()
    assert opened is not None and opened.size == server.snapshots()[0].stat().st_size
    with pytest.raises(StorageError, match="No such file"):
        BackupReader(str(tmp_path / "none")).open_snapshot()


def test_the_priority_is_the_lowest() -> None:
    pid = os.fork()
    if pid == 0:  # a process cannot raise its priority again
        BackupReader("/").lower_priority()
        os._exit(0 if os.getpriority(os.PRIO_PROCESS, 0) == 19 else 1)
    assert os.waitpid(pid, 0)[1] == 0
