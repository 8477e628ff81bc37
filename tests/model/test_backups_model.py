"""Any history, with snapshots anywhere: a backup and an archive have each state that there was."""

from pathlib import Path

from hypothesis import given, settings
from hypothesis import strategies as st

from raykeeper.actors.disk.storage import StorageLimits
from raykeeper.actors.disk.storage_errors import LogPruned
from raykeeper.clusters.backups.archive import contents_of, full_name, piece_name
from raykeeper.clusters.backups.backup import copy_log, opening_of
from raykeeper.clusters.backups.backup_format import BackupWriter
from raykeeper.clusters.backups.loading import Point, RestorePointError, load_state
from raykeeper.clusters.backups.places import LocalPlace, created_output
from raykeeper.zab.ids import Zxid, epoch_of
from tests.contract.faulty_files import FaultyFiles
from tests.contract.server_folders import Entry, ServerFolder
from tests.harness.backup_sources import FolderSource, back_up, state_at
from tests.model.histories import Command, histories, written

FOLDER = Path("/archive")
cuts = st.lists(
    st.tuples(st.integers(0, 50), st.sampled_from(["snapshot", "full", "piece"])), max_size=8
)


def archived(log: list[Entry], places: list[tuple[int, str]], segment_bytes: int) -> LocalPlace:
    """The archive of a server that is followed while it writes the log and takes snapshots."""
    files = FaultyFiles()
    files.make_folder(FOLDER)
    limits = StorageLimits(segment_bytes=segment_bytes, snapshots_kept=2)
    server, done, archive = ServerFolder(limits=limits), 0, LocalPlace(FOLDER, files)
    back_up(server, archive.child(full_name(Zxid(0))))
    for place, act in sorted(places):
        during = log[max(done, place) : place + 3] if act == "snapshot" else []
        server.append(log[done:place])
        done = min(len(log), max(done, place))
        if act == "snapshot" and done:
            server.snapshot(during, chunk_bytes=1)
            done += len(during)
        elif act == "full":
            back_up_once(server, archive)
        elif act == "piece":
            add_piece(server, archive)
    server.append(log[done:])
    add_piece(server, archive)
    return archive


def back_up_once(server: ServerFolder, archive: LocalPlace) -> None:
    place = archive.child(full_name(server.state.zxid))
    if not place.exists():
        back_up(server, place)


def add_piece(server: ServerFolder, archive: LocalPlace) -> None:
    """Archive what follows the end of the archive, if the server still has it."""
    source = FolderSource(server)
    after, upto = contents_of(archive.names()).end(), server.state.zxid
    assert after is not None
    if after == upto:
        return
    try:
        source.open_log(after, holds=True)
    except LogPruned:  # a whole backup goes on
        back_up_once(server, archive)
        return
    opening = opening_of("coord", source.server, after, after, has_snapshot=False)
    with created_output(archive.child(piece_name(after, upto))) as output:
        writer = BackupWriter(output.write, opening)
        time_ms = copy_log(source, upto, writer, None, lambda _: None)
        writer.finish(time_ms=time_ms, epoch=epoch_of(upto), digest=server.state.digest())


@settings(max_examples=100, deadline=None)
@given(histories, cuts, st.sampled_from([300, 4096]), st.integers(0, 45))
def test_an_archive_has_each_state_of_any_history(
    history: list[Command], places: list[tuple[int, str]], segment_bytes: int, number: int
) -> None:
    log = written(history).log
    archive = archived(log, places, segment_bytes)
    end = load_state(archive, Point(), lambda _: None, str).state
    last = log[-1][0] if log else Zxid(0)
    assert (end.zxid, end.digest()) == (last, state_at(log, last).digest())
    if number >= len(log):
        return
    zxid = log[number][0]
    try:
        state = load_state(archive, Point(zxid), lambda _: None, str).state
    except RestorePointError:
        # Only where the log was pruned before it was archived, or a fuzzy snapshot was not
        # consistent yet, is a state missing.
        names = contents_of(archive.names())
        assert len(names.full) > 1
        return
    assert (state.zxid, state.digest()) == (zxid, state_at(log, zxid).digest())
