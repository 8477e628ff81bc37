"""What a reader takes from a server's folder for a backup: the bodies of its frames, checksummed.

They are made by the reader, at its low priority beside the server. The process that writes the
backup is another one, at the priority of its user, and only has to write them.
"""

import zlib
from collections.abc import Sequence
from typing import Final

import msgspec
from msgspec import Struct

from raykeeper.zab.effects import LogRun
from raykeeper.zab.ids import Zxid


class LogFrame(Struct, frozen=True, array_like=True):
    """Transactions with consecutive zxids of one epoch; `previous` is the one before them."""

    previous: Zxid
    first: Zxid
    txns: list[bytes]

    @property
    def last(self) -> Zxid:
        """The zxid of the last of them."""
        return Zxid(self.first + len(self.txns) - 1)


class LogBody(Struct, frozen=True):
    """An encoded `LogFrame`, and what is told of it."""

    data: bytes
    crc: int
    previous: Zxid
    first: Zxid
    last: Zxid
    txns: int
    txn_bytes: int
    """Of the transactions alone."""
    last_txn: bytes


class SnapshotBody(Struct, frozen=True):
    """A chunk of a snapshot."""

    data: bytes
    crc: int


_encode: Final = msgspec.msgpack.Encoder().encode
decode_log_frame: Final = msgspec.msgpack.Decoder(LogFrame).decode


def log_bodies(previous: Zxid, runs: Sequence[LogRun]) -> list[LogBody]:
    """Return runs that follow `previous` as bodies: one for all that is consecutive."""
    frames: list[LogFrame] = []
    for run in runs:
        if frames and run.first == frames[-1].last + 1:
            frames[-1].txns.extend(run.txns)
        else:
            frames.append(LogFrame(previous, run.first, list(run.txns)))
        previous = frames[-1].last
    return list(map(log_body, frames))


def log_body(frame: LogFrame) -> LogBody:
    """Return the body of a frame, which has a transaction at least."""
    data = _encode(frame)
    return LogBody(
        data=data,
        crc=zlib.crc32(data),
        previous=frame.previous,
        first=frame.first,
        last=frame.last,
        txns=len(frame.txns),
        txn_bytes=sum(map(len, frame.txns)),
        last_txn=frame.txns[-1],
    )


def snapshot_body(chunk: bytes) -> SnapshotBody:
    """Return the body of a chunk."""
    return SnapshotBody(chunk, zlib.crc32(chunk))
