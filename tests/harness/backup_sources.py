"""A server's folder as the source of a backup, without Ray; and backups in memory."""

import io
from collections.abc import Iterator, Sequence
from itertools import pairwise
from pathlib import Path

from raykeeper.actors.backup_reader import BackupReader, OpenedSnapshot
from raykeeper.actors.disk.backup_frames import LogBody, SnapshotBody
from raykeeper.actors.disk.filesystem import Filesystem
from raykeeper.clusters.backups.archive_writer import ArchiveWriter
from raykeeper.clusters.backups.backup import copy_whole, plan_whole
from raykeeper.clusters.backups.places import LocalPlace, created_output
from raykeeper.clusters.backups.server_choice import Position, ReadServer
from raykeeper.zab.ids import ZERO, ServerId, Zxid, epoch_of
from raykeeper.znodes.state import State
from tests.contract.server_folders import Entry, ServerFolder, UnforcedFiles

PIECE_BYTES = 200


class FolderSource:
    """Reads the folder of a server that the test grows."""

    def __init__(self, server: ServerFolder, uuid: str = "8c1f") -> None:
        self.server = ReadServer(ServerId(1), str(server.folder), "node", uuid)
        self._folder = server
        self.reader = BackupReader(str(server.folder), server.files)

    def position(self, at_least: Zxid) -> Position:
        state = self._folder.state
        assert state.zxid >= at_least, (state.zxid, at_least)
        return Position(state.zxid, epoch_of(state.zxid), state.digest())

    def open_snapshot(self) -> OpenedSnapshot | None:
        return self.reader.open_snapshot()

    def snapshot_chunks(self) -> Iterator[SnapshotBody]:
        while chunks := self.reader.read_snapshot(PIECE_BYTES):
            yield from chunks

    def open_log(self, after: Zxid, *, holds: bool) -> int:
        return self.reader.open_log(after, holds=holds)

    def read_log(self, upto: Zxid) -> Iterator[LogBody]:
        while logs := self.reader.read_log(upto, PIECE_BYTES):
            yield from logs


def back_up(server: ServerFolder, place: LocalPlace) -> None:
    """Write a backup of a server to a place."""
    with created_output(place) as output:
        source = FolderSource(server)
        copy_whole("coord", source, plan_whole(source, Zxid(0)), output, lambda _: None)


def written_backup(server: ServerFolder) -> bytes:
    """Return the bytes of a backup of a server."""
    output = io.BytesIO()
    source = FolderSource(server)
    copy_whole("coord", source, plan_whole(source, Zxid(0)), _Written(output), lambda _: None)
    return output.getvalue()


def write_archive(folder: Path, log: Sequence[Entry], ends: Sequence[int]) -> ServerFolder:
    """Keep an archive in a folder of the disk; return its server.

    A whole backup is taken at the first of `ends`, which are numbers of transactions; a piece ends
    at each other one.
    """
    server = ServerFolder()
    server.append(log[: ends[0]])
    source = FolderSource(server)
    archive = ArchiveWriter(
        LocalPlace(folder, UnforcedFiles()), "coord", source.server.ensemble_uuid
    )
    full = archive.add_full(source, ZERO)
    archive.restart(full.zxid)
    source.open_log(full.zxid, holds=False)
    for begin, end in pairwise(ends):
        server.append(log[begin:end])
        position = source.position(ZERO)
        archive.add_log(source.read_log(position.zxid), source, position)
    return server


class _Written:
    def __init__(self, file: io.BytesIO) -> None:
        self._file = file

    def write(self, data: bytes, /) -> None:
        self._file.write(data)

    def complete(self) -> None:
        pass

    def discard(self) -> None:
        pass


def state_at(log: list[tuple[Zxid, bytes]], zxid: Zxid) -> State:
    """Return the state that the transactions up to `zxid` give."""
    state = State()
    for each, data in log:
        if each <= zxid:
            state.apply(each, data)
    return state


def place_on(files: Filesystem, path: str) -> LocalPlace:
    """Return a place in a filesystem in memory."""
    return LocalPlace(Path(path), files)
