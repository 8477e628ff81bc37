"""Brings the snapshot of a restored ensemble to the nodes of its servers, before all is formatted.

Each node writes it to a temporary file beside the folder that will be formatted. A start of another
server never takes such a file for anything, and the next restore replaces it.
"""

import shutil
from collections import deque
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any, Final

import ray

from raykeeper.actors.disk.file_operations import make_folders
from raykeeper.actors.disk.filesystem import OS_FILESYSTEM
from raykeeper.actors.disk.folder_lock import lock_folder
from raykeeper.actors.disk.identity import IDENTITY_FILE, read_identity
from raykeeper.actors.disk.snapshot_files import SnapshotWriter
from raykeeper.actors.disk.storage_errors import StorageError, storage_errors
from raykeeper.actors.ray_actors import start_private_actor
from raykeeper.clusters.node_discovery import (
    RECORD_FILE,
    STAGED_MARK,
    on_node,
    server_folder,
    staged_snapshot,
)
from raykeeper.clusters.node_report import RestoredHistory
from raykeeper.clusters.placement import Placement
from raykeeper.zab.ids import ServerId, Zxid

_PIECE_BYTES: Final = 1 << 20
_UNDER_WAY: Final = 4
"""Pieces that are being sent to the nodes."""
_FORMATTED_DISK: Final = "lost+found"  # in the root of a disk of its own


class SnapshotReceiver:
    """The actor that writes the snapshot of one server on its node; calls come in order."""

    def __init__(self, data_dir: str, ensemble: str, server_id: ServerId, zxid: Zxid) -> None:
        path = staged_snapshot(data_dir, ensemble, server_id)
        with storage_errors(path):
            make_folders(OS_FILESYSTEM, path.parent)
        self._writer = SnapshotWriter(path, zxid)

    def write(self, chunks: Sequence[bytes]) -> None:
        """Add chunks.

        Raises:
            StorageError: they cannot be written.
        """
        for chunk in chunks:
            self._writer.write(chunk)

    def finish(self) -> None:
        """Complete and force the file.

        Raises:
            StorageError: it cannot be written, or is not what was written.
        """
        self._writer.finish(self._writer.zxid)


def stage_snapshot(
    data_dir: str,
    ensemble: str,
    placements: Sequence[Placement],
    zxid: Zxid,
    chunks: Iterable[bytes],
) -> None:
    """Write the snapshot as of `zxid` on the node of each of the servers.

    Raises:
        StorageError: a node cannot write it.
        RayError: a node is gone.
    """
    receivers = [
        start_private_actor(
            SnapshotReceiver, each.node_id, data_dir, ensemble, each.server_id, zxid
        )
        for each in placements
    ]
    try:
        waiting: deque[list[Any]] = deque()
        for piece in _pieces(chunks):
            sent = ray.put(piece)
            waiting.append([receiver.write.remote(sent) for receiver in receivers])
            del sent
            if len(waiting) >= _UNDER_WAY:
                ray.get(waiting.popleft())
        for calls in waiting:
            ray.get(calls)
        ray.get([receiver.finish.remote() for receiver in receivers])
    finally:
        for receiver in receivers:
            ray.kill(receiver, no_restart=True)


def remove_restored(
    data_dir: str, ensemble: str, placements: Sequence[Placement], restored: RestoredHistory
) -> list[str]:
    """Remove what a restore that failed has left on the nodes; return what could not be removed."""
    tasks = [
        on_node(
            each.node_id,
            remove_restored_folder,
            data_dir,
            ensemble,
            each.server_id,
            restored.backup,
        )
        for each in placements
    ]
    problems = []
    for task in tasks:
        try:
            ray.get(task)
        except (StorageError, ray.exceptions.RayError) as error:
            problems.append(str(getattr(error, "cause", error)).partition("\n")[0])
    return problems


def remove_restored_folder(data_dir: str, ensemble: str, server_id: ServerId, backup: str) -> None:
    """Remove the staged snapshot and the folder of a server on this node, if a restore made it.

    Raises:
        StorageError: they cannot be removed.
    """
    folder = server_folder(data_dir, ensemble, server_id)
    staged = staged_snapshot(data_dir, ensemble, server_id)
    with storage_errors(folder):
        staged.unlink(missing_ok=True)
        if not folder.is_dir():
            return
        lock = lock_folder(OS_FILESYSTEM, folder)
        try:
            if not (folder / IDENTITY_FILE).exists():
                is_ours = True  # its formatting was interrupted
            else:
                identity = read_identity(folder)
                is_ours = identity is not None and identity.restored_from == backup
            if is_ours:
                shutil.rmtree(folder)
                (folder.parent / RECORD_FILE).unlink(missing_ok=True)
        finally:
            OS_FILESYSTEM.close(lock)


def names_in_the_way(data_dir: str, ensemble: str) -> tuple[str, list[str]]:
    """Return the folder of an ensemble on this node, and what is in it; nothing is best.

    What an interrupted restore has staged does not count.

    Raises:
        StorageError: the folder cannot be read.
    """
    home = Path(data_dir).expanduser() / ensemble
    with storage_errors(home):
        try:
            names = OS_FILESYSTEM.names(home)
        except FileNotFoundError:
            names = []
    return str(home), [n for n in names if not n.endswith(STAGED_MARK) and n != _FORMATTED_DISK]


def _pieces(chunks: Iterable[bytes]) -> Iterable[list[bytes]]:
    piece: list[bytes] = []
    size = 0
    for chunk in chunks:
        piece.append(chunk)
        size += len(chunk)
        if size >= _PIECE_BYTES:
            yield piece
            piece, size = [], 0
    if piece:
        yield piece
