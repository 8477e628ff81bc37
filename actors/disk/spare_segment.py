"""The spare: an allocated file beside the log, from which its next segment is made.

Rule D6: a full disk is met when the next spare is allocated. At that moment the segment that was
made from the last spare still has all its space for what was accepted before. The first spare is
small, so that an ensemble without load takes little; each next one is twice as large, up to a
bound. Until then the disk counts as full if it lacks the space of the largest one, because more may
be under way than a small segment holds. Invariants: there is at most one spare; a full disk is
reported (`has_disk_space`), anything else that fails raises. ZooKeeper's `FilePadding`
reserves nothing, and a full disk ends the server in the middle of a write.

If a spare contains data and the log lacks the segment that its header names, then the spare is
that segment: it was acknowledged, and the disk has lost its new name.
"""

from pathlib import Path

from raykeeper.actors.disk.file_operations import TEMP_SUFFIX, closed_on_error, opened
from raykeeper.actors.disk.filesystem import Filesystem
from raykeeper.actors.disk.log_format import (
    BATCH_HEADER_BYTES,
    SEGMENT_HEADER_BYTES,
    decode_segment_header,
)
from raykeeper.actors.disk.log_segment import segment_name
from raykeeper.actors.disk.storage_errors import CorruptRecord, UnknownVersion, is_full

SPARE_FILE = "spare"
_OVERSIZE = "large" + TEMP_SUFFIX


class SpareSegment:
    """The spare in the data folder `folder`."""

    def __init__(self, files: Filesystem, folder: Path, size: int, size_max: int) -> None:
        """There is none before `replenish`; `grow` takes it from `size` to `size_max` bytes."""
        assert size <= size_max, (size, size_max)
        self.size = size
        """The bytes of the present spare, or else of the next one."""
        self.has_disk_space = True
        """Whether the last attempt found a spare, and space for the largest one."""
        self._size_max = size_max
        self._files = files
        self._folder = folder
        self._path = folder / SPARE_FILE
        self._oversize_path = folder / _OVERSIZE
        self._fd: int | None = None

    def remove_old(self, log: Path) -> None:
        """Remove the spare of an earlier process; `log` is the folder of the log.

        Raises:
            CorruptRecord: the spare is a segment that the log lacks.
            StorageError: it cannot be read.
            OSError: it cannot be removed.
        """
        if self._files.exists(self._path):
            check_spare(self._files, self._folder, log)
            self._files.remove(self._path)

    def replenish(self) -> bool:
        """Allocate a spare if there is none; returns `has_disk_space`.

        Raises:
            OSError: the disk failed, other than by being full.
        """
        if self._fd is None:
            try:
                self._fd = self._allocate(self._path, self.size)
            except OSError as error:
                if not is_full(error):
                    raise
                if self._files.exists(self._path):  # the disk may lack space even for its name
                    self._files.remove(self._path)
                self.has_disk_space = False
                return False
        self.has_disk_space = (
            self.size == self._size_max
            or self._files.free_bytes(self._folder) >= self._size_max - self.size
        )
        return self.has_disk_space

    def grow(self) -> None:
        """Double the size of the next spare; a smaller one that is there is removed.

        Raises:
            OSError: the smaller one cannot be removed.
        """
        if self.size == self._size_max:
            return
        self.size = min(2 * self.size, self._size_max)
        if self._fd is not None:
            self.close()
            self._files.remove(self._path)

    def acquire(self, size: int) -> tuple[int, Path]:
        """Return an allocated file of at least `size` bytes and its path; the caller owns it.

        Raises:
            OSError: the disk is full, or failed.
        """
        if size > self.size:
            return self._allocate(self._oversize_path, size), self._oversize_path
        fd, self._fd = self._fd, None
        return self._allocate(self._path, self.size) if fd is None else fd, self._path

    def close(self) -> None:
        """Close the file."""
        fd, self._fd = self._fd, None
        if fd is not None:
            self._files.close(fd)

    def _allocate(self, path: Path, size: int) -> int:
        fd = self._files.create(path)
        with closed_on_error(self._files, fd):
            self._files.allocate(fd, size)
            # Force its name, or the name could come back after the file was renamed.
            self._files.sync_folder(path.parent)
        return fd


def check_spare(files: Filesystem, folder: Path, log: Path) -> None:
    """Check that the spare in the data folder `folder` is no segment that `log` lacks.

    Raises:
        CorruptRecord: it is one.
        StorageError: it cannot be read.
        OSError: `log` cannot be read.
    """
    path = folder / SPARE_FILE
    with opened(files, path) as fd:
        data = files.read(fd, SEGMENT_HEADER_BYTES + BATCH_HEADER_BYTES, 0)
    if not any(data[SEGMENT_HEADER_BYTES:]):
        return
    try:
        name = segment_name(decode_segment_header(data, str(path)).first)
    except (CorruptRecord, UnknownVersion):
        return  # torn by a crash, before it was forced and renamed
    if not files.exists(log / name):
        raise CorruptRecord(f"{log / name} is missing: {path} is that segment")
