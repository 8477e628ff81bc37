"""The actor that reads a server's folder for a backup, on the server's node, beside the server.

It holds no lock and asks the server for nothing, so a server that is slow, or ends, changes nothing
for it; and it runs at the lowest priority, so that it takes from the server only what is left of
the processor. So it also encodes what it reads, and computes the checksums (disk/backup_frames.py):
the process that writes the backup has the priority of its user. What it reads, it holds open: the
server may remove those files meanwhile. It ends with the process that has started it.
"""

import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from msgspec import Struct

from raykeeper.actors.disk.backup_frames import (
    LogBody,
    SnapshotBody,
    log_bodies,
    snapshot_body,
)
from raykeeper.actors.disk.file_operations import opened
from raykeeper.actors.disk.filesystem import OS_FILESYSTEM, Filesystem
from raykeeper.actors.disk.generations import find_generation
from raykeeper.actors.disk.log_cursor import LogCursor
from raykeeper.actors.disk.snapshot_files import (
    SnapshotChunks,
    read_summary,
    snapshot_name,
    snapshot_zxids,
)
from raykeeper.actors.disk.storage_errors import CorruptRecord, StorageError, storage_errors
from raykeeper.actors.process_priority import LOWEST_PRIORITY
from raykeeper.actors.ray_actors import start_private_actor
from raykeeper.zab.ids import Zxid


class OpenedSnapshot(Struct, frozen=True):
    """A snapshot that is held open."""

    zxid: Zxid
    consistent_at: Zxid
    size: int
    """Bytes of its file."""


class BackupReader:
    """The actor. Its only caller has its calls done in order."""

    def __init__(self, folder: str, files: Filesystem = OS_FILESYSTEM) -> None:
        """`folder` is the data folder of the server on this machine."""
        self._folder = Path(folder).expanduser()
        self._files = files
        self._chunks: Iterator[bytes] = iter(())
        self._first_chunk = b""
        self._cursor: LogCursor | None = None

    def lower_priority(self) -> None:
        """Give way to every other process of the machine."""
        os.setpriority(os.PRIO_PROCESS, 0, LOWEST_PRIORITY)

    def open_snapshot(self) -> OpenedSnapshot | None:
        """Open the newest whole snapshot; None if the server has made none yet.

        Raises:
            CorruptRecord: none of the snapshots is whole, or there is no generation.
            UnknownVersion: one is of a version that this program does not know.
            StorageError: the folder cannot be read.
        """
        with storage_errors(self._folder):
            folder = find_generation(self._files, self._folder)[0].path
            zxids = snapshot_zxids(self._files.names(folder))
        problem: StorageError | None = None
        for zxid in reversed(zxids):
            path = folder / snapshot_name(zxid)
            try:
                found = read_summary(path, self._files)
                self._chunks = iter(SnapshotChunks(path, self._files))
                self._first_chunk = next(self._chunks)  # from now on the file is open
                if found.zxid != zxid:
                    raise CorruptRecord(f"{path} is not of the zxid that its name says")
                with opened(self._files, path) as fd:
                    size = self._files.size(fd)
                return OpenedSnapshot(zxid, found.consistent_at, size)
            except CorruptRecord as error:
                problem = error
        if problem is not None:
            raise problem
        return None

    def read_snapshot(self, bytes_max: int) -> list[SnapshotBody]:
        """Return the next chunks, some more than `bytes_max` bytes at most; none at the end.

        Raises:
            CorruptRecord: a byte of the snapshot is not what was written.
            StorageError: it cannot be read.
        """
        chunks, size = [], 0
        if self._first_chunk:
            chunks, size = [self._first_chunk], len(self._first_chunk)
            self._first_chunk = b""
        while size < bytes_max and (chunk := next(self._chunks, None)) is not None:
            chunks.append(chunk)
            size += len(chunk)
        return list(map(snapshot_body, chunks))

    def open_log(self, after: Zxid, *, holds: bool) -> int:
        """Stand behind `after` in the log; with `holds`, keep what follows and return its bytes.

        Raises:
            LogPruned: the log does not reach back to `after`.
            StorageError: the folder cannot be read.
        """
        if self._cursor is not None:
            self._cursor.close()
        self._cursor = LogCursor(self._folder, after, self._files)
        return self._cursor.hold() if holds else 0

    def read_log(self, upto: Zxid, bytes_max: int) -> list[LogBody]:
        """Return what follows in the log, nothing after `upto`; see `LogCursor.read`.

        Raises:
            LogPruned: the server has removed what comes next.
            CorruptRecord: what comes next is damaged.
            StorageError: the folder cannot be read.
        """
        assert self._cursor is not None, "open_log comes first"
        previous = self._cursor.last
        return log_bodies(previous, self._cursor.read(upto, bytes_max))


def start_backup_reader(folder: str, node_id: str) -> Any:
    """Start the actor on the node of a server; it ends with this process, or with its handle."""
    reader = start_private_actor(BackupReader, node_id, folder)
    reader.lower_priority.remote()
    return reader
