"""What ZooKeeper's files lost, or brought back, at a crash: each issue on the real store.

The store of `actors/disk` runs on a filesystem that loses at a crash what was not forced and
fails on demand. What an ensemble makes of it is in `scenarios`.
"""

import errno
import random
from collections.abc import Callable
from itertools import pairwise
from pathlib import Path

import pytest

from raykeeper.actors.disk.identity import format_folder
from raykeeper.actors.disk.storage_errors import CorruptRecord, StorageError
from raykeeper.server.events import EpochsSaved, LogSynced
from raykeeper.server.recovered_state import RecoveredState
from raykeeper.zab.effects import (
    Append,
    DiskEffect,
    InstallSnapshot,
    LogRun,
    ReceiveChunk,
    ReceiveSnapshot,
    SaveEpochs,
    Truncate,
)
from raykeeper.zab.ids import ZERO, Epoch, Zxid, epoch_of, make_zxid
from raykeeper.zab.recent_log import follows
from tests.contract.faulty_files import Crashed, FaultyFiles, Loss, crash_at, fail_at
from tests.contract.store_model import EPOCH_1, WriteSnapshot
from tests.contract.stores import FOLDER, IDENTITY, DiskStore, do
from tests.harness.log_entries import entries_of

E2 = Epoch(2)


def z(counter: int, epoch: int = 1) -> Zxid:
    return make_zxid(Epoch(epoch), counter)


def started() -> DiskStore:
    """A store in epoch 1, on files in memory."""
    files = FaultyFiles()
    format_folder(FOLDER, IDENTITY, files)
    store = DiskStore(FOLDER, files)
    store.recover()
    store.perform([EPOCH_1])
    return store


def files_of(store: DiskStore) -> FaultyFiles:
    assert isinstance(store.files, FaultyFiles)
    return store.files


def fill(store: DiskStore, first: int, last: int, size: int = 250) -> None:
    for counter in range(first, last + 1):
        store.perform([Append(z(counter), [bytes([counter]) * size], ZERO)])


def publish(store: DiskStore, zxid: int) -> None:
    do(store, [WriteSnapshot(z(zxid), z(zxid), [b"tree at %d" % zxid])])


def restarted(store: DiskStore) -> tuple[DiskStore, RecoveredState]:
    store.storage.close()
    again = DiskStore(FOLDER, store.files)
    return again, again.recover()


def recovered(files: FaultyFiles) -> RecoveredState:
    store = DiskStore(FOLDER, files)
    found = store.recover()
    list(found.chunks)  # each chunk is checked as it is read
    store.storage.close()
    return found


def generation(store: DiskStore) -> Path:
    (name,) = [name for name in store.files.names(FOLDER) if name.startswith("gen")]
    return FOLDER / name


def snapshots(store: DiskStore) -> list[Path]:
    """The snapshots under their names, oldest first."""
    folder = generation(store)
    names = [name for name in store.files.names(folder) if name.startswith("snapshot.")]
    return [folder / name for name in sorted(names)]


def last_of(found: RecoveredState) -> Zxid:
    """The end of what was recovered."""
    return Zxid(max([found.snapshot_zxid, *(zxid for zxid, _ in entries_of(*found.runs))]))


def has_no_hole(found: RecoveredState) -> bool:
    """Whether the log goes on where the snapshot ends, and covers what the snapshot needs."""
    zxids = [found.snapshot_zxid, *(Zxid(zxid) for zxid, _ in entries_of(*found.runs))]
    is_contiguous = all(follows(zxid, before) for before, zxid in pairwise(zxids))
    return is_contiguous and found.consistent_at <= zxids[-1]


def no_space(number: int) -> Callable[[int, str], None]:
    """From operation `number` on the disk is full."""

    def on_operation(now: int, name: str) -> None:
        if now >= number and name != "remove":
            raise OSError(errno.ENOSPC, f"{name}: no space left on device")

    return on_operation


# Snapshots.


@pytest.mark.parametrize("loss", Loss)
def test_zookeeper_2872_power_lost_around_a_snapshot(loss: Loss) -> None:
    """A snapshot has its name only when all of it is forced, and the log it replaces goes last.

    1. The log has 1:1 to 1:40 and three snapshots.
    2. A fourth is written and published; old segments and the first snapshot are pruned.
    3. Power is lost at any operation of that. ZooKeeper's snapshot had its name and no content,
       and an older one with the log of the newer left a gap.
    4. The server starts: all of 1:40 is there, without a gap.
    """
    for number in range(1, 500):
        store = started()
        for upto in (10, 20, 30):
            fill(store, upto - 9, upto)
            publish(store, upto)
        fill(store, 31, 40)
        files = files_of(store)
        files.on_operation = crash_at(files.operations + number)
        try:
            publish(store, 40)
        except Crashed:
            pass
        else:
            assert number > 5
            return
        found = recovered(files.crash(loss, random.Random(number)))
        assert has_no_hole(found), number
        assert last_of(found) == z(40) and found.snapshot_zxid in (z(30), z(40))
    pytest.fail("publishing never came to its end")


def test_zookeeper_2872_a_torn_snapshot_is_never_served_with_a_gap() -> None:
    """What a disk did to a published snapshot is noticed, and the gap behind an older one too.

    1. Four snapshots were published; the log before the oldest that is kept is gone.
    2. The newest is cut anywhere: the one before it, with all of the log behind it, will do.
    3. All are cut: there is a gap before the log, and the store refuses.
    """
    store = started()
    for upto in (10, 20, 30, 40):
        fill(store, upto - 9, upto)
        publish(store, upto)
    fill(store, 41, 42)
    *_, newest = snapshots(store)
    size = len(files_of(store).content(newest))
    for cut in range(1, size, 7):
        del files_of(store).content(newest)[size - cut :]
        store, found = restarted(store)
        assert found.snapshot_zxid == z(30) and last_of(found) == z(42) and has_no_hole(found)
        if cut > size // 2:
            break
    for path in snapshots(store):
        files_of(store).content(path)[-1] ^= 1
    store.storage.close()
    with pytest.raises(CorruptRecord):
        DiskStore(FOLDER, store.files).recover()


@pytest.mark.parametrize("how", ["missing", "empty"])
def test_zookeeper_2325_3056_no_snapshot_but_logs(how: str) -> None:
    """A log that begins after its beginning, without a snapshot, is no state to start from.

    1. Snapshots were published and the log before them is pruned.
    2. All snapshots are missing, or empty files.
    3. ZooKeeper started from an empty tree and replayed what log there was.
    """
    store = started()
    for upto in (10, 20, 30, 40):
        fill(store, upto - 9, upto)
        publish(store, upto)
    for path in snapshots(store):
        if how == "missing":
            store.files.remove(path)
        else:
            files_of(store).content(path).clear()
    store.storage.close()
    with pytest.raises(CorruptRecord):
        DiskStore(FOLDER, store.files).recover()


def test_zookeeper_2325_3056_no_snapshot_yet() -> None:
    """A log from the very beginning needs none: a new server is not refused.

    1. 1:1 to 1:5 are logged; no snapshot was ever due.
    2. The server restarts.
    """
    store = started()
    fill(store, 1, 5)
    _, found = restarted(store)
    assert found.snapshot_zxid == ZERO and last_of(found) == z(5) and has_no_hole(found)


def test_zookeeper_3231_only_valid_snapshots_count_when_pruning() -> None:
    """Whatever is pruned, one can start from what is left.

    1. Snapshots as of 1:10 to 1:40; the newest two are damaged.
    2. The server restarts from 1:20, and publishes 1:45. ZooKeeper keeps the newest three by
       their names, two of them invalid, and purges the log of the others.
    3. 1:45 turns out damaged as well.
    """
    store = started()
    for upto in (10, 20, 30, 40):
        fill(store, upto - 9, upto)
        publish(store, upto)
    for path in snapshots(store)[-2:]:
        files_of(store).content(path)[-1] ^= 1
    store, found = restarted(store)
    assert found.snapshot_zxid == z(20)
    fill(store, 41, 45)
    publish(store, 45)
    files_of(store).content(snapshots(store)[-1])[-1] ^= 1
    _, found = restarted(store)
    assert found.snapshot_zxid == z(20) and last_of(found) == z(45) and has_no_hole(found)


def test_zookeeper_1549_4837_no_snapshot_beyond_the_cut_survives_it() -> None:
    """What is cut does not come back out of a snapshot.

    1. The log has 1:1 to 1:6, and a snapshot as of 1:4.
    2. TRUNC 1:3. ZooKeeper cut the log and started from the snapshot, with 1:4 in it.
    3. Here a snapshot holds only what is committed, and such a cut is refused as damage; a cut at
       or after the snapshot is done.
    """
    store = started()
    fill(store, 1, 6)
    publish(store, 4)
    store.perform([Truncate(z(5))])
    store, found = restarted(store)
    assert last_of(found) == z(5) and found.snapshot_zxid == z(4)
    with pytest.raises(StorageError):
        store.perform([Truncate(z(3))])
    with pytest.raises(StorageError):
        store.perform([Append(z(6), [b"never"], ZERO)])
    _, found = restarted(store)
    assert last_of(found) == z(5)


@pytest.mark.parametrize("failing", [fail_at, no_space])
def test_zookeeper_3701_a_cut_that_fails_stops_the_server(
    failing: Callable[[int], Callable[[int, str], None]],
) -> None:
    """A failed TRUNC is not completed, and the store does nothing any more.

    1. The log has 1:1 to 1:20 in several segments, and is to be cut after 1:5.
    2. Any operation of the cut fails, or the disk is full from there on. ZooKeeper's follower
       went on with the log as it was.
    3. The process starts anew: the log is cut, or it is whole and the next leader cuts it.
    """
    outcomes: set[Zxid] = set()
    for number in range(1, 200):
        store = started()
        fill(store, 1, 20)
        files = files_of(store)
        files.on_operation = failing(files.operations + number)
        try:
            store.perform([Truncate(z(5))])
        except StorageError:
            pass
        else:
            assert number > 1 and outcomes
            return
        with pytest.raises(StorageError, match="failed before"):
            store.perform([Append(z(21), [b"late"], ZERO)])
        found = recovered(files.restart())
        assert has_no_hole(found) and z(5) <= last_of(found) <= z(20)
        outcomes.add(last_of(found))
    pytest.fail("the cut never came to its end")


# Epochs.


@pytest.mark.parametrize("loss", Loss)
def test_zookeeper_1653_2354_killed_between_snapshot_and_epoch(loss: Loss) -> None:
    """A server whose log, or snapshot, is newer than its current epoch starts.

    1. A server of epoch 1 accepts epoch 2, and installs a snapshot that reaches into it.
    2. It is killed before, in, or after the save of current epoch 2.
    3. ZooKeeper found a log above its current epoch and refused to start, for ever.
    4. Here it starts, with its promises in order, and the log is not above what it accepted.
    """
    install: list[DiskEffect] = [
        SaveEpochs(E2, Epoch(1)),
        ReceiveSnapshot(z(30)),
        ReceiveChunk(b"tree"),
        InstallSnapshot(z(30), z(1, 2), [LogRun(z(31), [b"x"]), LogRun(z(1, 2), [b"y"])]),
        SaveEpochs(E2, E2),
    ]
    seen: set[tuple[Epoch, Epoch]] = set()
    for number in range(1, 300):
        store = started()
        fill(store, 1, 3)
        files = files_of(store)
        files.on_operation = crash_at(files.operations + number)
        try:
            store.perform(install)
        except Crashed:
            pass
        else:
            assert seen >= {(1, 1), (2, 1)}
            return
        found = recovered(files.crash(loss, random.Random(number)))
        assert epoch_of(last_of(found)) <= found.accepted and found.current <= found.accepted
        assert last_of(found) in (z(3), z(1, 2))
        seen.add((found.accepted, found.current))
    pytest.fail("it never came to its end")


@pytest.mark.parametrize("loss", Loss)
def test_zookeeper_4269_killed_while_an_epoch_is_saved(loss: Loss) -> None:
    """Either promise is there, whole, and one that was told is never taken back.

    1. Epochs (1, 1), (2, 1), (2, 2), (3, 2) are saved in turn.
    2. Power is lost at any operation; ZooKeeper: between writing the new file and naming it.
    3. The server starts, from the last one that was completed or the one that was under way.
    """
    saves = [SaveEpochs(E2, Epoch(1)), SaveEpochs(E2, E2), SaveEpochs(Epoch(3), E2)]
    for number in range(1, 100):
        store = started()
        files = files_of(store)
        files.on_operation = crash_at(files.operations + number)
        told = [(1, 1)]
        try:
            for save in saves:
                (done,) = store.perform([save])
                assert isinstance(done, EpochsSaved)
                told.append((done.accepted, done.current))
        except Crashed:
            pass
        else:
            return
        under_way = (saves[len(told) - 1].accepted, saves[len(told) - 1].current)
        found = recovered(files.crash(loss, random.Random(number)))
        assert (found.accepted, found.current) in (told[-1], under_way), number
    pytest.fail("it never came to its end")


def test_zookeeper_2307_a_promise_that_could_not_be_written_is_not_made() -> None:
    """An error at the write of an epoch ends the process; nothing was told.

    1. Epoch 2 is to be accepted; any operation of its save fails.
    2. ZooKeeper had raised it in memory, and refused the same epoch at the next attempt.
    3. There is no completion, nothing is written any more, and a new process starts.
    """
    for number in range(1, 100):
        store = started()
        files = files_of(store)
        files.on_operation = fail_at(files.operations + number)
        try:
            store.perform([SaveEpochs(E2, Epoch(1))])
        except StorageError:
            pass
        else:
            assert number > 1
            return
        with pytest.raises(StorageError, match="failed before"):
            store.perform([SaveEpochs(E2, Epoch(1))])
        found = recovered(files.restart())
        assert (found.accepted, found.current) in ((1, 1), (2, 1))
        store = DiskStore(FOLDER, files)
        store.recover()
        assert store.perform([SaveEpochs(E2, Epoch(1))]) == [EpochsSaved(E2, Epoch(1))]
    pytest.fail("it never came to its end")


# The log.


def test_zookeeper_2247_a_log_that_cannot_be_written_is_no_log() -> None:
    """An append that fails is not acknowledged, and ends the leader.

    1. 1:1 to 1:3 are synced; the append of 1:4 and 1:5 fails at any operation.
    2. ZooKeeper's leader lost its log thread and went on leading: nothing was committed any more.
    3. There is no completion; the process ends, and starts from what it had acknowledged.
    """
    for number in range(1, 100):
        store = started()
        assert store.perform([Append(z(1), [b"a", b"b", b"c"], ZERO)]) == [LogSynced(z(3))]
        files = files_of(store)
        files.on_operation = fail_at(files.operations + number)
        try:
            store.perform([Append(z(4), [bytes(3_000), b"e"], ZERO)])
        except StorageError:
            pass
        else:
            assert number > 2
            return
        with pytest.raises(StorageError, match="failed before"):
            store.perform([Append(z(4), [b"d"], ZERO)])
        assert z(3) <= last_of(recovered(files.restart())) <= z(5)
    pytest.fail("it never came to its end")


def test_zookeeper_3496_the_largest_transaction_is_read_back() -> None:
    """What is accepted can be written, and what was written can be read.

    1. A transaction larger than a segment of the log is appended between two small ones.
    2. The server restarts. ZooKeeper's bound counted less than what it wrote, and the log of an
       accepted transaction could not be read any more.
    """
    store = started()
    large = bytes(range(256)) * 40
    store.perform([Append(z(1), [b"a"], ZERO), Append(z(2), [large], ZERO)])
    store.perform([Append(z(3), [b"c"], ZERO)])
    _, found = restarted(store)
    assert [txn for _, txn in entries_of(*found.runs)] == [b"a", large, b"c"]
