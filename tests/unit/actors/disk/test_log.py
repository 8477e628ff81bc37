"""Log: torn ends are cut, every other loss is refused."""

import random
from pathlib import Path

import pytest

from raykeeper.actors.disk.file_operations import read_file
from raykeeper.actors.disk.log import Log
from raykeeper.actors.disk.log_format import (
    SEGMENT_HEADER_BYTES,
    batches,
    decode_segment_header,
)
from raykeeper.actors.disk.log_segment import segment_name
from raykeeper.actors.disk.spare_segment import SpareSegment
from raykeeper.actors.disk.storage_errors import CorruptRecord
from raykeeper.actors.disk.storage_trace_events import LOG_PART_DAMAGED, LOG_TAIL_CUT
from raykeeper.zab.effects import Append, LogRun, TraceEvent
from raykeeper.zab.ids import ZERO, Epoch, Zxid, make_zxid
from tests.contract.faulty_files import FaultyFiles, Loss

FOLDER = Path("/")
SPARES = Path("/spares")
SEGMENT_BYTES = 1000


def z(counter: int, epoch: int = 1) -> Zxid:
    return make_zxid(Epoch(epoch), counter)


def path(first: Zxid) -> Path:
    return FOLDER / segment_name(first)


def new_spare(files: FaultyFiles) -> SpareSegment:
    if not files.exists(SPARES):
        files.make_folder(SPARES)
        files.sync_folder(SPARES.parent)
    spare = SpareSegment(files, SPARES, SEGMENT_BYTES, SEGMENT_BYTES)
    spare.remove_old(FOLDER)
    return spare


def new_log(files: FaultyFiles, base: Zxid = ZERO) -> Log:
    return Log(files, FOLDER, base, new_spare(files), b"salt")


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


def recovered(
    files: FaultyFiles, after: Zxid = ZERO, synced: Zxid = ZERO
) -> tuple[list[LogRun], list[TraceEvent], Log]:
    log = new_log(files, after)
    cuts: list[str] = []
    runs, events = log.recover(after, synced, lambda: cuts.append("cut"))
    is_cut = any(event.name == LOG_TAIL_CUT for event in events)
    assert cuts == (["cut"] if is_cut else [])
    return runs, events, log


def segments(files: FaultyFiles) -> list[str]:
    return [name for name in files.names(FOLDER) if name.startswith("log.")]


def read(log: Log, after: Zxid, upto: Zxid, needed_after: Zxid = ZERO) -> list[LogRun]:
    return log.read(after, upto, 1 << 20, needed_after)[0]


def count(runs: list[LogRun]) -> int:
    return sum(len(run.txns) for run in runs)


def end_of(files: FaultyFiles, first: Zxid) -> int:
    return len(read_file(files, path(first)).rstrip(b"\0"))


def test_runs_are_joined_inside_an_epoch_only() -> None:
    files = written(1, 2)
    log = recovered(files)[2]
    log.append([Append(z(1, 4), [b"x"], z(6))])
    log.append([Append(z(2, 4), [b"y"], z(1, 4))])
    runs, events, log = recovered(files)
    assert runs == [LogRun(z(1), [b"\1"] * 3 + [b"\2\2"] * 3), LogRun(z(1, 4), [b"x", b"y"])]
    assert (events, log.begin, log.last, log.committed) == ([], ZERO, z(2, 4), z(1, 4))


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
    made = ["write", "sync", "rename", "sync_folder"]  # of the spare
    spare = ["create", "allocate", "sync_folder"]
    assert operations == ["write", "sync", *made, "write", "sync", *spare]


def test_a_torn_tail_is_cut_at_every_byte() -> None:
    first = z(1)
    start = end_of(written(10, 20), first)
    end = end_of(written(10, 20, 30), first)
    for torn in range(start + 1, end):
        files = written(10, 20, 30)
        content = files.content(path(first))
        content[torn:end] = bytes(end - torn)
        runs, events, log = recovered(files)
        assert (count(runs), log.last) == (6, z(6)), torn
        assert [event.name for event in events] == [LOG_TAIL_CUT]
        log.append([Append(z(7), [b"new"], ZERO)])
        runs, events, _ = recovered(files)
        assert (runs[-1].txns[-1], count(runs), events) == (b"new", 7, [])


def test_a_tail_with_any_damaged_byte_is_cut() -> None:
    first = z(1)
    start, end = end_of(written(10, 20), first), end_of(written(10, 20, 30), first)
    for damaged in range(start, end):
        files = written(10, 20, 30)
        files.content(path(first))[damaged] ^= 1
        runs, events, _ = recovered(files)
        assert (count(runs), len(events)) == (6, 1), damaged


def test_a_log_of_another_disk_inside_a_value_proves_nothing() -> None:
    # A client may know what a log looks like, but not under the salt of this disk.
    files = FaultyFiles()
    other = Log(files, FOLDER, ZERO, new_spare(files), b"another salt")
    for n in range(1, 4):
        other.append([Append(z(n), [b"x"], ZERO)])
    other.close()
    value = read_file(files, path(z(1)))[:400]
    files = FaultyFiles()
    new_log(files).append([Append(z(1), [value], ZERO)])
    files.flip(path(z(1)), SEGMENT_HEADER_BYTES)
    assert [event.name for event in recovered(files)[1]] == [LOG_TAIL_CUT]


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
    runs, events, log = recovered(files)
    assert (runs, log.last, len(events)) == ([], ZERO, 1)
    assert segments(files) == []


def test_a_damaged_byte_in_an_earlier_segment_is_corruption() -> None:
    first = z(1)
    for damaged in range(end_of(written(200, 200), first)):
        files = written(200, 200)
        assert len(segments(files)) == 2
        files.content(path(first))[damaged] ^= 1
        with pytest.raises(CorruptRecord, match="damaged"):
            recovered(files)


@pytest.mark.parametrize(
    ("missing", "message"),
    [(z(1), "the log in / begins after 1:3"), (z(4), r"damaged after 1:3; it held all up to 1:6")],
)
def test_a_missing_segment_is_detected(missing: Zxid, message: str) -> None:
    files = written(200, 200, 200)
    files.remove(path(missing))
    with pytest.raises(CorruptRecord, match=message):
        recovered(files)


def test_a_snapshot_makes_the_earlier_log_unnecessary() -> None:
    files = written(200, 200, 200)
    files.remove(path(z(1)))
    runs, _, log = recovered(files, after=z(5))
    assert [(run.first, len(run.txns)) for run in runs] == [(z(6), 4)]
    assert log.begin == z(3)
    assert count(read(log, z(3), z(9))) == 6
    assert read(log, z(2), z(9)) == []


def test_damage_in_the_needed_log_ends_the_store() -> None:
    files = written(200, 200, 200)
    log = recovered(files, after=z(3))[2]
    files.flip(path(z(4)), SEGMENT_HEADER_BYTES + 100)
    with pytest.raises(CorruptRecord, match="damaged after 1:3"):
        log.read(z(3), z(9), 1 << 20, needed_after=z(5))
    with pytest.raises(CorruptRecord, match="damaged after 1:3"):
        recovered(files, after=z(5))


@pytest.mark.parametrize("is_lost", [False, True])
def test_damage_before_the_snapshot_is_dropped(is_lost: bool) -> None:
    files = written(200, 200, 200)
    log = recovered(files, after=z(6))[2]
    if is_lost:
        files.spoil(path(z(4)))
    else:
        files.flip(path(z(4)), SEGMENT_HEADER_BYTES + 100)
    assert count(read(log, z(6), z(9), needed_after=z(6))) == 3  # reads no more than it must
    runs, (event,) = log.read(z(2), z(9), 1 << 20, needed_after=z(6))
    assert (runs, event.name) == ([], LOG_PART_DAMAGED)
    assert (log.begin, segments(files)) == (z(6), [path(z(7)).name])
    assert count(recovered(files, after=z(6))[0]) == 3


def test_a_damaged_header_before_the_snapshot_is_dropped() -> None:
    for damaged in (z(1), z(4)):
        files = written(200, 200, 200)
        files.flip(path(damaged), 9)
        runs, events, log = recovered(files, after=z(7))
        assert ([event.name for event in events], count(runs)) == ([LOG_PART_DAMAGED], 2)
        assert log.begin == (z(3) if damaged == z(1) else z(6))
        assert (recovered(files, after=z(7))[1], count(read(log, z(6), z(9)))) == ([], 3)
    files = written(200, 200, 200)
    files.flip(path(z(4)), 9)
    with pytest.raises(CorruptRecord, match=r"header of .* is damaged"):
        recovered(files, after=z(5))


def test_a_truncated_segment_is_corruption() -> None:
    for first in (z(1), z(4)):
        whole = len(written(200, 200).content(path(first)))
        for size in range(0, whole, 41):
            files = written(200, 200)
            del files.content(path(first))[size:]
            with pytest.raises(CorruptRecord, match=r"bytes, not|shorter than its header"):
                recovered(files)


def test_a_flipped_bit_after_the_end_is_no_more_than_uncertain() -> None:
    first = z(1)
    end = end_of(written(10, 20), first)
    for offset in range(end, SEGMENT_BYTES, 7):
        files = written(10, 20)
        files.flip(path(first), offset)
        runs, events, _ = recovered(files)
        assert (count(runs), [event.name for event in events]) == (6, [LOG_TAIL_CUT])
        assert recovered(files)[1] == []


def test_a_bad_end_below_a_synced_mark_is_corruption() -> None:
    # The mark is that of a snapshot: published only once the log was forced up to there.
    files = written(10, 20, 30)
    files.flip(path(z(1)), end_of(files, z(1)) - 1)
    before = bytes(files.content(path(z(1))))
    with pytest.raises(CorruptRecord, match="it had been forced up to 1:7"):
        recovered(files, synced=z(7))
    assert files.content(path(z(1))) == before  # the evidence is left
    assert recovered(files, synced=z(6))[2].last == z(6)


def test_the_tail_is_rewritten_at_each_start() -> None:
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
    assert runs == [LogRun(z(1), [b"a", b"b"])]
    assert recovered(files.crash(Loss.ALL, random.Random(0)))[0] == runs


def test_pruning_keeps_what_is_needed() -> None:
    for needed_after in range(10):
        log = recovered(files := written(200, 200, 200))[2]
        log.prune(z(needed_after))
        assert log.begin <= z(needed_after)
        kept = {0: 3, 1: 2, 2: 1, 3: 1}[needed_after // 3]
        assert len(segments(files)) == kept
        assert recovered(files, after=z(needed_after))[2].last == z(9)


def test_a_cut_forgets_later_commit_marks() -> None:
    log = new_log(FaultyFiles())
    log.append([Append(z(1), [b"a", b"b"], ZERO), Append(z(3), [b"c"], z(2))])
    log.truncate(z(1))
    assert (log.last, log.committed) == (z(1), z(1))
    log.truncate(z(1))
    assert log.last == z(1)


@pytest.mark.parametrize("upto", [z(1), z(2), z(4)])
def test_a_cut_of_a_damaged_segment_keeps_the_proof_of_damage(upto: Zxid) -> None:
    # Without what follows, its last batch would pass for one that was torn by a crash.
    files = written(200, 200, 200)
    log = recovered(files)[2]
    files.flip(path(z(1) if upto < z(4) else z(4)), SEGMENT_HEADER_BYTES + 100)
    before = segments(files)
    with pytest.raises(CorruptRecord, match="is damaged after"):
        log.truncate(upto)
    assert segments(files) == before
    with pytest.raises(CorruptRecord, match="is damaged after"):
        recovered(files)


def test_the_last_batch_of_a_write_knows_the_forced_ones() -> None:
    files = written(200, 200, 100, synced_one_by_one=False)
    data = read_file(files, path(z(7)))
    header = decode_segment_header(data, "log")
    (batch,) = batches(data, header.salt, header.previous, "log")
    assert (batch.first, batch.synced) == (z(7), z(6))
