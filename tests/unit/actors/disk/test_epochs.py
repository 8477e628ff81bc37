"""The file of promises: two copies, of which one may always be torn or damaged."""

import random
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path

import pytest

from raykeeper.actors.disk.epochs import EPOCHS_FILE, Epochs, EpochsFile, make_epochs, read_epochs
from raykeeper.actors.disk.storage_errors import CorruptRecord, UnknownVersion
from raykeeper.actors.disk.storage_trace_events import PROMISES_MENDED
from raykeeper.zab.ids import EPOCH_MAX, Epoch, Zxid
from tests.contract.faulty_files import Crashed, FaultyFiles, Loss, crash_at, fail_at

FOLDER = Path("/")
FILE = FOLDER / EPOCHS_FILE


class WatchedFiles(FaultyFiles):
    """Files that record where was written."""

    def __init__(self) -> None:
        super().__init__()
        self.offsets: list[int] = []

    def write(self, fd: int, buffers: Sequence[bytes], offset: int) -> None:
        self.offsets.append(offset)
        super().write(fd, buffers, offset)


def saved(*all_of_them: Epochs) -> WatchedFiles:
    files = WatchedFiles()
    make_epochs(files, FOLDER, all_of_them[0])
    file = EpochsFile(files, FOLDER)
    for epochs in all_of_them[1:]:
        file.save(epochs)
    file.close()
    return files


def found(files: FaultyFiles) -> EpochsFile:
    file = EpochsFile(files, FOLDER)
    file.close()
    return file


def e(accepted: int, current: int, is_uncertain: bool = False, initial: int = 0) -> Epochs:
    return Epochs(Epoch(accepted), Epoch(current), is_uncertain, Zxid(initial))


OLD, NEW = e(7, 5), e(8, 8)


@pytest.mark.parametrize(
    "epochs", [e(0, 0), e(7, 5), e(7, 5, True, 9), e(EPOCH_MAX, EPOCH_MAX, False, 2**63 - 1)]
)
def test_saved_epochs_are_read_back(epochs: Epochs) -> None:
    assert found(saved(epochs)).epochs == epochs
    file = found(saved(e(0, 0), epochs))
    assert (file.epochs, file.trace_events) == (epochs, [])


def test_any_damaged_byte_leaves_the_newest_promises() -> None:
    # Of one copy; what is behind the two copies means nothing.
    for start in (0, 4096):
        for offset in range(start, start + 48):
            files = saved(OLD, NEW)
            files.flip(FILE, offset, 0x10)
            file = found(files)
            assert file.epochs == NEW
            is_noticed = offset < start + 44
            assert [event.name for event in file.trace_events] == [PROMISES_MENDED] * is_noticed
            # Both are whole again, so the next damage may hit the other one.
            files.flip(FILE, (offset + 4096) % 8192, 0x10)
            assert found(files).epochs == NEW


def test_damage_of_both_copies_is_corruption() -> None:
    for first in range(0, 44, 3):
        for second in range(4096, 4140, 3):
            files = saved(OLD, NEW)
            files.flip(FILE, first)
            files.flip(FILE, second)
            with pytest.raises(CorruptRecord, match="promises of this server are lost"):
                found(files)


@pytest.mark.parametrize("loss", Loss)
def test_power_lost_while_saving_leaves_the_old_or_the_new(loss: Loss) -> None:
    seen = set()
    for operation in range(1, 10):
        files = saved(OLD)
        file = EpochsFile(files, FOLDER)
        files.on_operation = crash_at(files.operations + operation)
        is_complete = False
        with suppress(Crashed):
            file.save(NEW)
            is_complete = True
        after = files.crash(loss, random.Random(operation))
        # And again while the copies are rewritten.
        after.on_operation = crash_at(after.operations + operation % 5)
        with suppress(Crashed):
            found(after)
        value = found(after.crash(loss, random.Random(operation))).epochs
        assert value in ((NEW,) if is_complete else (OLD, NEW))
        seen.add(value)
    assert seen == {OLD, NEW}


def test_a_torn_copy_while_saving_leaves_the_other() -> None:
    # Torn inside a sector, as disks are not supposed to.
    new = bytes(saved(OLD, NEW).content(FILE))
    for start in (0, 4096):
        for size in range(45):
            files = saved(OLD)
            content = files.content(FILE)
            content[: start + size] = new[: start + size]
            value = found(files).epochs
            assert value == (NEW if start + size >= 44 else OLD)


def test_a_promise_found_in_the_page_cache_is_forced() -> None:
    for operation in range(1, 5):
        files = saved(OLD)
        file = EpochsFile(files, FOLDER)
        files.on_operation = fail_at(files.operations + operation)
        with pytest.raises(OSError, match="failed"):
            file.save(NEW)
        value = found(files.restart()).epochs
        assert found(files.crash(Loss.ALL, random.Random(0))).epochs == value


def garble(files: FaultyFiles, start: int) -> None:
    """Leave what a write of the copy at `start` may leave if it is torn inside a sector."""
    files.content(FILE)[start : start + 36] = b"\x5a" * 36


def start_is_torn(files: WatchedFiles) -> int:
    """Lose power while a start writes the first copy; return which copy that is."""
    files.offsets.clear()
    files.on_operation = crash_at(files.operations + 2)
    with pytest.raises(Crashed):
        EpochsFile(files, FOLDER)
    (first,) = files.offsets
    return first


@pytest.mark.parametrize("start", [0, 4096])
def test_a_damaged_copy_is_repaired_before_the_other_is_written(start: int) -> None:
    files = saved(OLD, NEW)
    garble(files, start)
    first = start_is_torn(files)
    after = files.crash(Loss.ALL, random.Random(0))
    garble(after, first)
    assert found(after).epochs == NEW


@pytest.mark.parametrize("operation", [2, 4])
def test_a_copy_that_could_not_be_forced_is_repaired_first(operation: int) -> None:
    # The page cache shows the new promises, the disk has half of them; a start trusts the cache.
    files = saved(OLD)
    file = EpochsFile(files, FOLDER)
    files.on_operation = fail_at(files.operations + operation)
    with pytest.raises(OSError, match="sync failed"):
        file.save(NEW)
    torn = files.offsets[-1]
    first = start_is_torn(files)
    after = files.crash(Loss.ALL, random.Random(0))
    garble(after, torn)
    garble(after, first)
    assert found(after).epochs in (OLD, NEW)


def test_saving_needs_no_space() -> None:
    files = saved(OLD)
    files.capacity = 0
    operations: list[str] = []
    file = EpochsFile(files, FOLDER)
    files.on_operation = lambda _number, name: operations.append(name)
    size = len(files.content(FILE))
    file.save(NEW)
    assert operations == ["write", "sync"] * 2
    assert len(files.content(FILE)) == size == 8192


@pytest.mark.parametrize("size", [0, 1, 28, 4096, 8191, 8193])
def test_a_wrong_size_is_detected(size: int) -> None:
    files = saved(OLD)
    content = files.content(FILE)
    content[:] = (bytes(content) + b"more")[:size]
    with pytest.raises(CorruptRecord, match=f"has {size} bytes"):
        found(files)


def test_a_huge_file_is_not_read() -> None:
    files = saved(OLD)
    files.read_max = 8192
    files.content(FILE).extend(bytes(1))
    with pytest.raises(CorruptRecord, match="has 8193 bytes, at most 8192 were expected"):
        found(files)


def test_a_missing_file_is_a_lost_promise() -> None:
    with pytest.raises(CorruptRecord, match="promises of this server are lost"):
        EpochsFile(FaultyFiles(), FOLDER)


@pytest.mark.parametrize("version", [2, 4])
def test_another_version_is_not_reported_as_damage(
    version: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("raykeeper.actors.disk.epochs.EPOCHS_VERSION", version)
    files = saved(OLD)
    monkeypatch.undo()
    with pytest.raises(UnknownVersion, match=f"version {version}; this program reads 3"):
        found(files)


def test_copies_that_contradict_each_other_are_damage() -> None:
    files = saved(OLD)
    files.content(FILE)[4096:] = saved(NEW).content(FILE)[4096:]
    with pytest.raises(CorruptRecord, match="is damaged: its copies say"):
        found(files)


def test_current_is_never_above_accepted() -> None:
    with pytest.raises(AssertionError):
        saved(e(5, 7))


@pytest.mark.parametrize(
    ("damaged", "epochs", "good"),
    [([], NEW, 2), ([0], NEW, 1), ([4096], NEW, 1), ([100], NEW, 2), ([0, 4096], None, 0)],
)
def test_the_promises_are_read_without_a_change(
    damaged: list[int], epochs: Epochs | None, good: int
) -> None:
    files = saved(OLD, NEW)
    for offset in damaged:
        files.flip(FILE, offset)
    content, operations = bytes(files.content(FILE)), files.operations
    if epochs is None:
        with pytest.raises(CorruptRecord, match="promises of this server are lost"):
            read_epochs(files, FOLDER)
    else:
        assert read_epochs(files, FOLDER) == (epochs, good)
    assert (bytes(files.content(FILE)), files.operations) == (content, operations)
    assert files.open_files() == 0
