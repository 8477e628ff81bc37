"""FolderReader: the files of a folder, a clear word on what is none, and the state at any zxid."""

from pathlib import Path

import pytest

from raykeeper.actors.disk.epochs import EPOCHS_FILE, Epochs
from raykeeper.actors.disk.folder_reader import (
    FolderReader,
    load_state_at,
    newest_zxids,
    synced_upto,
)
from raykeeper.actors.disk.identity import IDENTITY_FILE
from raykeeper.actors.disk.storage_errors import (
    CorruptRecord,
    NotFormatted,
    StorageError,
    UnknownVersion,
)
from raykeeper.zab.ids import ZERO, Epoch, Zxid
from raykeeper.znodes.requests import Create, Delete, SetData
from raykeeper.znodes.state import State
from tests.contract.faulty_files import FaultyFiles
from tests.contract.server_folders import Entry, ServerFolder
from tests.contract.stores import FOLDER
from tests.model.histories import START, Command, written
from tests.unit.znodes.one_leader import zxid_at as z

COMMANDS: list[Command] = [
    *START,
    *(("write", 0, Create(f"/a/{n}", b"v" * 20, 0)) for n in range(8)),
    *(("write", 0, SetData("/a", b"%d" % n, -1)) for n in range(8)),
    ("write", 0, Delete("/a/3", -1)),
]
LOG: list[Entry] = written(COMMANDS).log


def grown() -> ServerFolder:
    """Two snapshots, the second one fuzzy, and a log that ends with what may be uncommitted."""
    server = ServerFolder()
    server.append(LOG[:7])
    server.snapshot()
    server.append(LOG[7:10])
    server.snapshot(LOG[10:14], chunk_bytes=1)
    server.append(LOG[14:], uncommitted=2)
    return server


def state_of(log: list[Entry]) -> State:
    state = State()
    for zxid, data in log:
        state.apply(zxid, data)
    return state


def test_a_folder_is_read_beside_its_server() -> None:
    server = grown()
    files = server.files
    assert isinstance(files, FaultyFiles)
    operations, opened = files.operations, files.open_files()
    reader = server.reader()
    assert reader.identity().owner.server_id == 1
    assert reader.epochs() == (Epochs(Epoch(1), Epoch(1)), 2)
    assert reader.generation() == (FOLDER / "generation-1", [])
    older, newer = reader.snapshots()
    assert (older.zxid, older.consistent_at, older.problem) == (z(7), z(7), "")
    assert (newer.zxid, newer.consistent_at, newer.problem) == (z(10), z(14), "")
    assert newer.size == len(files.content(newer.path))
    log = reader.log(synced_upto([older, newer]))
    assert [content.problem for content in log] == [""] * len(log.firsts)
    assert newest_zxids(log, [older, newer]) == (z(len(LOG)), z(len(LOG) - 3))
    assert (files.operations, files.open_files()) == (operations, opened)


@pytest.mark.parametrize("counter", range(14, len(LOG) + 1))
def test_every_snapshot_leads_to_the_state_at_any_later_zxid(counter: int) -> None:
    reader = grown().reader()
    snapshots = reader.snapshots()
    for snapshot in [None, *snapshots]:
        state = load_state_at(reader.log(), snapshot, z(counter), reader.files)
        assert state.zxid == z(counter)
        assert state.digest() == state_of(LOG[:counter]).digest()


def test_a_fuzzy_snapshot_is_no_state_before_it_is_consistent() -> None:
    reader = grown().reader()
    with pytest.raises(CorruptRecord, match=r"consistent at 1:14 only, after 1:13"):
        load_state_at(reader.log(), reader.snapshots()[1], z(13), reader.files)


def test_a_state_beyond_the_log_is_refused() -> None:
    reader = grown().reader()
    with pytest.raises(CorruptRecord, match=r"reach 1:22, not 1:23"):
        load_state_at(reader.log(), reader.snapshots()[1], z(23), reader.files)
    assert len(LOG) == 22


def test_a_log_with_a_hole_leads_no_further() -> None:
    server = grown()
    files = server.at_rest()
    files.lose(server.segments()[1])
    reader = FolderReader(FOLDER, files)
    with pytest.raises(CorruptRecord, match="it held all up to"):
        load_state_at(reader.log(), None, z(20), files)
    files.lose(server.segments()[0])
    with pytest.raises(CorruptRecord, match=r"the first state and the log after it reach 0:0"):
        load_state_at(reader.log(), None, z(20), files)


def test_a_log_of_another_history_does_not_fit() -> None:
    """Files of two ensembles in one folder, each of them whole."""
    server = ServerFolder()
    server.append(LOG[:7])
    server.snapshot()
    other = written([*START, *[("write", 0, Create("/x", b"", 0))] * 3, *COMMANDS[4:]]).log
    server.append(LOG[7:9])
    server.state = state_of(other[:9])
    server.append(other[9:])
    reader = server.reader()
    with pytest.raises(CorruptRecord, match=r"transaction 1:.* does not fit to the first state"):
        load_state_at(reader.log(), None, z(len(other)), reader.files)


def test_a_damaged_snapshot_is_told_and_not_loaded() -> None:
    server = grown()
    files = server.at_rest()
    files.flip(server.snapshots()[0], 60)
    reader = FolderReader(FOLDER, files)
    older, newer = reader.snapshots()
    assert older.consistent_at is None and "chunk" in older.problem
    assert newer.problem == ""
    assert synced_upto([older]) == z(7)
    with pytest.raises(CorruptRecord, match="chunk"):
        load_state_at(reader.log(), older, z(20), files)


def test_a_snapshot_with_another_name_is_told() -> None:
    server = grown()
    files = server.at_rest()
    newer = server.snapshots()[1]
    files.rename(newer, newer.with_name(f"snapshot.{z(12):016x}"))
    assert "is the snapshot as of 1:10" in FolderReader(FOLDER, files).snapshots()[1].problem


def test_a_snapshot_that_is_pruned_meanwhile_is_told() -> None:
    class PruningFiles(FaultyFiles):
        victim: Path | None = None

        def open(self, path: Path) -> int:
            if path == self.victim and self.exists(path):
                self.remove(path)
            return super().open(path)

    files = PruningFiles()
    server = ServerFolder(files=files)
    server.append(LOG[:7])
    server.snapshot()
    server.append(LOG[7:10])
    server.snapshot()
    older, newer = server.snapshots()
    reader = server.reader()
    files.victim = older
    text = "was removed by its server while the folder was read; run the command again"
    with pytest.raises(StorageError, match=text), reader.explained():
        reader.snapshots()
    assert [each.path for each in server.reader().snapshots()] == [newer]


def test_promises_that_are_being_written_are_read_again() -> None:
    class BusyFiles(FaultyFiles):
        torn_reads = 0

        def read(self, fd: int, size: int, offset: int) -> bytes:
            data = super().read(fd, size, offset)
            if len(data) == 8192 and self.torn_reads:
                self.torn_reads -= 1
                return data[:20] + b"\xff" + data[21:]
            return data

    files = BusyFiles()
    reader = ServerFolder(files=files).reader()
    files.torn_reads = 1
    assert reader.epochs() == (Epochs(Epoch(1), Epoch(1)), 2)
    files.torn_reads = 2
    assert reader.epochs() == (Epochs(Epoch(1), Epoch(1)), 1)


@pytest.mark.parametrize(
    ("place", "error", "text"),
    [
        (FOLDER / "missing", StorageError, r"1/missing does not exist; expected the data"),
        (FOLDER / IDENTITY_FILE, StorageError, r"identity is no folder; expected the data folder"),
        (FOLDER.parent, NotFormatted, r"neither an identity nor data; .* those of servers 1$"),
        (FOLDER.parent.parent, NotFormatted, r"<data_dir>/<ensemble>/<server>$"),
    ],
)  # fmt: skip
def test_what_is_no_folder_of_a_server_is_told(
    place: Path, error: type[StorageError], text: str
) -> None:
    server = ServerFolder()
    files = server.at_rest()
    fd = files.create(FOLDER.parent / "ensemble.json")
    files.close(fd)
    with pytest.raises(error, match=text):
        FolderReader(place, files)


def test_an_identity_of_another_version_is_refused() -> None:
    server = ServerFolder()
    files = server.at_rest()
    files.content(FOLDER / IDENTITY_FILE)[:] = b'{"format_version": 1}\n'
    with pytest.raises(UnknownVersion, match="identity has version 1; this program reads 2"):
        FolderReader(FOLDER, files)


def test_a_damaged_or_missing_identity_hides_nothing_else() -> None:
    server = grown()
    files = server.at_rest()
    files.flip(FOLDER / IDENTITY_FILE, 30)
    for _ in range(2):
        reader = FolderReader(FOLDER, files)
        with pytest.raises(CorruptRecord, match="identity is "):
            reader.identity()
        assert len(reader.snapshots()) == 2
        if files.exists(FOLDER / IDENTITY_FILE):
            files.lose(FOLDER / IDENTITY_FILE)


def test_nothing_is_known_to_be_committed_without_a_batch() -> None:
    reader = ServerFolder().reader()
    assert newest_zxids(reader.log(), []) == (ZERO, ZERO)
    assert synced_upto([]) == Zxid(0)


def test_lost_promises_are_told() -> None:
    server = ServerFolder()
    files = server.at_rest()
    files.lose(FOLDER / EPOCHS_FILE)
    with pytest.raises(CorruptRecord, match="epochs is missing"):
        FolderReader(FOLDER, files).epochs()
