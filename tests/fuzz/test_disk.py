"""A replica's folder with damage in one file, or with a name in it that nobody gave.

Either the folder is refused, with a StorageError, or what is recovered from it is the truth: every
transaction is the one that was written under its zxid, without a hole, and the promises are those
that were made. Damage never becomes another history. A strange name never costs what is there.
"""

import copy
from pathlib import Path
from random import Random
from typing import Final

import pytest
from hypothesis import given
from hypothesis import strategies as st

from raykeeper.actors.disk.storage_errors import StorageError
from raykeeper.server.recovered_state import RecoveredState
from raykeeper.zab.effects import Append, SaveEpochs, Truncate
from raykeeper.zab.ids import ZERO, Epoch, Zxid, make_zxid
from tests.contract.faulty_files import FaultyFiles
from tests.contract.store_model import WriteSnapshot
from tests.contract.stores import FOLDER, DiskStore, LosingStore, do
from tests.fuzz.budget import bounded, examples
from tests.fuzz.mutations import mutate

ACCEPTED, CURRENT = Epoch(3), Epoch(2)
History = dict[Zxid, bytes]


def z(epoch: int, counter: int) -> Zxid:
    return make_zxid(Epoch(epoch), counter)


def _written() -> tuple[FaultyFiles, History]:
    """A folder with several segments, a cut and two snapshots, and every transaction in it."""
    store = LosingStore.fresh(Path())
    store.recover()
    history: History = {}

    def append(epoch: int, first: int, count: int, size: int) -> None:
        txns = [bytes([epoch, counter % 256]) * size for counter in range(first, first + count)]
        history.update({z(epoch, first + i): txn for i, txn in enumerate(txns)})
        store.perform([Append(z(epoch, first), txns, max(ZERO, z(epoch, first) - 1))])  # type: ignore[arg-type]

    store.perform([SaveEpochs(Epoch(1), Epoch(1))])
    for first in range(1, 20, 2):
        append(1, first, 2, 120)
    do(store, [WriteSnapshot(z(1, 6), z(1, 7), [b"tree", b"more of it"])])
    store.perform([Truncate(z(1, 18))])
    del history[z(1, 19)], history[z(1, 20)]
    store.perform([SaveEpochs(Epoch(2), CURRENT)])
    append(2, 1, 3, 200)
    do(store, [WriteSnapshot(z(1, 16), z(2, 1), [b"another tree"])])
    append(2, 4, 1, 50)
    store.perform([SaveEpochs(ACCEPTED, CURRENT)])
    store.storage.close()
    assert isinstance(store.files, FaultyFiles)
    return store.files, history


WRITTEN: Final = _written()
LAST: Final = max(WRITTEN[1])
COMMITTED: Final = z(2, 3)
"""What the last batch says."""


def paths(files: FaultyFiles, folder: Path = FOLDER) -> list[Path]:
    """Every file below `folder`."""
    found = []
    for name in files.names(folder):
        path = folder / name
        found += paths(files, path) if files.is_folder(path) else [path]
    return found


FILES: Final = [path for path in paths(WRITTEN[0]) if path.name != "lock"]


def recovered(files: FaultyFiles) -> RecoveredState | None:
    """What a start finds; None when it refuses, as documented. No file stays open after that."""
    try:
        store = DiskStore(FOLDER, files)
    except StorageError as error:
        assert str(error)
        assert files.open_files() == 0
        return None
    try:
        found = store.recover()
        list(found.chunks)
    except StorageError as error:
        assert str(error)
        return None
    finally:
        store.storage.close()
    return found


def check(found: RecoveredState) -> None:
    """What was recovered is a part of what was written, or a new disk that says so."""
    history = WRITTEN[1]
    at = found.snapshot_zxid
    for run in found.runs:
        for i, txn in enumerate(run.txns):
            zxid = Zxid(run.first + i)
            assert history[zxid] == txn, zxid
            following = [each for each in history if each > at]
            assert zxid == min(following), f"a hole before {zxid:#x}"
            at = zxid
    assert found.committed <= min(at, COMMITTED) and found.consistent_at <= at
    if found.runs or found.snapshot_zxid:
        assert (found.accepted, found.current) == (ACCEPTED, CURRENT)


def end_of(found: RecoveredState) -> Zxid:
    last = found.runs[-1] if found.runs else None
    return Zxid(last.first + len(last.txns) - 1) if last else found.snapshot_zxid


def test_an_undamaged_folder_is_recovered_whole() -> None:
    found = recovered(copy.deepcopy(WRITTEN[0]))
    assert found is not None
    check(found)
    assert end_of(found) == LAST


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.name)
def test_a_damaged_file_is_detected_or_harmless(path: Path) -> None:
    @examples(150)
    @given(st.randoms(use_true_random=False), st.sampled_from(FILES))
    def refused_or_true(rng: Random, donor: Path) -> None:
        files = copy.deepcopy(WRITTEN[0])
        content = files.content(path)
        before = bytes(content)
        content[:] = mutate(before, bytes(files.content(donor)), Random(rng.getrandbits(64)))
        with bounded(len(content) + 100_000):
            found = recovered(files)
        if found is not None:
            check(found)

    refused_or_true()


NAMES = [
    *["generation-01", "generation-٣", "generation-", "generation--1", "generation-x"],
    *["generation-2", "generation-9999999999999999999999", "generation-0", "log.1", "x"],
]
IN_GENERATION = [
    *["log.", "log.1", "log.-5", "log.0x10", "log.zz", "log. 1", "log.1_0", "log." + "f" * 40],
    *["log.٣", "snapshot.", "snapshot.-1", "snapshot.0", "snapshot.1", "snapshot.1_0", "x"],
    *["snapshot." + "f" * 16, "snapshot." + "f" * 40, "log." + "0" * 16, "log." + "f" * 16],
]


@pytest.mark.parametrize("is_folder", [True, False], ids=["folder", "file"])
@pytest.mark.parametrize(
    "path",
    [FOLDER / name for name in NAMES] + [FILES[-1].parent / name for name in IN_GENERATION],
    ids=lambda path: path.name[:24],
)
def test_a_foreign_name_is_refused_or_ignored(path: Path, is_folder: bool) -> None:
    files = copy.deepcopy(WRITTEN[0])
    if is_folder:
        files.make_folder(path)
    else:
        files.close(files.create(path))
    files.sync_folder(path.parent)
    with bounded(100_000):
        found = recovered(files)
    if found is not None:
        check(found)
        assert end_of(found) == LAST
    if files.exists(path):
        (files.remove_folder if is_folder else files.remove)(path)
    again = recovered(files)
    assert again is not None, "the strange name has cost us what was there"
    assert end_of(again) == LAST
