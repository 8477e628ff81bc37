"""The bytes of a log segment: a header, then batches, then zeros up to the preallocated size.

    segment  magic 8s · version u32 · salt u32 · first u64 · previous u64 · size u64 · crc u32
    batch    magic u32 · head crc u32 · body crc u32 · body length u32 · count u32 ·
             first u64 · previous u64 · committed u64 · synced u64
             body: count lengths u32, then the transactions
    (little endian)

A batch is a run of consecutive zxids of one epoch. It carries the zxid before it (`previous`), so
that a hole is seen across epochs and segments too, not only inside an epoch (ZOOKEEPER-2872); the
newest committed zxid; and `synced`: the log had been forced up to there when it was written.

One checksum covers the whole body, not one each transaction: `zlib.crc32` releases the
interpreter for large buffers only, and a call of 1 KB costs 0.4 µs with the interpreter held.
Repair would fetch the rest of a damaged batch from a peer anyway.

A torn batch may be followed by readable bytes: batches written in one go reach the disk in any
order. The bytes behind prove corruption only if its `synced` covers the bad batch (rule D4). A
client's value can hold the bytes of a batch, but not under the salt of the segment.
"""

import struct
import zlib
from collections.abc import Iterator, Sequence
from typing import NamedTuple

from raykeeper.actors.disk.storage_errors import CorruptRecord, UnknownVersion
from raykeeper.zab.effects import LogRun
from raykeeper.zab.ids import Zxid, format_zxid
from raykeeper.zab.recent_log import follows

LOG_VERSION = 2

_SEGMENT_MAGIC = b"RKLOGSEG"
_SEGMENT = struct.Struct("<8sIIQQQ")
_CRC = struct.Struct("<I")
SEGMENT_HEADER_BYTES = _SEGMENT.size + _CRC.size

_BATCH_MAGIC = 0x48544252  # "RBTH"
_MAGIC_BYTES = struct.pack("<I", _BATCH_MAGIC)
_BATCH = struct.Struct("<IIIIIQQQQ")
_BATCH_HEAD = struct.Struct("<IIIQQQQ")  # what the head crc covers: all after it
BATCH_HEADER_BYTES = _BATCH.size

assert _BATCH.size == _BATCH_HEAD.size + 8


class SegmentHeader(NamedTuple):
    """The first bytes of a segment."""

    salt: int
    first: Zxid
    """Zxid of its first transaction."""
    previous: Zxid
    """Zxid of the transaction before that; 0 at the beginning of all history."""
    size: int
    """Of the whole file; a shorter one has lost its end."""


class Batch(NamedTuple):
    """A valid batch: its place in the segment, and its zxids."""

    first: Zxid
    last: Zxid
    previous: Zxid
    committed: Zxid
    synced: Zxid
    start: int
    """Offset of its header."""
    end: int


def encode_segment_header(header: SegmentHeader) -> bytes:
    """Return the bytes of a segment's header."""
    data = _SEGMENT.pack(_SEGMENT_MAGIC, LOG_VERSION, *header)
    return data + _CRC.pack(zlib.crc32(data))


def decode_segment_header(data: bytes, name: str) -> SegmentHeader:
    """Decode the header of the segment `name`, which starts with `data`.

    Raises:
        CorruptRecord: it is damaged. A segment gets its name only once the header is forced, so
            a crash cannot leave a torn one.
        UnknownVersion: it is of a version that this program does not know.
    """
    if len(data) < SEGMENT_HEADER_BYTES:
        raise CorruptRecord(f"{name} is shorter than its header")
    magic, version, salt, first, previous, size = _SEGMENT.unpack_from(data)
    if magic != _SEGMENT_MAGIC or _CRC.unpack_from(data, _SEGMENT.size)[0] != zlib.crc32(
        data[: _SEGMENT.size]
    ):
        raise CorruptRecord(f"the header of {name} is damaged")
    if version != LOG_VERSION:
        raise UnknownVersion(f"{name} has version {version}; this program reads {LOG_VERSION}")
    return SegmentHeader(salt, Zxid(first), Zxid(previous), size)


def batch_bytes(txns: list[bytes]) -> int:
    """Return the size of the batch that holds `txns`."""
    return BATCH_HEADER_BYTES + 4 * len(txns) + sum(map(len, txns))


def split_run(run: LogRun, bytes_max: int) -> list[LogRun]:
    """Split `run` into parts whose batches have at most that size, unless one txn needs more."""
    if batch_bytes(run.txns) <= bytes_max:
        return [run]
    runs: list[LogRun] = []
    size = bytes_max
    for index, txn in enumerate(run.txns):
        if size + 4 + len(txn) > bytes_max:
            runs.append(LogRun(Zxid(run.first + index), []))
            size = BATCH_HEADER_BYTES
        runs[-1].txns.append(txn)
        size += 4 + len(txn)
    return runs


def encode_batch(
    run: LogRun, previous: Zxid, committed: Zxid, synced: Zxid, salt: int
) -> list[bytes]:
    """Return header and body of the batch that holds `run`, in the order of writing."""
    txns = run.txns
    count = len(txns)
    assert count > 0, run.first
    assert follows(run.first, previous), f"{run.first:#x} after {previous:#x}"
    body = b"".join([struct.pack(f"<{count}I", *map(len, txns)), *txns])
    head = _BATCH_HEAD.pack(
        zlib.crc32(body), len(body), count, run.first, previous, committed, synced
    )
    return [_MAGIC_BYTES + _CRC.pack(zlib.crc32(head, salt)) + head, body]


def batch_at(data: bytes, offset: int, salt: int) -> Batch | None:
    """Return the batch that starts at `offset`, or None if there is no valid one."""
    start = offset + BATCH_HEADER_BYTES
    if start > len(data):
        return None
    magic, head_crc, body_crc, size, count, first, previous, committed, synced = _BATCH.unpack_from(
        data, offset
    )
    end = start + size
    if magic != _BATCH_MAGIC or end > len(data):
        return None
    if head_crc != zlib.crc32(data[offset + 8 : start], salt):
        return None
    with memoryview(data) as view, view[start:end] as body:
        if body_crc != zlib.crc32(body):
            return None
    last = Zxid(first + count - 1)
    return Batch(first, last, Zxid(previous), Zxid(committed), Zxid(synced), offset, end)


def batch_size_at(data: bytes, offset: int, salt: int) -> int:
    """Return the size of the batch whose header is at `offset`, whole or not; 0 if none is."""
    start = offset + BATCH_HEADER_BYTES
    if start > len(data):
        return 0
    magic, head_crc, _, size, *_ = _BATCH.unpack_from(data, offset)
    if magic != _BATCH_MAGIC or head_crc != zlib.crc32(data[offset + 8 : start], salt):
        return 0
    return int(BATCH_HEADER_BYTES + size)


def batches(data: bytes, salt: int, previous: Zxid, name: str) -> Iterator[Batch]:
    """Yield the valid batches of the segment `name`, up to the first bad one.

    Raises:
        CorruptRecord: a valid batch does not follow the one before it.
    """
    offset = SEGMENT_HEADER_BYTES
    while (batch := batch_at(data, offset, salt)) is not None:
        if batch.previous != previous or not follows(batch.first, previous):
            raise CorruptRecord(
                f"{name} has a hole: {format_zxid(batch.first)}, which follows "
                f"{format_zxid(batch.previous)}, comes after {format_zxid(previous)}"
            )
        yield batch
        previous = batch.last
        offset = batch.end


def check_end(found: Sequence[Batch], header: SegmentHeader, end: Zxid, name: str) -> None:
    """Check that the batches `found` in the segment `name` end with `end`, as they must.

    Raises:
        CorruptRecord: they do not.
    """
    last = found[-1].last if found else header.previous
    if last != end:
        raise CorruptRecord(
            f"{name} is damaged after {format_zxid(last)}; it held all up to {format_zxid(end)}"
        )


def txns_of(data: bytes, batch: Batch, after: Zxid, upto: Zxid) -> list[bytes]:
    """Return the transactions of `batch` in (after, upto]."""
    count = batch.last - batch.first + 1
    skipped = max(0, after - batch.first + 1)
    stop = min(count, upto - batch.first + 1)
    start = batch.start + BATCH_HEADER_BYTES
    lengths = struct.unpack_from(f"<{count}I", data, start)
    position = start + 4 * count + sum(lengths[:skipped])
    txns = []
    for length in lengths[skipped:stop]:
        end = position + length
        txns.append(data[position:end])
        position = end
    return txns


def synced_batch_after(data: bytes, offset: int, salt: int, last: Zxid) -> Batch | None:
    """Find a valid batch behind the bad one at `offset`, written after that one was forced.

    `last` is the last transaction before the bad batch. None means a torn write: everything that
    follows was written at the same time.
    """
    while (offset := data.find(_MAGIC_BYTES, offset + 1)) >= 0:
        batch = batch_at(data, offset, salt)
        if batch is not None and batch.synced > last:
            return batch
    return None


def has_torn_end(data: bytes, end: int, salt: int, last: Zxid, synced: Zxid, name: str) -> bool:
    """Return whether a batch that was never forced begins at `end`, behind the last valid one.

    Args:
        data: The content of the last segment, `name`.
        end: Where its last valid batch ends.
        salt: That of the segment.
        last: The last transaction before `end`.
        synced: The log is known to have been forced up to here.

    Raises:
        CorruptRecord: what begins there had been forced.
    """
    if is_zero_after(data, end):
        return False
    later = synced_batch_after(data, end, salt, last)
    if later is not None:
        synced = max(synced, later.synced)
    if synced > last:
        raise CorruptRecord(
            f"{name} is damaged at byte {end}, after {format_zxid(last)}; it had been "
            f"forced up to {format_zxid(synced)}"
        )
    return True


_ZEROS = bytes(1 << 20)


def is_zero_after(data: bytes, offset: int) -> bool:
    """Return whether nothing was written from `offset` on."""
    for start in range(offset, len(data), len(_ZEROS)):
        some = data[start : start + len(_ZEROS)]
        if some != (_ZEROS if len(some) == len(_ZEROS) else bytes(len(some))):
            return False
    return True
