"""LogReader: what is valid, what is torn, what is damaged; beside a server that goes on."""

import re
import tracemalloc
import zlib
from collections.abc import Callable
from pathlib import Path

import pytest

from raykeeper.actors.disk.log import Log
from raykeeper.actors.disk.log_format import SEGMENT_HEADER_BYTES
from raykeeper.actors.disk.log_reader import LogReader, SegmentContent
from raykeeper.actors.disk.log_segment import segment_name
from raykeeper.actors.disk.spare_segment import SpareSegment
from raykeeper.actors.disk.storage_errors import StorageError, UnknownVersion
from raykeeper.zab.effects import Append
from raykeeper.zab.ids import ZERO, Epoch, Zxid, make_zxid
from tests.contract.faulty_files import FaultyFiles

FOLDER = Path("/log")
SEGMENT_BYTES = 1000
"""Of a segment, which has room for three transactions."""


def z(counter: int, epoch: int = 1) -> Zxid:
    return make_zxid(Epoch(epoch), counter)


def txn(counter: int) -> bytes:
    return bytes([counter % 256]) * 250


class GrowingLog:
    """A log whose server goes on appending."""

    def __init__(self, files: FaultyFiles, segment_bytes: int = SEGMENT_BYTES) -> None:
        files.make_folder(FOLDER)
        spare = SpareSegment(files, Path("/"), segment_bytes, segment_bytes)
        self.log = Log(files, FOLDER, ZERO, spare, b"salt")
        self.count = 0

    def append(self, count: int = 1) -> None:
        for _ in range(count):
            self.count += 1
            self.log.append([Append(z(self.count), [txn(self.count)], z(self.count - 1))])


def written(count: int) -> tuple[FaultyFiles, GrowingLog]:
    files = FaultyFiles()
    log = GrowingLog(files)
    log.append(count)
    return files, log


def read(files: FaultyFiles, synced: Zxid = ZERO) -> list[SegmentContent]:
    """What each segment holds, and that reading it left nothing behind."""
    operations = files.operations
    found = []
    for content in LogReader(files, FOLDER, synced):
        assert all(txn(zxid & 0xFF) == data for zxid, data in content.txns())
        found.append(content)
    assert files.operations == operations
    return found


def path(counter: int) -> Path:
    return FOLDER / segment_name(z(counter))


def held(found: list[SegmentContent]) -> list[int]:
    return [batch.last - z(0) for content in found for batch in content.batches]


def test_a_whole_log_is_read() -> None:
    files, _ = written(8)
    found = read(files)
    assert [content.path for content in found] == [path(1), path(4), path(7)]
    assert [content.last for content in found] == [z(3), z(6), z(8)]
    assert not any(content.problem or content.is_torn for content in found)
    assert held(found) == list(range(1, 9))
    reader = LogReader(files, FOLDER)
    assert (reader.firsts, reader.begin()) == ([z(1), z(4), z(7)], ZERO)


def test_an_empty_log_is_read() -> None:
    files, _ = written(0)
    reader = LogReader(files, FOLDER)
    assert (reader.firsts, list(reader), reader.begin()) == ([], [], None)


def test_transactions_are_read_from_any_zxid_on() -> None:
    files = FaultyFiles()
    log = GrowingLog(files).log
    log.append([Append(z(1), [b"1", b"2", b"3"], ZERO), Append(z(1, 2), [b"4"], ZERO)])
    content = LogReader(files, FOLDER).read(0)
    everything = [(z(1), b"1"), (z(2), b"2"), (z(3), b"3"), (z(1, 2), b"4")]
    for skipped in range(5):
        after = everything[skipped - 1][0] if skipped else ZERO
        assert list(content.txns(after)) == everything[skipped:]


Damage = Callable[[FaultyFiles], object]


@pytest.mark.parametrize(
    ("damage", "problems", "batches"),
    [
        # A header: nothing of the segment is known. The one before may end anywhere then.
        (lambda f: f.flip(path(4), 3), {path(4): "header of .* is damaged"}, [1, 2, 3, 7, 8]),
        (lambda f: f.content(path(4)).__delitem__(slice(500, None)), {path(4): "has 500 bytes"},
         [1, 2, 3, 7, 8]),
        (lambda f: f.content(path(4)).clear(), {path(4): "shorter than its header"},
         [1, 2, 3, 7, 8]),
        # A batch in the middle of the log: all behind it in the segment is of no use.
        (lambda f: f.flip(path(4), 500), {path(4): "after 1:4; it held all up to 1:6"},
         [1, 2, 3, 4, 7, 8]),
        (lambda f: f.flip(path(4), 999), {path(4): "at byte 9.., behind its last batch"},
         [1, 2, 3, 4, 5, 6, 7, 8]),
        (lambda f: f.lose(path(4)), {path(1): "after 1:3; it held all up to 1:6"},
         [1, 2, 3, 7, 8]),
        # The last segment: what had been forced is damaged, the end is torn.
        (lambda f: f.flip(path(7), 100), {path(7): "damaged at byte .* after 1:6; .* up to 1:7"},
         [1, 2, 3, 4, 5, 6]),
        (lambda f: f.spoil(path(7)), {path(7): "cannot be read"}, [1, 2, 3, 4, 5, 6]),
    ],
)  # fmt: skip
def test_damage_is_told_and_the_rest_is_read(
    damage: Damage, problems: dict[Path, str], batches: list[int]
) -> None:
    files, _ = written(8)
    damage(files)
    found = read(files)
    told = {content.path: content.problem for content in found if content.problem}
    assert told.keys() == problems.keys()
    assert [text for each, text in problems.items() if not re.search(text, told[each])] == [], told
    assert held(found) == batches


def test_another_version_is_refused() -> None:
    files, _ = written(8)
    content = files.content(path(4))
    content[8:12] = (9).to_bytes(4, "little")
    content[40:44] = zlib.crc32(content[:40]).to_bytes(4, "little")
    with pytest.raises(UnknownVersion, match=r"log\.0+40000000004 has version 9; .* reads 2"):
        read(files)


@pytest.mark.parametrize(("synced", "is_torn"), [(z(7), True), (z(8), False)])
def test_a_torn_end_is_no_damage_unless_it_had_been_forced(synced: Zxid, is_torn: bool) -> None:
    files, _ = written(8)
    files.flip(path(7), 400)
    *_, last = read(files, synced)
    assert (last.is_torn, bool(last.problem)) == (is_torn, not is_torn)
    assert last.last == z(7)


class BusyFiles(FaultyFiles):
    """A disk whose server acts in the middle of a read: the first `split` bytes are older."""

    def __init__(self) -> None:
        super().__init__()
        self.split = 0
        self.acts: list[Callable[[], object]] = []

    def read(self, fd: int, size: int, offset: int) -> bytes:
        data = super().read(fd, size, offset)
        if size <= SEGMENT_HEADER_BYTES or not self.acts:
            return data
        self.acts.pop(0)()
        return data[: self.split] + super().read(fd, size, offset)[self.split :]


@pytest.mark.parametrize("split", range(0, SEGMENT_BYTES, 20))
@pytest.mark.parametrize("reads", [1, 2, 3])
def test_a_batch_that_is_missed_while_it_is_written_is_no_damage(split: int, reads: int) -> None:
    """The read sees a later batch, and not the one before it, which proves damage at rest."""
    files = BusyFiles()
    log = GrowingLog(files, 4 * SEGMENT_BYTES)
    log.append(2)
    files.split = split + 600
    files.acts = [lambda: log.append(3)] * reads
    *_, last = LogReader(files, FOLDER)
    assert last.problem == ""
    assert last.last is not None and last.last >= z(2)
    assert files.open_files() == 2, "the log and its spare"


def test_a_batch_that_is_being_written_is_a_torn_end() -> None:
    files = BusyFiles()
    log = GrowingLog(files, 4 * SEGMENT_BYTES)
    log.append(2)
    files.split, files.acts = 800, [lambda: log.append(1)]
    (last,) = LogReader(files, FOLDER)
    assert (last.is_torn, last.problem, last.last) == (True, "", z(2))
    (last,) = LogReader(files, FOLDER)
    assert (last.is_torn, last.problem, last.last) == (False, "", z(3))


def test_segments_that_are_made_meanwhile_are_left_for_the_next_reader() -> None:
    files, log = written(4)
    found = []
    for content in LogReader(files, FOLDER):
        found.append(content)
        log.append(3)
    assert [content.path for content in found] == [path(1), path(4)]
    assert not any(content.problem or content.is_torn for content in found)
    assert found[-1].last == z(6)


@pytest.mark.parametrize("act", [lambda log: log.prune(z(6)), lambda log: log.truncate(z(2))])
def test_a_segment_that_is_removed_meanwhile_is_told(act: Callable[[Log], object]) -> None:
    files, log = written(8)
    reader = LogReader(files, FOLDER)
    act(log.log)
    with pytest.raises(StorageError, match=r"was removed by its server .* run the command again"):
        list(reader)
    assert not any(content.problem for content in LogReader(files, FOLDER))


def test_an_end_that_is_cut_meanwhile_is_no_damage() -> None:
    files, log = written(8)
    reader = iter(LogReader(files, FOLDER))
    assert [next(reader).problem, next(reader).problem] == ["", ""]
    log.log.truncate(z(7))
    assert next(reader).last == z(7)


def test_one_segment_is_in_memory_at_a_time() -> None:
    size, count = 4 << 20, 80
    files = FaultyFiles()
    log = GrowingLog(files, size).log
    for number in range(count):
        log.append([Append(z(number + 1), [bytes(size // 16)], z(number))])
    reader = LogReader(files, FOLDER)
    assert len(reader.firsts) == 6
    tracemalloc.start()
    try:
        read_count = sum(1 for content in reader for _ in content.txns())
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert read_count == count
    assert peak < 3 * size, peak  # the disk in memory copies twice
