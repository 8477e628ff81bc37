"""Where backups are: a path of this machine, or a URL that fsspec understands.

A local file is written under a temporary name, forced piece by piece so that no force of a log on
the same disk waits long for it, and renamed at the end. Of the file systems behind URLs few rename
cheaply, and most show an upload only when it is complete. What one of them shows of an upload that
was cut has no end, by which every reader recognizes it (backup_format.py).
"""

import os
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any, Final, Protocol

from raykeeper.actors.disk.file_operations import TEMP_SUFFIX, make_folders, rename_durably
from raykeeper.actors.disk.filesystem import OS_FILESYSTEM, Filesystem
from raykeeper.zab.errors import RayKeeperError

_FORCED_BYTES: Final = 4 << 20
_SCHEME_MARK: Final = "://"
_LOCAL: Final = "file://"


class BackupPlaceError(RayKeeperError):
    """Raised when the place of a backup cannot be read or written, or is not fit for it.

    The message names the place. Nothing was changed there but what it says.
    """


class InputFile(Protocol):
    """An open file of a place."""

    size: int

    def read(self, size: int, /) -> bytes:
        """Return `size` bytes, fewer only at the end."""

    def seek(self, offset: int, /) -> object:
        """Have the next `read` begin at `offset`."""

    def close(self) -> None:
        """Close it."""


class OutputFile(Protocol):
    """A new file of a place, which is there once it is complete."""

    def write(self, data: bytes, /) -> None:
        """Add bytes at the end."""

    def complete(self) -> None:
        """Make the file durable and give it its name."""

    def discard(self) -> None:
        """Remove what was written."""


class Place(Protocol):
    """A file, or a folder of files."""

    name: str

    def is_folder(self) -> bool:
        """Return whether it is an existing folder."""

    def exists(self) -> bool:
        """Return whether there is anything."""

    def names(self) -> list[str]:
        """Return the names in the folder, sorted; none if it does not exist."""

    def child(self, name: str) -> "Place":
        """Return the place of that name in the folder."""

    def make_folder(self) -> None:
        """Make the folder, and those above it, if they are missing."""

    def remove(self) -> None:
        """Remove the file; it may be gone."""

    def open(self) -> InputFile:
        """Open the file to read it."""

    def create(self) -> OutputFile:
        """Create the file."""


def place_at(url: str | os.PathLike[str], files: Filesystem = OS_FILESYSTEM) -> Place:
    """Return the place that a path or URL names. Looks at nothing there.

    Raises:
        BackupPlaceError: fsspec, or what it needs for this kind of URL, is not installed; or no
            file system has such URLs.
    """
    text = os.fspath(url)
    if text.startswith(_LOCAL):
        text = text.removeprefix(_LOCAL)
    if not text:
        raise BackupPlaceError("the place of a backup is empty; expected a path or a URL")
    if _SCHEME_MARK in text:
        return _RemotePlace.at(text)
    return LocalPlace(Path(text).expanduser(), files)


@contextmanager
def opened_input(place: Place) -> Iterator[InputFile]:
    """Open a file in the block."""
    file = place.open()
    try:
        yield file
    finally:
        file.close()


@contextmanager
def created_output(place: Place) -> Iterator[OutputFile]:
    """Create a file in the block, and complete it; if the block fails, discard it."""
    file = place.create()
    try:
        yield file
        file.complete()
    except BaseException:
        file.discard()
        raise


class LocalPlace:
    """A path."""

    def __init__(self, path: Path, files: Filesystem = OS_FILESYSTEM) -> None:
        self.path = path
        self.name = str(path)
        self._files = files

    def is_folder(self) -> bool:
        """See `Place`."""
        with _place_errors(self.name):
            return self._files.exists(self.path) and self._files.is_folder(self.path.resolve())

    def exists(self) -> bool:
        """See `Place`."""
        with _place_errors(self.name):
            return self._files.exists(self.path)

    def names(self) -> list[str]:
        """See `Place`."""
        with _place_errors(self.name):
            return self._files.names(self.path) if self._files.exists(self.path) else []

    def child(self, name: str) -> "LocalPlace":
        """See `Place`."""
        return LocalPlace(self.path / name, self._files)

    def make_folder(self) -> None:
        """See `Place`."""
        with _place_errors(self.name):
            make_folders(self._files, self.path)

    def remove(self) -> None:
        """See `Place`."""
        with _place_errors(self.name), suppress(FileNotFoundError):
            self._files.remove(self.path)

    def open(self) -> InputFile:
        """See `Place`."""
        with _place_errors(self.name):
            return _LocalInput(self.path, self._files)

    def create(self) -> OutputFile:
        """See `Place`."""
        with _place_errors(self.name):
            return _LocalOutput(self.path, self._files)


class _LocalInput:
    def __init__(self, path: Path, files: Filesystem) -> None:
        self._name, self._files = str(path), files
        self._fd = files.open(path)
        self.size = files.size(self._fd)
        self._at = 0

    def read(self, size: int, /) -> bytes:
        with _place_errors(self._name):
            data = self._files.read(self._fd, min(size, max(0, self.size - self._at)), self._at)
        self._at += len(data)
        return data

    def seek(self, offset: int, /) -> None:
        self._at = offset

    def close(self) -> None:
        self._files.close(self._fd)


class _LocalOutput:
    def __init__(self, path: Path, files: Filesystem) -> None:
        self._path, self._files = path, files
        self._temp = path.with_name(f"{path.name}.{os.getpid()}{TEMP_SUFFIX}")
        if files.exists(self._temp):
            files.remove(self._temp)
        self._fd: int | None = files.create(self._temp)
        self._end = self._unforced = 0
        self._waiting: list[bytes] = []

    def write(self, data: bytes, /) -> None:
        self._waiting.append(data)
        self._unforced += len(data)
        if self._unforced >= _FORCED_BYTES:
            with _place_errors(str(self._path)):
                self._flush()

    def complete(self) -> None:
        with _place_errors(str(self._path)):
            self._flush()
            assert self._fd is not None
            self._files.sync(self._fd)
            self._close()
            rename_durably(self._files, self._temp, self._path)

    def discard(self) -> None:
        with suppress(OSError):
            self._close()
        with suppress(OSError):
            self._files.remove(self._temp)

    def _flush(self) -> None:
        assert self._fd is not None
        waiting, self._waiting, self._unforced = self._waiting, [], 0
        self._files.write(self._fd, waiting, self._end)
        self._end += sum(map(len, waiting))
        self._files.sync_data(self._fd)

    def _close(self) -> None:
        fd, self._fd = self._fd, None
        if fd is not None:
            self._files.close(fd)


class _RemotePlace:
    """A URL; `system` is fsspec's file system of it."""

    def __init__(self, name: str, system: Any, path: str) -> None:
        self.name = name
        self._system = system
        self._path = path

    @classmethod
    def at(cls, url: str) -> "_RemotePlace":
        try:
            from fsspec.core import url_to_fs
        except ImportError:
            raise BackupPlaceError(
                f"{url}: URLs need fsspec: pip install 'raykeeper[backup]'"
            ) from None
        with _remote_errors(url):
            system, path = url_to_fs(url)
        return cls(url, system, path)

    def is_folder(self) -> bool:
        with _remote_errors(self.name):
            return bool(self._system.isdir(self._path))

    def exists(self) -> bool:
        with _remote_errors(self.name):
            self._system.invalidate_cache()
            return bool(self._system.exists(self._path))

    def names(self) -> list[str]:
        with _remote_errors(self.name):
            self._system.invalidate_cache()
            try:
                found = self._system.ls(self._path, detail=False)
            except FileNotFoundError:
                return []
            return sorted(path.rstrip("/").rpartition("/")[2] for path in found)

    def child(self, name: str) -> "_RemotePlace":
        return _RemotePlace(
            f"{self.name.rstrip('/')}/{name}", self._system, f"{self._path.rstrip('/')}/{name}"
        )

    def make_folder(self) -> None:
        with _remote_errors(self.name):
            self._system.makedirs(self._path, exist_ok=True)

    def remove(self) -> None:
        with _remote_errors(self.name), suppress(FileNotFoundError):
            self._system.rm_file(self._path)

    def open(self) -> InputFile:
        with _remote_errors(self.name):
            size = self._system.size(self._path)
            return _RemoteInput(self.name, self._system.open(self._path, "rb"), size)

    def create(self) -> OutputFile:
        with _remote_errors(self.name):
            return _RemoteOutput(self.name, self._system, self._path)


class _RemoteInput:
    def __init__(self, name: str, file: Any, size: int) -> None:
        self._name, self._file, self.size = name, file, size

    def read(self, size: int, /) -> bytes:
        pieces: list[bytes] = []
        with _remote_errors(self._name):
            while size > 0 and (piece := self._file.read(size)):  # some return less than is there
                pieces.append(piece)
                size -= len(piece)
        return pieces[0] if len(pieces) == 1 else b"".join(pieces)

    def seek(self, offset: int, /) -> None:
        with _remote_errors(self._name):
            self._file.seek(offset)

    def close(self) -> None:
        with _remote_errors(self._name):
            self._file.close()


class _RemoteOutput:
    def __init__(self, name: str, system: Any, path: str) -> None:
        self._name, self._system, self._path = name, system, path
        self._file = system.open(path, "wb")
        self._bytes = 0

    def write(self, data: bytes, /) -> None:
        with _remote_errors(self._name):
            self._file.write(data)
        self._bytes += len(data)

    def complete(self) -> None:
        with _remote_errors(self._name):
            self._file.close()
            self._system.invalidate_cache()
            size = self._system.size(self._path)
        if size != self._bytes:
            raise BackupPlaceError(
                f"{self._name} has {size} bytes after {self._bytes} were written; it was cut"
            )

    def discard(self) -> None:
        with suppress(Exception):  # of any library; the first error is the one that is told
            self._file.discard()
        with suppress(Exception):
            self._file.close()
        with suppress(Exception):
            self._system.rm_file(self._path)


@contextmanager
def _place_errors(name: str) -> Iterator[None]:
    try:
        yield
    except OSError as error:
        raise BackupPlaceError(f"{name}: {error.strerror or error}") from error


@contextmanager
def _remote_errors(name: str) -> Iterator[None]:
    try:
        yield
    # Each library behind fsspec has errors of its own.
    except Exception as error:
        if isinstance(error, BackupPlaceError):
            raise
        raise BackupPlaceError(f"{name}: {error or type(error).__name__}") from error
