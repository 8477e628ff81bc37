"""Small files that change as a whole: a crash leaves the old content or the new one.

The new content is written to a temporary file, forced, and renamed over the old one; then the
names of the folder are forced (ZooKeeper: `AtomicFileOutputStream`, which skips the last step).
A temporary file that a crash left behind was promised to nobody and is removed at the next start.
"""

from contextlib import suppress
from pathlib import Path

from raykeeper.actors.disk.filesystem import Filesystem
from raykeeper.actors.disk.storage_errors import CorruptRecord, storage_errors

TEMP_SUFFIX = ".tmp"


def temp_path(path: Path) -> Path:
    """Where the content of `path` is gathered before it gets its name."""
    return path.with_name(path.name + TEMP_SUFFIX)


def replace_file(files: Filesystem, path: Path, data: bytes) -> None:
    """Replace the content of `path`, made if missing, atomically and durably.

    Raises:
        OSError: it failed; the old or the new content is there, it is not known which.
    """
    temp = temp_path(path)
    fd = files.create(temp)
    try:
        files.write(fd, [data], 0)
        files.sync(fd)
    finally:
        files.close(fd)
    files.rename(temp, path)
    files.sync_folder(path.parent)


def read_file(files: Filesystem, path: Path, bytes_max: int | None = None) -> bytes:
    """The whole content of `path`.

    Raises:
        CorruptRecord: it has more than `bytes_max`, so it is not read; or the disk has lost it.
        StorageError: it cannot be read.
    """
    with storage_errors(path):
        fd = files.open(path)
        try:
            size = files.size(fd)
            if bytes_max is not None and size > bytes_max:
                raise CorruptRecord(f"{path} has {size} bytes, at most {bytes_max} were expected")
            return files.read(fd, size, 0)
        finally:
            files.close(fd)


def make_folders(files: Filesystem, path: Path) -> None:
    """Make `path` and what is missing above it, durably.

    Raises:
        OSError: a folder cannot be made.
    """
    missing = []
    while not files.exists(path):
        missing.append(path)
        path = path.parent
    for folder in reversed(missing):
        # Another process may make the same folder at this moment; that is as good.
        with suppress(FileExistsError):
            files.make_folder(folder)
        files.sync_folder(folder.parent)


def remove_leftovers(files: Filesystem, folder: Path) -> list[str]:
    """Remove the temporary files and folders in `folder`; returns their names.

    Raises:
        OSError: one cannot be removed.
    """
    names = [name for name in files.names(folder) if name.endswith(TEMP_SUFFIX)]
    for name in names:
        remove_tree(files, folder / name)
    return names


def remove_tree(files: Filesystem, path: Path) -> None:
    """Remove a file, or a folder with all in it.

    Raises:
        OSError: it cannot be removed.
    """
    if not files.is_folder(path):
        files.remove(path)
        return
    for name in files.names(path):
        remove_tree(files, path / name)
    files.remove_folder(path)
