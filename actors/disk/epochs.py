"""The two promises of a server, in one file that changes as a whole.

Paper: Zab, sections III-IV: f.p (accepted epoch) and f.a (current epoch) on stable storage.
ZooKeeper keeps them in two files, `acceptedEpoch` and `currentEpoch`, which a crash can leave at
odds (ZOOKEEPER-1653, 2307); one file cannot be. Invariant: current <= accepted.
"""

import struct
import zlib
from pathlib import Path
from typing import NamedTuple

from raykeeper.actors.disk.atomic_file import read_file, replace_file
from raykeeper.actors.disk.file_layer import FileLayer
from raykeeper.actors.disk.storage_errors import CorruptRecord
from raykeeper.zab.ids import EPOCH_MAX, Epoch

EPOCHS_FILE = "epochs"
EPOCHS_VERSION = 1

_MAGIC = b"RKEPOCHS"
_LAYOUT = struct.Struct("<8sIII")  # magic, version, accepted, current
_CRC = struct.Struct("<I")


class Epochs(NamedTuple):
    """What the server has promised."""

    accepted: Epoch
    """The newest epoch it promised to follow; no older one may lead it any more."""
    current: Epoch
    """The newest epoch whose initial history it has taken over."""


def save_epochs(files: FileLayer, folder: Path, epochs: Epochs) -> None:
    """Save both promises, atomically and durably.

    Raises:
        OSError: it failed; it is not known which promises are on the disk.
    """
    assert 0 <= epochs.current <= epochs.accepted <= EPOCH_MAX, epochs
    data = _LAYOUT.pack(_MAGIC, EPOCHS_VERSION, epochs.accepted, epochs.current)
    replace_file(files, folder / EPOCHS_FILE, data + _CRC.pack(zlib.crc32(data)))


def read_epochs(files: FileLayer, folder: Path) -> Epochs:
    """Read both promises.

    Raises:
        CorruptRecord: the file is missing, damaged, or of a version this program does not know.
        OSError: it cannot be read.
    """
    path = folder / EPOCHS_FILE
    if not files.exists(path):
        # Formatting writes the file before the identity, so it was there once.
        raise CorruptRecord(f"{path} is missing: the promises of this server are lost")
    data = read_file(files, path)
    if len(data) != _LAYOUT.size + _CRC.size:
        raise CorruptRecord(f"{path} has {len(data)} bytes, not {_LAYOUT.size + _CRC.size}")
    magic, version, accepted, current = _LAYOUT.unpack_from(data)
    if magic != _MAGIC or _CRC.unpack_from(data, _LAYOUT.size)[0] != zlib.crc32(
        data[: _LAYOUT.size]
    ):
        raise CorruptRecord(f"{path} is damaged")
    if version != EPOCHS_VERSION:
        raise CorruptRecord(f"{path} has version {version}; this program reads {EPOCHS_VERSION}")
    assert current <= accepted <= EPOCH_MAX, (current, accepted)
    return Epochs(Epoch(accepted), Epoch(current))
