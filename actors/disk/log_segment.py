"""One segment of the log: a preallocated file `log.<first zxid>` that grows at its end.

A segment is made from an allocated file: it gets its header, is forced, and then named. So every
segment with its name has a whole header and the size that the header says, and the disk has space
for all of it (rule D6). Then batches fill it, each forced.
"""

from collections.abc import Sequence
from pathlib import Path

from raykeeper.actors.disk.file_operations import (
    check_zxid_names,
    closed_on_error,
    opened,
    zxid_name,
    zxids_in_names,
)
from raykeeper.actors.disk.filesystem import Filesystem
from raykeeper.actors.disk.log_format import (
    SEGMENT_HEADER_BYTES,
    SegmentHeader,
    decode_segment_header,
    encode_segment_header,
)
from raykeeper.actors.disk.storage_errors import CorruptRecord
from raykeeper.zab.ids import Zxid

_PREFIX = "log."


def segment_name(first: Zxid) -> str:
    """Return the file name of the segment that starts with `first`."""
    return zxid_name(_PREFIX, first)


def check_segment_names(names: list[str]) -> None:
    """Check the names of the segments among the files `names`.

    Raises:
        CorruptRecord: a name begins like a segment's and is none.
    """
    check_zxid_names(names, _PREFIX)


def segment_firsts(names: list[str]) -> list[Zxid]:
    """Return the first zxids of the segments among the files `names`, oldest first.

    Raises:
        CorruptRecord: a name begins like a segment's but has no number.
    """
    return zxids_in_names(names, _PREFIX)


def read_header(files: Filesystem, path: Path) -> SegmentHeader:
    """Read the header of a segment.

    Raises:
        CorruptRecord: it is damaged or lost, or of another segment than the name says, or the file
            no longer has its original size.
        UnknownVersion: it is of a version that this program does not know.
        StorageError: it cannot be read.
    """
    with opened(files, path) as fd:
        return read_header_in(files, fd, path)


def read_segment(files: Filesystem, path: Path) -> tuple[SegmentHeader, bytes]:
    """Read the header of a segment, and then all its bytes, of one and the same file.

    A server may replace the file by another one of that name meanwhile.

    Raises:
        CorruptRecord, UnknownVersion, StorageError: as `read_header`.
    """
    with opened(files, path) as fd:
        header = read_header_in(files, fd, path)
        return header, files.read(fd, header.size, 0)


def read_header_in(files: Filesystem, fd: int, path: Path) -> SegmentHeader:
    """Read the header of the segment `path`, which is open as `fd`.

    Raises:
        CorruptRecord, UnknownVersion: as `read_header`.
        OSError: it cannot be read.
    """
    data = files.read(fd, SEGMENT_HEADER_BYTES, 0)
    size = files.size(fd)
    header = decode_segment_header(data, str(path))
    if path.name != segment_name(header.first):
        raise CorruptRecord(f"{path} holds the segment {segment_name(header.first)}")
    if size != header.size:
        raise CorruptRecord(f"{path} has {size} bytes, not {header.size}")
    return header


class TailSegment:
    """The last segment of a log, open for appending at `end`."""

    __slots__ = ("_fd", "_files", "end", "header")

    def __init__(
        self,
        files: Filesystem,
        path: Path,
        header: SegmentHeader,
        content: bytes,
        allocated: tuple[int, Path],
    ) -> None:
        """Make the segment `path` from an allocated file and its path, with `content` as batches.

        It replaces a segment of that name. Durable on return.

        Raises:
            OSError: it failed; the old segment or the new one is there.
        """
        self.header = header
        self.end = SEGMENT_HEADER_BYTES + len(content)
        self._files = files
        self._fd, allocated_path = allocated
        with closed_on_error(files, self._fd):
            assert self.end <= header.size == files.size(self._fd), (self.end, header)
            files.write(self._fd, [encode_segment_header(header), content], 0)
            files.sync(self._fd)
            files.rename(allocated_path, path)
            files.sync_folder(path.parent)

    @property
    def left(self) -> int:
        """The number of bytes that still fit at the end."""
        return self.header.size - self.end

    def append(self, buffers: Sequence[bytes], size: int) -> None:
        """Write `buffers`, `size` bytes that fit, at the end and force them.

        Raises:
            OSError: it failed; any part of them may be on the disk.
        """
        assert size <= self.left, (self.end, size, self.header)
        self._files.write(self._fd, buffers, self.end)
        self._files.sync_data(self._fd)
        self.end += size

    def close(self) -> None:
        """Close the file, all of which was forced."""
        self._files.close(self._fd)
