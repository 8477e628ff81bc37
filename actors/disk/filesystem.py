"""The file operations that a store consists of, so that tests can break or lose each of them.

Everything a replica keeps goes through one `Filesystem`. A file is replaced by a new
file under the same name, except for the log, which grows at its end inside of what was allocated,
and the promises, which are written in place. Offsets are explicit; nothing depends on a file
position.
"""

import errno
import fcntl
import os
import stat
from collections.abc import Sequence
from pathlib import Path

_LOST = frozenset({errno.EIO, errno.EBADMSG})  # the latter from file systems with checksums
_IOV_MAX = 1024  # POSIX guarantees 16; Linux takes 1024 buffers in one pwritev


class Unreadable(OSError):
    """The disk no longer returns bytes that it once took."""


class Filesystem:
    """The operating system. Every method raises OSError and leaves what that call leaves."""

    def open(self, path: Path) -> int:
        """Open an existing file to read it."""
        return os.open(path, os.O_RDONLY | os.O_CLOEXEC)

    def open_for_update(self, path: Path) -> int:
        """Open an existing file to read it and to write inside of what it has."""
        return os.open(path, os.O_RDWR | os.O_CLOEXEC)

    def create(self, path: Path) -> int:
        """Create a file to write it; it must not exist."""
        return os.open(path, os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o644)

    def close(self, fd: int) -> None:
        """Close a file; a lock on it is released."""
        os.close(fd)

    def size(self, fd: int) -> int:
        """Return the length of a file in bytes, including its preallocated part."""
        return os.fstat(fd).st_size

    def read(self, fd: int, size: int, offset: int) -> bytes:
        """Read `size` bytes, fewer only at the end of the file.

        Raises:
            Unreadable: the disk has lost them.
        """
        try:
            return self._read(fd, size, offset)
        except OSError as error:
            if error.errno in _LOST:
                raise Unreadable(error.errno, error.strerror) from error
            raise

    def _read(self, fd: int, size: int, offset: int) -> bytes:
        data = os.pread(fd, size, offset)
        if len(data) == size or not data:
            return data
        pieces = [data]
        got = len(data)
        while got < size and (data := os.pread(fd, size - got, offset + got)):
            pieces.append(data)
            got += len(data)
        return b"".join(pieces)

    def write(self, fd: int, buffers: Sequence[bytes], offset: int) -> None:
        """Write all of `buffers`, one after the other, from `offset` on."""
        for start in range(0, len(buffers), _IOV_MAX):
            some = buffers[start : start + _IOV_MAX]
            size = sum(map(len, some))
            done = os.pwritev(fd, some, offset)
            if done < size:
                rest = memoryview(b"".join(some))
                while done < size:
                    done += os.pwrite(fd, rest[done:], offset + done)
            offset += size

    def allocate(self, fd: int, size: int) -> None:
        """Reserve the first `size` bytes on the disk; a full disk is met here (rule D6)."""
        os.posix_fallocate(fd, 0, size)

    def sync(self, fd: int) -> None:
        """Force a file's content and metadata to the disk."""
        os.fsync(fd)

    def sync_data(self, fd: int) -> None:
        """Force a file's content to the disk, and its size if it changed."""
        os.fdatasync(fd)

    def lock(self, path: Path) -> int | None:
        """Lock a file, created if missing, against every other holder; None if there is one.

        The lock is held until the file is closed, at the latest by the end of the process.
        """
        fd = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o644)
        try:
            fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            os.close(fd)
            return None
        except OSError:
            os.close(fd)
            raise
        return fd

    def free_bytes(self, folder: Path) -> int:
        """Return how many bytes this user can still allocate on the disk of `folder`."""
        disk = os.statvfs(folder)
        return disk.f_bavail * disk.f_frsize

    def exists(self, path: Path) -> bool:
        """Return whether a file or folder has that name; lack of permission is an error."""
        try:
            path.stat()
        except FileNotFoundError:
            return False
        return True

    def is_folder(self, path: Path) -> bool:
        """Return whether it is a folder. A symbolic link is none, so it is removed as a file."""
        return stat.S_ISDIR(path.lstat().st_mode)

    def names(self, folder: Path) -> list[str]:
        """Return the names in a folder, sorted."""
        return sorted(path.name for path in folder.iterdir())

    def make_folder(self, path: Path) -> None:
        """Make a folder; it must not exist, its parent must."""
        path.mkdir()

    def remove_folder(self, path: Path) -> None:
        """Remove an empty folder."""
        path.rmdir()

    def rename(self, source: Path, target: Path) -> None:
        """Give a file or folder a new name, replacing a file of that name at once."""
        source.rename(target)

    def remove(self, path: Path) -> None:
        """Remove a file."""
        path.unlink()

    def sync_folder(self, path: Path) -> None:
        """Force the names in a folder to the disk."""
        fd = os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        try:
            os.fsync(fd)
        finally:
            os.close(fd)


OS_FILESYSTEM = Filesystem()
