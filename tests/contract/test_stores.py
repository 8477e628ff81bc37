"""The promises of a store, over every store: completed effects outlive a crash."""

import random
from pathlib import Path

import pytest

from raykeeper.server.effects import PublishSnapshot
from raykeeper.server.events import (
    EpochsSaved,
    LogRead,
    LogSynced,
    LogTruncated,
    SnapshotInstalled,
    SnapshotPublished,
)
from raykeeper.zab.effects import (
    Append,
    DiscardSnapshot,
    InstallSnapshot,
    LogRun,
    ReadLog,
    ReceiveChunk,
    ReceiveSnapshot,
    SaveEpochs,
    Truncate,
)
from raykeeper.zab.ids import ZERO, Epoch, ServerId, Zxid, make_zxid
from tests.contract.store_model import (
    EPOCH_1,
    StoreModel,
    WriteSnapshot,
    random_steps,
    view_of,
)
from tests.contract.stores import (
    DiskStore,
    LosingStore,
    SimulatedStore,
    Store,
    TearingStore,
    do,
)
from tests.harness.log_entries import entries_of

LEARNER = ServerId(2)


def z(counter: int, epoch: int = 1) -> Zxid:
    return make_zxid(Epoch(epoch), counter)


def append(first: Zxid, *txns: bytes, committed: Zxid = ZERO) -> Append:
    return Append(first, list(txns), committed)


EPOCH_2 = SaveEpochs(Epoch(2), Epoch(2))


@pytest.fixture(params=[DiskStore, LosingStore, TearingStore, SimulatedStore])
def store(request: pytest.FixtureRequest, tmp_path: Path) -> Store:
    """Return an empty store that is recovered and has accepted epoch 1."""
    fresh: Store = request.param.fresh(tmp_path)
    assert view_of(fresh.recover()) == StoreModel().view()
    fresh.perform([EPOCH_1])
    return fresh


def again(store: Store) -> tuple[Store, StoreModel]:
    """Return the store after a crash, and a model of what it recovered."""
    after = store.crash()
    recovered = after.recover()
    model = StoreModel()
    view = view_of(recovered)
    model.accepted, model.current = view.accepted, view.current
    model.snapshot = WriteSnapshot(
        Zxid(view.snapshot_zxid), Zxid(view.consistent_at), list(view.chunks)
    )
    model.log = list(view.log)
    return after, model


def test_a_synced_append_survives_a_crash(store: Store) -> None:
    assert store.perform([append(z(1), b"a", b"", b"c")]) == [LogSynced(z(3))]
    _, found = again(store)
    assert found.log == [(z(1), b"a"), (z(2), b""), (z(3), b"c")]


def test_appends_in_a_row_have_one_completion(store: Store) -> None:
    assert store.perform([append(z(1), b"a"), append(z(2), b"b"), append(z(3), b"c")]) == [
        LogSynced(z(3))
    ]


def test_completions_come_in_the_order_of_the_effects(store: Store) -> None:
    completions = store.perform(
        [
            append(z(1), b"a"),
            append(z(2), b"b"),
            EPOCH_2,
            append(z(1, 2), b"c"),
            Truncate(z(2)),
            ReadLog(LEARNER, ZERO, z(1), 100),
            append(z(1, 2), b"d"),
        ]
    )
    assert completions == [
        LogSynced(z(2)),
        EpochsSaved(Epoch(2), Epoch(2)),
        LogSynced(z(1, 2)),
        LogTruncated(z(2)),
        LogRead(LEARNER, ZERO, [LogRun(z(1), [b"a"])]),
        LogSynced(z(1, 2)),
    ]
    assert again(store)[1].log == [(z(1), b"a"), (z(2), b"b"), (z(1, 2), b"d")]


def test_epochs_survive_a_crash(store: Store) -> None:
    assert store.perform([SaveEpochs(Epoch(3), Epoch(1))]) == [EpochsSaved(Epoch(3), Epoch(1))]
    _, found = again(store)
    assert (found.accepted, found.current) == (3, 1)


def test_the_log_may_be_newer_than_the_current_epoch(store: Store) -> None:
    # A crash between the DIFF and the save of the current epoch (ZOOKEEPER-4643, 1653).
    store.perform([append(z(1), b"a"), SaveEpochs(Epoch(3), Epoch(1)), append(z(1, 2), b"b")])
    _, found = again(store)
    assert (found.accepted, found.current, found.last) == (3, 1, z(1, 2))


@pytest.mark.parametrize("upto", [ZERO, z(1), z(2), z(3), z(5), z(6)])
def test_a_cut_may_hit_the_middle_of_a_batch(store: Store, upto: Zxid) -> None:
    store.perform([append(z(1), b"a", b"b", b"c"), append(z(4), b"d", b"e", b"f")])
    assert store.perform([Truncate(upto)]) == [LogTruncated(upto)]
    after, found = again(store)
    assert found.log == [(z(n), bytes([96 + n])) for n in range(1, 7) if z(n) <= upto]
    after.perform([EPOCH_2, append(z(1, 2), b"new")])
    assert again(after)[1].log == [*found.log, (z(1, 2), b"new")]


def test_a_cut_removes_whole_segments(store: Store) -> None:
    for n in range(1, 40):
        store.perform([append(z(n), bytes(300))])
    store.perform([Truncate(z(3))])
    assert again(store)[1].last == z(3)


def test_a_batch_may_be_larger_than_a_segment(store: Store) -> None:
    big = bytes(10_000)
    store.perform([append(z(1), b"a"), append(z(2), big, big), append(z(4), b"b")])
    assert again(store)[1].log == [(z(1), b"a"), (z(2), big), (z(3), big), (z(4), b"b")]


@pytest.mark.parametrize(
    ("after", "upto", "bytes_max", "expected"),
    [
        (
            ZERO,
            z(2, 2),
            100,
            [LogRun(z(1), [b"a", b"b", b"c", b"d"]), LogRun(z(1, 2), [b"e", b"f"])],
        ),
        # Parts of batches at both ends.
        (z(1), z(3), 100, [LogRun(z(2), [b"b", b"c"])]),
        (z(4), z(1, 2), 100, [LogRun(z(1, 2), [b"e"])]),
        # A point between two epochs is a fine place to start from.
        (z(9), z(2, 2), 100, [LogRun(z(1, 2), [b"e", b"f"])]),
        (z(0, 2), z(2, 2), 100, [LogRun(z(1, 2), [b"e", b"f"])]),
        # Nothing there, or too much.
        (z(2, 2), z(3, 2), 100, []),
        (z(2), z(2), 100, []),
        (ZERO, z(2, 2), 5, []),
        (ZERO, z(1, 2), 5, [LogRun(z(1), [b"a", b"b", b"c", b"d"]), LogRun(z(1, 2), [b"e"])]),
    ],
)
def test_a_range_of_the_log_is_read(
    store: Store, after: Zxid, upto: Zxid, bytes_max: int, expected: list[LogRun]
) -> None:
    store.perform([append(z(1), b"a", b"b"), append(z(3), b"c", b"d"), EPOCH_2])
    store.perform([append(z(1, 2), b"e", b"f")])
    read = ReadLog(LEARNER, after, upto, bytes_max)
    assert store.perform([read]) == [LogRead(LEARNER, after, expected)]


def test_a_received_snapshot_replaces_snapshot_and_log(store: Store) -> None:
    store.perform([append(z(1), b"a", b"b")])
    chunks = [b"one", bytes(5000)]
    tail = [LogRun(z(9), [b"x", b"y"]), LogRun(z(1, 2), [b"z"])]
    completions = store.perform(
        [
            SaveEpochs(Epoch(2), Epoch(1)),
            ReceiveSnapshot(z(8)),
            *map(ReceiveChunk, chunks),
            InstallSnapshot(z(8), z(10), tail),
            EPOCH_2,
            append(z(2, 2), b"later"),
        ]
    )
    assert completions[1:-2] == [SnapshotInstalled(z(8))]
    after, found = again(store)
    assert found.snapshot == (z(8), z(10), chunks)
    assert found.log == [*entries_of(*tail), (z(2, 2), b"later")]
    # The log does not reach back before the snapshot.
    assert after.perform([ReadLog(LEARNER, z(1), z(10), 100)]) == [LogRead(LEARNER, z(1), [])]


def test_a_snapshot_may_have_no_log_behind_it(store: Store) -> None:
    store.perform([append(z(1), b"a"), ReceiveSnapshot(z(8)), InstallSnapshot(z(8), z(8), [])])
    after, found = again(store)
    assert (found.snapshot, found.log) == ((z(8), z(8), []), [])
    after.perform([append(z(9), b"b")])
    assert again(after)[1].log == [(z(9), b"b")]


def test_an_incomplete_snapshot_changes_nothing(store: Store) -> None:
    store.perform([append(z(1), b"a"), ReceiveSnapshot(z(8)), ReceiveChunk(b"half")])
    after, found = again(store)
    assert (found.snapshot.zxid, found.log) == (ZERO, [(z(1), b"a")])
    # An abandoned or restarted snapshot leaves nothing to the next.
    begun = [ReceiveSnapshot(z(8)), ReceiveChunk(b"half")]
    after.perform([*begun, DiscardSnapshot(), DiscardSnapshot(), *begun])
    after.perform([ReceiveSnapshot(z(9)), ReceiveChunk(b"all"), InstallSnapshot(z(9), z(9), [])])
    assert again(after)[1].snapshot == (z(9), z(9), [b"all"])


def test_recovery_starts_from_the_published_snapshot(store: Store) -> None:
    store.perform([append(z(1), b"a", b"b", b"c", b"d")])
    snapshot = WriteSnapshot(z(2), z(3), [b"tree"])
    assert do(store, [snapshot]) == [SnapshotPublished(z(2))]
    _, found = again(store)
    assert (found.snapshot, found.log) == (snapshot, [(z(3), b"c"), (z(4), b"d")])


def test_an_unpublished_snapshot_is_forgotten(store: Store) -> None:
    store.perform([append(z(1), b"a")])
    store.write_snapshot(WriteSnapshot(z(1), z(1), [b"tree"]))
    after, found = again(store)
    assert found.snapshot.zxid == ZERO
    do(after, [WriteSnapshot(z(1), z(1), [b"other"])])
    assert again(after)[1].snapshot.chunks == [b"other"]


def test_publishing_prunes_the_log(store: Store) -> None:
    for n in range(1, 60):
        store.perform([append(z(n), bytes(300))])
        if n % 10 == 0:
            store.write_snapshot(WriteSnapshot(z(n), z(n), [b"tree"]))
            assert store.perform([PublishSnapshot(z(n))]) == [SnapshotPublished(z(n))]
    # Three snapshots are kept, at 30, 40 and 50, and the log they need.
    (nothing,) = store.perform([ReadLog(LEARNER, z(9), z(59), 1 << 20)])
    (enough,) = store.perform([ReadLog(LEARNER, z(30), z(59), 1 << 20)])
    assert nothing == LogRead(LEARNER, z(9), [])
    assert enough == LogRead(LEARNER, z(30), [LogRun(z(31), [bytes(300)] * 29)])
    assert again(store)[1].last == z(59)


def test_the_store_knows_what_was_committed(store: Store) -> None:
    store.perform([append(z(1), b"a", b"b"), append(z(3), b"c", committed=z(2))])
    after = store.crash()
    assert after.recover().committed == z(2)
    do(after, [WriteSnapshot(z(1), z(3), [])])
    assert after.crash().recover().committed == z(3)


@pytest.mark.parametrize("seed", range(5))
def test_the_store_agrees_with_the_naive_model(store: Store, seed: int) -> None:
    rng = random.Random(seed)
    model = StoreModel()
    model.do(EPOCH_1)
    for group in random_steps(rng, 60):
        do(store, group)
        for step in group:
            model.do(step)
        if rng.random() < 0.2:
            store = store.crash()
            assert view_of(store.recover()) == model.view()
        after = max(model.snapshot.zxid, ZERO)
        (read,) = store.perform([ReadLog(LEARNER, after, model.last, 1 << 20)])
        assert isinstance(read, LogRead)
        assert tuple(entries_of(*read.runs)) == model.view().log
    assert view_of(store.crash().recover()) == model.view()
