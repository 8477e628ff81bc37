"""The bodies of a backup's frames: what is consecutive is one, and each is told as it is."""

import zlib

import pytest

from raykeeper.actors.disk.backup_frames import (
    LogFrame,
    decode_log_frame,
    log_bodies,
    snapshot_body,
)
from raykeeper.zab.effects import LogRun
from raykeeper.zab.ids import ZERO, Epoch, Zxid, make_zxid


def z(counter: int, epoch: int = 1) -> Zxid:
    return make_zxid(Epoch(epoch), counter)


@pytest.mark.parametrize(
    ("previous", "runs", "frames"),
    [
        (ZERO, [], []),
        (ZERO, [LogRun(z(1), [b"a"])], [LogFrame(ZERO, z(1), [b"a"])]),
        # Consecutive runs are one frame.
        (
            z(4),
            [LogRun(z(5), [b"a", b"b"]), LogRun(z(7), [b"c"])],
            [LogFrame(z(4), z(5), [b"a", b"b", b"c"])],
        ),
        # Another epoch is another frame.
        (
            z(4),
            [LogRun(z(5), [b"a"]), LogRun(z(1, 2), [b"b"]), LogRun(z(2, 2), [b"c"])],
            [LogFrame(z(4), z(5), [b"a"]), LogFrame(z(5), z(1, 2), [b"b", b"c"])],
        ),
    ],
)
def test_what_is_consecutive_is_one_frame(
    previous: Zxid, runs: list[LogRun], frames: list[LogFrame]
) -> None:
    before = [list(run.txns) for run in runs]
    bodies = log_bodies(previous, runs)
    assert [decode_log_frame(body.data) for body in bodies] == frames
    assert [run.txns for run in runs] == before  # the runs stay as they are


def test_a_body_tells_what_it_has() -> None:
    (body,) = log_bodies(z(4), [LogRun(z(5), [b"one", b"", b"three"])])
    assert body.crc == zlib.crc32(body.data)
    assert (body.previous, body.first, body.last) == (z(4), z(5), z(7))
    assert (body.txns, body.txn_bytes, body.last_txn) == (3, 8, b"three")
    chunk = snapshot_body(b"chunk")
    assert (chunk.data, chunk.crc) == (b"chunk", zlib.crc32(b"chunk"))
