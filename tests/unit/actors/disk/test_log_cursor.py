"""LogCursor: each transaction once, in order, beside a server that appends, rolls, cuts, prunes."""

from pathlib import Path

import pytest

from raykeeper.actors.disk.log_cursor import LogCursor
from raykeeper.actors.disk.log_format import SEGMENT_HEADER_BYTES
from raykeeper.actors.disk.log_segment import segment_name
from raykeeper.actors.disk.storage import Storage, StorageLimits
from raykeeper.actors.disk.storage_errors import CorruptRecord, LogPruned, StorageError
from raykeeper.zab.effects import Append, InstallSnapshot, ReceiveChunk, ReceiveSnapshot, Truncate
from raykeeper.zab.ids import ZERO, Epoch, Zxid, make_zxid
from raykeeper.znodes.requests import SetData
from tests.contract.faulty_files import FaultyFiles
from tests.contract.server_folders import Entry, ServerFolder
from tests.model.histories import START, Command, written

ALL = 1 << 30
COMMANDS: list[Command] = [
    *START,
    *(("write", n % 2, SetData("/a", b"%d" % n * 40, -1)) for n in range(40)),
]
LOG = written(COMMANDS).log
LAST = LOG[-1][0]


def z(counter: int, epoch: int = 1) -> Zxid:
    return make_zxid(Epoch(epoch), counter)


def grown(entries: list[Entry], segment_bytes: int = 1024) -> ServerFolder:
    server = ServerFolder(limits=StorageLimits(segment_bytes=segment_bytes, snapshots_kept=1))
    server.append(entries)
    return server


def cursor_of(server: ServerFolder, after: Zxid = ZERO) -> LogCursor:
    return LogCursor(server.folder, after, server.files)


def taken(cursor: LogCursor, upto: Zxid = LAST, bytes_max: int = ALL) -> list[Entry]:
    """What one reading gives, which leaves no file open."""
    runs = cursor.read(upto, bytes_max)
    return [(Zxid(run.first + n), txn) for run in runs for n, txn in enumerate(run.txns)]


def test_the_whole_log_is_read_over_all_segments() -> None:
    server = grown(LOG)
    assert len(server.segments()) > 3
    assert taken(cursor_of(server)) == LOG
    assert isinstance(server.files, FaultyFiles)
    assert taken(cursor_of(server), z(0)) == []


@pytest.mark.parametrize("bytes_max", [1, 100, 1000])
def test_pieces_give_each_transaction_once(bytes_max: int) -> None:
    cursor, found = cursor_of(grown(LOG)), []
    while piece := taken(cursor, LAST, bytes_max):
        found.append(piece)
    assert [entry for piece in found for entry in piece] == LOG
    assert len(found) == len(LOG) if bytes_max == 1 else len(found) < len(LOG)


@pytest.mark.parametrize("after", [entry[0] for entry in LOG[::7]])
@pytest.mark.parametrize("upto", [entry[0] for entry in LOG[::5]])
def test_any_part_is_read(after: Zxid, upto: Zxid) -> None:
    cursor = cursor_of(grown(LOG), after)
    assert taken(cursor, upto) == [entry for entry in LOG if after < entry[0] <= upto]
    assert cursor.last == max(after, upto)


def test_the_log_is_followed_as_it_grows() -> None:
    server, found = grown(LOG[:1]), []
    cursor = cursor_of(server)
    for entry in LOG[1:]:
        found += taken(cursor)
        server.append([entry])
    assert found + taken(cursor) == LOG


def test_a_batch_is_read_in_parts() -> None:
    server = grown([])
    entries = [(z(n), b"%d" % n) for n in range(1, 6)]
    server.storage.perform([Append(z(1), [data for _, data in entries], ZERO)])
    cursor = cursor_of(server)
    found = [taken(cursor, z(n)) for n in (2, 2, 4, 9, 9)]
    assert found == [entries[:2], [], entries[2:4], entries[4:], []]


def test_a_large_batch_is_read_whole() -> None:
    server = grown([], segment_bytes=1 << 20)
    large = [bytes([n]) * 200_000 for n in range(3)]
    server.storage.perform([Append(z(1), large, ZERO), Append(z(4), [b"small"], ZERO)])
    assert [data for _, data in taken(cursor_of(server), z(4))] == [*large, b"small"]


def test_what_is_not_whole_yet_is_not_read() -> None:
    server = grown(LOG[:3], segment_bytes=1 << 16)
    (path,) = server.segments()
    assert isinstance(server.files, FaultyFiles)
    data = server.files.content(path)
    before = bytes(data)
    server.append(LOG[3:4])
    data = server.files.content(path)
    after = bytes(data)
    end = next(n for n in range(len(after)) if before[n] != after[n])
    cursor = cursor_of(server)
    data[end + 60 :] = bytes(len(data) - end - 60)
    assert taken(cursor) == LOG[:3]
    assert taken(cursor) == []
    data[:] = after
    assert taken(cursor) == LOG[3:4]


def test_a_server_that_cuts_and_writes_its_last_segment_anew_is_followed() -> None:
    server = grown(LOG[:4], segment_bytes=1 << 16)
    cursor = cursor_of(server)
    assert taken(cursor, LOG[1][0]) == LOG[:2]
    server.storage.perform([Truncate(LOG[2][0])])
    server.storage.perform([Append(z(1, 2), [LOG[3][1]], LOG[2][0])])
    assert taken(cursor, z(9, 2)) == [LOG[2], (z(1, 2), LOG[3][1])]


def test_a_restarted_server_is_followed() -> None:
    server = grown(LOG[:5])
    cursor = cursor_of(server)
    assert taken(cursor) == LOG[:5]
    files = server.at_rest()
    owner = server.storage.identity.owner
    server.storage = Storage.open(server.folder, owner, StorageLimits(segment_bytes=1024), files)
    server.storage.recover()
    server.append(LOG[5:])
    assert taken(cursor) == LOG[5:]


def test_a_pruned_log_is_told() -> None:
    server = grown(LOG[:30])
    behind, near = cursor_of(server), cursor_of(server, LOG[28][0])
    assert taken(behind, LOG[0][0]) == LOG[:1]
    server.snapshot()
    server.append(LOG[30:])
    with pytest.raises(LogPruned, match="no longer has what follows 1:1"):
        taken(behind)
    assert taken(near) == LOG[29:]


def test_a_held_log_outlives_its_files() -> None:
    server = grown(LOG)
    assert isinstance(server.files, FaultyFiles)
    cursor, before = cursor_of(server, LOG[20][0]), server.files.open_files()
    size = cursor.hold()
    held = [path for path in server.segments() if path >= _segment_of(server, LOG[20][0])]
    assert 0 < len(held) < len(server.segments()) and size == 1024 * len(held)
    assert server.files.open_files() == before + len(held)
    server.snapshot()
    assert taken(cursor) == LOG[21:]
    open_files = server.files.open_files()
    cursor.close()
    assert server.files.open_files() < open_files
    with pytest.raises(LogPruned):
        cursor_of(server, LOG[20][0]).hold()
    assert server.files.open_files() < open_files


def _segment_of(server: ServerFolder, zxid: Zxid) -> Path:
    names = [path for path in server.segments() if path.name <= segment_name(Zxid(zxid + 1))]
    return names[-1]


def test_a_snapshot_of_the_leader_replaces_the_log() -> None:
    server = grown(LOG[:3])
    behind, ahead = cursor_of(server), cursor_of(server, z(9))
    assert taken(behind, LOG[0][0]) == LOG[:1]
    server.storage.perform([ReceiveSnapshot(z(9)), ReceiveChunk(b"chunk")])
    server.storage.perform([InstallSnapshot(z(9), z(9), [])])
    with pytest.raises(LogPruned):
        taken(behind)
    assert taken(ahead, z(20)) == []  # nothing yet
    server.storage.perform([Append(z(10), [b"new"], z(9))])
    assert taken(ahead, z(20)) == [(z(10), b"new")]


def test_damage_is_told() -> None:
    server = grown(LOG)
    path = server.segments()[1]
    assert isinstance(server.files, FaultyFiles)
    server.files.flip(path, SEGMENT_HEADER_BYTES + 70)
    cursor = cursor_of(server)
    with pytest.raises(CorruptRecord, match=f"{path.name} is damaged after"):
        taken(cursor)
    assert cursor.last == Zxid(int(path.name.removeprefix("log."), 16) - 1)


def test_unreadable_files_are_told() -> None:
    server = grown(LOG)
    assert isinstance(server.files, FaultyFiles)
    cursor = cursor_of(server)
    server.files.spoil(server.segments()[0])
    with pytest.raises(CorruptRecord, match="cannot be read"):
        taken(cursor)
    with pytest.raises(StorageError, match="not found"):
        LogCursor(Path("/nowhere"), ZERO, server.files).read(LAST, ALL)
