"""A folder of a new history: its server starts from the given state, under a higher epoch."""

from collections.abc import Iterator
from pathlib import Path

import pytest
from msgspec.structs import replace

from raykeeper.actors.disk.filesystem import OS_FILESYSTEM
from raykeeper.actors.disk.folder_lock import lock_folder
from raykeeper.actors.disk.founding import found_folder, founding_epoch
from raykeeper.actors.disk.identity import (
    IDENTITY_FILE,
    DiskIdentity,
    FolderOwner,
    read_identity,
)
from raykeeper.actors.disk.storage import Storage
from raykeeper.actors.disk.storage_errors import FolderInUse, StorageError
from raykeeper.server.recovered_state import load_state
from raykeeper.zab.effects import Append, SaveEpochs
from raykeeper.zab.feature_levels import LEVEL_MAX
from raykeeper.zab.ids import EPOCH_MAX, FOUNDING_DISK, Epoch, Millis, ServerId, make_zxid
from raykeeper.znodes.requests import SessionId
from raykeeper.znodes.snapshot import SnapshotFormatError, SnapshotWalk
from raykeeper.znodes.state import State
from raykeeper.znodes.txns import CreateTxn, Txn, encode_txn

OWNER = FolderOwner("coord", "new", ServerId(1))
IDENTITY = DiskIdentity(OWNER, "disk", is_founding=True)
NOBODY = SessionId(0)
LAST = make_zxid(Epoch(7), 3)


def txn(path: str) -> bytes:
    return encode_txn(Txn(NOBODY, 0, 0, Millis(1_000), CreateTxn(path, b"v", NOBODY, 1)))


def old_state() -> State:
    state = State()
    state.apply(LAST, txn("/kept"))
    return state


def chunks_of(state: State) -> list[bytes]:
    walk, chunks = SnapshotWalk(state), []
    while (chunk := walk.next_chunk()) is not None:
        chunks.append(chunk)
    return chunks


def test_a_server_starts_from_the_state_and_goes_on_in_a_higher_epoch(tmp_path: Path) -> None:
    folder, state = tmp_path / "coord/1", old_state()
    found_folder(folder, IDENTITY, Epoch(10_007), LAST, chunks_of(state))
    # To a launch it is a folder that was used: it formats no other founding disk.
    assert read_identity(folder) == replace(IDENTITY, incarnation=1)
    storage = Storage.open(folder, OWNER)
    recovered = storage.recover()
    assert (recovered.accepted, recovered.current) == (10_007, 10_007)
    assert (recovered.snapshot_zxid, recovered.committed, recovered.runs) == (LAST, LAST, [])
    assert (recovered.disk_id, recovered.is_uncertain) == (FOUNDING_DISK, False)
    assert recovered.has_initial_history and load_state(recovered).digest() == state.digest()
    # Its first leader leads the next epoch; another start finds both.
    storage.perform([SaveEpochs(Epoch(10_008), Epoch(10_008))])
    storage.perform([Append(make_zxid(Epoch(10_008), 1), [txn("/new")], LAST)])
    storage.close()
    again = Storage.open(folder, OWNER)
    assert [run.first for run in again.recover().runs] == [make_zxid(Epoch(10_008), 1)]
    again.close()


def test_only_an_empty_folder_is_founded(tmp_path: Path) -> None:
    found_folder(tmp_path / "1", IDENTITY, Epoch(7), LAST, chunks_of(old_state()))
    before = (tmp_path / "1" / IDENTITY_FILE).read_bytes()
    with pytest.raises(StorageError, match="is formatted already"):
        found_folder(tmp_path / "1", IDENTITY, Epoch(8), LAST, chunks_of(old_state()))
    assert (tmp_path / "1" / IDENTITY_FILE).read_bytes() == before
    (tmp_path / "1" / IDENTITY_FILE).unlink()
    with pytest.raises(StorageError, match="no identity but holds"):
        found_folder(tmp_path / "1", IDENTITY, Epoch(8), LAST, chunks_of(old_state()))
    (tmp_path / "2").mkdir()
    lock = lock_folder(OS_FILESYSTEM, tmp_path / "2")
    with pytest.raises(FolderInUse):
        found_folder(tmp_path / "2", IDENTITY, Epoch(7), LAST, chunks_of(old_state()))
    OS_FILESYSTEM.close(lock)


def test_the_level_of_the_state_is_that_of_the_folder(tmp_path: Path) -> None:
    """A program that cannot read the snapshot is refused by name."""
    state = old_state()
    state.level = LEVEL_MAX
    found_folder(tmp_path / "1", IDENTITY, Epoch(8), LAST, chunks_of(state))
    found = read_identity(tmp_path / "1")
    assert found is not None and found.level == LEVEL_MAX
    with pytest.raises(SnapshotFormatError, match="malformed"):
        found_folder(tmp_path / "2", IDENTITY, Epoch(8), LAST, [b"\xc1"])


def test_a_state_that_ends_too_early_leaves_no_identity(tmp_path: Path) -> None:
    def breaking() -> Iterator[bytes]:
        yield chunks_of(old_state())[0]
        raise StorageError("the source is gone")

    with pytest.raises(StorageError, match="the source is gone"):
        found_folder(tmp_path / "1", IDENTITY, Epoch(7), LAST, breaking())
    assert not (tmp_path / "1" / IDENTITY_FILE).exists()


@pytest.mark.parametrize(
    ("accepted", "gap", "epoch"),
    [([], 10_000, 10_000), ([3, 9, 4], 10_000, 10_009), ([EPOCH_MAX - 11], 10, EPOCH_MAX - 1)],
)
def test_the_epoch_is_well_above_all_that_are_known(
    accepted: list[Epoch], gap: int, epoch: int
) -> None:
    assert founding_epoch(accepted, gap) == epoch


def test_an_epoch_beyond_the_last_one_is_refused() -> None:
    with pytest.raises(StorageError, match="give a smaller gap"):
        founding_epoch([Epoch(EPOCH_MAX - 10)], 10)
