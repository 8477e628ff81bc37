"""Storage: what it refuses to start from, what it skips with a trace event, what it prunes."""

import errno
import random
from contextlib import suppress
from pathlib import Path
from typing import get_args

import pytest

from raykeeper.actors.disk.epochs import EPOCHS_FILE, Epochs, make_epochs
from raykeeper.actors.disk.identity import DiskIdentity, FolderOwner, format_folder
from raykeeper.actors.disk.snapshot_files import snapshot_name, temp_snapshot_path
from raykeeper.actors.disk.storage import Storage
from raykeeper.actors.disk.storage_errors import (
    CorruptRecord,
    FolderInUse,
    ForeignFolder,
    NotFormatted,
    StorageError,
)
from raykeeper.actors.disk.storage_trace_events import (
    LEFTOVER_REMOVED,
    LOG_PART_DAMAGED,
    LOG_TAIL_CUT,
    SNAPSHOT_INVALID,
    SYNC_INTERRUPTED,
)
from raykeeper.server.effects import PublishSnapshot, SaveLevel
from raykeeper.server.events import LogRead
from raykeeper.server.recovered_state import RecoveredState
from raykeeper.zab.effects import (
    Append,
    DiskEffect,
    InstallSnapshot,
    ReadLog,
    ReceiveSnapshot,
    SaveEpochs,
    TraceEvent,
    Truncate,
)
from raykeeper.zab.feature_levels import LEVEL_MIN, FeatureLevel
from raykeeper.zab.ids import FOUNDING_DISK, ZERO, Epoch, ServerId, Zxid, make_zxid
from tests.contract.faulty_files import Crashed, FaultyFiles, Loss, crash_at, fail_at
from tests.contract.store_model import EPOCH_1, WriteSnapshot
from tests.contract.stores import FOLDER, IDENTITY, LIMITS, OWNER, DiskStore, do
from tests.harness.log_entries import entries_of

GENERATION = FOLDER / "generation-1"


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


def fill(store: DiskStore, first: int, last: int) -> None:
    """Append and force transactions one by one, about six to a segment."""
    for counter in range(first, last + 1):
        store.perform([Append(z(counter), [bytes(250)], ZERO)])


def publish(store: DiskStore, zxid: int) -> None:
    do(store, [WriteSnapshot(z(zxid), z(zxid), [b"tree"])])


def restarted(store: DiskStore) -> tuple[DiskStore, RecoveredState]:
    store.storage.close()
    store = DiskStore(FOLDER, store.files)
    return store, store.recover()


def snapshots(store: DiskStore) -> list[str]:
    return [name for name in store.files.names(GENERATION) if name.startswith("snapshot")]


def damage(store: DiskStore, path: Path) -> None:
    assert isinstance(store.files, FaultyFiles)
    store.files.content(path)[30] ^= 1


def test_every_effect_has_a_handler() -> None:
    handled = {Append, *started().storage._handlers}
    assert handled == {*get_args(DiskEffect), PublishSnapshot, SaveLevel}


def test_only_a_founding_disk_may_have_no_name() -> None:
    files = FaultyFiles()
    format_folder(FOLDER, DiskIdentity(OWNER, "disk-2", is_founding=False, incarnation=7), files)
    assert DiskStore(FOLDER, files).recover().disk_id == "disk-2"
    assert restarted(started())[1].disk_id == FOUNDING_DISK


def test_only_the_owner_opens_the_folder_once(tmp_path: Path) -> None:
    with pytest.raises(NotFormatted):
        Storage.open(tmp_path, OWNER)
    format_folder(tmp_path, IDENTITY)
    with pytest.raises(ForeignFolder):
        Storage.open(tmp_path, FolderOwner("coord", "8c1f", ServerId(2)))
    storage = Storage.open(tmp_path, OWNER, LIMITS)
    with pytest.raises(FolderInUse):
        Storage.open(tmp_path, OWNER)
    storage.close()
    assert Storage.open(tmp_path, OWNER, LIMITS).identity.incarnation == 2


def test_the_store_keeps_three_snapshots_and_their_log() -> None:
    store = started()
    for n in range(6):
        fill(store, 10 * n + 1, 10 * n + 10)
        publish(store, 10 * n + 10)
    assert snapshots(store) == [snapshot_name(z(n)) for n in (40, 50, 60)]
    logs = [name for name in store.files.names(GENERATION) if name.startswith("log")]
    assert len(logs) <= 5
    # Each of the three is enough to start from.
    for newest in (60, 50, 40):
        store, found = restarted(store)
        assert found.snapshot_zxid == z(newest)
        log = [zxid for zxid, _ in entries_of(*found.runs)]
        assert log == [z(n) for n in range(newest + 1, 61)]
        damage(store, GENERATION / snapshot_name(z(newest)))
    store.storage.close()
    with pytest.raises(CorruptRecord, match="what follows 0:0 is missing"):
        DiskStore(FOLDER, store.files).recover()


def test_only_valid_snapshots_count_when_pruning() -> None:
    # ZOOKEEPER-3231: the newest snapshots are all damaged, the only good one is pruned.
    store = started()
    for n in (1, 2, 3, 4):
        fill(store, 10 * n + 1 - 10, 10 * n)
        publish(store, 10 * n)
    for n in (30, 40):
        damage(store, GENERATION / snapshot_name(z(n)))
    store, found = restarted(store)
    assert found.snapshot_zxid == z(20)
    assert [event.name for event in found.trace_events] == [SNAPSHOT_INVALID] * 2
    publish(store, 35)
    assert snapshots(store) == [snapshot_name(z(n)) for n in (20, 30, 35, 40)]
    assert restarted(store)[1].snapshot_zxid == z(35)


def test_the_whole_log_replaces_a_valid_snapshot() -> None:
    store = started()
    fill(store, 1, 3)
    publish(store, 2)
    damage(store, GENERATION / snapshot_name(z(2)))
    _, found = restarted(store)
    assert (found.snapshot_zxid, found.consistent_at, list(found.chunks)) == (0, 0, [])
    assert len(entries_of(*found.runs)) == 3


def test_a_snapshot_with_a_wrong_name_is_not_used() -> None:
    store = started()
    fill(store, 1, 3)
    publish(store, 2)
    store.files.rename(GENERATION / snapshot_name(z(2)), GENERATION / snapshot_name(z(3)))
    _, found = restarted(store)
    assert found.snapshot_zxid == ZERO
    assert [event.name for event in found.trace_events] == [SNAPSHOT_INVALID]


def test_a_snapshot_beyond_the_log_is_a_loss() -> None:
    store = started()
    fill(store, 1, 20)
    do(store, [WriteSnapshot(z(10), z(20), [b"tree"])])
    store.storage.close()
    logs = [name for name in store.files.names(GENERATION) if name.startswith("log")]
    store.files.remove(GENERATION / logs[-1])
    with pytest.raises(CorruptRecord, match="the snapshot needs it up to 1:20"):
        DiskStore(FOLDER, store.files).recover()


def test_a_bad_end_below_a_snapshot_is_corrupt_and_left_as_it_is() -> None:
    store = started()
    fill(store, 1, 3)
    do(store, [WriteSnapshot(z(2), z(3), [b"tree"])])
    store.storage.close()
    assert isinstance(store.files, FaultyFiles)
    path = GENERATION / store.files.names(GENERATION)[0]
    store.files.flip(path, len(bytes(store.files.content(path)).rstrip(b"\0")) - 300)
    before = bytes(store.files.content(path))
    with pytest.raises(CorruptRecord, match="it had been forced up to 1:3"):
        DiskStore(FOLDER, store.files).recover()
    assert store.files.content(path) == before


def test_a_snapshot_is_published_only_when_the_log_reaches_it() -> None:
    store = started()
    fill(store, 1, 3)
    with pytest.raises(AssertionError):
        do(store, [WriteSnapshot(z(2), z(4), [b"tree"])])


def test_publishing_an_unfinished_snapshot_fails() -> None:
    store = started()
    fill(store, 1, 3)
    with pytest.raises(StorageError, match="not found"):
        store.perform([PublishSnapshot(z(2))])


def test_publishing_another_snapshot_than_requested_fails() -> None:
    store = started()
    fill(store, 1, 3)
    store.write_snapshot(WriteSnapshot(z(2), z(2), [b"tree"]))
    store.files.rename(temp_snapshot_path(FOLDER, z(2)), temp_snapshot_path(FOLDER, z(3)))
    with pytest.raises(CorruptRecord, match="is the snapshot as of 1:2"):
        store.perform([PublishSnapshot(z(3))])


def test_transactions_in_a_snapshot_are_never_cut() -> None:
    # ZOOKEEPER-1549, 4837: the next start would bring back what was cut.
    store = started()
    fill(store, 1, 6)
    do(store, [WriteSnapshot(z(2), z(4), [b"tree"])])
    store.perform([Truncate(z(4))])
    with pytest.raises(StorageError, match="cut the log after 1:3, but all up to 1:4 was comm"):
        store.perform([Truncate(z(3))])
    assert restarted(store)[1].runs[-1].first == z(3)


@pytest.mark.parametrize(
    ("accepted", "current", "message"),
    [(1, 1, "the log reaches 2:1, but only epoch 1 was accepted"), (2, 1, None), (3, 2, None)],
)
def test_the_log_never_goes_beyond_the_accepted_epoch(
    accepted: int, current: int, message: str | None
) -> None:
    store = started()
    store.perform([Append(z(1), [b"a"], ZERO), Append(z(1, 2), [b"b"], ZERO)])
    make_epochs(store.files, FOLDER, Epochs(Epoch(accepted), Epoch(current)))
    if message is not None:
        with pytest.raises(CorruptRecord, match=message):
            restarted(store)
        return
    events = restarted(store)[1].trace_events
    interrupted = TraceEvent(SYNC_INTERRUPTED, {"last": "2:1", "current": 1})
    assert events == ([interrupted] if current == 1 else [])


def test_lost_promises_are_not_invented() -> None:
    store = started()
    store.files.remove(FOLDER / EPOCHS_FILE)
    with pytest.raises(CorruptRecord, match="promises of this server are lost"):
        restarted(store)


def test_a_lost_log_is_not_taken_for_an_empty_one() -> None:
    store = started()
    store.files.remove_folder(GENERATION)
    with pytest.raises(CorruptRecord, match="are gone"):
        restarted(store)


def test_a_failed_start_can_be_closed_and_tried_again() -> None:
    store = started()
    fill(store, 1, 3)
    store.storage.close()
    for number in range(1, 30):
        storage = Storage.open(FOLDER, OWNER, LIMITS, store.files)
        store.files.on_operation = fail_at(store.files.operations + number)  # type: ignore[attr-defined]
        try:
            storage.recover()
        except StorageError:
            storage.close()
            assert store.files.open_files() == 0  # type: ignore[attr-defined]
            store.files.restart()  # type: ignore[attr-defined]
            continue
        break
    assert number > 10


def test_leftovers_are_removed_with_a_trace_event() -> None:
    store = started()
    fill(store, 1, 1)
    store.perform([ReceiveSnapshot(z(9))])
    store.write_snapshot(WriteSnapshot(z(1), z(1), [b"tree"]))
    store.files.make_folder(FOLDER / "generation-2.tmp")
    store.files.close(store.files.create(GENERATION / "log.0000000000000001.tmp"))
    store.files.make_folder(FOLDER / "generation-0")
    _, found = restarted(store)
    assert {(event.name, event.detail) for event in found.trace_events} == {
        (LEFTOVER_REMOVED, "received.tmp"),
        (LEFTOVER_REMOVED, f"{snapshot_name(z(1))}.tmp"),
        (LEFTOVER_REMOVED, "generation-2.tmp"),
        (LEFTOVER_REMOVED, "log.0000000000000001.tmp"),
        (LEFTOVER_REMOVED, "generation-0"),
    }


def test_a_torn_tail_is_cut_with_a_trace_event() -> None:
    store = started()
    fill(store, 1, 2)
    name = store.files.names(GENERATION)[0]
    assert isinstance(store.files, FaultyFiles)
    store.files.content(GENERATION / name)[-1] = 1
    _, found = restarted(store)
    assert [event.name for event in found.trace_events] == [LOG_TAIL_CUT]
    assert found.trace_events[0].detail["last"] == "1:2"
    assert found.is_uncertain


def test_an_uncertain_end_stays_so_until_an_epoch_is_taken_over() -> None:
    store = started()
    fill(store, 1, 2)
    assert isinstance(store.files, FaultyFiles)
    store.files.content(GENERATION / store.files.names(GENERATION)[0])[-1] = 1
    for _ in range(2):
        store, found = restarted(store)
        assert found.is_uncertain
    store.perform([SaveEpochs(Epoch(2), Epoch(1)), Append(z(3), [b"x"], ZERO)])
    store, found = restarted(store)
    assert found.is_uncertain
    store.perform([SaveEpochs(Epoch(2), Epoch(2))])
    assert not restarted(store)[1].is_uncertain


def test_an_uncertain_end_is_certain_again_when_the_same_epoch_is_joined() -> None:
    store = started()
    fill(store, 1, 2)
    store.perform([SaveEpochs(Epoch(1), Epoch(1))])
    assert isinstance(store.files, FaultyFiles)
    store.files.content(GENERATION / store.files.names(GENERATION)[0])[-1] = 1
    store, found = restarted(store)
    assert found.is_uncertain
    store.perform([SaveEpochs(Epoch(1), Epoch(1))])
    assert not restarted(store)[1].is_uncertain


@pytest.mark.parametrize("is_torn_before", [False, True])
def test_an_uncertain_end_says_whether_it_may_reach_the_begin_of_the_epoch(
    is_torn_before: bool,
) -> None:
    # The last batch came with epoch 1, or after it.
    store = started()
    fill(store, 1, 1)
    before = [] if is_torn_before else [SaveEpochs(Epoch(1), Epoch(1))]
    after = [SaveEpochs(Epoch(1), Epoch(1))] if is_torn_before else []
    store.perform([*before, Append(z(2), [b"last"], ZERO), *after])
    store, found = restarted(store)
    assert found.has_initial_history
    assert isinstance(store.files, FaultyFiles)
    content = store.files.content(GENERATION / store.files.names(GENERATION)[0])
    content[content.rindex(b"last")] ^= 1
    store, found = restarted(store)
    assert (found.is_uncertain, found.has_initial_history) == (True, not is_torn_before)
    # A promise changes nothing about that, and taking over an epoch settles it.
    store.perform([SaveEpochs(Epoch(2), Epoch(1))])
    store, found = restarted(store)
    assert (found.is_uncertain, found.has_initial_history) == (True, not is_torn_before)
    store.perform([SaveEpochs(Epoch(2), Epoch(2))])
    _, found = restarted(store)
    assert (found.is_uncertain, found.has_initial_history) == (False, True)


def test_the_uncertain_mark_is_forced_before_the_cut() -> None:
    for number in range(1, 30):
        store = started()
        fill(store, 1, 2)
        store.storage.close()
        files = store.files
        assert isinstance(files, FaultyFiles)
        files.content(GENERATION / files.names(GENERATION)[0])[-1] = 1
        files.on_operation = crash_at(files.operations + number)
        try:
            DiskStore(FOLDER, files).recover()
        except Crashed:
            pass
        else:
            assert number > 10
            return
        after = files.crash(Loss.SOME, random.Random(number))
        assert DiskStore(FOLDER, after).recover().is_uncertain, number
    pytest.fail("the start never came to its end")


def test_a_damaged_only_snapshot_is_corruption() -> None:
    # After a snapshot was installed there is no log behind it, and none before it.
    store = started()
    fill(store, 1, 2)
    store.perform([ReceiveSnapshot(z(9)), InstallSnapshot(z(9), z(9), [])])
    path = FOLDER / "generation-2" / snapshot_name(z(9))
    damage(store, path)
    with pytest.raises(CorruptRecord, match="the log ends at 0:0, the snapshot needs it up to 1:9"):
        restarted(store)
    store.files.remove(path)
    with pytest.raises(CorruptRecord, match=r"the snapshot in .*generation-2 is gone"):
        DiskStore(FOLDER, FaultyFiles.restart(store.files)).recover()  # type: ignore[arg-type]


def test_a_segment_whose_name_was_lost_is_reported_missing() -> None:
    store = started()
    fill(store, 1, 8)
    first, last = store.files.names(GENERATION)
    store.storage.close()
    store.files.remove(FOLDER / "spare")
    store.files.rename(GENERATION / last, FOLDER / "spare")
    with pytest.raises(CorruptRecord, match=f"{last} is missing: .*spare is that segment"):
        DiskStore(FOLDER, store.files).recover()
    assert store.files.names(GENERATION) == [first]


def test_damage_found_by_a_read_is_reported_once() -> None:
    store = started()
    fill(store, 1, 20)
    publish(store, 2)
    publish(store, 15)
    assert isinstance(store.files, FaultyFiles)
    store.files.flip(GENERATION / store.files.names(GENERATION)[0], 60)
    read = ReadLog(ServerId(2), z(3), z(20), 1 << 20)
    assert store.perform([read]) == [LogRead(ServerId(2), z(3), [])]
    assert [event.name for event in store.storage.take_trace_events()] == [LOG_PART_DAMAGED]
    assert store.storage.take_trace_events() == []
    # The rest of the log is as it was, and the next start finds nothing to complain about.
    (found,) = store.perform([ReadLog(ServerId(2), z(15), z(20), 1 << 20)])
    assert isinstance(found, LogRead)
    assert len(entries_of(*found.runs)) == 5
    assert restarted(store)[1].trace_events == []


def test_a_damaged_received_snapshot_is_not_installed() -> None:
    store = started()
    fill(store, 1, 2)
    store.perform([ReceiveSnapshot(z(9))])
    damage_at = FOLDER / "received.tmp"
    assert isinstance(store.files, FaultyFiles)
    store.files.content(damage_at)[3] ^= 1
    with pytest.raises(CorruptRecord, match=r"received\.tmp is damaged"):
        store.perform([InstallSnapshot(z(9), z(9), [])])
    assert restarted(store)[1].snapshot_zxid == ZERO


def test_a_closed_store_does_nothing() -> None:
    store = started()
    store.storage.close()
    with pytest.raises(StorageError, match="is closed"):
        store.perform([Truncate(ZERO)])


class BadlyClosedFiles(FaultyFiles):
    """Files whose last bytes a network file system refuses when they are closed."""

    is_broken = False

    def close(self, fd: int) -> None:
        is_lock = fd in self._locks
        super().close(fd)
        if self.is_broken and not is_lock:
            raise OSError(errno.EIO, "close failed")


def test_a_store_that_fails_to_close_still_unlocks_its_folder() -> None:
    files = BadlyClosedFiles()
    format_folder(FOLDER, IDENTITY, files)
    store = DiskStore(FOLDER, files)
    store.recover()
    store.perform([EPOCH_1, Append(z(1), [b"x"], ZERO), ReceiveSnapshot(z(9))])
    files.is_broken = True
    with pytest.raises(StorageError, match="close failed"):
        store.storage.close()
    assert files.open_files() == 0
    files.is_broken = False
    assert count_of(DiskStore(FOLDER, files).recover()) == 1


def count_of(found: RecoveredState) -> int:
    return len(entries_of(*found.runs))


@pytest.mark.parametrize("number", range(1, 25))
def test_the_level_is_marked_before_what_requires_it(number: int) -> None:
    """A power loss at any moment leaves no log that an older program must not read unmarked."""
    files = FaultyFiles()
    format_folder(FOLDER, IDENTITY, files)
    storage = Storage.open(FOLDER, OWNER, LIMITS, files)
    assert storage.recover().level == LEVEL_MIN
    storage.perform([SaveEpochs(Epoch(1), Epoch(1))])
    files.on_operation = crash_at(files.operations + number)
    with suppress(Crashed):
        storage.perform([SaveLevel(FeatureLevel(2)), Append(z(1), [b"raise"], ZERO)])
    after = files.crash(Loss.SOME, random.Random(number))
    again = Storage.open(FOLDER, OWNER, LIMITS, after)
    recovered = again.recover()
    assert recovered.level == again.identity.level
    assert recovered.level == 2 or recovered.runs == []
    assert number < 24 or recovered.runs
    again.close()
