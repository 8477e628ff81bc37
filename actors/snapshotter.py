"""The snapshotter of a server: writes the tree that is streamed to it, in a process of its own.

It makes a temporary file and forces it; the replica publishes it. It never touches what has a
name. DESIGN: section 6.
"""

import os
from pathlib import Path

from raykeeper.actors.disk.snapshot_files import (
    SnapshotWriter,
    remove_temp_snapshots,
    temp_snapshot_path,
)
from raykeeper.actors.disk.storage_errors import StorageError
from raykeeper.actors.fate_sharing import share_fate_with_raylet
from raykeeper.zab.ids import Zxid


class Snapshotter:
    """The actor. Its only caller has one call under way at a time."""

    def __init__(self, folder: str) -> None:
        """`folder` is the data folder of the server on this machine."""
        share_fate_with_raylet()
        self._folder = Path(folder).expanduser()
        self._writer: SnapshotWriter | None = None
        self._finished: SnapshotWriter | None = None

    def begin(self, zxid: Zxid) -> None:
        """Open a temporary snapshot as of `zxid`, dropping all others.

        Whoever asks for a new one has published or given up the one before, of which there may be
        a file: of a process of this actor that was killed, or of a call that was not waited for.

        Raises:
            StorageError: the disk failed.
        """
        writer, self._writer = self._writer, None
        self._finished = None
        if writer is not None:
            writer.close()
        remove_temp_snapshots(self._folder)
        self._writer = SnapshotWriter(temp_snapshot_path(self._folder, zxid), zxid)

    def write(self, zxid: Zxid, data: bytes) -> None:
        """Add a chunk.

        Raises:
            StorageError: the disk failed, or this is not the snapshot that was begun.
        """
        self._writer_of(zxid).write(data)

    def finish(self, zxid: Zxid, consistent_at: Zxid) -> None:
        """Complete and force the file.

        Raises:
            StorageError: the disk failed, or this is not the snapshot that was begun.
        """
        writer = self._writer_of(zxid)
        writer.finish(consistent_at)
        self._writer, self._finished = None, writer

    def abort(self, zxid: Zxid) -> None:
        """Drop the temporary snapshot, if it is this one; the replica has not published it.

        Raises:
            StorageError: it cannot be removed.
        """
        if self._finished is not None and self._finished.zxid == zxid:
            finished, self._finished = self._finished, None
            finished.discard()
        if self._writer is not None and self._writer.zxid == zxid:
            self._discard()

    def pid(self) -> int:
        """The process it runs in."""
        return os.getpid()

    def _writer_of(self, zxid: Zxid) -> SnapshotWriter:
        # This process may have been started anew in the middle of a snapshot.
        if self._writer is None or self._writer.zxid != zxid:
            raise StorageError(f"{self._folder}: no snapshot as of {zxid:#x} was begun")
        return self._writer

    def _discard(self) -> None:
        writer, self._writer = self._writer, None
        if writer is not None:
            writer.discard()
