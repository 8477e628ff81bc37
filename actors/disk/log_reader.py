"""Reads the log in a folder without changing it, also while its server appends to it.

For tools: `raykeeper inspect` and `raykeeper log`. A server reads its log in `log.py`; the bytes
are decoded and judged by the same functions. One segment at a time is in memory.

What a server does meanwhile:

- It appends. A reader can meet a batch that is not whole yet, at the end: as after a crash, that
  is a torn end and no damage. A reader can also miss a batch and meet a later one, because it reads
  the file page after page. Then the missed batch is whole by now. So what looks like damage counts
  only when another reading, begun afterwards, gets no further.
- It cuts the end and replaces the last segment. Each reading is of one open file.
- It removes the oldest segments, or all of them together with their generation. The caller is told
  that the folder has changed, by a `StorageError`.
"""

from collections.abc import Iterator
from pathlib import Path

from msgspec import Struct, field

from raykeeper.actors.disk.file_operations import opened
from raykeeper.actors.disk.filesystem import Filesystem
from raykeeper.actors.disk.log_format import (
    SEGMENT_HEADER_BYTES,
    Batch,
    SegmentHeader,
    batches,
    check_end,
    has_torn_end,
    is_zero_after,
    txns_of,
)
from raykeeper.actors.disk.log_segment import (
    check_segment_names,
    read_header,
    read_segment,
    segment_firsts,
    segment_name,
)
from raykeeper.actors.disk.storage_errors import CorruptRecord, StorageError, storage_errors
from raykeeper.zab.ids import ZERO, Zxid


class SegmentContent(Struct):
    """A segment as it was read: its valid batches up to the first bad one."""

    path: Path
    size: int
    """Of the file."""
    header: SegmentHeader | None = None
    """None if it is damaged."""
    data: bytes = b""
    batches: list[Batch] = field(default_factory=list)
    is_torn: bool = False
    """The last segment ends with a batch that is being written, or was torn by a crash."""
    problem: str = ""
    """What is damaged or missing, "" if nothing is."""

    @property
    def end(self) -> int:
        """Where the last valid batch ends."""
        return self.batches[-1].end if self.batches else SEGMENT_HEADER_BYTES

    @property
    def last(self) -> Zxid | None:
        """The zxid of the last transaction, or of the one before the segment; None if damaged."""
        if self.batches:
            return self.batches[-1].last
        return None if self.header is None else self.header.previous

    def txns(self, after: Zxid = ZERO) -> Iterator[tuple[Zxid, bytes]]:
        """Yield the transactions after `after`, each with its zxid."""
        for batch in self.batches:
            if batch.last > after:
                first = max(batch.first, after + 1)
                txns = txns_of(self.data, batch, after, batch.last)
                yield from ((Zxid(first + n), txn) for n, txn in enumerate(txns))


class LogReader:
    """The segments that a folder holds now, oldest first."""

    def __init__(self, files: Filesystem, folder: Path, synced: Zxid = ZERO) -> None:
        """List the segments in `folder`. The log is known to have been forced up to `synced`.

        Raises:
            CorruptRecord: a name begins like a segment's but has no number.
            StorageError: the folder cannot be read.
        """
        self._files = files
        self._folder = folder
        self._synced = synced
        with storage_errors(folder):
            names = files.names(folder)
        check_segment_names(names)
        self.firsts = segment_firsts(names)
        """The first zxids, as the names of the segments say."""

    def __iter__(self) -> Iterator[SegmentContent]:
        """Yield every segment; of a damaged one what is valid, with the problem.

        The data of a segment are gone when the next one is asked for.
        """
        for index in range(len(self.firsts)):
            content = self.read(index)
            yield content
            content.data = b""

    def begin(self) -> Zxid | None:
        """Return the zxid before the first transaction; None without a readable segment.

        Raises:
            UnknownVersion: a segment is of a version that this program does not know.
            StorageError: a segment cannot be read.
        """
        for index in range(len(self.firsts)):
            path = self._path(index)
            try:
                return read_header(self._files, path).previous
            except CorruptRecord:
                continue
            except StorageError as error:
                raise self._explained(path, error) from error
        return None

    def read(self, index: int) -> SegmentContent:
        """Read one segment.

        Raises:
            UnknownVersion: it is of a version that this program does not know.
            StorageError: it cannot be read, or the server has removed it.
        """
        content = self._read(index)
        while content.problem:
            end = content.end
            del content  # not two of them in memory
            content = self._read(index)
            if content.end <= end:
                break
        return content

    def _read(self, index: int) -> SegmentContent:
        path = self._path(index)
        try:
            header, data = read_segment(self._files, path)
        except CorruptRecord as error:
            return SegmentContent(path, self._size(path), problem=str(error))
        except StorageError as error:
            raise self._explained(path, error) from error
        content = SegmentContent(path, len(data), header, data)
        try:
            for batch in batches(data, header.salt, header.previous, str(path)):
                content.batches.append(batch)
            self._check_end(index, header, content)
        except CorruptRecord as error:
            content.problem = str(error)
        return content

    def _check_end(self, index: int, header: SegmentHeader, content: SegmentContent) -> None:
        """Check what follows the last valid batch, and that the next segment follows it."""
        name, last = str(content.path), content.last
        assert last is not None
        if index + 1 == len(self.firsts):
            data, end = content.data, content.end
            content.is_torn = has_torn_end(data, end, header.salt, last, self._synced, name)
            return
        following = self._path(index + 1)
        try:
            following_header = read_header(self._files, following)
        except CorruptRecord:
            pass  # told with the next segment; where this one must end is not known then
        except StorageError as error:
            raise self._explained(following, error) from error
        else:
            check_end(content.batches, header, following_header.previous, name)
        if not is_zero_after(content.data, content.end):
            raise CorruptRecord(f"{name} is damaged at byte {content.end}, behind its last batch")

    def _explained(self, path: Path, error: StorageError) -> StorageError:
        """Return the error of a segment that cannot be read; the server may have removed it."""
        try:
            is_there = self._files.exists(path)
        except OSError:
            return error
        if is_there:
            return error
        return StorageError(
            f"{path} was removed by its server while the log was read; run the command again"
        )

    def _size(self, path: Path) -> int:
        with opened(self._files, path) as fd:
            return self._files.size(fd)

    def _path(self, index: int) -> Path:
        return self._folder / segment_name(self.firsts[index])
