"""Reads the cold files of a server's folder and checks every byte, as far as the time allows.

A server reads its log and snapshots only when it starts, so a sector that was lost since is found
at the worst moment. The server may run meanwhile: what it removes while it is read is no damage.
"""

import time
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path

from msgspec import Struct, field

from raykeeper.actors.disk.filesystem import OS_FILESYSTEM, Filesystem
from raykeeper.actors.disk.folder_reader import FolderReader
from raykeeper.actors.disk.log_reader import LogReader
from raykeeper.actors.disk.log_segment import segment_name
from raykeeper.actors.disk.snapshot_files import (
    read_summary,
    snapshot_name,
    snapshot_zxids,
    verify_snapshot,
)
from raykeeper.actors.disk.storage_errors import (
    CorruptRecord,
    StorageError,
    UnknownVersion,
    storage_errors,
)
from raykeeper.zab.ids import ZERO, Zxid

Check = Callable[[], str]
"""Returns what is damaged, "" if nothing is; or raises StorageError."""


class FolderCheck(Struct):
    """What was found in a folder."""

    damage: list[str] = field(default_factory=list)
    other_version: str = ""
    """The first file of a version that this program does not know, and why."""
    unreadable: list[str] = field(default_factory=list)
    """Files that cannot be read, each with the reason."""
    unread_files: int = 0
    """Snapshots and segments that were left out for want of time."""
    snapshot_bytes: int = 0
    """The largest snapshot."""
    segment_bytes: int = 0
    """The largest segment."""

    def add(self, check: Check, is_there: Callable[[], bool] = lambda: True) -> None:
        """Perform a check, and record what it finds unless the file is gone by now."""
        damage, other_version, unreadable = "", "", ""
        try:
            damage = check()
        except UnknownVersion as error:
            other_version = str(error)
        except CorruptRecord as error:
            damage = str(error)
        except StorageError as error:
            unreadable = str(error)
        if is_there():
            self.damage += [damage] if damage else []
            self.unreadable += [unreadable] if unreadable else []
            self.other_version = self.other_version or other_version


def check_folder(
    folder: Path,
    until: float,
    files: Filesystem = OS_FILESYSTEM,
    clock: Callable[[], float] = time.monotonic,
) -> FolderCheck:
    """Check a folder until `clock` shows `until`. One file at a time is in memory.

    Never raises for what it finds there.
    """
    found = FolderCheck()
    found.add(lambda: _check_cold_files(found, FolderReader(folder, files), until, clock))
    return found


def _check_cold_files(
    found: FolderCheck, reader: FolderReader, until: float, clock: Callable[[], float]
) -> str:
    found.add(partial(_check_identity, reader))
    found.add(partial(_check_epochs, reader))
    checks = list(_checks_of(found, reader))
    for number, (path, check) in enumerate(checks):
        if clock() >= until:
            found.unread_files = len(checks) - number
            break
        found.add(check, partial(_is_there, reader.files, path))
    return ""


def _checks_of(found: FolderCheck, reader: FolderReader) -> Iterator[tuple[Path, Check]]:
    """Yield each snapshot and segment with its check, and note how large the largest are."""
    files, folder = reader.files, reader.generation()[0]
    with storage_errors(folder):
        names = files.names(folder)
    synced = ZERO
    for zxid in snapshot_zxids(names):
        path = folder / snapshot_name(zxid)
        found.snapshot_bytes = max(found.snapshot_bytes, _size_of(files, path))
        synced = max(synced, _synced_by(files, path))
        yield path, partial(_check_snapshot, files, path)
    log = reader.log(synced)
    for index, first in enumerate(log.firsts):
        path = folder / segment_name(first)
        found.segment_bytes = max(found.segment_bytes, _size_of(files, path))
        yield path, partial(_check_segment, log, index)


def _check_identity(reader: FolderReader) -> str:
    reader.identity()
    return ""


def _check_epochs(reader: FolderReader) -> str:
    if reader.epochs()[1] == 2:
        return ""
    return f"one of the two copies of the epochs in {reader.folder} is damaged; the other counts"


def _check_snapshot(files: Filesystem, path: Path) -> str:
    verify_snapshot(path, files)
    return ""


def _check_segment(log: LogReader, index: int) -> str:
    return log.read(index).problem


def _synced_by(files: Filesystem, snapshot: Path) -> Zxid:
    """Return up to where the log was forced when a snapshot was published; 0 if it is damaged."""
    try:
        return read_summary(snapshot, files).consistent_at
    except StorageError:
        return ZERO


def _size_of(files: Filesystem, path: Path) -> int:
    """Return the size of a file, 0 if it is gone or cannot be read."""
    try:
        fd = files.open(path)
    except OSError:
        return 0
    try:
        return files.size(fd)
    finally:
        files.close(fd)


def _is_there(files: Filesystem, path: Path) -> bool:
    try:
        return files.exists(path)
    except OSError:
        return True
