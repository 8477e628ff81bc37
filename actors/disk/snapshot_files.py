"""The bytes of a snapshot: a header, chunks that are opaque here, and a footer.

    header   magic 8s · version u32 · zxid u64 · crc u32
    chunk    length u32 (not 0) · crc u32 · bytes
    footer   0 u32 · chunks u64 · bytes u64 · consistent_at u64 · crc of chunk crcs u32 · crc u32
    (little endian)

Source: ZooKeeper's `FileSnap` and `SnapStream`, which knew a valid snapshot by its last five bytes
and named it before it was forced (ZOOKEEPER-2872, 3231). Here a snapshot is written under a
temporary name, forced, read again, and only then named. Without its footer it is invalid.
"""

import struct
import zlib
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

from raykeeper.actors.disk.file_operations import (
    TEMP_SUFFIX,
    check_zxid_names,
    opened,
    zxid_name,
    zxids_in_names,
)
from raykeeper.actors.disk.filesystem import OS_FILESYSTEM, Filesystem
from raykeeper.actors.disk.storage_errors import CorruptRecord, UnknownVersion, storage_errors
from raykeeper.zab.ids import Zxid

SNAPSHOT_VERSION = 1

_PREFIX = "snapshot."
_MAGIC = b"RKSNAPSH"
_HEADER = struct.Struct("<8sIQ")
_CHUNK = struct.Struct("<II")
_FOOTER = struct.Struct("<IQQQI")
_CRC = struct.Struct("<I")
_HEADER_BYTES = _HEADER.size + _CRC.size
_FOOTER_BYTES = _FOOTER.size + _CRC.size

# It is forced while it is written: one long force at the end would delay every force of the log on
# the same disk.
_FORCED_BYTES = 4 << 20
_PIECE_BYTES = 4 << 20  # read more only when the length is known to be right


class SnapshotSummary(NamedTuple):
    """Header and footer of a snapshot."""

    zxid: Zxid
    consistent_at: Zxid


def snapshot_name(zxid: Zxid) -> str:
    """Return the file name of the snapshot as of `zxid`."""
    return zxid_name(_PREFIX, zxid)


def check_snapshot_names(names: list[str]) -> None:
    """Check the names of the snapshots among the files `names`.

    Raises:
        CorruptRecord: a name begins like a snapshot's and is none.
    """
    check_zxid_names(names, _PREFIX)


def snapshot_zxids(names: list[str]) -> list[Zxid]:
    """Return the zxids of the snapshots among the files `names`, oldest first.

    Raises:
        CorruptRecord: a name begins like a snapshot's but has no number.
    """
    return zxids_in_names(names, _PREFIX)


def temp_snapshot_path(folder: Path, zxid: Zxid) -> Path:
    """Return where the Snapshotter of the data folder writes the snapshot as of `zxid`."""
    return folder / (snapshot_name(zxid) + TEMP_SUFFIX)


def remove_temp_snapshots(folder: Path, files: Filesystem = OS_FILESYSTEM) -> None:
    """Remove the temporary snapshots in the data folder `folder`.

    Only for the Snapshotter, and only while the replica is not about to publish one.

    Raises:
        StorageError: one cannot be removed.
    """
    with storage_errors(folder):
        for name in files.names(folder):
            if name.startswith(_PREFIX) and name.endswith(TEMP_SUFFIX):
                files.remove(folder / name)


class SnapshotWriter:
    """Writes a snapshot to a temporary file.

    Call `finish` before the file gets its name; `discard` gives it up at any time.
    """

    def __init__(self, path: Path, zxid: Zxid, files: Filesystem = OS_FILESYSTEM) -> None:
        """Create the file; replace one that was abandoned without `discard`.

        Raises:
            StorageError: the file cannot be made.
        """
        self.path = path
        self.zxid = zxid
        self._files = files
        self._chunks = self._bytes = self._crcs = 0
        with storage_errors(path):
            if files.exists(path):
                files.remove(path)
            self._fd: int | None = files.create(path)
            header = _HEADER.pack(_MAGIC, SNAPSHOT_VERSION, zxid)
            try:
                files.write(self._fd, [header, _CRC.pack(zlib.crc32(header))], 0)
            except OSError:
                self.close()
                raise
        self._end = self._unforced = _HEADER_BYTES

    def write(self, chunk: bytes) -> None:
        """Add a chunk, which is not empty.

        Raises:
            StorageError: it cannot be written; discard the snapshot.
        """
        assert chunk, "an empty chunk would be taken for the footer"
        assert self._fd is not None, f"{self.path} is finished"
        head = _CHUNK.pack(len(chunk), zlib.crc32(chunk))
        with storage_errors(self.path):
            self._files.write(self._fd, [head, chunk], self._end)
            self._unforced += len(chunk)
            if self._unforced >= _FORCED_BYTES:
                self._files.sync_data(self._fd)
                self._unforced = 0
        self._chunks += 1
        self._bytes += len(chunk)
        self._crcs = zlib.crc32(head[4:], self._crcs)
        self._end += len(head) + len(chunk)

    def finish(self, consistent_at: Zxid) -> None:
        """Complete the file, force it and read it again.

        Raises:
            CorruptRecord: what is read is not what was written; discard the snapshot.
            StorageError: it cannot be written; discard the snapshot.
        """
        assert self._fd is not None, f"{self.path} is finished"
        assert consistent_at >= self.zxid, (consistent_at, self.zxid)
        footer = _FOOTER.pack(0, self._chunks, self._bytes, consistent_at, self._crcs)
        with storage_errors(self.path):
            self._files.write(self._fd, [footer, _CRC.pack(zlib.crc32(footer))], self._end)
            self._files.sync(self._fd)
        self.close()
        found = verify_snapshot(self.path, self._files)
        if found != (self.zxid, consistent_at):
            raise CorruptRecord(f"{self.path} was written for {self.zxid}, but reads {found}")

    def discard(self) -> None:
        """Give the file up, finished or not.

        Raises:
            StorageError: it cannot be removed.
        """
        self.close()
        with storage_errors(self.path):
            self._files.remove(self.path)

    def close(self) -> None:
        """Close the file and leave it, finished or not.

        Raises:
            StorageError: it cannot be closed.
        """
        fd, self._fd = self._fd, None
        if fd is not None:
            with storage_errors(self.path):
                self._files.close(fd)


class SnapshotChunks:
    """The chunks of a snapshot; each iteration reads them from its file."""

    def __init__(self, path: Path, files: Filesystem = OS_FILESYSTEM) -> None:
        self._path = path
        self._files = files

    def __iter__(self) -> Iterator[bytes]:
        """Yield every chunk, checked; check the footer before the end.

        Raises:
            CorruptRecord: a byte of the file is not what was written.
            StorageError: it cannot be read.
        """
        path, files = self._path, self._files
        with opened(files, path) as fd:
            _read_summary(files, fd, path)
            yield from _read_chunks(files, fd, path)


def verify_snapshot(path: Path, files: Filesystem = OS_FILESYSTEM) -> SnapshotSummary:
    """Read all of a snapshot and check every byte.

    Raises:
        CorruptRecord: a byte of the file is not what was written, or it has no end.
        StorageError: it cannot be read.
    """
    for _ in SnapshotChunks(path, files):
        pass
    return read_summary(path, files)


def read_summary(path: Path, files: Filesystem = OS_FILESYSTEM) -> SnapshotSummary:
    """Return header and footer of a snapshot, checked, without reading the chunks.

    Raises:
        CorruptRecord: header or footer are damaged or missing.
        UnknownVersion: it is of a version that this program does not know.
        StorageError: it cannot be read.
    """
    with opened(files, path) as fd:
        return _read_summary(files, fd, path)


def _read_summary(files: Filesystem, fd: int, path: Path) -> SnapshotSummary:
    header = files.read(fd, _HEADER_BYTES, 0)
    footer = files.read(fd, _FOOTER_BYTES, max(0, files.size(fd) - _FOOTER_BYTES))
    if len(header) < _HEADER_BYTES or not _is_whole(header, _HEADER.size):
        raise CorruptRecord(f"the header of {path} is damaged")
    magic, version, zxid = _HEADER.unpack_from(header)
    if magic != _MAGIC:
        raise CorruptRecord(f"{path} is not a snapshot")
    if version != SNAPSHOT_VERSION:
        raise UnknownVersion(f"{path} has version {version}; this program reads {SNAPSHOT_VERSION}")
    if len(footer) < _FOOTER_BYTES or not _is_whole(footer, _FOOTER.size):
        raise CorruptRecord(f"{path} has no footer")
    consistent_at = _FOOTER.unpack_from(footer)[3]
    return SnapshotSummary(Zxid(zxid), Zxid(consistent_at))


def _is_whole(data: bytes, size: int) -> bool:
    return bool(_CRC.unpack_from(data, size)[0] == zlib.crc32(data[:size]))


def _read_chunks(files: Filesystem, fd: int, path: Path) -> Iterator[bytes]:
    offset = _HEADER_BYTES
    end = files.size(fd) - _FOOTER_BYTES
    chunks = size = crcs = 0
    while offset < end:
        head = files.read(fd, _CHUNK.size, offset)
        length, crc = _CHUNK.unpack(head)
        offset += _CHUNK.size
        if not 0 < length <= end - offset:
            raise CorruptRecord(f"chunk {chunks} of {path} has an impossible length")
        if length > _PIECE_BYTES and _crc_of(files, fd, length, offset) != crc:
            raise CorruptRecord(f"chunk {chunks} of {path} is damaged")
        chunk = files.read(fd, length, offset)
        if zlib.crc32(chunk) != crc:
            raise CorruptRecord(f"chunk {chunks} of {path} is damaged")
        yield chunk
        offset += length
        chunks += 1
        size += length
        crcs = zlib.crc32(head[4:], crcs)
    zero, said_chunks, said_bytes, _, said_crcs = _FOOTER.unpack_from(
        files.read(fd, _FOOTER_BYTES, end)
    )
    if (offset, 0, chunks, size, crcs) != (end, zero, said_chunks, said_bytes, said_crcs):
        raise CorruptRecord(f"the chunks of {path} do not match its footer")


def _crc_of(files: Filesystem, fd: int, length: int, offset: int) -> int:
    crc = 0
    end = offset + length
    for start in range(offset, end, _PIECE_BYTES):
        crc = zlib.crc32(files.read(fd, min(_PIECE_BYTES, end - start), start), crc)
    return crc
