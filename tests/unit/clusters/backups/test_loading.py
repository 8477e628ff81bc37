"""Loading a backup or an archive: the state at every zxid and time, and what is refused."""

from pathlib import Path

import pytest

from raykeeper.actors.disk.backup_frames import log_bodies, snapshot_body
from raykeeper.actors.disk.storage import StorageLimits
from raykeeper.clusters.backups.archive import full_name, piece_name
from raykeeper.clusters.backups.backup import BackupProgress, copy_log, opening_of
from raykeeper.clusters.backups.backup_format import BackupFormatError, BackupWriter
from raykeeper.clusters.backups.loading import LoadedState, Point, RestorePointError, load_state
from raykeeper.clusters.backups.places import BackupPlaceError, LocalPlace, created_output
from raykeeper.zab.ids import ZERO, Epoch, Millis, Zxid, epoch_of, format_zxid, make_zxid
from raykeeper.znodes.requests import SetData
from raykeeper.znodes.snapshot import SnapshotFormatError
from raykeeper.znodes.state import State
from raykeeper.znodes.txns import decode_txn
from tests.contract.faulty_files import FaultyFiles
from tests.contract.server_folders import Entry, ServerFolder
from tests.harness.backup_sources import FolderSource, back_up, state_at, written_backup
from tests.model.histories import START, Command, written

COMMANDS: list[Command] = [
    *START,
    *(("write", n % 2, SetData("/a", b"%d" % n, -1)) for n in range(30)),
]
PLAIN = written(COMMANDS).log


def timed(log: list[Entry]) -> list[Entry]:
    """The same transactions at times 10, 20, 20, 30, 40, 40, … of which some come twice."""
    from msgspec.structs import replace

    from raykeeper.znodes.txns import encode_txn

    found, time_ms = [], 0
    for number, (zxid, data) in enumerate(log):
        time_ms += 0 if number % 3 == 2 else 10
        found.append((zxid, encode_txn(replace(decode_txn(data), time_ms=Millis(time_ms)))))
    return found


LOG = timed(PLAIN)
END = LOG[-1][0]
TIMES = [decode_txn(data).time_ms for _, data in LOG]
FOLDER = Path("/archive")


class World:
    """A server, and the filesystem that its backups are in."""

    def __init__(self) -> None:
        self.server = ServerFolder(limits=StorageLimits(segment_bytes=2048))
        self.files = FaultyFiles()
        self.files.make_folder(FOLDER)

    def place(self, name: str) -> LocalPlace:
        return LocalPlace(FOLDER / name, self.files)

    @property
    def archive(self) -> LocalPlace:
        return LocalPlace(FOLDER, self.files)

    def full(self) -> LocalPlace:
        place = self.place(full_name(self.server.state.zxid))
        back_up(self.server, place)
        return place

    def piece(self, after: Zxid, upto: Zxid, *, uuid: str = "8c1f", epoch: int = 0) -> LocalPlace:
        source = FolderSource(self.server, uuid)
        source.open_log(after, holds=False)
        place = self.place(piece_name(after, upto))
        opening = opening_of("coord", source.server, after, after, has_snapshot=False)
        with created_output(place) as output:
            writer = BackupWriter(output.write, opening)
            time_ms = copy_log(source, upto, writer, None, lambda _: None)
            writer.finish(time_ms=time_ms, epoch=Epoch(epoch or epoch_of(upto)), digest=None)
        return place


def load(place: LocalPlace, point: Point | None = None) -> LoadedState:
    return load_state(place, point or Point(), lambda _: None, str)


def same(state: State, zxid: Zxid) -> bool:
    return (state.zxid, state.digest()) == (zxid, state_at(LOG, zxid).digest())


def z(number: int) -> Zxid:
    """The zxid of the transaction of that number, from 1 on."""
    return LOG[number - 1][0]


@pytest.fixture
def world() -> World:
    return World()


def test_a_young_ensemble_is_loaded_at_every_zxid(world: World) -> None:
    world.server.append(LOG)
    place = world.full()
    assert same(load(place).state, END)
    for zxid, _ in LOG:
        assert same(load(place, Point(zxid)).state, zxid)
    with pytest.raises(RestorePointError, match=rf"no state as of 1:{len(LOG) + 1}; it reaches"):
        load(place, Point(Zxid(END + 1)))


def test_a_fuzzy_snapshot_is_loaded_from_where_it_is_consistent(world: World) -> None:
    world.server.append(LOG[:10])
    world.server.snapshot(LOG[10:14], chunk_bytes=1)
    world.server.append(LOG[14:])
    place = world.full()
    for zxid, _ in LOG[13:]:
        assert same(load(place, Point(zxid)).state, zxid)
    for zxid, _ in LOG[9:13]:
        with pytest.raises(RestorePointError, match=f"reaches from {format_zxid(z(14))}"):
            load(place, Point(zxid))


def last_until(time_ms: int) -> int:
    """How many transactions have that time or an earlier one."""
    return sum(each <= time_ms for each in TIMES)


@pytest.mark.parametrize("kind", ["file", "archive"])
def test_every_time_is_that_of_the_last_transaction_before_it(world: World, kind: str) -> None:
    world.server.append(LOG[:20])
    place = world.full()
    world.server.append(LOG[20:])
    if kind == "file":
        place = world.place("whole.rkb")
        back_up(world.server, place)
    else:
        for after, upto in ((20, 21), (21, 28), (28, len(LOG))):
            world.piece(z(after), z(upto))
        place = world.archive
    for time_ms in range(TIMES[0], TIMES[-1] + 1, 5):
        state = load(place, Point(time_ms=Millis(time_ms))).state
        assert same(state, z(last_until(time_ms)))
    with pytest.raises(RestorePointError, match="to restore that end, name no time"):
        load(place, Point(time_ms=Millis(TIMES[-1] + 1)))


def test_a_time_before_the_beginning_is_refused(world: World) -> None:
    world.server.append(LOG[:10])
    world.server.snapshot()
    world.server.append(LOG[10:])
    place = world.full()
    assert same(load(place, Point(time_ms=TIMES[9])).state, z(last_until(TIMES[9])))
    with pytest.raises(RestorePointError, match="begins after"):
        load(place, Point(time_ms=Millis(TIMES[9] - 5)))


def test_an_archive_has_every_zxid_from_its_first_whole_backup_on(world: World) -> None:
    world.server.append(LOG[:8])
    world.server.snapshot()
    world.full()
    world.server.append(LOG[8:])
    world.piece(z(8), z(12))
    world.piece(z(8), z(10))  # of which the larger one was joined
    world.piece(z(12), z(20))
    world.server.snapshot()
    world.full()  # at the end
    for zxid, _ in LOG[7:20]:
        assert same(load(world.archive, Point(zxid)).state, zxid)
    assert same(load(world.archive).state, END)
    with pytest.raises(RestorePointError, match="no state as of 1:21"):  # a hole in the archive
        load(world.archive, Point(z(21)))
    with pytest.raises(RestorePointError):
        load(world.archive, Point(z(7)))


def test_behind_a_hole_a_whole_backup_may_have_a_log_of_its_own(world: World) -> None:
    world.server.append(LOG[:8])
    world.full()
    world.server.append(LOG[8:15])
    world.server.snapshot()
    world.server.append(LOG[15:20])
    world.full()
    for zxid, _ in LOG[14:20]:
        assert same(load(world.archive, Point(zxid)).state, zxid)
        time_ms = decode_txn(dict(LOG)[zxid]).time_ms
        expected = min(z(20), z(last_until(time_ms)))
        assert same(load(world.archive, Point(time_ms=time_ms)).state, expected)


def test_the_newest_epoch_of_an_archive_is_known(world: World) -> None:
    world.server.append(LOG[:8])
    world.full()
    assert load(world.archive, Point(z(8))).epoch == 1
    late = make_zxid(Epoch(7), 1)
    world.server.append([(late, LOG[8][1])])
    world.piece(z(8), late)
    assert load(world.archive, Point(z(8))).epoch == 7
    # Leaders that have written nothing since.
    world.server.append([(Zxid(late + 1), LOG[9][1])])
    world.piece(late, Zxid(late + 1), epoch=9)
    assert load(world.archive, Point(z(8))).epoch == 9


def test_the_progress_is_told(world: World) -> None:
    world.server.append(LOG)
    place, told = world.full(), list[BackupProgress]()
    load_state(place, Point(z(5)), told.append, str)
    steps = [each.step for each in told]
    assert sorted(set(steps)) == ["check", "load"] and steps == sorted(steps)
    assert all(each.total is not None and 0 < each.done <= each.total for each in told)


def test_a_state_that_no_server_had_is_refused(world: World) -> None:
    world.server.append(LOG)
    source = FolderSource(world.server)
    source.open_log(ZERO, holds=False)
    place = world.place("b.rkb")
    opening = opening_of("coord", source.server, ZERO, ZERO, has_snapshot=False)
    with created_output(place) as output:
        writer = BackupWriter(output.write, opening)
        copy_log(source, END, writer, None, lambda _: None)
        writer.finish(time_ms=Millis(0), epoch=Epoch(1), digest=5)
    with pytest.raises(BackupFormatError, match=r"another state as of .* 0x0000000000000005"):
        load(place)
    assert load(world.full()).epoch == 1


def test_foreign_pieces_are_refused(world: World) -> None:
    world.server.append(LOG[:8])
    world.full()
    world.server.append(LOG[8:])
    world.piece(z(8), z(12), uuid="ffff")
    with pytest.raises(BackupFormatError, match=r"is of ensemble 'coord' \(ffff\)"):
        load(world.archive)


def test_a_piece_under_a_wrong_name_is_refused(world: World) -> None:
    world.server.append(LOG[:8])
    world.full()
    world.server.append(LOG[8:])
    piece = world.piece(z(10), z(12))
    world.files.rename(piece.path, FOLDER / piece_name(z(8), z(12)))
    with pytest.raises(BackupFormatError, match="goes on from 1:10, but what is before it ends at"):
        load(world.archive)


def test_damage_anywhere_in_what_is_read_is_refused(world: World) -> None:
    world.server.append(LOG[:8])
    world.server.snapshot()
    world.server.append(LOG[8:])
    data = written_backup(world.server)
    for at in range(0, len(data), 7):
        name = f"{at}.rkb"
        damaged = bytearray(data)
        damaged[at] ^= 4
        with created_output(world.place(name)) as output:
            output.write(bytes(damaged))
        with pytest.raises(BackupFormatError):
            load(world.place(name), Point(z(9)))


@pytest.mark.parametrize(
    ("chunks", "txns", "error", "problem"),
    [
        ([b"\x90"], [LOG[0][1]], SnapshotFormatError, "must be the header alone"),
        ([], [LOG[0][1]], SnapshotFormatError, "the snapshot is not complete"),
        (None, [b"\xc1"], BackupFormatError, "transaction 1:1 does not fit"),
    ],
)
def test_what_makes_no_state_is_refused(
    world: World,
    chunks: list[bytes] | None,
    txns: list[bytes],
    error: type[Exception],
    problem: str,
) -> None:
    from raykeeper.zab.effects import LogRun

    source = FolderSource(world.server)
    opening = opening_of("coord", source.server, ZERO, ZERO, has_snapshot=chunks is not None)
    with created_output(world.place("b.rkb")) as output:
        writer = BackupWriter(output.write, opening)
        for chunk in chunks or []:
            writer.add_chunk(snapshot_body(chunk))
        for log in log_bodies(ZERO, [LogRun(z(1), txns)]):
            writer.add_log(log)
        writer.finish(time_ms=Millis(0), epoch=Epoch(1), digest=None)
    with pytest.raises(error, match=problem):
        load(world.place("b.rkb"))


def test_what_is_no_backup_is_refused(world: World) -> None:
    with pytest.raises(BackupFormatError, match="holds no whole backup"):
        load(world.archive)
    with pytest.raises(BackupPlaceError, match="does not exist"):
        load(world.place("none"))
    world.server.append(LOG)
    with pytest.raises(BackupFormatError, match="is a piece of an archive"):
        load(world.piece(z(3), z(5)))
