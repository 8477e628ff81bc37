"""One segment of the log: a preallocated file `log.<first zxid>` that grows at its end.

A segment is made from an allocated file, given its header, forced, and then named: a segment that
can be found is whole up to its header and as long as that says, and the disk has room for all of
it (rule D6). It is filled by batches, forced, and left.
"""

from collections.abc import Sequence
from pathlib import Path

from raykeeper.actors.disk.filesystem import Filesystem
from raykeeper.actors.disk.log_format import (
    SEGMENT_HEADER_BYTES,
    SegmentHeader,
    decode_segment_header,
    encode_segment_header,
)
from raykeeper.actors.disk.storage_errors import CorruptRecord, storage_errors
from raykeeper.actors.disk.zxid_names import zxid_name, zxids_in_names
from raykeeper.zab.ids import Zxid

_PREFIX = "log."


def segment_name(first: Zxid) -> str:
    """The file of the segment that starts with `first`."""
    return zxid_name(_PREFIX, first)


def segment_firsts(names: list[str]) -> list[Zxid]:
    """The first zxids of the segments among the files `names`, oldest first.

    Raises:
        CorruptRecord: a file is called like a segment, but for the number.
    """
    return zxids_in_names(names, _PREFIX)


def read_header(files: Filesystem, path: Path) -> SegmentHeader:
    """The header of a segment.

    Raises:
        CorruptRecord: it is damaged or lost, or of another segment than the name says, or the file
            has not the size it was made with.
        UnknownVersion: it is of a version that this program does not know.
        StorageError: it cannot be read.
    """
    with storage_errors(path):
        fd = files.open(path)
        try:
            data = files.read(fd, SEGMENT_HEADER_BYTES, 0)
            size = files.size(fd)
        finally:
            files.close(fd)
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
        """Make the segment `path` of an allocated file and its path, with `content` as batches.

        It replaces one of that name. Durable on return.

        Raises:
            OSError: it failed; an old one is still there, or the new one is.
        """
        self.header = header
        self.end = SEGMENT_HEADER_BYTES + len(content)
        self._files = files
        self._fd, allocated_path = allocated
        try:
            assert self.end <= header.size == files.size(self._fd), (self.end, header)
            files.write(self._fd, [encode_segment_header(header), content], 0)
            files.sync(self._fd)
            files.rename(allocated_path, path)
            files.sync_folder(path.parent)
        except BaseException:
            files.close(self._fd)
            raise

    @property
    def left(self) -> int:
        """How many bytes fit at its end."""
        return self.header.size - self.end

    def append(self, buffers: Sequence[bytes], size: int) -> None:
        """Write `buffers`, `size` bytes that fit, at the end and force them.

        Raises:
            OSError: it failed; what of it is on the disk is not known.
        """
        assert size <= self.left, (self.end, size, self.header)
        self._files.write(self._fd, buffers, self.end)
        self._files.sync_data(self._fd)
        self.end += size

    def close(self) -> None:
        """Close the file. All of it was forced."""
        self._files.close(self._fd)
