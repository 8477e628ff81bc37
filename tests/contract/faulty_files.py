"""A filesystem in memory that loses unforced changes at a crash, and breaks on demand.

It knows what POSIX promises and no more: written bytes are on the disk after fsync of their file,
names after fsync of their folder; until then each write and each change of a name may or may not
be there after a crash, in any combination. `rename` is atomic, and on the disk once the folder of
the new name is forced; to force that of the old one is not enough. After a failed fsync the page
cache shows the bytes as before, and no later fsync brings them to the disk (the page cache lies).
Names are different: they are in the file system's journal, and one that cannot write its journal
lets nothing be written any more; so after a failed fsync of a folder its changes are still due.
"""

import errno
import random
from collections.abc import Callable, Sequence
from enum import Enum
from pathlib import Path

from raykeeper.actors.disk.filesystem import Filesystem, Unreadable

_SECTOR = 512  # what a disk writes whole


class Crashed(Exception):
    """The machine lost power; this process ends."""


class Loss(Enum):
    """Which of the changes that were not forced survive a crash."""

    ALL = "none of them survives"
    NOTHING = "all of them survive"
    SOME = "any of them may survive"


class _File:
    def __init__(self) -> None:
        self.data = bytearray()  # what a reader sees
        self.disk = bytearray()  # what is on the disk
        self.pending: list[tuple[int, bytes]] = []  # on the way from the one to the other
        self.is_spoiled = False

    def write(self, offset: int, data: bytes) -> None:
        _put(self.data, offset, data)
        self.pending.append((offset, data))

    def sync(self) -> None:
        for offset, data in self.pending:
            _put(self.disk, offset, data)
        self.pending.clear()


class _Folder:
    def __init__(self) -> None:
        self.names: dict[str, _Inode] = {}
        self.disk: dict[str, _Inode] = {}


_Inode = _File | _Folder
_Change = list[tuple[_Folder, str, _Inode | None]]  # of a rename the new name first


def _put(target: bytearray, offset: int, data: bytes) -> None:
    if len(target) < offset:
        target.extend(bytes(offset - len(target)))
    target[offset : offset + len(data)] = data


class FaultyFiles(Filesystem):
    """A disk of one machine, with `/` as its root.

    Attributes:
        operations: How many operations changed, or forced, something so far.
        on_operation: Called before each of those with its number and name; may raise, in place
            of the operation.
        capacity: Bytes that all files may have together; met at allocation only.
        read_max: Bytes that one read may ask for.
    """

    def __init__(self) -> None:
        self.operations = 0
        self.capacity = 1 << 40
        self.read_max = 1 << 40
        self.on_operation: Callable[[int, str], None] = lambda _number, _name: None
        self._root = _Folder()
        self._changes: list[_Change] = []  # of names, not forced yet, oldest first
        self._open: dict[int, _File] = {}
        self._locks: dict[int, _File] = {}
        self._next_fd = 1000

    def crash(self, loss: Loss, rng: random.Random) -> "FaultyFiles":
        """Return the disk after power was lost and came back."""
        for change in self._changes:
            if loss is Loss.NOTHING or (loss is Loss.SOME and rng.random() < 0.5):
                _apply(change)
        after = FaultyFiles()
        after.capacity = self.capacity
        after._root = self._root
        _reboot(self._root, loss, rng)
        return after

    def restart(self) -> "FaultyFiles":
        """Return the disk and its page cache after every process was killed."""
        self._open.clear()
        self._locks.clear()
        self.on_operation = lambda _number, _name: None
        return self

    def open_files(self) -> int:
        """Return how many files are open."""
        return len(self._open)

    def content(self, path: Path) -> bytearray:
        """Return the bytes of a file, to be damaged in place; the damage is on the disk at once."""
        file = self._file(path)
        file.sync()
        file.data = file.disk
        return file.disk

    def flip(self, path: Path, offset: int, bits: int = 1) -> None:
        """Flip bits of one byte on the disk."""
        self.content(path)[offset] ^= bits

    def spoil(self, path: Path) -> None:
        """Make the bytes of a file unreadable."""
        self._file(path).is_spoiled = True

    def lose(self, path: Path) -> None:
        """Remove a file from the disk."""
        self.remove(path)
        self.sync_folder(path.parent)

    def paths(self, folder: Path) -> list[Path]:
        """Return all files in a folder and below."""
        found = []
        for name in self.names(folder):
            path = folder / name
            found += self.paths(path) if self.is_folder(path) else [path]
        return found

    # What Filesystem offers.

    def open(self, path: Path) -> int:
        return self._register(self._file(path))

    def open_for_update(self, path: Path) -> int:
        return self._register(self._file(path))

    def create(self, path: Path) -> int:
        self._operation("create")
        folder = self._folder(path.parent)
        if path.name in folder.names:
            raise FileExistsError(errno.EEXIST, "exists", str(path))
        file = _File()
        self._change([(folder, path.name, file)])
        return self._register(file)

    def close(self, fd: int) -> None:
        del self._open[fd]
        self._locks.pop(fd, None)

    def size(self, fd: int) -> int:
        return len(self._open[fd].data)

    def read(self, fd: int, size: int, offset: int) -> bytes:
        assert size <= self.read_max, (size, self.read_max)
        if self._open[fd].is_spoiled:
            raise Unreadable(errno.EIO, "cannot be read")
        return bytes(self._open[fd].data[offset : offset + size])

    def write(self, fd: int, buffers: Sequence[bytes], offset: int) -> None:
        self._operation("write")
        self._open[fd].write(offset, b"".join(buffers))

    def allocate(self, fd: int, size: int) -> None:
        self._operation("allocate")
        if size - len(self._open[fd].data) > self._free():
            raise OSError(errno.ENOSPC, "no space left")
        self._open[fd].write(0, bytes(size))

    def sync(self, fd: int) -> None:
        file = self._open[fd]
        try:
            self._operation("sync")
        except OSError:
            file.pending.clear()  # the kernel holds the pages for clean from here on
            raise
        file.sync()

    def sync_data(self, fd: int) -> None:
        self.sync(fd)

    def lock(self, path: Path) -> int | None:
        folder = self._folder(path.parent)
        if path.name not in folder.names:
            self._operation("create")
            self._change([(folder, path.name, _File())])
        file = self._file(path)
        if any(locked is file for locked in self._locks.values()):
            return None
        fd = self._register(file)
        self._locks[fd] = file
        return fd

    def free_bytes(self, folder: Path) -> int:
        return self._free()

    def exists(self, path: Path) -> bool:
        try:
            self._find(path)
        except FileNotFoundError:
            return False
        return True

    def is_folder(self, path: Path) -> bool:
        return isinstance(self._find(path), _Folder)

    def names(self, folder: Path) -> list[str]:
        return sorted(self._folder(folder).names)

    def make_folder(self, path: Path) -> None:
        self._operation("make_folder")
        folder = self._folder(path.parent)
        if path.name in folder.names:
            raise FileExistsError(errno.EEXIST, "exists", str(path))
        self._change([(folder, path.name, _Folder())])

    def remove_folder(self, path: Path) -> None:
        self._operation("remove_folder")
        if self._folder(path).names:
            raise OSError(errno.ENOTEMPTY, "not empty", str(path))
        self._change([(self._folder(path.parent), path.name, None)])

    def rename(self, source: Path, target: Path) -> None:
        self._operation("rename")
        old, new = self._folder(source.parent), self._folder(target.parent)
        self._change([(new, target.name, self._find(source)), (old, source.name, None)])

    def remove(self, path: Path) -> None:
        self._operation("remove")
        self._file(path)
        self._change([(self._folder(path.parent), path.name, None)])

    def sync_folder(self, path: Path) -> None:
        self._operation("sync_folder")
        folder = self._folder(path)
        touching = [change for change in self._changes if change[0][0] is folder]
        self._changes = [change for change in self._changes if change not in touching]
        for change in touching:
            _apply(change)

    def _free(self) -> int:
        files = {id(file): file for file in self._open.values()}
        files |= {id(file): file for file in map(self._file, self.paths(Path("/")))}
        return self.capacity - sum(len(file.data) for file in files.values())

    def _operation(self, name: str) -> None:
        self.operations += 1
        self.on_operation(self.operations, name)

    def _register(self, file: _File) -> int:
        self._next_fd += 1
        self._open[self._next_fd] = file
        return self._next_fd

    def _change(self, change: _Change) -> None:
        for folder, name, inode in change:
            if inode is None:
                del folder.names[name]
            else:
                folder.names[name] = inode
        self._changes.append(change)

    def _find(self, path: Path) -> _Inode:
        inode: _Inode = self._root
        for name in path.parts[1:]:
            if not isinstance(inode, _Folder):
                raise NotADirectoryError(errno.ENOTDIR, "not a folder", str(path))
            if name not in inode.names:
                raise FileNotFoundError(errno.ENOENT, "not found", str(path))
            inode = inode.names[name]
        return inode

    def _folder(self, path: Path) -> _Folder:
        inode = self._find(path)
        if not isinstance(inode, _Folder):
            raise NotADirectoryError(errno.ENOTDIR, "not a folder", str(path))
        return inode

    def _file(self, path: Path) -> _File:
        inode = self._find(path)
        if not isinstance(inode, _File):
            raise IsADirectoryError(errno.EISDIR, "a folder", str(path))
        return inode


def _apply(change: _Change) -> None:
    for folder, name, inode in change:
        if inode is None:
            folder.disk.pop(name, None)
        else:
            folder.disk[name] = inode


def _reboot(folder: _Folder, loss: Loss, rng: random.Random) -> None:
    folder.names = dict(folder.disk)
    for inode in folder.disk.values():
        if isinstance(inode, _Folder):
            _reboot(inode, loss, rng)
            continue
        if loss is Loss.NOTHING:
            inode.sync()
        elif loss is Loss.SOME:
            for offset, data in inode.pending:
                for start in range(0, len(data), _SECTOR):
                    if rng.random() < 0.5:
                        _put(inode.disk, offset + start, data[start : start + _SECTOR])
        inode.pending.clear()
        inode.data = bytearray(inode.disk)


def crash_at(number: int) -> Callable[[int, str], None]:
    """Lose power instead of operation `number`."""

    def on_operation(now: int, _name: str) -> None:
        if now >= number:
            raise Crashed

    return on_operation


def fail_at(number: int) -> Callable[[int, str], None]:
    """Let operation `number`, or else the first one after it, fail as a broken disk does."""
    failed = False

    def on_operation(now: int, name: str) -> None:
        nonlocal failed
        if now >= number and not failed:
            failed = True
            raise OSError(errno.EIO, f"{name} failed")

    return on_operation
