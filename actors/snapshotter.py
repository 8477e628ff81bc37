"""The Snapshotter of a server: writes the tree that it receives, in a process of its own.

It creates a temporary file and forces it; the replica publishes the file. It never touches a file
with a final name. DESIGN: section 6.
"""

import os
from pathlib import Path
from typing import Any

from raykeeper.actors.disk.snapshot_files import (
    SnapshotWriter,
    remove_temp_snapshots,
    temp_snapshot_path,
)
from raykeeper.actors.disk.storage_errors import StorageError
from raykeeper.actors.fate_sharing import share_fate_with_raylet
from raykeeper.actors.ray_actors import start_actor
from raykeeper.actors.replica_config import ReplicaConfig
from raykeeper.links.ray_names import snapshotter_name
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
        """Open a temporary snapshot as of `zxid`, and remove all others.

        The replica has published the one before or given it up. In the second case a file may
        remain: of a killed process of this actor, or of a call that was not waited for.

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
        """Remove the temporary snapshot if it is this one, which the replica has not published.

        Raises:
            StorageError: it cannot be removed.
        """
        if self._finished is not None and self._finished.zxid == zxid:
            finished, self._finished = self._finished, None
            finished.discard()
        if self._writer is not None and self._writer.zxid == zxid:
            self._discard()

    def pid(self) -> int:
        """Return the process that the actor runs in."""
        return os.getpid()

    def _writer_of(self, zxid: Zxid) -> SnapshotWriter:
        # This process may have been restarted in the middle of a snapshot.
        if self._writer is None or self._writer.zxid != zxid:
            raise StorageError(f"{self._folder}: no snapshot as of {zxid:#x} was begun")
        return self._writer

    def _discard(self) -> None:
        writer, self._writer = self._writer, None
        if writer is not None:
            writer.discard()


def start_snapshotter(config: ReplicaConfig, node_id: str | None = None) -> Any:
    """Return the Snapshotter beside a server, whose disk it shares, started if there is none."""
    name = snapshotter_name(config.ensemble, config.server_id)
    return start_actor(Snapshotter, name, node_id, config.folder)
