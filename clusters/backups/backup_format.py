"""The bytes of a backup: one format for a whole backup and for a piece of an archived log.

    file     magic 8s · version u32 · crc u32 · frames · end
    frame    kind u8 · length u32 · crc of the body u32 · crc of the head u32 · body
    end      offset of the last frame u64 · crc u32 · magic 8s

Kinds, in this order: OPENING (JSON, what is backed up); SNAPSHOT (a chunk as in a snapshot file),
any number; LOG (msgpack: the zxid before, the first zxid, transactions), any number; CLOSING (JSON,
what it amounts to). All numbers are little endian.

The checksum of each head goes on from the one before, so that a frame that is missing, comes twice
or is of another file is recognized like an altered byte. A file without its end was cut. A length
is believed only when the head that has it is whole, so no file takes more memory than its frames.
"""

import struct
import zlib
from collections.abc import Callable, Iterator
from contextlib import suppress
from typing import Final, Protocol, TypeVar

import msgspec
from msgspec import Struct

from raykeeper.actors.disk.backup_frames import (
    LogBody,
    LogFrame,
    SnapshotBody,
    decode_log_frame,
)
from raykeeper.zab.errors import DECODE_ERRORS, RayKeeperError
from raykeeper.zab.ids import Epoch, Millis, ServerId, Zxid, format_zxid
from raykeeper.zab.recent_log import follows

BACKUP_VERSION: Final = 1

_MAGIC: Final = b"RKBACKUP"
_END_MAGIC: Final = b"RKBCKEND"
_HEADER: Final = struct.Struct("<8sI")
_CRC: Final = struct.Struct("<I")
_FRAME: Final = struct.Struct("<BII")
_END: Final = struct.Struct("<Q")
_HEADER_BYTES: Final = _HEADER.size + _CRC.size
_FRAME_BYTES: Final = _FRAME.size + _CRC.size
_END_BYTES: Final = _END.size + _CRC.size + len(_END_MAGIC)

_OPENING, _SNAPSHOT, _LOG, _CLOSING = range(1, 5)

S = TypeVar("S", bound=Struct)


class BackupFormatError(RayKeeperError):
    """Raised when a file is no backup of this format, was cut, or is altered.

    Nothing was restored from it. The caller should take another backup.
    """


class Opening(Struct, frozen=True, kw_only=True):
    """What is backed up, as far as it is known at the beginning."""

    ensemble: str
    ensemble_uuid: str
    server_id: ServerId
    """The server whose files were read."""
    program: str
    """The version of the program that wrote the backup."""
    created_ms: Millis
    """The wall clock of that program."""
    has_snapshot: bool
    """False if the log begins with the first state, or with the end of another file."""
    after: Zxid
    """The log begins behind this transaction; that of the snapshot if there is one."""
    consistent_at: Zxid
    """The first zxid as of which the file has a real state; `after` without a snapshot."""
    first_uuid: str = ""
    """The uuid that the ensemble was founded with, before all recoveries; "" if the program did not
    know, as those before this field."""


class Closing(Struct, frozen=True, kw_only=True):
    """What a backup amounts to."""

    zxid: Zxid
    """The last transaction."""
    time_ms: Millis
    """The time of that transaction; 0 if the file has nothing that tells it."""
    epoch: Epoch
    """The epoch of the ensemble, in which no transaction need have been written."""
    digest: int | None
    """Of the whole state as of `zxid`, as a server told it; None if none could."""
    snapshot_chunks: int
    snapshot_bytes: int
    txns: int
    log_bytes: int
    """Of the transactions."""


class Readable(Protocol):
    """A file that is read from its beginning."""

    def read(self, size: int, /) -> bytes:
        """Return `size` bytes, fewer only at the end of the file."""


class Seekable(Readable, Protocol):
    """A file that is read at any place."""

    def seek(self, offset: int, /) -> object:
        """Have the next `read` begin at `offset`."""


class BackupWriter:
    """Writes a backup: snapshot chunks first, then the log, then `finish`."""

    def __init__(self, write: Callable[[bytes], object], opening: Opening) -> None:
        """Begin the file. `write` takes all bytes in order, and raises what it likes."""
        self.opening = opening
        self.last = opening.after
        self.snapshot_bytes = self.log_bytes = self.txns = self.bytes = 0
        self._write = write
        self._chunks = 0
        header = _HEADER.pack(_MAGIC, BACKUP_VERSION)
        self._chain = zlib.crc32(header)
        self._put(header + _CRC.pack(self._chain))
        self._document(_OPENING, opening)

    def add_chunk(self, chunk: SnapshotBody) -> None:
        """Add a chunk of the snapshot."""
        assert self.opening.has_snapshot and not self.txns, self.opening
        self._frame(_SNAPSHOT, chunk.data, chunk.crc)
        self._chunks += 1
        self.snapshot_bytes += len(chunk.data)

    def add_log(self, log: LogBody) -> None:
        """Add the transactions that follow the last one."""
        assert log.previous == self.last and follows(log.first, self.last), (
            log.previous,
            log.first,
            self.last,
        )
        self._frame(_LOG, log.data, log.crc)
        self.last = log.last
        self.txns += log.txns
        self.log_bytes += log.txn_bytes

    def finish(self, *, time_ms: Millis, epoch: Epoch, digest: int | None) -> Closing:
        """Write the end of the file."""
        assert self.last >= self.opening.consistent_at, (self.last, self.opening)
        closing = Closing(
            zxid=self.last,
            time_ms=time_ms,
            epoch=epoch,
            digest=digest,
            snapshot_chunks=self._chunks,
            snapshot_bytes=self.snapshot_bytes,
            txns=self.txns,
            log_bytes=self.log_bytes,
        )
        offset = _END.pack(self.bytes)
        self._document(_CLOSING, closing)
        self._put(offset + _CRC.pack(zlib.crc32(offset, self._chain)) + _END_MAGIC)
        return closing

    def _document(self, kind: int, document: Struct) -> None:
        body = msgspec.json.encode(document)
        self._frame(kind, body, zlib.crc32(body))

    def _frame(self, kind: int, body: bytes, crc: int) -> None:
        head = _FRAME.pack(kind, len(body), crc)
        self._chain = zlib.crc32(head, self._chain)
        self._put(head + _CRC.pack(self._chain))
        self._put(body)

    def _put(self, data: bytes) -> None:
        self._write(data)
        self.bytes += len(data)


class BackupFile:
    """Reads a backup once, from its beginning, and checks every byte of it."""

    def __init__(self, file: Readable, name: str) -> None:
        """Read the beginning of `file`; errors call it `name`.

        Raises:
            BackupFormatError: it is none, or of another version.
        """
        self.name = name
        self._file = file
        self._chain = 0
        self.bytes_read = 0
        """How far it has been read."""
        self._read_header()
        kind, body = self._frame()
        if kind != _OPENING:
            raise self._altered("it does not begin with an opening")
        self.opening = self._decoded(body, Opening)
        self.closing: Closing | None = None
        """Once `frames` has ended."""

    def frames(self) -> Iterator[bytes | LogFrame]:
        """Yield the chunks of the snapshot as bytes, then the log; set `closing` at the end.

        Raises:
            BackupFormatError: it was cut, is altered, or has something behind its end.
        """
        opening = self.opening
        last, chunks, size, txns, log_bytes = opening.after, 0, 0, 0, 0
        while True:
            began = self.bytes_read
            kind, body = self._frame()
            if kind == _SNAPSHOT and opening.has_snapshot and not txns:
                chunks, size = chunks + 1, size + len(body)
                yield body
            elif kind == _LOG:
                frame = self._log_frame(body, last)
                last, txns = frame.last, txns + len(frame.txns)
                log_bytes += sum(map(len, frame.txns))
                yield frame
            elif kind == _CLOSING:
                break
            else:
                raise self._altered(f"a frame of kind {kind} does not belong there")
        closing = self._decoded(body, Closing)
        said = closing.zxid, closing.snapshot_chunks, closing.snapshot_bytes
        if (*said, closing.txns, closing.log_bytes) != (last, chunks, size, txns, log_bytes):
            raise self._altered("its end does not match what it holds")
        self._read_end(began)
        self.closing = closing

    def _log_frame(self, body: bytes, last: Zxid) -> LogFrame:
        try:
            frame = decode_log_frame(body)
        except DECODE_ERRORS as error:
            raise self._altered(str(error)) from error
        if not frame.txns or frame.previous != last or not follows(frame.first, last):
            raise self._altered(
                f"{format_zxid(frame.first)}, behind {format_zxid(frame.previous)}, "
                f"comes after {format_zxid(last)}"
            )
        return frame

    def _read_header(self) -> None:
        header = self._read(_HEADER_BYTES)
        if header[: len(_MAGIC)] != _MAGIC:
            raise BackupFormatError(f"{self.name} is no backup of Raykeeper")
        self._chain = zlib.crc32(header[: _HEADER.size])
        if _CRC.unpack_from(header, _HEADER.size)[0] != self._chain:
            raise self._altered("its header")
        version = _HEADER.unpack_from(header)[1]
        if version != BACKUP_VERSION:
            raise BackupFormatError(
                f"{self.name} is a backup of format {version}; this program reads {BACKUP_VERSION}"
            )

    def _read_end(self, offset: int) -> None:
        end = self._read(_END_BYTES)
        packed = _END.pack(offset)
        if end != packed + _CRC.pack(zlib.crc32(packed, self._chain)) + _END_MAGIC:
            raise self._altered("its end")
        if self._file.read(1):
            raise self._altered("something follows its end")

    def _frame(self) -> tuple[int, bytes]:
        head = self._read(_FRAME_BYTES)
        self._chain = zlib.crc32(head[: _FRAME.size], self._chain)
        if _CRC.unpack_from(head, _FRAME.size)[0] != self._chain:
            raise self._altered(f"byte {self.bytes_read - _FRAME_BYTES} or the next ones")
        kind, length, crc = _FRAME.unpack_from(head)
        body = self._read(length)
        if zlib.crc32(body) != crc:
            raise self._altered(f"one of {length} bytes before byte {self.bytes_read}")
        return kind, body

    def _read(self, size: int) -> bytes:
        data = self._file.read(size)
        self.bytes_read += len(data)
        if len(data) < size:
            if self.bytes_read < _HEADER_BYTES and not data.startswith(_MAGIC):
                raise BackupFormatError(f"{self.name} is no backup of Raykeeper")
            raise BackupFormatError(
                f"{self.name} was cut: it ends at byte {self.bytes_read}, in the middle of a frame"
            )
        return data

    def _decoded(self, body: bytes, kind: type[S]) -> S:
        try:
            return msgspec.json.decode(body, type=kind)
        except DECODE_ERRORS as error:
            raise self._altered(str(error)) from error

    def _altered(self, what: str) -> BackupFormatError:
        return BackupFormatError(f"{self.name} is altered: {what}")


def read_closing(file: Seekable, size: int, name: str) -> Closing:
    """Return what a backup of `size` bytes amounts to, without reading it.

    Raises:
        BackupFormatError: it was cut, or its end is altered.
    """
    cut = BackupFormatError(f"{name} was cut: it has no end")
    least = _HEADER_BYTES + _FRAME_BYTES
    if size < least + _END_BYTES:
        raise cut
    file.seek(size - _END_BYTES)
    end = file.read(_END_BYTES)
    (offset,) = _END.unpack_from(end) if len(end) == _END_BYTES else (0,)
    if end[-len(_END_MAGIC) :] != _END_MAGIC or not least <= offset <= size - least:
        raise cut
    file.seek(offset)
    frame = file.read(size - _END_BYTES - offset)
    if len(frame) >= _FRAME_BYTES:
        kind, length, crc = _FRAME.unpack_from(frame)
        (chain,) = _CRC.unpack_from(frame, _FRAME.size)
        body = frame[_FRAME_BYTES:]
        said = end[: _END.size] + _CRC.pack(zlib.crc32(end[: _END.size], chain)) + _END_MAGIC
        if (kind, length, crc, said) == (_CLOSING, len(body), zlib.crc32(body), end):
            with suppress(*DECODE_ERRORS):
                return msgspec.json.decode(body, type=Closing)
    raise BackupFormatError(f"{name} is altered: its end")
