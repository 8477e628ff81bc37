"""Operations on the files of a data folder: replacing, reading, removing, naming.

A small file changes as a whole: a crash leaves the old content or the new one. The new content is
written to a temporary file, forced, and renamed over the old one; then the names of the folder are
forced (ZooKeeper: `AtomicFileOutputStream`, which skips the last step). Nobody was promised the
content of a temporary file that a crash leaves behind, so the next start removes it.
"""

from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from raykeeper.actors.disk.filesystem import Filesystem
from raykeeper.actors.disk.storage_errors import CorruptRecord, storage_errors
from raykeeper.zab.ids import Zxid

TEMP_SUFFIX = ".tmp"


def temp_path(path: Path) -> Path:
    """Return where the content of `path` is written before it gets its name."""
    return path.with_name(path.name + TEMP_SUFFIX)


def replace_file(files: Filesystem, path: Path, data: bytes) -> None:
    """Replace the content of `path`, made if missing, atomically and durably.

    Raises:
        OSError: it failed; the old or the new content is there.
    """
    replace_by(files, path, data, temp_path(path))


def replace_by(files: Filesystem, path: Path, data: bytes, temp: Path) -> None:
    """Replace the content of `path` as `replace_file` does, by way of the new file `temp`."""
    fd = files.create(temp)
    try:
        files.write(fd, [data], 0)
        files.sync(fd)
    finally:
        files.close(fd)
    rename_durably(files, temp, path)


def rename_durably(files: Filesystem, source: Path, target: Path) -> None:
    """Give a file or folder, whose content is forced, another name. Durable on return.

    Raises:
        OSError: it failed; it has the old or the new name.
    """
    files.rename(source, target)
    files.sync_folder(target.parent)  # to force that of the old name is not enough


@contextmanager
def opened(files: Filesystem, path: Path) -> Iterator[int]:
    """Open an existing file, to read it in the block; close it afterwards.

    Raises:
        CorruptRecord: the disk has lost what is read.
        StorageError: it cannot be read.
    """
    with storage_errors(path):
        fd = files.open(path)
        try:
            yield fd
        finally:
            files.close(fd)


@contextmanager
def closed_on_error(files: Filesystem, fd: int) -> Iterator[None]:
    """Close an open file if the block fails."""
    try:
        yield
    except BaseException:
        files.close(fd)
        raise


def read_file(files: Filesystem, path: Path, bytes_max: int | None = None) -> bytes:
    """Read the whole content of `path`.

    Raises:
        CorruptRecord: it has more than `bytes_max`, so it is not read; or the disk has lost it.
        StorageError: it cannot be read.
    """
    with opened(files, path) as fd:
        size = files.size(fd)
        if bytes_max is not None and size > bytes_max:
            raise CorruptRecord(f"{path} has {size} bytes, at most {bytes_max} were expected")
        return files.read(fd, size, 0)


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
        # Another process may make the same folder at this moment, which serves as well.
        with suppress(FileExistsError):
            files.make_folder(folder)
        files.sync_folder(folder.parent)


def make_store_folder(files: Filesystem, path: Path) -> None:
    """Make the folder of a server, and what is missing above it, durably.

    Names that are there may not be forced yet: servers of one ensemble are formatted together.

    Raises:
        OSError: a folder cannot be made.
    """
    make_folders(files, path)
    for parent in (path.parent, path.parent.parent):
        with suppress(PermissionError):  # none of us made a name where we may not look
            files.sync_folder(parent)


def remove_leftovers(files: Filesystem, folder: Path) -> list[str]:
    """Remove the temporary files and folders in `folder`; return their names.

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


def zxid_name(prefix: str, zxid: Zxid) -> str:
    """Return the name of the file of `zxid`; names of one prefix sort like their zxids."""
    return f"{prefix}{zxid:016x}"


def check_zxid_names(names: list[str], prefix: str) -> None:
    """Check that each of the files `names` with the prefix has the name of its zxid exactly.

    Raises:
        CorruptRecord: one has another number of digits, or no number.
    """
    for name in names:
        if name.startswith(prefix):
            (zxid,) = zxids_in_names([name], prefix)
            if zxid_name(prefix, zxid) != name:
                raise CorruptRecord(f"{name} is not {prefix}<zxid>")


def zxids_in_names(names: list[str], prefix: str) -> list[Zxid]:
    """Return the zxids of the files named `prefix` and a number, oldest first.

    Raises:
        CorruptRecord: a name has the prefix, but no number behind it.
    """
    zxids = []
    for name in names:
        if name.startswith(prefix):
            try:
                zxids.append(Zxid(int(name.removeprefix(prefix), 16)))
            except ValueError:
                raise CorruptRecord(f"{name} is not {prefix}<zxid>") from None
    return sorted(zxids)
