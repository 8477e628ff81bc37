"""Log: torn ends are cut, anything else that is missing is refused."""

import random
from pathlib import Path

import pytest

from raykeeper.actors.disk.atomic_file import read_file
from raykeeper.actors.disk.log import Log
from raykeeper.actors.disk.log_format import SEGMENT_HEADER_BYTES
from raykeeper.actors.disk.log_segment import segment_name
from raykeeper.actors.disk.storage_errors import CorruptRecord
from raykeeper.actors.disk.storage_notes import LOG_TAIL_CUT
from raykeeper.zab.effects import Append, Note, Run
from raykeeper.zab.ids import ZERO, Epoch, Zxid, make_zxid
from tests.contract.faulty_files import FaultyFiles, Loss

FOLDER = Path("/")
SEGMENT_BYTES = 1000


def z(counter: int, epoch: int = 1) -> Zxid:
    return make_zxid(Epoch(epoch), counter)


def path(first: Zxid) -> Path:
    return FOLDER / segment_name(first)


def new_log(files: FaultyFiles, base: Zxid = ZERO) -> Log:
    return Log(files, FOLDER, base, SEGMENT_BYTES, b"salt")


def written(*sizes: int, synced_one_by_one: bool = True) -> FaultyFiles:
    """Files with a log of one batch for each size: three transactions of that size."""
    files = FaultyFiles()
    log = new_log(files)
    appends = [
        Append(z(3 * n + 1), [bytes([n + 1]) * size] * 3, ZERO) for n, size in enumerate(sizes)
    ]
    for some in [[append] for append in appends] if synced_one_by_one else [appends]:
        log.append(some)
    log.close()
    return files


def recovered(files: FaultyFiles, after: Zxid = ZERO) -> tuple[list[Run], list[Note], Log]:
    log = new_log(files, after)
    runs, notes = log.recover(after)
    return runs, notes, log


def count(runs: list[Run]) -> int:
    return sum(len(run.txns) for run in runs)


def end_of(files: FaultyFiles, first: Zxid) -> int:
    return len(read_file(files, path(first)).rstrip(b"\0"))


def test_runs_are_joined_inside_an_epoch_only() -> None:
    files = written(1, 2)
    log = recovered(files)[2]
    log.append([Append(z(1, 4), [b"x"], z(6))])
    log.append([Append(z(2, 4), [b"y"], z(1, 4))])
    runs, notes, log = recovered(files)
    assert runs == [Run(z(1), [b"\1"] * 3 + [b"\2\2"] * 3), Run(z(1, 4), [b"x", b"y"])]
    assert (notes, log.begin, log.last, log.committed) == ([], ZERO, z(2, 4), z(1, 4))


def test_appends_in_a_row_are_one_write_and_one_force() -> None:
    files = FaultyFiles()
    log = new_log(files)
    log.append([Append(z(1), [b"a"], ZERO)])
    operations: list[str] = []
    files.on_operation = lambda _number, name: operations.append(name)
    log.append([Append(z(n), [b"a"], ZERO) for n in range(2, 9)])
    assert operations == ["write", "sync"]


def test_a_segment_is_forced_before_the_next_is_made() -> None:
    files = FaultyFiles()
    log = new_log(files)
    log.append([Append(z(1), [bytes(300)], ZERO)])
    operations: list[str] = []
    files.on_operation = lambda _number, name: operations.append(name)
    log.append([Append(z(n), [bytes(300)], ZERO) for n in range(2, 5)])
    made = ["create", "allocate", "write", "sync", "rename", "sync_folder"]
    assert operations == ["write", "sync", *made, "write", "sync"]


def test_a_torn_tail_is_cut_at_every_byte() -> None:
    first = z(1)
    start = end_of(written(10, 20), first)
    end = end_of(written(10, 20, 30), first)
    for torn in range(start + 1, end):
        files = written(10, 20, 30)
        content = files.content(path(first))
        content[torn:end] = bytes(end - torn)
        runs, notes, log = recovered(files)
        assert (count(runs), log.last) == (6, z(6)), torn
        assert [note.name for note in notes] == [LOG_TAIL_CUT]
        log.append([Append(z(7), [b"new"], ZERO)])
        runs, notes, _ = recovered(files)
        assert (runs[-1].txns[-1], count(runs), notes) == (b"new", 7, [])


def test_a_tail_with_any_damaged_byte_is_cut() -> None:
    first = z(1)
    start, end = end_of(written(10, 20), first), end_of(written(10, 20, 30), first)
    for damaged in range(start, end):
        files = written(10, 20, 30)
        files.content(path(first))[damaged] ^= 1
        runs, notes, _ = recovered(files)
        assert (count(runs), len(notes)) == (6, 1), damaged


def test_a_damaged_byte_before_a_synced_batch_is_corruption() -> None:
    first = z(1)
    end = end_of(written(10, 20), first)
    for damaged in range(SEGMENT_HEADER_BYTES, end):
        files = written(10, 20, 30)
        files.content(path(first))[damaged] ^= 1
        with pytest.raises(CorruptRecord, match="is damaged at byte"):
            recovered(files)


def test_batches_of_one_write_may_be_torn_in_any_order() -> None:
    # The disk wrote the end of what was under way, but not its beginning: never acknowledged.
    files = written(10, 20, 30, synced_one_by_one=False)
    files.content(path(z(1)))[SEGMENT_HEADER_BYTES + 1] ^= 1
    runs, notes, log = recovered(files)
    assert (runs, log.last, len(notes)) == ([], ZERO, 1)
    assert files.names(FOLDER) == []


def test_a_damaged_byte_in_an_earlier_segment_is_corruption() -> None:
    first = z(1)
    for damaged in range(end_of(written(200, 200), first)):
        files = written(200, 200)
        assert len(files.names(FOLDER)) == 2
        files.content(path(first))[damaged] ^= 1
        with pytest.raises(CorruptRecord, match="damaged"):
            recovered(files)


@pytest.mark.parametrize(
    ("missing", "message"),
    [(z(1), "the log in / begins after 1:3"), (z(4), r"damaged after 1:3; it held all up to 1:6")],
)
def test_a_missing_segment_is_a_hole(missing: Zxid, message: str) -> None:
    files = written(200, 200, 200)
    files.remove(path(missing))
    with pytest.raises(CorruptRecord, match=message):
        recovered(files)


def test_a_snapshot_makes_what_is_before_it_unnecessary() -> None:
    files = written(200, 200, 200)
    files.remove(path(z(1)))
    runs, _, log = recovered(files, after=z(5))
    assert [(run.first, len(run.txns)) for run in runs] == [(z(6), 4)]
    assert log.begin == z(3)
    assert count(log.read(z(3), z(9), 1 << 20)) == 6
    assert log.read(z(2), z(9), 1 << 20) == []


def test_damage_is_noticed_when_the_log_is_read_back() -> None:
    files = written(200, 200, 200)
    log = recovered(files, after=z(6))[2]
    files.content(path(z(4)))[SEGMENT_HEADER_BYTES + 100] ^= 1
    assert count(log.read(z(6), z(9), 1 << 20)) == 3
    with pytest.raises(CorruptRecord, match="damaged after 1:3"):
        log.read(ZERO, z(9), 1 << 20)


def test_the_tail_is_made_anew_at_each_start() -> None:
    # The page cache may show what the disk never got (rule D5).
    files = FaultyFiles()
    log = new_log(files)
    log.append([Append(z(1), [b"a"], ZERO)])

    def break_forces(_number: int, name: str) -> None:
        if name == "sync":
            raise OSError("fsync failed")

    files.on_operation = break_forces
    with pytest.raises(OSError, match="fsync failed"):
        log.append([Append(z(2), [b"b"], ZERO)])
    runs, _, _ = recovered(files.restart())
    assert runs == [Run(z(1), [b"a", b"b"])]
    assert recovered(files.crash(Loss.ALL, random.Random(0)))[0] == runs


def test_pruning_keeps_what_is_needed() -> None:
    for needed_after in range(10):
        log = recovered(files := written(200, 200, 200))[2]
        log.prune(z(needed_after))
        assert log.begin <= z(needed_after)
        kept = {0: 3, 1: 2, 2: 1, 3: 1}[needed_after // 3]
        assert len(files.names(FOLDER)) == kept
        assert recovered(files, after=z(needed_after))[2].last == z(9)


def test_a_cut_forgets_what_was_said_to_be_committed_after_it() -> None:
    log = new_log(FaultyFiles())
    log.append([Append(z(1), [b"a", b"b"], ZERO), Append(z(3), [b"c"], z(2))])
    log.truncate(z(1))
    assert (log.last, log.committed) == (z(1), z(1))
    log.truncate(z(1))
    assert log.last == z(1)
