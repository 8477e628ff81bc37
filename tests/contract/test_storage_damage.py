"""A damaged disk: no acknowledged transaction is lost silently, and every repair completes.

After any single fault a start finds all of them, or reports an uncertain end, or starts again
as another disk (rules D3 and D4). See docs/DISKS.md for what cannot be distinguished.
"""

import random
from collections import Counter
from collections.abc import Callable, Iterator
from copy import deepcopy
from pathlib import Path

import pytest

from raykeeper.actors.disk.epochs import EPOCHS_FILE
from raykeeper.actors.disk.identity import IDENTITY_FILE, format_folder
from raykeeper.actors.disk.opening import open_storage
from raykeeper.actors.disk.repair import DAMAGED_FOLDER
from raykeeper.actors.disk.storage import Storage
from raykeeper.actors.disk.storage_errors import CorruptRecord
from raykeeper.actors.disk.storage_trace_events import LOG_TAIL_CUT, REPAIRED
from raykeeper.server.recovered_state import RecoveredState
from raykeeper.zab.effects import (
    Append,
    InstallSnapshot,
    LogRun,
    ReceiveChunk,
    ReceiveSnapshot,
    SaveEpochs,
    VoteGranted,
)
from raykeeper.zab.ids import FOUNDING_DISK, ZERO, Epoch, Zxid, make_zxid
from tests.contract.faulty_files import Crashed, FaultyFiles, Loss, crash_at
from tests.contract.store_model import EPOCH_1, Step, StoreModel, View, WriteSnapshot, view_of
from tests.contract.stores import FOLDER, IDENTITY, LIMITS, OWNER, DiskStore, do

DAMAGED = FOLDER / DAMAGED_FOLDER
WALL_S = 1_800_000_000
EMPTY = StoreModel().view()


def z(counter: int, epoch: int = 1) -> Zxid:
    return make_zxid(Epoch(epoch), counter)


def append(counter: int, size: int, epoch: int = 1) -> Append:
    return Append(z(counter, epoch), [bytes([counter]) * size], ZERO)


# Several segments before and after two snapshots, and a log in two batches of one write.
GROWN: list[list[Step]] = [
    [EPOCH_1],
    *([append(n, 600)] for n in range(1, 8)),
    [WriteSnapshot(z(4), z(5), [b"older", bytes(300)])],
    *([append(n, 600)] for n in range(8, 14)),
    [WriteSnapshot(z(9), z(11), [b"newer", bytes(300)])],
    [append(14, 50)],
    [append(15, 50), append(16, 50)],
]
# One snapshot, with nothing before it.
RECEIVED: list[list[Step]] = [
    [EPOCH_1],
    [append(1, 10)],
    [ReceiveSnapshot(z(9)), ReceiveChunk(bytes(300)), InstallSnapshot(z(9), z(9), [])],
    [SaveEpochs(Epoch(2), Epoch(2))],
]
RECEIVED_WITH_LOG: list[list[Step]] = [
    *RECEIVED[:2],
    [
        ReceiveSnapshot(z(9)),
        ReceiveChunk(bytes(300)),
        InstallSnapshot(z(9), z(10), [LogRun(z(10), [b"tail"])]),
    ],
    [append(11, 40)],
]
HISTORIES = {"grown": GROWN, "received": RECEIVED, "received with log": RECEIVED_WITH_LOG}


def disk_of(groups: list[list[Step]]) -> tuple[FaultyFiles, View]:
    """Return the disk after `groups` and a loss of power, and what must be on it."""
    files = FaultyFiles()
    format_folder(FOLDER, IDENTITY, files)
    store, model = DiskStore(FOLDER, files), StoreModel()
    store.recover()
    for group in groups:
        do(store, group)
        for step in group:
            model.do(step)
    return files.crash(Loss.NOTHING, random.Random(0)), model.view()


def start(files: FaultyFiles, *, has_peers: bool = True) -> tuple[Storage, RecoveredState]:
    return open_storage(FOLDER, OWNER, LIMITS, has_peers=has_peers, wall_s=WALL_S, files=files)


def outcome(files: FaultyFiles, whole: View) -> str:
    """Start from the disk and return the result; fail if something is lost silently."""
    storage, recovered = start(files)
    storage.close()
    assert files.open_files() == 0
    view = view_of(recovered)
    names = [event.name for event in recovered.trace_events]
    if recovered.disk_id != FOUNDING_DISK:
        assert (view, recovered.is_uncertain, REPAIRED in names) == (EMPTY, False, True)
        return "repaired"
    assert REPAIRED not in names
    written, found = dict(whole.log), dict(view.log)
    assert {zxid: found[zxid] for zxid in found if zxid in written} == {
        zxid: written[zxid] for zxid in found if zxid in written
    }
    missing = written.keys() - found.keys()
    if recovered.is_uncertain:
        assert LOG_TAIL_CUT in names
        assert missing <= {zxid for zxid, _ in whole.log[-2:]}
        return "uncertain"
    # An older snapshot will do, with more of the log.
    assert not missing
    assert max(view.snapshot_zxid, *found, 0) == max(whole.snapshot_zxid, *written, 0)
    assert view[:2] == whole[:2]
    assert LOG_TAIL_CUT not in names
    return "whole"


def damages(files: FaultyFiles) -> Iterator[tuple[Path, str, Callable[[FaultyFiles], None]]]:
    """Yield single faults: flipped bits, lost ends and whole files, unreadable sectors."""
    rng = random.Random(3)
    for path in files.paths(FOLDER):
        if path.name == "lock":
            continue
        size = len(files.content(path))
        # Of the promises, the copies; of the rest, where there is something, and some zeros.
        used = 40 if path.name == EPOCHS_FILE else len(bytes(files.content(path)).rstrip(b"\0"))
        offsets = [*range(0, used, 5), *range(4096, min(size, 4136), 5), size - 1]
        for offset in offsets:
            if 0 <= offset < size:
                bit = 1 << rng.randrange(8)
                yield path, "flip", lambda f, p=path, o=offset, b=bit: f.flip(p, o, b)
        for end in {0, size // 3, size // 2, max(0, size - 1)}:
            yield path, "cut", lambda f, p=path, e=end: f.content(p).__delitem__(slice(e, None))
        yield path, "unreadable", lambda f, p=path: f.spoil(p)
        yield path, "missing", lambda f, p=path: f.lose(p)


@pytest.mark.parametrize("history", HISTORIES)
def test_no_single_fault_loses_data_silently(history: str) -> None:
    files, whole = disk_of(HISTORIES[history])
    assert outcome(deepcopy(files), whole) == "whole"
    last_segment = [path for path in files.paths(FOLDER) if path.name.startswith("log.")][-1:]
    seen: Counter[tuple[str, str]] = Counter()
    for path, fault, damage in damages(files):
        if fault == "missing" and path in last_segment:
            continue  # as docs/DISKS.md says: a lost end that leaves no trace
        damaged = deepcopy(files)
        damage(damaged)
        result = outcome(damaged, whole)
        if fault in ("cut", "unreadable") and path in last_segment:
            assert result == "repaired", (path, fault)
        seen[fault, result] += 1
    assert seen["flip", "repaired"] and seen["missing", "repaired"]
    assert seen["flip", "whole"], "the promises and an old snapshot have a second copy"
    assert bool(seen["flip", "uncertain"]) == bool(last_segment)


CORRUPT: dict[str, Callable[[FaultyFiles], object]] = {
    "log": lambda files: files.flip(_segments(files)[-2], 100),
    "promises": lambda files: files.lose(FOLDER / EPOCHS_FILE),
    "identity": lambda files: files.flip(FOLDER / IDENTITY_FILE, 30),
    "no identity": lambda files: files.lose(FOLDER / IDENTITY_FILE),
}


def _segments(files: FaultyFiles) -> list[Path]:
    return [path for path in files.paths(FOLDER) if path.name.startswith("log.")]


@pytest.mark.parametrize("kind", CORRUPT)
@pytest.mark.parametrize("loss", Loss)
def test_a_power_loss_at_every_operation_of_a_repair_is_survived(kind: str, loss: Loss) -> None:
    files, _ = disk_of(GROWN)
    CORRUPT[kind](files)
    names = {path.name for path in files.paths(FOLDER)}
    valuable = {path.name: bytes(files.content(path)) for path in _segments(files)}
    for number in range(1, 200):
        rng = random.Random(number)
        broken = deepcopy(files)
        broken.on_operation = crash_at(broken.operations + number)
        try:
            start(broken)
        except Crashed:
            is_complete = False
        else:
            is_complete = True
        after = broken.crash(loss, rng)
        storage, recovered = start(after)
        assert (recovered.disk_id, view_of(recovered)) == (storage.identity.disk_uuid, EMPTY)
        assert not storage.identity.is_founding and storage.identity.repair is None
        # What was there is kept, whole, until the server has its vote back.
        kept = {p.name: bytes(after.content(p)) for p in after.paths(DAMAGED) if "log." in p.name}
        assert kept == valuable, number
        assert {path.name for path in after.paths(DAMAGED)} <= names, "promises of a new disk"
        storage.perform([EPOCH_1, append(1, 10)])
        storage.perform([VoteGranted()])
        assert not after.exists(DAMAGED)
        storage.close()
        if is_complete:
            assert number > 20
            return
    pytest.fail("the repair never came to its end")


def test_the_first_damaged_disk_is_the_one_that_is_kept() -> None:
    files, _ = disk_of(GROWN)
    CORRUPT["log"](files)
    valuable = bytes(files.content(_segments(files)[0]))
    disks = set()
    for _ in range(3):
        storage, recovered = start(files)
        assert view_of(recovered) == EMPTY
        disks.add(recovered.disk_id)
        storage.perform([EPOCH_1, append(1, 10), append(2, 10)])
        storage.close()
        files.lose(FOLDER / EPOCHS_FILE)
    assert len(disks) == 3
    assert valuable in [bytes(files.content(path)) for path in files.paths(DAMAGED)]


@pytest.mark.parametrize("loss", Loss)
def test_a_power_loss_during_the_removal_of_the_damaged_disk_is_survived(loss: Loss) -> None:
    for number in range(1, 40):
        files, _ = disk_of(GROWN)
        CORRUPT["log"](files)
        storage, _ = start(files)
        storage.perform([EPOCH_1, append(1, 10)])
        files.on_operation = crash_at(files.operations + number)
        try:
            storage.perform([VoteGranted()])
        except Crashed:
            after = files.crash(loss, random.Random(number))
            storage, recovered = start(after)
            assert len(recovered.runs) == 1
            storage.perform([VoteGranted()])
            assert not after.exists(DAMAGED)
        else:
            # Or the next repair would find it, and remove what is worth more.
            assert not files.crash(loss, random.Random(number)).exists(DAMAGED)
            assert number > 3
            return
    pytest.fail("it was never removed")


@pytest.mark.parametrize("kind", CORRUPT)
def test_a_single_voter_is_not_repaired(kind: str) -> None:
    files, _ = disk_of(GROWN)
    CORRUPT[kind](files)
    before = {path: bytes(files.content(path)) for path in _segments(files)}
    for _ in range(2):
        with pytest.raises(CorruptRecord, match=r"/data/coord/1.*only voter.*nobody to repair"):
            start(files, has_peers=False)
        assert files.open_files() == 0
    assert {path: bytes(files.content(path)) for path in _segments(files)} == before


def test_a_disk_is_voided_on_demand() -> None:
    files, whole = disk_of(GROWN)
    storage, recovered = start(files)
    assert view_of(recovered) == whole
    storage.perform([append(17, 10)])
    storage.mark_for_repair("its tree differs")
    storage.close()
    storage, recovered = start(files.crash(Loss.ALL, random.Random(1)))
    (event,) = [event for event in recovered.trace_events if event.name == REPAIRED]
    assert event.detail == {"disk": recovered.disk_id, "reason": "its tree differs"}
    assert (view_of(recovered), storage.identity.reset_reason) == (EMPTY, "its tree differs")


def test_incarnations_keep_rising_over_a_repair() -> None:
    files, _ = disk_of(GROWN)
    CORRUPT["log"](files)
    storage, _ = start(files)
    assert storage.identity.incarnation == WALL_S
    storage.close()
    storage, _ = start(files)
    assert storage.identity.incarnation == WALL_S + 1  # it was known
    storage.close()
    files.flip(FOLDER / IDENTITY_FILE, 30)
    storage, _ = start(files)
    assert storage.identity.incarnation == WALL_S  # it was not
