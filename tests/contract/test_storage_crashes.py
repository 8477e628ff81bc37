"""Storage: power lost, or the disk broken, at every single operation of every kind of effect."""

import random
from collections.abc import Sequence
from contextlib import suppress

import pytest

from raykeeper.actors.disk.identity import format_folder, read_identity
from raykeeper.actors.disk.storage import Storage, StorageLimits
from raykeeper.actors.disk.storage_errors import NotFormatted, StorageError
from raykeeper.zab.effects import (
    Append,
    InstallSnapshot,
    LogRun,
    ReceiveChunk,
    ReceiveSnapshot,
    SaveEpochs,
    Truncate,
)
from raykeeper.zab.ids import Epoch, Zxid, make_zxid
from tests.contract.faulty_files import Crashed, FaultyFiles, Loss, crash_at, fail_at
from tests.contract.store_model import (
    EPOCH_1,
    Step,
    StoreModel,
    View,
    WriteSnapshot,
    random_steps,
    view_of,
)
from tests.contract.stores import FOLDER, IDENTITY, LIMITS, OWNER, DiskStore, do, prepare

GROWING = StorageLimits(segment_bytes=8192, first_segment_bytes=512)


def z(counter: int, epoch: int = 1) -> Zxid:
    return make_zxid(Epoch(epoch), counter)


def append(first: Zxid, size: int, count: int = 2) -> Append:
    return Append(first, [bytes([n]) * size for n in range(1, count + 1)], z(0))


# Every kind of effect, small segments that fill, three snapshots and a fourth that prunes.
EVERYTHING: list[list[Step]] = [
    [EPOCH_1],
    [append(z(1), 100), append(z(3), 700), append(z(5), 700)],
    [append(z(7), 10), WriteSnapshot(z(2), z(4), [b"first", bytes(900)])],
    [Truncate(z(7)), append(z(8), 700), append(z(10), 700), append(z(12), 700)],
    [Truncate(z(8))],
    [SaveEpochs(Epoch(2), Epoch(1)), SaveEpochs(Epoch(2), Epoch(2)), append(z(1, 2), 1500)],
    [WriteSnapshot(z(8), z(1, 2), [b"second"]), append(z(3, 2), 1500)],
    [WriteSnapshot(z(2, 2), z(3, 2), []), append(z(5, 2), 1500)],
    [WriteSnapshot(z(5, 2), z(6, 2), [b"fourth prunes the first"])],
    [
        ReceiveSnapshot(z(30, 2)),
        ReceiveChunk(b"chunk"),
        ReceiveChunk(bytes(700)),
        InstallSnapshot(
            z(30, 2), z(32, 2), [LogRun(z(31, 2), [b"x", b"y"]), LogRun(z(1, 3), [b"z"])]
        ),
        SaveEpochs(Epoch(3), Epoch(2)),
        SaveEpochs(Epoch(3), Epoch(3)),
    ],
    [append(z(2, 3), 5)],
    # A snapshot alone, and a log that is gone as a whole.
    [
        ReceiveSnapshot(z(40, 3)),
        ReceiveChunk(b"alone"),
        InstallSnapshot(z(40, 3), z(40, 3), []),
    ],
    [append(z(41, 3), 5)],
    [Truncate(z(40, 3))],
]
# In the scenario the log is never newer than the accepted epoch.
EVERYTHING[9].insert(0, SaveEpochs(Epoch(3), Epoch(2)))


def formatted() -> FaultyFiles:
    files = FaultyFiles()
    format_folder(FOLDER, IDENTITY, files)
    return files


def run_until_it_breaks(
    files: FaultyFiles, groups: Sequence[Sequence[Step]], limits: StorageLimits = LIMITS
) -> tuple[set[View], bool]:
    """Perform `groups`; return what may be on the disk, and whether all was completed."""
    model = StoreModel()
    possible = {model.view()}
    try:
        store = DiskStore(FOLDER, files, limits)
        store.recover()
        for group in groups:
            for step in group:
                possible.update(model.do(step))
                possible.add(model.view())
            do(store, group)
            possible = {model.view()}
    except (Crashed, StorageError):
        return possible, False
    return possible, True


def recover(files: FaultyFiles) -> View:
    store = DiskStore(FOLDER, files)
    view = view_of(store.recover())
    store.storage.close()
    assert files.open_files() == 0
    return view


def breaks(step: int) -> range:
    """Return numbers of operations to break at, far more than there are."""
    return range(1, 2000, step)


@pytest.mark.parametrize("limits", [LIMITS, GROWING], ids=["fixed", "growing"])
@pytest.mark.parametrize("loss", Loss)
def test_a_power_loss_at_every_operation_loses_no_promise(
    loss: Loss, limits: StorageLimits
) -> None:
    for number in breaks(1):
        rng = random.Random(number)
        files = formatted()
        files.on_operation = crash_at(files.operations + number)
        possible, complete = run_until_it_breaks(files, EVERYTHING, limits)
        if complete:
            return
        after = files.crash(loss, rng)
        view = recover(after)
        assert view in possible, number
        # It is the same at the next start, and nothing is left of what was interrupted.
        again = after.crash(Loss.ALL, rng)
        assert recover(again) == view
        assert not [name for name in again.names(FOLDER) if name.endswith(".tmp")]
        assert len([name for name in again.names(FOLDER) if name.startswith("gen")]) == 1
    pytest.fail("the scenario never came to its end")


@pytest.mark.parametrize("seed", range(4))
def test_a_power_loss_in_random_histories_loses_no_promise(seed: int) -> None:
    groups = [[EPOCH_1], *random_steps(random.Random(seed), 25)]
    for number in breaks(7):
        rng = random.Random(number)
        files = formatted()
        files.on_operation = crash_at(files.operations + number + seed)
        possible, complete = run_until_it_breaks(files, groups)
        if complete:
            return
        assert recover(files.crash(Loss.SOME, rng)) in possible, number
    pytest.fail("the history never came to its end")


@pytest.mark.parametrize("loss", Loss)
def test_a_power_loss_during_the_replacement_of_the_only_snapshot_is_survived(loss: Loss) -> None:
    groups: list[list[Step]] = [
        [EPOCH_1],
        *([append(z(n), 700)] for n in (1, 3, 5)),
        [WriteSnapshot(z(4), z(5), [b"first"])],
        *([append(z(n), 700)] for n in (7, 9, 11)),
        [WriteSnapshot(z(10), z(11), [b"second"])],
    ]
    for number in breaks(1):
        for seed in range(8 if loss is Loss.SOME else 1):
            files = formatted()
            files.on_operation = crash_at(files.operations + number)
            possible, complete = run_until_it_breaks(files, groups, StorageLimits(2048, 1))
            if complete:
                return
            rng = random.Random(f"{number}.{seed}")
            assert recover(files.crash(loss, rng)) in possible, number
    pytest.fail("the scenario never came to its end")


@pytest.mark.parametrize("loss", Loss)
def test_a_second_power_loss_during_recovery_is_survived(loss: Loss) -> None:
    rng = random.Random(2)
    for number in breaks(3):
        first = formatted()
        first.on_operation = crash_at(first.operations + number)
        possible, complete = run_until_it_breaks(first, EVERYTHING)
        if complete:
            return
        files = first.crash(loss, rng)
        files.on_operation = crash_at(rng.randint(1, 25))
        view = None
        with suppress(Crashed):
            view = view_of(DiskStore(FOLDER, files).recover())
        after = recover(files.crash(loss, rng))
        assert after in possible, number
        # What a server was told at a start is what it is told at the next (rule D5).
        assert view is None or after == view, number
    pytest.fail("the scenario never came to its end")


def test_a_disk_failure_at_every_operation_ends_the_store() -> None:
    for number in breaks(1):
        files = formatted()
        broken = files.operations + number
        files.on_operation = fail_at(broken)
        possible, complete = run_until_it_breaks(files, EVERYTHING)
        if complete:
            assert files.operations < broken, "a failure was passed over, or tried again"
            return
        # The process restarts; the page cache shows what the disk may not have (D5).
        view = recover(files.restart())
        assert view in possible, number
        assert recover(files.crash(Loss.ALL, random.Random(number))) == view, number
    pytest.fail("the scenario never came to its end")


def test_after_a_failure_nothing_is_performed() -> None:
    for number in breaks(1):
        files = formatted()
        store = DiskStore(FOLDER, files)
        store.recover()
        breaking = fail_at(files.operations + number)
        try:
            for group in EVERYTHING:
                files.on_operation = lambda _number, _name: None
                effects = prepare(store, group)  # the Snapshotter's failures are its own
                files.on_operation = breaking
                store.perform(effects)
        except StorageError:
            pass
        else:
            return
        files.on_operation = crash_at(0)  # any further operation would be seen
        for _ in range(2):
            with pytest.raises(StorageError, match="failed before"):
                store.perform([append(z(1), 1)])
        store.storage.close()
        assert files.open_files() == 0
    pytest.fail("the scenario never came to its end")


@pytest.mark.parametrize("loss", Loss)
def test_a_power_loss_while_formatting_is_survived(loss: Loss) -> None:
    for number in breaks(1):
        files = FaultyFiles()
        files.on_operation = crash_at(number)
        try:
            format_folder(FOLDER, IDENTITY, files)
        except Crashed:
            pass
        else:
            return
        after = files.crash(loss, random.Random(number))
        if read_identity(FOLDER, after) is None:
            with pytest.raises(NotFormatted):
                Storage.open(FOLDER, OWNER, files=after)
            format_folder(FOLDER, IDENTITY, after)
        assert recover(after) == StoreModel().view()
    pytest.fail("formatting never came to its end")


@pytest.mark.parametrize("loss", Loss)
def test_an_incarnation_is_never_used_twice(loss: Loss) -> None:
    files = formatted()
    used = 0
    for number in range(1, 60):
        files.on_operation = crash_at(files.operations + number % 9)
        try:
            incarnation = Storage.open(FOLDER, OWNER, files=files).identity.incarnation
        except Crashed:
            pass
        else:
            assert incarnation > used
            used = incarnation
        files = files.crash(loss, random.Random(number))
    assert used > 5
