"""The transaction log: every transaction this server accepted, in zxid order, on disk.

Source: ZooKeeper's `FileTxnLog`. Invariants: the log has no hole, on write and on read; when
`append` returns, its transactions are forced; only the last segment can have a torn end, because a
segment is forced before the next one is made. After any OSError the log must not be used again
(rule D5). docs/DISKS.md defines torn, uncertain and corrupt.
"""

import zlib
from collections.abc import Callable, Sequence
from pathlib import Path

from raykeeper.actors.disk.file_operations import read_file
from raykeeper.actors.disk.filesystem import Filesystem
from raykeeper.actors.disk.log_format import (
    SEGMENT_HEADER_BYTES,
    Batch,
    SegmentHeader,
    batch_bytes,
    batches,
    check_end,
    encode_batch,
    has_torn_end,
    split_run,
    txns_of,
)
from raykeeper.actors.disk.log_segment import TailSegment, read_header, segment_firsts, segment_name
from raykeeper.actors.disk.spare_segment import SpareSegment
from raykeeper.actors.disk.storage_errors import CorruptRecord
from raykeeper.actors.disk.storage_trace_events import LOG_PART_DAMAGED, LOG_TAIL_CUT
from raykeeper.zab.effects import Append, LogRun, TraceEvent
from raykeeper.zab.ids import ZERO, Zxid, epoch_of, format_zxid


class Log:
    """The log in one folder. It holds the transactions of (begin, last]."""

    def __init__(
        self, files: Filesystem, folder: Path, base: Zxid, spare: SpareSegment, salt: bytes
    ) -> None:
        """Create a log without segments that follows `base`; `recover` reads those in the folder.

        Args:
            files: The file operations.
            folder: Where the segments are.
            base: The zxid before the first transaction, when there is none yet.
            spare: The file that the next segment is made from. A segment has its size, which grows
                with each full one, unless one transaction needs more.
            salt: Unknown to clients, so that a value cannot be taken for a batch.
        """
        self.last = base
        self.committed = ZERO
        """The newest committed zxid that a batch names."""
        self._files = files
        self._folder = folder
        self._base = base
        self._spare = spare
        self._salt = salt
        self._segments: list[SegmentHeader] = []
        self._tail: TailSegment | None = None

    @property
    def begin(self) -> Zxid:
        """The zxid before the first transaction of the log."""
        return self._segments[0].previous if self._segments else self._base

    @property
    def has_tail(self) -> bool:
        """Whether there is a segment to append to."""
        return self._tail is not None

    def recover(
        self, after: Zxid, synced: Zxid, before_cut: Callable[[], None]
    ) -> tuple[list[LogRun], list[TraceEvent]]:
        """Read all after `after`, cut a bad end, and write the last segment again (rule D5).

        The last segment may be in the page cache only: a failed fsync leaves its pages there as
        if they were written. So it is copied and forced before the server promises anything.

        Args:
            after: The snapshot's zxid. Earlier transactions are not needed.
            synced: The log is known to have been forced up to here.
            before_cut: Called when the last batch is bad, before it is cut.

        Raises:
            CorruptRecord: something that was forced is missing or damaged.
            OSError: it cannot be read or written.
        """
        assert not self._segments, "recovered before"
        headers, events = self._read_headers(after)
        if not headers:
            return [], events
        if headers[0].previous > after:
            raise CorruptRecord(
                f"the log in {self._folder} begins after {format_zxid(headers[0].previous)}; "
                f"what follows {format_zxid(after)} is missing"
            )
        self._segments = headers
        begin = max(i for i, header in enumerate(headers) if header.previous <= after)
        runs: list[LogRun] = []
        self.last = headers[begin].previous
        for i in range(begin, len(headers) - 1):
            self._read_sealed(i, after, runs)
        return runs, events + self._recover_tail(after, runs, synced, before_cut)

    def append(self, appends: Sequence[Append]) -> Zxid:
        """Append transactions, with one write and one fdatasync for each segment they touch.

        Returns:
            The last zxid of the log, which is on the disk.

        Raises:
            OSError: it failed; any part of them may be on the disk.
        """
        synced = last = self.last
        buffers: list[bytes] = []
        size = 0
        is_rolled = False
        for append in appends:
            for run in self._split(append):
                length = batch_bytes(run.txns)
                if self._tail is None or size + length > self._tail.left:
                    if self._tail is not None and buffers:
                        self._tail.append(buffers, size)
                        buffers, size = [], 0
                    synced = last
                    self._roll_segment(run.first, last, length)
                    is_rolled = True
                salt = self._segments[-1].salt
                buffers += encode_batch(run, last, append.committed, synced, salt)
                size += length
                last = Zxid(run.first + len(run.txns) - 1)
            self.committed = max(self.committed, append.committed)
        if self._tail is not None and buffers:
            self._tail.append(buffers, size)
        self.last = last
        if is_rolled:
            self._spare.replenish()
        return last

    def truncate(self, upto: Zxid) -> None:
        """Cut all after `upto`, durably. A crash leaves the log cut there or later, without a hole.

        Raises:
            CorruptRecord: the segment to be cut is damaged; nothing was cut.
            OSError: it failed; the log ends somewhere between `upto` and its old end.
        """
        assert upto >= self.begin, (upto, self.begin)
        if upto >= self.last:
            return
        kept = sum(header.previous < upto for header in self._segments)
        end = self._segments[kept].previous if kept < len(self._segments) else self.last
        # Read before cutting: only what follows distinguishes damage from a torn end.
        to_cut = self._batches(self._segments[kept - 1], end) if end > upto else None
        self.close()
        while len(self._segments) > kept:
            # Remove the newest first and force each removal, or a crash could leave a hole.
            self._remove(self._segments.pop())
        self.last = end
        if to_cut is not None:
            self._cut_last_segment(upto, *to_cut)
        self.committed = min(self.committed, self.last)

    def read(
        self, after: Zxid, upto: Zxid, bytes_max: int, needed_after: Zxid
    ) -> tuple[list[LogRun], list[TraceEvent]]:
        """Return the transactions in (after, upto], and trace events.

        The list is empty when the log does not reach back to `after`, when they exceed `bytes_max`
        together, or when they are damaged where no start needs them, that is up to
        `needed_after`. Such a damaged part is dropped.

        Raises:
            CorruptRecord: a batch that a start needs is damaged or missing.
            OSError: it cannot be read.
        """
        runs: list[LogRun] = []
        size = 0
        if not self.begin <= after < self.last:
            return runs, []
        for i, header in enumerate(self._segments):
            end = self._segments[i + 1].previous if i + 1 < len(self._segments) else self.last
            if end <= after or header.previous >= upto:
                continue
            try:
                data, found = self._batches(header, end)
            except CorruptRecord as error:
                if i + 1 == len(self._segments) or end > needed_after:
                    raise
                self.prune(end)
                return [], [TraceEvent(LOG_PART_DAMAGED, str(error))]
            for batch in found:
                size += _add(runs, data, batch, after, upto)
                if size > bytes_max:
                    return [], []
        return runs, []

    def prune(self, needed_after: Zxid) -> None:
        """Remove the segments that hold nothing after `needed_after`, oldest first.

        Raises:
            OSError: it failed; the log begins somewhere at or before `needed_after`.
        """
        while len(self._segments) > 1 and self._segments[1].previous <= needed_after:
            self._remove(self._segments.pop(0))

    def set_folder(self, folder: Path) -> None:
        """Use the new name of the log's folder."""
        self._folder = folder

    def close(self) -> None:
        """Close the last segment."""
        tail, self._tail = self._tail, None
        if tail is not None:
            tail.close()

    def _split(self, append: Append) -> list[LogRun]:
        return split_run(LogRun(append.first, append.txns), self._spare.size - SEGMENT_HEADER_BYTES)

    def _roll_segment(self, first: Zxid, previous: Zxid, length: int) -> None:
        self.close()
        salt = zlib.crc32(first.to_bytes(8, "little"), zlib.crc32(self._salt))
        self._segments.append(SegmentHeader(salt, first, previous, 0))
        self._make_tail(b"", length)
        self._spare.grow()

    def _make_tail(self, content: bytes, length: int = 0) -> None:
        """Write the last segment again with `content`, and with space for `length` more bytes."""
        size = max(self._spare.size, SEGMENT_HEADER_BYTES + len(content) + length)
        header = self._segments[-1] = self._segments[-1]._replace(size=size)
        allocated = self._spare.acquire(size)
        self._tail = TailSegment(self._files, self._path(header.first), header, content, allocated)

    def _remove(self, header: SegmentHeader) -> None:
        self._files.remove(self._path(header.first))
        self._files.sync_folder(self._folder)

    def _cut_last_segment(self, upto: Zxid, data: bytes, found: list[Batch]) -> None:
        # Write a new file: a batch cannot be cut in the middle in place and atomically.
        header = self._segments[-1]
        kept = [batch for batch in found if batch.last <= upto]
        content = data[SEGMENT_HEADER_BYTES : kept[-1].end if kept else SEGMENT_HEADER_BYTES]
        last = kept[-1].last if kept else header.previous
        for batch in found:
            if batch.first <= upto < batch.last:
                run = LogRun(batch.first, txns_of(data, batch, ZERO, upto))
                committed = min(batch.committed, upto)
                parts = encode_batch(run, last, committed, batch.synced, header.salt)
                content += b"".join(parts)
                last = upto
        self._make_tail(content)
        self.last = last

    def _batches(self, header: SegmentHeader, end: Zxid) -> tuple[bytes, list[Batch]]:
        """Read a segment that must end with `end`, and its batches."""
        path = self._path(header.first)
        data = read_file(self._files, path)
        found = list(batches(data, header.salt, header.previous, str(path)))
        check_end(found, header, end, str(path))
        return data, found

    def _read_sealed(self, i: int, after: Zxid, runs: list[LogRun]) -> None:
        end = self._segments[i + 1].previous
        data, found = self._batches(self._segments[i], end)
        for batch in found:
            _add(runs, data, batch, after, batch.last)
            self.committed = max(self.committed, batch.committed)
        self.last = end

    def _read_headers(self, after: Zxid) -> tuple[list[SegmentHeader], list[TraceEvent]]:
        """Read the headers of all segments but damaged ones with nothing after `after`."""
        firsts = segment_firsts(self._files.names(self._folder))
        headers: list[SegmentHeader] = []
        for i in reversed(range(len(firsts))):
            try:
                headers.insert(0, read_header(self._files, self._path(firsts[i])))
            except CorruptRecord as error:
                if not headers or headers[0].previous > after:
                    raise
                for first in firsts[: i + 1]:
                    self._files.remove(self._path(first))
                    self._files.sync_folder(self._folder)
                return headers, [TraceEvent(LOG_PART_DAMAGED, str(error))]
        return headers, []

    def _recover_tail(
        self, after: Zxid, runs: list[LogRun], synced: Zxid, before_cut: Callable[[], None]
    ) -> list[TraceEvent]:
        header = self._segments[-1]
        path = self._path(header.first)
        data = read_file(self._files, path)
        end = SEGMENT_HEADER_BYTES
        for batch in batches(data, header.salt, header.previous, str(path)):
            _add(runs, data, batch, after, batch.last)
            self.committed = max(self.committed, batch.committed)
            self.last = batch.last
            end = batch.end
        events = []
        if has_torn_end(data, end, header.salt, self.last, synced, str(path)):
            before_cut()
            detail = {"segment": path.name, "offset": end, "last": format_zxid(self.last)}
            events.append(TraceEvent(LOG_TAIL_CUT, detail))
        if end == SEGMENT_HEADER_BYTES:
            # The next transaction may differ from the one that the segment was made for.
            self._remove(self._segments.pop())
        else:
            self._make_tail(data[SEGMENT_HEADER_BYTES:end])
        return events

    def _path(self, first: Zxid) -> Path:
        return self._folder / segment_name(first)


def _add(runs: list[LogRun], data: bytes, batch: Batch, after: Zxid, upto: Zxid) -> int:
    """Add the transactions of `batch` in (after, upto] to `runs`; return their size."""
    if batch.last <= after or batch.first > upto:
        return 0
    first = max(batch.first, Zxid(after + 1))
    txns = txns_of(data, batch, after, upto)
    if runs:
        last = runs[-1]
        if last.first + len(last.txns) == first and epoch_of(last.first) == epoch_of(first):
            last.txns.extend(txns)
            return sum(map(len, txns))
    runs.append(LogRun(first, txns))
    return sum(map(len, txns))
