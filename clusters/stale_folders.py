"""Folders of servers whose vote rests on another disk: they are set aside, and removed later.

A server that was moved leaves its folder on the old node. Nothing needs it while the others are
well; a person may want it after the loss of a majority. So it gets another name, under which no
launch looks, and stays for some days.
"""

import shutil
import time
from pathlib import Path
from typing import Final

from raykeeper.actors.disk.file_operations import rename_durably
from raykeeper.actors.disk.filesystem import OS_FILESYSTEM
from raykeeper.actors.disk.folder_lock import lock_folder
from raykeeper.actors.disk.identity import read_identity
from raykeeper.actors.disk.storage_errors import CorruptRecord, storage_errors
from raykeeper.clusters.node_discovery import server_folder
from raykeeper.zab.ids import DiskId, ServerId

STALE_MARK: Final = ".stale-"
"""Between the id of the server and the time, in the name of a folder that was set aside."""


def set_folder_aside(
    data_dir: str, ensemble: str, server_id: ServerId, voting_disk: DiskId, incarnation: int
) -> str | None:
    """Give the folder of a server on this node another name, unless it is the disk with the vote.

    Args:
        data_dir: The setting.
        ensemble: The name of the ensemble.
        server_id: The server.
        voting_disk: The disk with the vote.
        incarnation: The one that was started from the folder last when the caller learned that
            another disk has the vote. A server that was started there since may have got it.

    Returns:
        The new path; None if there is no such folder, if it has or may have the vote, or if its
        identity does not tell which disk it is.

    Raises:
        FolderInUse: a server runs there.
        StorageError: the folder cannot be read or renamed.
    """
    folder = server_folder(data_dir, ensemble, server_id)
    with storage_errors(folder):
        if not folder.is_dir():
            return None
        lock = lock_folder(OS_FILESYSTEM, folder)
        try:
            # Read under the lock: until then a server could have given the disk another name.
            identity = read_identity(folder)
            if identity is None or identity.disk() == voting_disk:
                return None
            if identity.incarnation != incarnation:
                return None
            stale = folder.with_name(f"{server_id}{STALE_MARK}{time.time_ns()}")
            rename_durably(OS_FILESYSTEM, folder, stale)
        except CorruptRecord:
            return None
        finally:
            OS_FILESYSTEM.close(lock)
    return str(stale)


def remove_stale_folders(data_dir: str, ensemble: str, older_than_s: float) -> list[str]:
    """Remove the folders of this node that were set aside longer ago; return their paths.

    The age is by this node's wall clock.

    Raises:
        StorageError: a folder cannot be removed.
    """
    home = Path(data_dir).expanduser() / ensemble
    before_ns = time.time_ns() - round(older_than_s * 1e9)
    removed = []
    for folder in sorted(home.glob(f"*{STALE_MARK}*")):
        stamp = folder.name.rpartition(STALE_MARK)[2]
        if stamp.isdecimal() and int(stamp) <= before_ns:
            with storage_errors(folder):
                shutil.rmtree(folder)
            removed.append(str(folder))
    return removed
