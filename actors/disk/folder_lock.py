"""The lock of a data folder, and its holder (rule D1).

The lock is that of the system (`flock`) on a file of its own, made once and never replaced. A lock
belongs to an inode, and the identity file gets a new one each time it is replaced atomically: a
process that opened the old file would hold a lock that no other process meets.

The holder writes its name into the file, for the error messages of others: on a disk that machines
share the holder may run elsewhere. No decision depends on the name, and it is not forced.
"""

import os
import socket
import time
from pathlib import Path

import msgspec
from msgspec import Struct

from raykeeper.actors.disk.file_operations import TEMP_SUFFIX, closed_on_error, opened
from raykeeper.actors.disk.filesystem import Filesystem
from raykeeper.actors.disk.storage_errors import FolderInUse, StorageError, is_full
from raykeeper.zab.errors import DECODE_ERRORS

LOCK_FILE = "lock"
_HOLDER_BYTES = 512
"""The length is fixed, so that nothing of an earlier holder remains."""
_HOST_CHARS_MAX = 255


class _Holder(Struct, frozen=True):
    pid: int
    host: str
    since: str

    def __str__(self) -> str:
        return f"process {self.pid} on {self.host} since {self.since}"


def lock_folder(files: Filesystem, folder: Path) -> int:
    """Lock `folder` and return the open file that holds the lock.

    Raises:
        FolderInUse: another process has it; the message names it.
        OSError: the lock file cannot be opened, locked or written.
    """
    path = folder / LOCK_FILE
    lock = files.lock(path)
    if lock is None:
        by = last_holder(files, folder) or "another process"
        raise FolderInUse(f"{folder} on {socket.gethostname()} is in use by {by}")
    with closed_on_error(files, lock):
        since = time.strftime("%Y-%m-%d %H:%M:%S UTC", time.gmtime())
        holder = _Holder(os.getpid(), socket.gethostname()[:_HOST_CHARS_MAX], since)
        text = msgspec.json.encode(holder).ljust(_HOLDER_BYTES - 1) + b"\n"
        try:
            files.write(lock, [text], 0)
        except OSError as error:
            if not is_full(error):  # on a full disk the server starts without its name here
                raise
    return lock


def last_holder(files: Filesystem, folder: Path) -> str | None:
    """Return the name of the last holder of `folder`, which may have ended; None without one."""
    try:
        with opened(files, folder / LOCK_FILE) as fd:
            return str(msgspec.json.decode(files.read(fd, _HOLDER_BYTES, 0), type=_Holder))
    except (StorageError, *DECODE_ERRORS):
        return None


assert not LOCK_FILE.endswith(TEMP_SUFFIX), "it would be removed as a leftover"
