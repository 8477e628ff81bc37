"""The spare segment: one at a time, and a full disk is reported instead of raised."""

import errno
from pathlib import Path

import pytest

from raykeeper.actors.disk.log_format import SegmentHeader, encode_segment_header
from raykeeper.actors.disk.log_segment import segment_name
from raykeeper.actors.disk.spare_segment import SPARE_FILE, SpareSegment
from raykeeper.actors.disk.storage_errors import CorruptRecord
from raykeeper.zab.ids import ZERO, Zxid
from tests.contract.faulty_files import FaultyFiles

FOLDER = Path("/")
LOG = Path("/log")
SPARE = FOLDER / SPARE_FILE
HEADER = encode_segment_header(SegmentHeader(7, Zxid(0x101), ZERO, 1000))


def with_room(size: int) -> tuple[FaultyFiles, SpareSegment]:
    files = FaultyFiles()
    files.capacity = size
    return files, SpareSegment(files, FOLDER, 1000, 1000)


def test_one_spare_exists_at_a_time() -> None:
    files, spare = with_room(3000)
    assert spare.replenish() and spare.replenish()
    assert files.free_bytes(FOLDER) == 2000
    fd, path = spare.acquire(10)
    assert (files.size(fd), path) == (1000, SPARE)
    files.rename(path, FOLDER / "taken")
    # Taken again at once, it is made at once.
    assert files.size(spare.acquire(1000)[0]) == 1000


def test_a_full_disk_is_reported_until_there_is_space() -> None:
    files, spare = with_room(999)
    assert not spare.replenish() and not spare.has_disk_space
    assert (files.names(FOLDER), files.open_files()) == ([], 0)
    files.capacity = 1000
    assert spare.replenish() and spare.has_disk_space


@pytest.mark.parametrize("code", [errno.ENOSPC, errno.EDQUOT])
@pytest.mark.parametrize("operation", ["create", "allocate"])
def test_a_quota_and_a_full_directory_count_as_full(operation: str, code: int) -> None:
    files, spare = with_room(5000)

    def fail(_number: int, name: str) -> None:
        if name == operation:
            raise OSError(code, "full")

    files.on_operation = fail
    assert not spare.replenish()
    assert (files.names(FOLDER), files.open_files()) == ([], 0)
    files.on_operation = lambda _number, _name: None
    assert spare.replenish()


def test_a_larger_segment_leaves_the_spare_alone() -> None:
    files, spare = with_room(5000)
    spare.replenish()
    fd, path = spare.acquire(1001)
    assert (files.size(fd), path.suffix) == (1001, ".tmp")
    assert files.names(FOLDER) == sorted([path.name, SPARE_FILE])
    spare.close()
    files.close(fd)
    assert files.open_files() == 0


def test_each_spare_is_twice_as_large_as_the_last() -> None:
    files = FaultyFiles()
    spare = SpareSegment(files, FOLDER, 100, 700)
    sizes = []
    for name in ("a", "b", "c", "d", "e"):
        assert spare.replenish()
        fd, path = spare.acquire(spare.size)
        sizes.append(files.size(fd))
        files.rename(path, FOLDER / name)
        spare.grow()
    assert sizes == [100, 200, 400, 700, 700]


def test_a_spare_that_is_too_small_is_replaced() -> None:
    files = FaultyFiles()
    spare = SpareSegment(files, FOLDER, 100, 700)
    spare.replenish()
    files.close(spare.acquire(150)[0])
    spare.grow()
    assert (spare.size, files.exists(SPARE)) == (200, False)
    assert spare.replenish()
    fd, path = spare.acquire(150)
    assert (files.size(fd), path) == (200, SPARE)
    spare.close()
    files.close(fd)
    assert files.open_files() == 0


def test_a_small_spare_needs_space_for_the_largest() -> None:
    files = FaultyFiles()
    files.capacity = 699
    spare = SpareSegment(files, FOLDER, 100, 700)
    assert not spare.replenish() and not spare.has_disk_space
    # It is there all the same, for what is under way.
    assert files.content(SPARE) == bytes(100)
    files.capacity = 700
    assert spare.replenish() and spare.has_disk_space


@pytest.mark.parametrize(
    ("content", "is_lost"),
    [
        (b"", False),
        (bytes(1000), False),
        # A crash before the new name was there: nothing was written behind the header.
        (HEADER, False),
        (HEADER[:-1] + b"torn" + HEADER, False),
        # What was written was acknowledged, unless it is a copy of a segment that is there.
        (HEADER + b"batch", True),
    ],
)
def test_the_spare_of_an_earlier_process_is_removed(content: bytes, is_lost: bool) -> None:
    for is_copy in (False, True):
        files, spare = with_room(5000)
        files.make_folder(LOG)
        fd = files.create(SPARE)
        files.write(fd, [content], 0)
        files.close(fd)
        if is_copy:
            files.close(files.create(LOG / segment_name(Zxid(0x101))))
        if is_lost and not is_copy:
            with pytest.raises(CorruptRecord, match=r"log.0+101 is missing: /spare is that segm"):
                spare.remove_old(LOG)
            assert files.exists(SPARE)
        else:
            spare.remove_old(LOG)
            spare.remove_old(LOG)
            assert not files.exists(SPARE)
        assert files.open_files() == 0
