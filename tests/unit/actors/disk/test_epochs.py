"""The file of promises: whole or refused."""

from pathlib import Path

import pytest

from raykeeper.actors.disk.epochs import EPOCHS_FILE, Epochs, read_epochs, save_epochs
from raykeeper.actors.disk.storage_errors import CorruptRecord
from raykeeper.zab.ids import EPOCH_MAX, Epoch
from tests.contract.faulty_files import FaultyFiles

FOLDER = Path("/")
FILE = FOLDER / EPOCHS_FILE


def saved(accepted: int, current: int) -> FaultyFiles:
    files = FaultyFiles()
    save_epochs(files, FOLDER, Epochs(Epoch(accepted), Epoch(current)))
    return files


@pytest.mark.parametrize(("accepted", "current"), [(0, 0), (7, 5), (EPOCH_MAX, EPOCH_MAX)])
def test_reads_what_was_saved(accepted: int, current: int) -> None:
    assert read_epochs(saved(accepted, current), FOLDER) == (accepted, current)


def test_the_newest_save_counts() -> None:
    files = saved(7, 5)
    save_epochs(files, FOLDER, Epochs(Epoch(8), Epoch(8)))
    assert read_epochs(files, FOLDER) == (8, 8)


def test_every_damaged_byte_is_noticed() -> None:
    for offset in range(len(saved(7, 5).content(FILE))):
        files = saved(7, 5)
        files.content(FILE)[offset] ^= 0x10
        with pytest.raises(CorruptRecord, match="damaged"):
            read_epochs(files, FOLDER)


@pytest.mark.parametrize("size", [0, 1, 23, 25])
def test_another_size_is_noticed(size: int) -> None:
    files = saved(7, 5)
    content = files.content(FILE)
    content[:] = (bytes(content) + b"more")[:size]
    with pytest.raises(CorruptRecord, match=f"has {size} bytes"):
        read_epochs(files, FOLDER)


def test_a_missing_file_is_a_lost_promise() -> None:
    with pytest.raises(CorruptRecord, match="promises of this server are lost"):
        read_epochs(FaultyFiles(), FOLDER)


def test_a_newer_version_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("raykeeper.actors.disk.epochs.EPOCHS_VERSION", 2)
    files = saved(7, 5)
    monkeypatch.undo()
    with pytest.raises(CorruptRecord, match="version 2; this program reads 1"):
        read_epochs(files, FOLDER)


def test_current_is_never_above_accepted() -> None:
    with pytest.raises(AssertionError):
        saved(5, 7)
