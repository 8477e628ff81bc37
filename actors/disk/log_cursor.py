"""Reads the log of a running server forward, each batch once: for backups.

`log_reader.py` reads a whole segment at a time, which is right for a look into a folder. A backup
reads a large log in small pieces, and one that follows the log reads its end again and again; so a
cursor remembers where the last batch ended. Batches are decoded and judged by the same functions.

A server that appends can be met in the middle of a batch: then the log ends before that batch, for
this reading. A server that starts again, or cuts its log, writes its last segment anew. The caller
asks only for what is committed, which is never cut, so the batches before the place stay where they
are; the one at the place may come again with fewer transactions. Segments that the server removes
can be read on as long as they are held open.
"""

from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Final

from raykeeper.actors.disk.filesystem import OS_FILESYSTEM, Filesystem
from raykeeper.actors.disk.generations import find_generation
from raykeeper.actors.disk.log_format import (
    SEGMENT_HEADER_BYTES,
    Batch,
    batch_at,
    batch_size_at,
    txns_of,
)
from raykeeper.actors.disk.log_segment import read_header_in, segment_firsts, segment_name
from raykeeper.actors.disk.snapshot_files import snapshot_zxids
from raykeeper.actors.disk.storage_errors import (
    CorruptRecord,
    LogPruned,
    StorageError,
    storage_errors,
)
from raykeeper.zab.effects import LogRun
from raykeeper.zab.ids import Zxid, format_zxid

_READ_BYTES: Final = 256 << 10
_TRIES: Final = 3
"""How often a reading begins anew when its server removes or replaces a file meanwhile."""


class _Moved(Exception):
    """The server has changed the files; the place must be found again."""


class LogCursor:
    """A place in the log of a server's data folder: behind the transaction `last`."""

    def __init__(self, folder: Path, last: Zxid, files: Filesystem = OS_FILESYSTEM) -> None:
        """Stand behind `last`, which need not be a transaction of the log. Opens nothing."""
        self.last = last
        self._folder = folder
        self._files = files
        self._held: dict[Zxid, tuple[int, Path]] = {}
        self._generation: Path | None = None
        self._firsts: list[Zxid] = []
        self._segment: Zxid | None = None
        self._batch_end = last
        """The last transaction of the batch that ends at `_offset`."""
        self._offset = SEGMENT_HEADER_BYTES
        self._buffer, self._buffer_at, self._salt = b"", 0, 0

    def hold(self) -> int:
        """Open every segment from here on, so that none can be removed; return their bytes.

        Raises:
            LogPruned: the log does not reach back to `last`.
            CorruptRecord, UnknownVersion, StorageError: the folder cannot be read.
        """
        self.close()
        self._list()
        try:
            for first in self._firsts:
                path = self._path(first)
                with storage_errors(path):
                    self._held[first] = self._files.open(path), path
            self._locate()
            size = 0
            for first, (fd, _) in list(self._held.items()):
                if self._segment is not None and first < self._segment:
                    self._files.close(self._held.pop(first)[0])
                else:
                    size += self._files.size(fd)
        except BaseException:
            self.close()
            raise
        return size

    def read(self, upto: Zxid, bytes_max: int) -> list[LogRun]:
        """Return transactions behind `last`, none after `upto`, and move behind them.

        They are some more than `bytes_max` bytes at most, by the part of a batch. An empty list
        says that the log ends here, as far as it can be read now.

        Raises:
            LogPruned: the server has removed what comes next.
            CorruptRecord: what comes next is damaged.
            UnknownVersion, StorageError: the folder cannot be read.
        """
        for attempt in range(_TRIES):
            runs: list[LogRun] = []
            try:
                self._buffer = b""  # the server has written since
                if not self._held:
                    self._list()
                self._read(runs, upto, bytes_max)
            except _Moved:
                self._segment = None
                if not runs and attempt + 1 < _TRIES:
                    continue
            return runs
        raise AssertionError("the last attempt returns")

    def close(self) -> None:
        """Close what `hold` has opened."""
        held, self._held = self._held, {}
        for fd, _ in held.values():
            with suppress(OSError):
                self._files.close(fd)

    def _read(self, runs: list[LogRun], upto: Zxid, bytes_max: int) -> None:
        size = 0
        while self.last < upto and size < bytes_max:
            if self._segment is None:
                self._locate()
                if self._segment is None:
                    return
            batch = self._batch()
            if batch is None:
                if not self._go_on():
                    return
                continue
            if batch.last > self.last:
                taken = txns_of(self._buffer, _shifted(batch, self._buffer_at), self.last, upto)
                if not taken:
                    return  # it begins after `upto`
                first = Zxid(max(batch.first, self.last + 1))
                runs.append(LogRun(first, taken))
                size += sum(map(len, taken))
                self.last = Zxid(first + len(taken) - 1)
                if self.last < batch.last:
                    return
            self._offset, self._batch_end = batch.end, batch.last

    def _list(self) -> None:
        with storage_errors(self._folder):
            path = find_generation(self._files, self._folder)[0].path
            names = self._files.names(path)
        if path != self._generation:
            self._generation, self._segment = path, None
        self._firsts = segment_firsts(names)
        if not self._firsts and max(snapshot_zxids(names), default=self.last) > self.last:
            raise self._pruned()

    def _locate(self) -> None:
        """Find the segment with what follows `last`; none if the log is empty."""
        if not self._firsts:
            return
        for first in reversed(self._firsts):
            with self._opened(first) as (fd, path):
                header = read_header_in(self._files, fd, path)
            if header.previous <= self.last:
                self._segment, self._batch_end = first, header.previous
                self._offset, self._buffer = SEGMENT_HEADER_BYTES, b""
                return
        raise self._pruned()

    def _go_on(self) -> bool:
        """Move to the next segment; return whether there is one."""
        assert self._segment is not None
        following = [first for first in self._firsts if first > self._segment]
        if not following:
            return False
        with self._opened(following[0]) as (fd, path):
            header = read_header_in(self._files, fd, path)
        if header.previous != self._batch_end:
            # A batch that was being written is whole by now: the next segment is made after it.
            self._buffer = b""
            if self._batch() is not None:
                return True
            raise CorruptRecord(
                f"{self._path(self._segment)} is damaged after {format_zxid(self._batch_end)}; "
                f"it held all up to {format_zxid(header.previous)}"
            )
        self._segment, self._batch_end = following[0], header.previous
        self._offset, self._buffer = SEGMENT_HEADER_BYTES, b""
        return True

    def _batch(self) -> Batch | None:
        """Return the batch at the place, whose bytes are in the buffer; None without a whole one.

        Its offsets are those in the segment.
        """
        assert self._segment is not None
        at = self._offset - self._buffer_at
        if self._buffer and (found := batch_at(self._buffer, at, self._salt)) is not None:
            return self._checked(_shifted(found, -self._buffer_at))
        with self._opened(self._segment) as (fd, path):
            self._salt = salt = read_header_in(self._files, fd, path).salt
            self._buffer = self._files.read(fd, _READ_BYTES, self._offset)
            size = batch_size_at(self._buffer, 0, salt)
            if size > len(self._buffer):
                self._buffer = self._files.read(fd, size, self._offset)
            self._buffer_at = self._offset
        found = batch_at(self._buffer, 0, salt)
        return None if found is None else self._checked(_shifted(found, -self._buffer_at))

    def _checked(self, batch: Batch) -> Batch:
        if batch.previous != self._batch_end:
            raise _Moved
        return batch

    @contextmanager
    def _opened(self, first: Zxid) -> Iterator[tuple[int, Path]]:
        held = self._held.get(first)
        if held is not None:
            with storage_errors(held[1]):
                yield held
            return
        path = self._path(first)
        with storage_errors(path):
            try:
                fd = self._files.open(path)
            except FileNotFoundError:
                raise _Moved from None
            try:
                yield fd, path
            finally:
                self._files.close(fd)

    def _pruned(self) -> StorageError:
        return LogPruned(
            f"the log in {self._folder} no longer has what follows {format_zxid(self.last)}"
        )

    def _path(self, first: Zxid) -> Path:
        assert self._generation is not None
        return self._generation / segment_name(first)


def _shifted(batch: Batch, by: int) -> Batch:
    return batch._replace(start=batch.start - by, end=batch.end - by)
