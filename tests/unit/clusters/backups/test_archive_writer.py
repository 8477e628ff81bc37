"""An archive that is kept: no hole, nothing lost when the program ends anywhere, retention."""

import random
from itertools import pairwise
from pathlib import Path

import pytest

from raykeeper.actors.disk.storage import StorageLimits
from raykeeper.clusters.backups import archive_writer
from raykeeper.clusters.backups.archive import contents_of, full_name, piece_name
from raykeeper.clusters.backups.archive_writer import ArchiveWriter
from raykeeper.clusters.backups.loading import Point, load_state
from raykeeper.clusters.backups.places import BackupPlaceError, LocalPlace, created_output
from raykeeper.zab.ids import ZERO, Millis, Zxid
from tests.contract.faulty_files import Crashed, FaultyFiles, Loss, crash_at
from tests.contract.server_folders import ServerFolder
from tests.harness.backup_sources import FolderSource, state_at
from tests.unit.clusters.backups.test_loading import LOG, TIMES, z

FOLDER = Path("/archive")
UUID = "8c1f"


class Keeper:
    """A server, and the archive that is kept of it on another filesystem."""

    def __init__(self, files: FaultyFiles | None = None, *, begins_whole: bool = True) -> None:
        self.server = ServerFolder(limits=StorageLimits(segment_bytes=2048))
        self.files = files or FaultyFiles()
        self.done = 0
        self.begins_whole = begins_whole
        self.open()

    def open(self) -> None:
        """Begin, or begin again, to keep the archive."""
        self.source = FolderSource(self.server)
        self.archive = ArchiveWriter(LocalPlace(FOLDER, self.files), "coord", UUID)
        if self.archive.end is None:
            end = self.source.position(ZERO).zxid
            if self.begins_whole:
                end = self.archive.add_full(self.source, end).zxid
            self.archive.restart(end)
        assert self.archive.end is not None
        self.source.open_log(self.archive.end, holds=False)

    def write(self, count: int) -> None:
        self.server.append(LOG[self.done : self.done + count])
        self.done = min(self.done + count, len(LOG))

    def keep(self) -> None:
        position = self.source.position(ZERO)
        self.archive.add_log(self.source.read_log(position.zxid), self.source, position)

    def full(self) -> None:
        """As the housekeeper does, with a source of its own."""
        assert self.archive.end is not None
        self.archive.add_full(FolderSource(self.server), self.archive.end)

    @property
    def names(self) -> list[str]:
        return self.files.names(FOLDER)

    def check(self, first: int = 1) -> None:
        """Every state from transaction `first` up to the end of the archive can be loaded."""
        place = LocalPlace(FOLDER, self.files)
        end = contents_of(self.names).end()
        for zxid, _ in LOG[first - 1 :]:
            if end is not None and zxid <= end:
                state = load_state(place, Point(zxid), lambda _: None, str).state
                assert (state.zxid, state.digest()) == (zxid, state_at(LOG, zxid).digest())


def test_the_log_is_archived_as_it_grows() -> None:
    keeper = Keeper()
    for count in (1, 5, 2, 9):
        keeper.write(count)
        keeper.keep()
        keeper.keep()  # nothing new
        assert keeper.archive.end == z(keeper.done)
    ends = [0, 1, 6, 8, 17]
    assert keeper.names == [
        full_name(ZERO),
        *(piece_name(z(a) if a else ZERO, z(b)) for a, b in pairwise(ends)),
    ]
    keeper.check()


def test_large_pieces_are_parted(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(archive_writer, "PIECE_BYTES", 300)
    keeper = Keeper()
    keeper.write(len(LOG))
    keeper.keep()
    assert keeper.archive.end == z(len(LOG))
    assert len(keeper.names) > 5
    assert keeper.archive.small_count <= 1
    keeper.check()


def test_small_pieces_are_joined() -> None:
    keeper = Keeper()
    assert keeper.archive.join_small() is None
    for _ in range(4):
        keeper.write(3)
        keeper.keep()
    assert keeper.archive.small_count == 4
    joined = keeper.archive.join_small()
    assert joined is not None and keeper.names == [full_name(ZERO), piece_name(ZERO, z(12))]
    assert keeper.archive.small_count == 1 and keeper.archive.join_small() is None
    keeper.write(3)
    keeper.keep()
    keeper.archive.join_small()
    assert keeper.names == [full_name(ZERO), piece_name(ZERO, z(15))]
    keeper.check()


def test_only_pieces_that_follow_each_other_are_joined(monkeypatch: pytest.MonkeyPatch) -> None:
    """Not over a large one between them, nor with one that retention has removed."""
    keeper = Keeper()
    for count, piece_bytes in ((3, 1 << 20), (3, 1), (3, 1 << 20), (3, 1 << 20)):
        monkeypatch.setattr(archive_writer, "PIECE_BYTES", piece_bytes)
        keeper.write(count)
        keeper.keep()
    joined = keeper.archive.join_small()
    assert joined is not None and joined.after >= z(6)
    keeper.check()
    keeper.full()
    keeper.archive.remove_older(Millis(1 << 40))
    for _ in range(2):
        keeper.write(3)
        keeper.keep()
    joined = keeper.archive.join_small()
    assert joined is not None and joined.name == piece_name(z(12), z(18))
    keeper.check(12)


def test_joined_pieces_grow_no_further_than_a_piece(monkeypatch: pytest.MonkeyPatch) -> None:
    keeper = Keeper()
    for _ in range(4):
        keeper.write(3)
        keeper.keep()
    monkeypatch.setattr(archive_writer, "PIECE_BYTES", keeper.archive.small_bytes)
    keeper.archive.join_small()
    assert keeper.archive.small_count == 0
    keeper.write(1)
    keeper.keep()
    keeper.open()
    assert keeper.archive.small_count == 1
    keeper.check()


def test_a_piece_that_comes_while_others_are_joined_stays() -> None:
    keeper = Keeper()
    for _ in range(2):
        keeper.write(3)
        keeper.keep()
    add = keeper.archive._copy_joined

    def add_meanwhile(*arguments: object) -> None:
        keeper.write(3)
        keeper.keep()
        add(*arguments)  # type: ignore[arg-type]

    keeper.archive._copy_joined = add_meanwhile  # type: ignore[method-assign]
    keeper.archive.join_small()
    assert keeper.names[1:] == [piece_name(ZERO, z(6)), piece_name(z(6), z(9))]
    assert keeper.archive.small_count == 2
    keeper.check()


def test_the_log_goes_on_over_whole_backups() -> None:
    keeper = Keeper()
    keeper.write(5)
    keeper.keep()
    keeper.write(3)
    keeper.full()  # ahead of the log that is archived
    keeper.full()  # the same once more
    assert keeper.archive.end == z(5)
    keeper.write(4)
    keeper.keep()
    assert keeper.names[1:3] == [full_name(z(8)), piece_name(ZERO, z(5))]
    assert [each.zxid for each in keeper.archive.full] == [ZERO, z(8)]
    keeper.check()


def test_a_restart_goes_on_where_the_archive_ended() -> None:
    keeper = Keeper()
    keeper.write(5)
    keeper.keep()
    keeper.write(2)
    keeper.full()
    keeper.write(2)
    keeper.open()  # the log before the whole backup first, or it would have a hole
    assert keeper.archive.resume_points == [z(5), z(7)]
    keeper.archive.end = z(5)
    keeper.source.open_log(z(5), holds=False)
    keeper.keep()
    keeper.open()
    assert keeper.archive.resume_points == [z(9)]
    assert keeper.archive.small_count == 2
    keeper.check()


def test_the_log_goes_on_while_the_first_whole_backup_is_taken() -> None:
    """And if the program ends before that is complete, the archive begins anew."""
    keeper = Keeper(begins_whole=False)
    for _ in range(2):
        keeper.write(4)
        keeper.keep()
    keeper.open()
    assert (keeper.archive.full, keeper.archive.end) == ([], z(8))
    keeper.write(4)
    keeper.keep()
    keeper.full()
    keeper.write(3)
    keeper.keep()
    assert [full.zxid for full in keeper.archive.full] == [z(12)]
    keeper.check()
    keeper.open()
    assert keeper.archive.resume_points == [z(15)]


def test_a_log_that_was_pruned_leaves_a_hole_that_is_known() -> None:
    keeper = Keeper()
    keeper.write(5)
    keeper.keep()
    keeper.write(5)
    keeper.server.snapshot()
    keeper.write(2)
    full = keeper.archive.add_full(FolderSource(keeper.server), ZERO)
    keeper.archive.restart(full.zxid)
    assert (keeper.archive.end, keeper.archive.small_count) == (z(12), 0)
    keeper.source.open_log(z(12), holds=False)
    keeper.write(3)
    keeper.keep()
    assert contents_of(keeper.names).end() == z(15)
    keeper.check(10)


def test_retention_keeps_every_moment_that_it_promises() -> None:
    keeper = Keeper()
    for _ in range(5):
        keeper.write(6)
        keeper.keep()
        keeper.full()
    names = keeper.names
    assert keeper.archive.remove_older(Millis(TIMES[0] - 1)) == []  # the first state has time 0
    assert keeper.names == names
    # A whole backup is of the time of its last transaction, which it has.
    assert keeper.archive.remove_older(Millis(TIMES[5] - 1)) == []
    assert keeper.archive.remove_older(TIMES[5]) == [full_name(ZERO), piece_name(ZERO, z(6))]
    before = TIMES[14]  # between the second and the third whole backup
    removed = keeper.archive.remove_older(before)
    assert removed == [full_name(z(6)), piece_name(z(6), z(12))]
    gone = [full_name(ZERO), piece_name(ZERO, z(6)), *removed]
    assert keeper.names == [name for name in names if name not in gone]
    assert keeper.archive.remove_older(before) == []
    keeper.check(12)
    keeper.archive.remove_older(Millis(1 << 40))
    assert keeper.names == [full_name(z(30))]
    keeper.write(1)
    keeper.keep()
    keeper.check(30)


def test_the_program_may_end_anywhere() -> None:
    """After each operation on the files, whatever is lost, the archive is whole and goes on."""

    def run(keeper: Keeper) -> None:
        for count in (2, 1, 3):
            keeper.write(count)
            keeper.keep()
        keeper.archive.join_small()
        keeper.write(1)
        keeper.full()
        keeper.write(1)
        keeper.keep()
        keeper.archive.join_small()
        keeper.archive.remove_older(Millis(1 << 40))
        keeper.write(1)
        keeper.keep()

    whole = Keeper()
    begun = whole.files.operations
    run(whole)
    for number in range(begun + 1, whole.files.operations + 1):
        keeper = Keeper()
        keeper.files.on_operation = crash_at(number)
        with pytest.raises(Crashed):
            run(keeper)
        keeper.files = keeper.files.crash(Loss.SOME, random.Random(number))
        archived = contents_of(keeper.names).end()
        keeper.open()
        assert archived is None or keeper.archive.end == archived
        assert not any(name.endswith(".tmp") for name in keeper.names)
        point = keeper.archive.resume_points[0]
        keeper.archive.end = point
        keeper.source.open_log(point, holds=False)
        keeper.write(2)
        keeper.keep()
        first = contents_of(keeper.names).full[0].zxid
        keeper.check(max(1, [zxid for zxid, _ in LOG].index(first) + 1 if first else 1))
        assert contents_of(keeper.names).end() == z(keeper.done)


def test_what_a_store_shows_of_a_cut_upload_is_removed() -> None:
    keeper = Keeper()
    for _ in range(3):
        keeper.write(2)
        keeper.keep()
    keeper.full()
    cut = [full_name(z(9)), piece_name(ZERO, z(6)), piece_name(z(6), z(9))]
    for name in cut:
        with created_output(LocalPlace(FOLDER / name, keeper.files)) as output:
            output.write(b"RKBACKUP and so on")
    keeper.open()
    assert not set(cut) & set(keeper.names)
    assert (keeper.archive.end, keeper.archive.small_count) == (z(6), 3)
    keeper.check()


def test_pieces_that_were_joined_are_removed_at_the_next_start() -> None:
    keeper = Keeper()
    for _ in range(3):
        keeper.write(2)
        keeper.keep()
    small = keeper.names[1:]
    kept = {name: bytes(keeper.files.content(FOLDER / name)) for name in small}
    keeper.archive.join_small()
    for name, data in kept.items():
        with created_output(LocalPlace(FOLDER / name, keeper.files)) as output:
            output.write(data)
    keeper.open()
    assert keeper.names == [full_name(ZERO), piece_name(ZERO, z(6))]
    assert keeper.archive.small_count == 1


def test_the_archive_of_another_ensemble_is_refused() -> None:
    keeper = Keeper()
    with pytest.raises(BackupPlaceError, match=r"archive of ensemble 'coord' \(8c1f\), not of 'x'"):
        ArchiveWriter(LocalPlace(FOLDER, keeper.files), "x", "ffff")
    with created_output(LocalPlace(Path("/file"), keeper.files)) as output:
        output.write(b"x")
    with pytest.raises(BackupPlaceError, match="/file is no folder"):
        ArchiveWriter(LocalPlace(Path("/file"), keeper.files), "coord", UUID)


def test_a_full_disk_stops_the_archive_and_it_goes_on_later() -> None:
    keeper = Keeper()
    keeper.write(3)
    keeper.keep()

    def full(_number: int, name: str) -> None:
        if name == "write":
            raise OSError(28, "No space left on device")

    keeper.files.on_operation = full
    keeper.write(3)
    with pytest.raises(BackupPlaceError, match="No space left"):
        keeper.keep()
    assert keeper.archive.end == z(3)
    keeper.files.on_operation = lambda _number, _name: None
    keeper.source.open_log(Zxid(z(3)), holds=False)
    keeper.keep()
    assert keeper.archive.end == z(6)
    keeper.check()
