"""The two promises of a server, in one file of fixed size that is written in place.

    slot   magic 8s · version u32 · sequence u64 · accepted u32 · current u32 · is_uncertain u32 ·
           initial u64 · crc u32, at the start of each of two blocks of 4 KiB (little endian)

Paper: Zab, sections III-IV: f.p (accepted epoch) and f.a (current epoch) on stable storage.
ZooKeeper keeps them in two files, `acceptedEpoch` and `currentEpoch`, which a crash can leave at
odds (ZOOKEEPER-1653, 2307); one file cannot be. It is made at once as large as it will ever be,
so that a promise can be kept on a full disk too (rule D6).

Invariants: current <= accepted; a save is complete only when both slots hold it. The two
slots can suffer:

- One torn write: the slots are written one after the other, each forced before the next. While
  one is torn the other is whole. If the first is torn, the second holds the promises before this
  save, which nobody was told of. If the second is torn, the first holds the new ones.
- One flipped bit: a slot's checksum covers all its fields, so that slot does not count. After a
  complete save the other says the same. After an interrupted save nobody was told of the new ones.
- Both at once, or two flipped bits: no slot counts, which is corruption, not an old promise.

A start writes both again (rule D5), first the one that does not count. When both count it writes
the newer first: if its bytes were in the page cache only and power fails now, the older one is
still there, and nobody was told of what it lacks. When both say the same, the second goes first.
"""

import struct
import zlib
from pathlib import Path
from typing import NamedTuple

from raykeeper.actors.disk.file_operations import read_file, replace_file
from raykeeper.actors.disk.filesystem import Filesystem
from raykeeper.actors.disk.storage_errors import CorruptRecord, UnknownVersion
from raykeeper.actors.disk.storage_trace_events import PROMISES_MENDED
from raykeeper.zab.effects import TraceEvent
from raykeeper.zab.ids import EPOCH_MAX, ZERO, Epoch, Zxid

EPOCHS_FILE = "epochs"
EPOCHS_VERSION = 3

_MAGIC = b"RKEPOCHS"
_LAYOUT = struct.Struct("<8sIQIIIQ")
_CRC = struct.Struct("<I")
_SLOT_BYTES = 4096  # no disk and no page cache writes two of these as one
_FILE_BYTES = 2 * _SLOT_BYTES

assert _LAYOUT.size + _CRC.size <= 512, "a slot fits into one sector"


class Epochs(NamedTuple):
    """The promises of the server."""

    accepted: Epoch
    """The newest epoch it promised to follow; no older one may lead it any more."""
    current: Epoch
    """The newest epoch whose initial history it has taken over."""
    is_uncertain: bool = False
    """Whether the end of that history may have been lost since (rule D4)."""
    initial: Zxid = ZERO
    """Where the log ended when the current epoch was taken over; its initial history ends there,
    or before."""


class _Slot(NamedTuple):
    sequence: int
    epochs: Epochs


class EpochsFile:
    """The file of promises, open to be changed. `epochs` is what is on the disk."""

    def __init__(self, files: Filesystem, folder: Path) -> None:
        """Read the promises and write both copies again; `trace_events` names a copy that was bad.

        Raises:
            CorruptRecord: the file is missing or of another kind, or both copies are damaged.
            UnknownVersion: it is of a version that this program does not know.
            OSError: it cannot be read or written.
        """
        path = folder / EPOCHS_FILE
        self.trace_events: list[TraceEvent] = []
        self._files = files
        slots, newest = _read_slots(files, path)
        found = [slot for slot in slots if slot is not None]
        self.epochs = newest.epochs
        self._sequence = newest.sequence
        if len(found) == 1:
            order = (0, 1) if slots[0] is None else (1, 0)
            self.trace_events.append(TraceEvent(PROMISES_MENDED, str(path)))
        else:
            order = (0, 1) if found[0].sequence > found[1].sequence else (1, 0)
        self._fd = files.open_for_update(path)
        try:
            self._write(order)
        except BaseException:
            self.close()
            raise

    def save(self, epochs: Epochs) -> None:
        """Save the promises. Durable on return.

        Raises:
            OSError: it failed; the old or the new promises are on the disk.
        """
        _check(epochs)
        self._sequence += 1
        self.epochs = epochs
        self._write((0, 1))

    def close(self) -> None:
        """Close the file."""
        self._files.close(self._fd)

    def _write(self, order: tuple[int, int]) -> None:
        data = _encode(_Slot(self._sequence, self.epochs))
        for index in order:
            self._files.write(self._fd, [data], index * _SLOT_BYTES)
            self._files.sync_data(self._fd)


def make_epochs(files: Filesystem, folder: Path, epochs: Epochs) -> None:
    """Create or replace the file, atomically. Durable on return.

    Raises:
        OSError: it failed; the old or the new file is there.
    """
    _check(epochs)
    slot = _encode(_Slot(1, epochs)).ljust(_SLOT_BYTES, b"\0")
    replace_file(files, folder / EPOCHS_FILE, slot + slot)


def read_epochs(files: Filesystem, folder: Path) -> tuple[Epochs, int]:
    """Return the promises, and how many of their two copies are good. Changes nothing.

    A server that saves its promises at this moment may be in the middle of one copy.

    Raises:
        CorruptRecord: the file is missing or of another kind, or both copies are damaged.
        UnknownVersion: it is of a version that this program does not know.
        StorageError: it cannot be read.
    """
    slots, newest = _read_slots(files, folder / EPOCHS_FILE)
    return newest.epochs, len(slots) - slots.count(None)


def _check(epochs: Epochs) -> None:
    assert 0 <= epochs.current <= epochs.accepted <= EPOCH_MAX, epochs


def _encode(slot: _Slot) -> bytes:
    data = _LAYOUT.pack(_MAGIC, EPOCHS_VERSION, slot.sequence, *slot.epochs)
    return data + _CRC.pack(zlib.crc32(data))


def _read_slots(files: Filesystem, path: Path) -> tuple[list[_Slot | None], _Slot]:
    """Return both slots, None for a bad one, and the one that counts."""
    if not files.exists(path):
        # Formatting writes the file before the identity, so it has existed.
        raise CorruptRecord(f"{path} is missing: the promises of this server are lost")
    data = read_file(files, path, _FILE_BYTES)
    if len(data) != _FILE_BYTES:
        raise CorruptRecord(f"{path} has {len(data)} bytes, not {_FILE_BYTES}")
    slots = [_decode(data, start, path) for start in (0, _SLOT_BYTES)]
    found = [slot for slot in slots if slot is not None]
    if not found:
        raise CorruptRecord(f"{path} is damaged: the promises of this server are lost")
    newest = max(found, key=lambda slot: slot.sequence)
    if any(slot.sequence == newest.sequence and slot != newest for slot in found):
        raise CorruptRecord(f"{path} is damaged: its copies say {found[0].epochs, found[1].epochs}")
    return slots, newest


def _decode(data: bytes, start: int, path: Path) -> _Slot | None:
    end = start + _LAYOUT.size
    if _CRC.unpack_from(data, end)[0] != zlib.crc32(data[start:end]):
        return None
    magic, version, sequence, accepted, current, is_uncertain, initial = _LAYOUT.unpack_from(
        data, start
    )
    if magic != _MAGIC:
        return None
    if version != EPOCHS_VERSION:
        raise UnknownVersion(f"{path} has version {version}; this program reads {EPOCHS_VERSION}")
    epochs = Epochs(Epoch(accepted), Epoch(current), bool(is_uncertain), Zxid(initial))
    _check(epochs)
    return _Slot(sequence, epochs)
