"""A full disk: reported while all that was accepted still fits, until there is space again.

Rule D6, on files in memory and once on a real file system that is filled up.
"""

import os
import random
import subprocess
import sys
from pathlib import Path

import pytest

from raykeeper.actors.disk.filesystem import OS_FILESYSTEM
from raykeeper.actors.disk.identity import format_folder
from raykeeper.actors.disk.opening import open_storage
from raykeeper.actors.disk.storage import Storage, StorageLimits
from raykeeper.actors.disk.storage_errors import NoRoom, StorageError
from raykeeper.server.events import (
    DiskEvent,
    DiskSpaceChanged,
    EpochsSaved,
    LogSynced,
    LogTruncated,
)
from raykeeper.server.recovered_state import RecoveredState
from raykeeper.zab.effects import (
    Append,
    CheckDiskSpace,
    InstallSnapshot,
    ReceiveChunk,
    ReceiveSnapshot,
    SaveEpochs,
    Truncate,
)
from raykeeper.zab.ids import ZERO, Epoch, Zxid, make_zxid
from tests.contract.faulty_files import FaultyFiles, Loss
from tests.contract.store_model import EPOCH_1
from tests.contract.stores import FOLDER, IDENTITY, LIMITS, OWNER
from tests.harness.log_entries import entries_of

SEGMENT = LIMITS.segment_bytes


def z(counter: int, epoch: int = 1) -> Zxid:
    return make_zxid(Epoch(epoch), counter)


def append(counter: int, size: int = 400) -> Append:
    return Append(z(counter), [bytes([counter]) * size], ZERO)


def start(files: FaultyFiles) -> tuple[Storage, RecoveredState]:
    return open_storage(FOLDER, OWNER, LIMITS, has_peers=True, wall_s=1, files=files)


def almost_full(segments: int) -> tuple[FaultyFiles, Storage]:
    """Return a store in epoch 1 whose disk has space for its spare and so many more segments."""
    files = FaultyFiles()
    format_folder(FOLDER, IDENTITY, files)
    storage, recovered = start(files)
    assert recovered.has_disk_space
    storage.perform([EPOCH_1])
    files.capacity = 1 << 40
    files.capacity -= files.free_bytes(FOLDER) - segments * SEGMENT
    return files, storage


def log_of(recovered: RecoveredState) -> list[int]:
    return [int(zxid) for zxid, _ in entries_of(*recovered.runs)]


def test_a_full_disk_is_reported_with_a_whole_segment_left() -> None:
    files, storage = almost_full(segments=1)
    counter, told = 0, []
    while not any(isinstance(event, DiskSpaceChanged) for event in told):
        counter += 1
        told = storage.perform([append(counter)])
    # With the completion of the batch that went into the last segment; four fit into one.
    assert told == [LogSynced(z(counter)), DiskSpaceChanged(False)]
    for more in range(counter + 1, counter + 4):
        assert storage.perform([append(more)]) == [LogSynced(z(more))]
    assert storage.perform([SaveEpochs(Epoch(2), Epoch(2))]) == [EpochsSaved(Epoch(2), Epoch(2))]
    assert storage.perform([CheckDiskSpace()]) == [DiskSpaceChanged(False)]
    files.capacity += SEGMENT
    assert storage.perform([CheckDiskSpace()]) == [DiskSpaceChanged(True)]
    assert storage.perform([append(counter + 4)]) == [
        LogSynced(z(counter + 4)),
        DiskSpaceChanged(False),
    ]
    storage.close()
    files.capacity += SEGMENT  # the last segment is rewritten
    _, recovered = start(files.crash(Loss.ALL, random.Random(0)))
    assert log_of(recovered) == [z(n) for n in range(1, counter + 5)]
    assert (recovered.accepted, recovered.current) == (2, 2)


def test_without_any_space_the_store_stops_and_loses_nothing() -> None:
    files, storage = almost_full(segments=0)
    synced = 0
    with pytest.raises(NoRoom):
        for counter in range(1, 99):
            storage.perform([append(counter)])
            synced = counter
    assert synced == 4
    with pytest.raises(StorageError, match="failed before"):
        storage.perform([CheckDiskSpace()])
    storage.close()
    # Each start rewrites the last segment, so no start works without space for one.
    for _ in range(2):
        with pytest.raises(NoRoom, match=r"0 bytes are free on its disk, and a segment .* 2,048"):
            start(files)
        assert files.open_files() == 0
    files.capacity += SEGMENT
    storage, recovered = start(files)
    assert log_of(recovered) == [z(n) for n in range(1, 5)]
    # What the old one had is free again, so there is a spare as well.
    assert recovered.has_disk_space
    storage.close()


GROWING = StorageLimits(segment_bytes=8 * SEGMENT, first_segment_bytes=SEGMENT)


def test_a_store_is_small_until_it_is_written_to() -> None:
    files = FaultyFiles()
    format_folder(FOLDER, IDENTITY, files)
    storage, _ = open_storage(FOLDER, OWNER, GROWING, has_peers=True, wall_s=1, files=files)
    storage.perform([EPOCH_1])

    def sizes() -> list[int]:
        log = [file for file in files.paths(FOLDER) if file.name.startswith("log.")]
        spare = FOLDER / "spare"
        return [len(files.content(file)) // SEGMENT for file in [*log, spare] if files.exists(file)]

    assert sizes() == [1]
    seen = []
    for counter in range(1, 99):
        storage.perform([append(counter)])
        if sizes() != (seen[-1] if seen else None):
            seen.append(sizes())
    assert seen == [[1, 2], [1, 2, 4], [1, 2, 4, 8], [1, 2, 4, 8, 8], [1, 2, 4, 8, 8, 8]]
    storage.close()
    # A start begins small again, with what the last segment holds.
    storage, recovered = open_storage(FOLDER, OWNER, GROWING, has_peers=True, wall_s=1, files=files)
    assert log_of(recovered) == [z(n) for n in range(1, 99)]
    assert sizes()[:4] == [1, 2, 4, 8]
    assert (sizes()[-1], recovered.has_disk_space) == (1, True)
    storage.close()


def test_a_store_of_small_segments_is_full_before_the_largest_would_not_fit() -> None:
    files = FaultyFiles()
    format_folder(FOLDER, IDENTITY, files)
    storage, _ = open_storage(FOLDER, OWNER, GROWING, has_peers=True, wall_s=1, files=files)
    storage.perform([EPOCH_1])
    files.capacity -= files.free_bytes(FOLDER) - 8 * SEGMENT  # beside a spare of one
    told = storage.perform([append(1)])
    assert told == [LogSynced(z(1))]
    counter = 1
    while not any(isinstance(event, DiskSpaceChanged) for event in told):
        counter += 1
        told = storage.perform([append(counter)])
    assert told == [LogSynced(z(counter)), DiskSpaceChanged(False)]
    # What was under way fits, although it is more than the segment that is written to holds.
    more = [append(counter + n) for n in range(1, 17)]
    assert storage.perform(more)[0] == LogSynced(z(counter + 16))
    files.capacity += 16 * SEGMENT
    assert storage.perform([CheckDiskSpace()]) == [DiskSpaceChanged(True)]
    storage.close()


def test_a_start_with_a_spare_needs_no_more_space() -> None:
    files, storage = almost_full(segments=1)
    storage.perform([append(1)])
    storage.close()
    files.capacity -= files.free_bytes(FOLDER)
    for _ in range(3):
        storage, recovered = start(files)
        assert (log_of(recovered), recovered.has_disk_space) == ([z(1)], True)
        storage.close()


def test_a_start_without_space_for_a_spare_reports_it() -> None:
    files, storage = almost_full(segments=1)
    storage.perform([append(1)])
    storage.close()
    # From now on segments are twice as large: there is room for the last one, and no spare.
    files.capacity -= files.free_bytes(FOLDER) - SEGMENT
    larger = StorageLimits(2 * SEGMENT)
    storage, recovered = open_storage(FOLDER, OWNER, larger, has_peers=True, wall_s=1, files=files)
    assert (log_of(recovered), recovered.has_disk_space) == ([z(1)], False)
    assert storage.perform([append(2), CheckDiskSpace()]) == [
        LogSynced(z(2)),
        DiskSpaceChanged(False),
    ]
    files.capacity += 2 * SEGMENT
    assert storage.perform([append(3)]) == [LogSynced(z(3))]
    assert storage.perform([CheckDiskSpace()]) == [DiskSpaceChanged(True)]
    storage.close()


def test_an_empty_store_needs_space_for_a_segment() -> None:
    files = FaultyFiles()
    format_folder(FOLDER, IDENTITY, files)
    files.capacity -= files.free_bytes(FOLDER) - (SEGMENT - 1)
    with pytest.raises(NoRoom, match="2,047 bytes are free"):
        start(files)
    files.capacity += 1
    assert start(files)[1].has_disk_space


def test_a_large_append_uses_one_segment_after_the_other() -> None:
    files, storage = almost_full(segments=2)
    txns = [bytes([n]) * 300 for n in range(1, 15)]
    assert storage.perform([Append(z(1), txns, ZERO)]) == [
        LogSynced(z(14)),
        DiskSpaceChanged(False),
    ]
    storage.close()
    files.capacity += SEGMENT
    assert [txn for _, txn in entries_of(*start(files)[1].runs)] == txns


def test_a_cut_needs_no_more_space() -> None:
    files, storage = almost_full(segments=1)
    for counter in range(1, 5):
        storage.perform([append(counter)])
    files.capacity -= files.free_bytes(FOLDER)
    assert storage.perform([Truncate(z(2)), append(3)]) == [LogTruncated(z(2)), LogSynced(z(3))]
    storage.close()
    assert log_of(start(files)[1]) == [z(1), z(2), z(3)]


def test_a_cut_makes_a_spare() -> None:
    files, storage = almost_full(segments=1)
    for counter in range(1, 5):
        storage.perform([append(counter)])
    storage.perform([Truncate(z(2))])
    files.capacity -= files.free_bytes(FOLDER)  # another program takes the space
    told = [storage.perform([append(counter)]) for counter in range(3, 9)]
    assert [events for events in told if len(events) > 1] == [
        [LogSynced(z(5)), DiskSpaceChanged(False)]
    ]


def test_removed_files_free_their_space() -> None:
    files, storage = almost_full(segments=0)
    told: list[DiskEvent] = storage.perform([append(1)])
    assert told == [LogSynced(z(1)), DiskSpaceChanged(False)]
    files.capacity += SEGMENT + 1000  # a segment for the new generation, and its snapshot
    chunks = [ReceiveSnapshot(z(9)), ReceiveChunk(b"tree")]
    told = storage.perform([*chunks, InstallSnapshot(z(9), z(9), []), append(10)])
    assert told[-1] == LogSynced(z(10))
    assert DiskSpaceChanged(True) in told
    storage.close()
    assert log_of(start(files)[1]) == [z(10)]


@pytest.mark.parametrize("operation", ["create", "allocate", "sync_folder"])
def test_any_other_failure_of_the_allocation_stops_the_store(operation: str) -> None:
    files, storage = almost_full(segments=5)

    def fail(_number: int, name: str) -> None:
        if name == operation:
            files.on_operation = lambda _number, _name: None  # once is enough
            raise OSError(5, "broken")

    files.on_operation = fail
    with pytest.raises(StorageError, match="broken"):
        for counter in range(1, 9):
            storage.perform([append(counter)])
    with pytest.raises(StorageError, match="failed before"):
        storage.perform([CheckDiskSpace()])
    storage.close()
    assert files.open_files() == 0


_ON_A_SMALL_DISK = """
import sys
from pathlib import Path
from tests.contract.test_storage_room import fill_a_real_disk
fill_a_real_disk(Path(sys.argv[1]))
print("filled")
"""


def test_a_real_disk_is_filled_up(tmp_path: Path) -> None:
    # In a mount namespace of its own, so that nothing remains of it in any case.
    mount = f"mount -t tmpfs -o size=9m tmpfs {tmp_path} && exec {sys.executable} -c "
    tried = subprocess.run(
        ["unshare", "-m", "sh", "-c", f"{mount} 'print(1)'"], capture_output=True, text=True
    )
    if tried.returncode != 0:
        pytest.skip(f"a file system cannot be mounted here: {tried.stderr.strip()}")
    done = subprocess.run(
        ["unshare", "-m", "sh", "-c", f"{mount} '{_ON_A_SMALL_DISK}' {tmp_path}"],
        capture_output=True,
        text=True,
        cwd=Path(__file__).parents[2],
        env={**os.environ, "PYTHONPATH": str(Path(__file__).parents[2])},
        timeout=60,
    )
    assert (done.stdout, done.returncode) == ("filled\n", 0), done.stderr


def fill_a_real_disk(disk: Path) -> None:
    """Fill `disk`, which is small, with a store and empty it; raise if it loses a transaction."""
    folder, ballast = disk / "data", disk / "ballast"
    limits = StorageLimits(segment_bytes=1 << 20)

    def open_again() -> tuple[Storage, RecoveredState]:
        return open_storage(folder, OWNER, limits, has_peers=True, wall_s=1)

    format_folder(folder, IDENTITY)
    storage, recovered = open_again()
    assert recovered.has_disk_space
    storage.perform([EPOCH_1])
    ballast.write_bytes(bytes(3 << 20))
    counter, told = 0, []
    while DiskSpaceChanged(False) not in told:
        counter += 1
        told = storage.perform([Append(z(counter), [bytes(50_000)], ZERO)])
    fill(disk / "more")
    assert OS_FILESYSTEM.free_bytes(disk) == 0
    # Nothing is left for anybody, and what was accepted still fits, promises too.
    last = counter + 15
    for more in range(counter + 1, last + 1):
        told = storage.perform([Append(z(more), [bytes(50_000)], ZERO)])
        assert told == [LogSynced(z(more))]
    assert storage.perform([SaveEpochs(Epoch(7), Epoch(1)), CheckDiskSpace()])[
        -1
    ] == DiskSpaceChanged(False)
    ballast.unlink()
    assert storage.perform([CheckDiskSpace()]) == [DiskSpaceChanged(True)]
    storage.close()
    storage, recovered = open_again()
    assert log_of(recovered) == [z(n) for n in range(1, last + 1)]
    assert (recovered.accepted, recovered.has_disk_space, recovered.is_uncertain) == (
        7,
        True,
        False,
    )
    storage.close()
    # Nothing is left for a start: it needs a block for the identity, though there is a spare.
    fill(disk / "yet more")
    for _ in range(2):
        with pytest.raises(NoRoom, match=f"{folder}: No space left on device"):
            open_again()
    (disk / "yet more").unlink()
    storage, recovered = open_again()
    assert log_of(recovered) == [z(n) for n in range(1, last + 1)]
    storage.close()


def fill(path: Path) -> None:
    """Create a file that takes all remaining space of the disk."""
    fd = os.open(path, os.O_WRONLY | os.O_CREAT)
    with pytest.raises(OSError, match="No space left"):
        while True:
            os.write(fd, bytes(4096))
    os.close(fd)
