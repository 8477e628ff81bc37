"""The bytes of a backup: what is written is read; what is altered, cut or foreign is refused."""

import io
import struct
import zlib
from collections.abc import Callable

import msgspec
import pytest
from msgspec.structs import replace

from raykeeper.actors.disk.backup_frames import LogFrame, log_bodies, log_body, snapshot_body
from raykeeper.clusters.backups.backup_format import (
    BACKUP_VERSION,
    BackupFile,
    BackupFormatError,
    BackupWriter,
    Closing,
    Opening,
    read_closing,
)
from raykeeper.zab.effects import LogRun
from raykeeper.zab.ids import ZERO, Epoch, Millis, ServerId, Zxid, make_zxid

S5 = make_zxid(Epoch(1), 5)
OPENING = Opening(
    ensemble="coord",
    ensemble_uuid="8c1f",
    server_id=ServerId(2),
    program="0.1.0",
    created_ms=Millis(7),
    has_snapshot=True,
    after=S5,
    consistent_at=Zxid(S5 + 1),
)
CHUNKS = [b"header", b"x" * 50]
RUNS = [LogRun(Zxid(S5 + 1), [b"one", b""]), LogRun(make_zxid(Epoch(3), 1), [b"three"])]
LOGS = log_bodies(S5, RUNS)
HEADER_BYTES = 16


def z(counter: int, epoch: int = 1) -> Zxid:
    return make_zxid(Epoch(epoch), counter)


def written(
    opening: Opening = OPENING, chunks: list[bytes] = CHUNKS, runs: list[LogRun] = RUNS
) -> tuple[bytes, Closing]:
    file = io.BytesIO()
    writer = BackupWriter(file.write, opening)
    for chunk in chunks:
        writer.add_chunk(snapshot_body(chunk))
    for log in log_bodies(opening.after, runs):
        writer.add_log(log)
    closing = writer.finish(time_ms=Millis(9), epoch=Epoch(4), digest=(1 << 64) - 1)
    data = file.getvalue()
    assert writer.bytes == len(data)
    return data, closing


def read(data: bytes) -> tuple[list[bytes | LogFrame], BackupFile]:
    file = BackupFile(io.BytesIO(data), "the file")
    return list(file.frames()), file


WHOLE, CLOSING = written()


def test_an_opening_of_before_has_no_first_uuid() -> None:
    data = msgspec.json.encode(replace(OPENING, first_uuid="founding"))
    assert msgspec.json.decode(data, type=Opening).first_uuid == "founding"
    older = {k: v for k, v in msgspec.json.decode(data).items() if k != "first_uuid"}
    assert msgspec.json.decode(msgspec.json.encode(older), type=Opening) == OPENING


def test_what_is_written_is_read() -> None:
    frames, file = read(WHOLE)
    assert frames == [
        *CHUNKS,
        LogFrame(S5, z(6), [b"one", b""]),
        LogFrame(z(7), z(1, 3), [b"three"]),
    ]
    assert (file.opening, file.closing) == (OPENING, CLOSING)
    assert file.bytes_read == len(WHOLE)
    assert (
        Closing(
            zxid=z(1, 3),
            time_ms=Millis(9),
            epoch=Epoch(4),
            digest=(1 << 64) - 1,
            snapshot_chunks=2,
            snapshot_bytes=56,
            txns=3,
            log_bytes=8,
        )
        == CLOSING
    )
    assert read_closing(io.BytesIO(WHOLE), len(WHOLE), "the file") == CLOSING


def test_a_piece_of_a_log_has_no_snapshot() -> None:
    opening = replace(OPENING, has_snapshot=False, consistent_at=S5)
    data, closing = written(opening, [], RUNS)
    frames, file = read(data)
    assert [type(frame) for frame in frames] == [LogFrame, LogFrame]
    assert file.closing == closing


def test_a_snapshot_alone_is_whole() -> None:
    data, closing = written(replace(OPENING, consistent_at=S5), CHUNKS, [])
    assert read(data)[0] == CHUNKS
    assert closing.zxid == S5


def test_a_file_that_was_cut_anywhere_is_refused() -> None:
    for size in range(len(WHOLE)):
        with pytest.raises(BackupFormatError, match=r"was cut|is no backup"):
            read(WHOLE[:size])
        with pytest.raises(BackupFormatError, match=r"was cut|is altered"):
            read_closing(io.BytesIO(WHOLE[:size]), size, "the file")


def test_a_file_with_any_bit_flipped_is_refused() -> None:
    for at in range(len(WHOLE)):
        for bit in range(8):
            data = bytearray(WHOLE)
            data[at] ^= 1 << bit
            with pytest.raises(BackupFormatError, match="the file"):
                read(bytes(data))


def test_an_altered_end_is_recognized_without_reading_the_rest() -> None:
    size = len(WHOLE)
    (offset,) = struct.unpack_from("<Q", WHOLE, size - 20)
    for at in range(offset, size):
        data = bytearray(WHOLE)
        data[at] ^= 0x10
        with pytest.raises(BackupFormatError, match=r"was cut|is altered"):
            read_closing(io.BytesIO(bytes(data)), size, "the file")


def frames_of(data: bytes) -> list[bytes]:
    """The frames of a file, as they stand there."""
    found, at = [], HEADER_BYTES
    while at < len(data) - 20:
        (length,) = struct.unpack_from("<I", data, at + 1)
        found.append(data[at : at + 13 + length])
        at += 13 + length
    return found


def joined(frames: list[bytes]) -> bytes:
    return WHOLE[:HEADER_BYTES] + b"".join(frames) + WHOLE[-20:]


def test_a_file_of_moved_missing_doubled_or_foreign_frames_is_refused() -> None:
    frames = frames_of(WHOLE)
    assert joined(frames) == WHOLE
    other = frames_of(written(replace(OPENING, ensemble="other"))[0])
    for number in range(1, len(frames)):
        for changed in (
            [*frames[:number], *frames[number + 1 :]],
            [*frames[:number], frames[number], *frames[number:]],
            [*frames[: number - 1], frames[number], frames[number - 1], *frames[number + 1 :]],
            [*frames[:number], *other[number:]],
        ):
            with pytest.raises(BackupFormatError, match="is altered"):
                read(joined(changed))


def with_frames(*frames: tuple[int, bytes]) -> bytes:
    """A file of these frames, every checksum of which is right."""
    data = bytearray(WHOLE[:HEADER_BYTES])
    chain = zlib.crc32(WHOLE[: HEADER_BYTES - 4])
    for kind, body in frames:
        offset = len(data)
        head = struct.pack("<BII", kind, len(body), zlib.crc32(body))
        chain = zlib.crc32(head, chain)
        data += head + struct.pack("<I", chain) + body
    end = struct.pack("<Q", offset)
    return bytes(data + end + struct.pack("<I", zlib.crc32(end, chain)) + b"RKBCKEND")


PARTS = [(frame[0], frame[13:]) for frame in frames_of(WHOLE)]


@pytest.mark.parametrize(
    ("data", "problem"),
    [
        # Foreign.
        (b"", "no backup of Raykeeper"),
        (b"PK\3\4" * 100, "no backup of Raykeeper"),
        (b"RKSNAPSH" + WHOLE[8:], "no backup of Raykeeper"),
        # Of another version.
        (
            (header := b"RKBACKUP" + struct.pack("<I", BACKUP_VERSION + 1))
            + struct.pack("<I", zlib.crc32(header))
            + WHOLE[16:],
            "format 2; this program reads 1",
        ),
        # Whole, but not what a writer writes.
        (WHOLE + b"\0", "something follows its end"),
        (with_frames(*PARTS[1:]), "does not begin with an opening"),
        (with_frames((1, b"{}")), "missing required field"),
        (with_frames(PARTS[0], (9, b"")), "a frame of kind 9"),
        (with_frames(PARTS[0], PARTS[3], PARTS[1]), "a frame of kind 2"),
        (with_frames(PARTS[0], (3, b"\xc1")), "is altered"),
        (with_frames(PARTS[0], PARTS[4]), "comes after 1:5"),
        (with_frames(PARTS[0], (3, b"\x93\xcb\0")), "is altered"),
        (with_frames(*PARTS[:4], PARTS[5]), "its end does not match what it holds"),
        (with_frames(*PARTS[:5], (4, b"[]")), "is altered"),
    ],
)  # fmt: skip
def test_a_file_that_no_writer_wrote_is_refused(data: bytes, problem: str) -> None:
    with pytest.raises(BackupFormatError, match=problem):
        read(data)


def test_a_length_takes_no_memory_before_it_is_believed() -> None:
    asked: list[int] = []

    class Endless(io.RawIOBase):
        def __init__(self, data: bytes) -> None:
            self._data = io.BytesIO(data)

        def read(self, size: int = -1, /) -> bytes:
            asked.append(size)
            return self._data.read(size)

    data = bytearray(WHOLE)
    data[HEADER_BYTES + 1 : HEADER_BYTES + 5] = b"\xff" * 4
    with pytest.raises(BackupFormatError, match="is altered"):
        BackupFile(Endless(bytes(data)), "the file")
    assert max(asked) < 100


@pytest.mark.parametrize(
    "wrong",
    [
        lambda writer: writer.add_log(log_body(LogFrame(S5, z(7), [b"x"]))),
        lambda writer: writer.add_log(log_body(LogFrame(z(6), z(7), [b"x"]))),
        lambda writer: (writer.add_log(LOGS[0]), writer.add_chunk(snapshot_body(b"x"))),
        lambda writer: writer.finish(time_ms=Millis(0), epoch=Epoch(1), digest=None),
    ],
)
def test_a_writer_writes_no_hole_and_no_mixture(wrong: Callable[[BackupWriter], object]) -> None:
    writer = BackupWriter(io.BytesIO().write, OPENING)
    with pytest.raises(AssertionError):
        wrong(writer)


def test_a_young_ensemble_begins_with_the_first_state() -> None:
    opening = replace(OPENING, has_snapshot=False, after=ZERO, consistent_at=ZERO)
    data, closing = written(opening, [], [LogRun(z(1), [b"a"])])
    assert read(data)[0] == [LogFrame(ZERO, z(1), [b"a"])]
    assert closing.zxid == z(1)
