"""The bytes of a segment: exactly what was written is read."""

import random
import zlib

import pytest

from raykeeper.actors.disk.log_format import (
    BATCH_HEADER_BYTES,
    SEGMENT_HEADER_BYTES,
    SegmentHeader,
    batch_at,
    batch_bytes,
    batch_size_at,
    batches,
    check_end,
    decode_segment_header,
    encode_batch,
    encode_segment_header,
    has_torn_end,
    is_zero_after,
    synced_batch_after,
    txns_of,
)
from raykeeper.actors.disk.storage_errors import CorruptRecord, UnknownVersion
from raykeeper.zab.effects import LogRun
from raykeeper.zab.ids import ZERO, Epoch, Zxid, make_zxid

SALT = 0x5EED


def z(counter: int, epoch: int = 1) -> Zxid:
    return make_zxid(Epoch(epoch), counter)


HEADER = SegmentHeader(SALT, z(1), ZERO, 1000)


def encoded(first: Zxid, txns: list[bytes], previous: Zxid, synced: Zxid = ZERO) -> bytes:
    return b"".join(encode_batch(LogRun(first, txns), previous, ZERO, synced, SALT))


def segment(*parts: bytes) -> bytes:
    return b"".join([encode_segment_header(HEADER), *parts])


def test_a_header_is_read_as_written() -> None:
    assert decode_segment_header(encode_segment_header(HEADER) + b"more", "log") == HEADER


def test_every_damaged_byte_of_a_header_is_detected() -> None:
    for offset in range(SEGMENT_HEADER_BYTES):
        data = bytearray(encode_segment_header(HEADER))
        data[offset] ^= 1
        with pytest.raises(CorruptRecord, match="header of log is damaged"):
            decode_segment_header(bytes(data), "log")


def test_a_short_header_is_refused() -> None:
    with pytest.raises(CorruptRecord, match="shorter than its header"):
        decode_segment_header(encode_segment_header(HEADER)[:-1], "log")


@pytest.mark.parametrize("version", [1, 3])
def test_another_version_is_refused(version: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("raykeeper.actors.disk.log_format.LOG_VERSION", version)
    data = encode_segment_header(HEADER)
    monkeypatch.undo()
    with pytest.raises(UnknownVersion, match=f"version {version}; this program reads 2"):
        decode_segment_header(data, "log")


@pytest.mark.parametrize("txns", [[b""], [b"a"], [b"", b"b", b""], [bytes(100_000)] * 3])
def test_a_batch_is_read_as_written(txns: list[bytes]) -> None:
    run = LogRun(z(5), txns)
    parts = encode_batch(run, z(4), z(2), z(3), SALT)
    data = b"".join(parts)
    assert len(data) == batch_bytes(txns)
    batch = batch_at(data, 0, SALT)
    last = z(4 + len(txns))
    assert batch == (z(5), last, z(4), z(2), z(3), 0, len(data))
    assert txns_of(data, batch, ZERO, last) == txns


@pytest.mark.parametrize("after", range(3, 9))
@pytest.mark.parametrize("upto", range(3, 9))
def test_a_part_of_a_batch_is_read(after: int, upto: int) -> None:
    txns = [b"four", b"", b"six", b"seven"]
    data = encoded(z(4), txns, z(3))
    batch = batch_at(data, 0, SALT)
    assert batch is not None
    expected = [txn for n, txn in enumerate(txns, 4) if after < n <= upto]
    assert txns_of(data, batch, z(after), z(upto)) == expected


def test_every_damaged_or_missing_byte_of_a_batch_is_detected() -> None:
    data = encoded(z(1), [b"some", b"txns"], ZERO)
    for offset in range(len(data)):
        assert batch_at(data[:offset], 0, SALT) is None
        for bit in (1, 0x80):
            damaged = bytearray(data)
            damaged[offset] ^= bit
            assert batch_at(bytes(damaged), 0, SALT) is None, offset


def test_the_size_of_a_batch_is_told_by_a_whole_header() -> None:
    data = encoded(z(1), [b"one", b"two"], ZERO)
    assert batch_size_at(b"xx" + data[:BATCH_HEADER_BYTES], 2, SALT) == len(data)
    assert batch_size_at(data[: BATCH_HEADER_BYTES - 1], 0, SALT) == 0
    assert batch_size_at(data, 0, SALT + 1) == 0
    for offset in (*range(8), *range(12, BATCH_HEADER_BYTES)):
        damaged = bytearray(data)
        damaged[offset] ^= 1
        assert batch_size_at(bytes(damaged), 0, SALT) == 0, offset
    assert batch_size_at(bytes(100), 0, SALT) == 0


def test_a_batch_of_another_segment_is_refused() -> None:
    assert batch_at(encoded(z(1), [b"a"], ZERO), 0, SALT + 1) is None


def test_batches_are_read_up_to_a_bad_one() -> None:
    one, two = encoded(z(1), [b"a", b"b"], ZERO), encoded(z(1, 2), [b"c"], z(2))
    data = segment(one, two, b"\x01garbage")
    found = [(b.first, b.last) for b in batches(data, SALT, ZERO, "log")]
    assert found == [(z(1), z(2)), (z(1, 2), z(1, 2))]


@pytest.mark.parametrize(
    ("first", "previous"),
    [
        (z(4), z(3)),  # two missing inside an epoch (ZOOKEEPER-2872)
        (z(1, 3), z(7, 2)),  # the end of an epoch missing
        (z(1), ZERO),  # the same again
    ],
)
def test_a_hole_is_never_served(first: Zxid, previous: Zxid) -> None:
    data = segment(encoded(z(1), [b"a"], ZERO), encoded(first, [b"b"], previous))
    with pytest.raises(CorruptRecord, match="log has a hole"):
        list(batches(data, SALT, ZERO, "log"))


@pytest.mark.parametrize(
    ("first", "previous"), [(z(3), z(1)), (z(1), z(1)), (z(2, 2), z(1)), (z(1), z(1, 2))]
)
def test_a_hole_is_never_written(first: Zxid, previous: Zxid) -> None:
    with pytest.raises(AssertionError):
        encoded(first, [b"a"], previous)


def test_a_batch_behind_a_torn_one_in_the_same_write_proves_nothing() -> None:
    torn = bytes(len(encoded(z(2), [b"b"], z(1))))
    same_write = encoded(z(3), [b"c"], z(2), synced=z(1))
    later_write = encoded(z(4), [b"d"], z(3), synced=z(3))
    assert synced_batch_after(torn + same_write, 0, SALT, z(1)) is None
    found = synced_batch_after(torn + same_write + later_write, 0, SALT, z(1))
    assert found is not None
    assert found.first == z(4)


def test_a_value_that_looks_like_a_batch_proves_nothing() -> None:
    # A client stores the bytes of a log; it cannot know the salt of the segment.
    forged = b"".join(encode_batch(LogRun(z(9), [b"x"]), z(8), ZERO, z(8), SALT ^ 1))
    torn = bytearray(encoded(z(2), [forged * 3], z(1)))
    torn[0] ^= 1
    assert synced_batch_after(bytes(torn), 0, SALT, z(1)) is None


def test_random_bytes_are_not_a_batch() -> None:
    rng = random.Random(1)
    for _ in range(200):
        data = b"RBTH" + rng.randbytes(200)
        assert batch_at(data, 0, zlib.crc32(data)) is None


@pytest.mark.parametrize("size", [10, 1 << 20, (1 << 20) + 1, (3 << 20) + 5])
def test_the_first_nonzero_byte_is_found(size: int) -> None:
    data = bytearray(size)
    data[4] = 1
    assert is_zero_after(bytes(data), 5)
    assert not is_zero_after(bytes(data), 4)
    data[-1] = 1
    assert not is_zero_after(bytes(data), 5)


def torn(data: bytes) -> bytes:
    return data[:20] + b"?" + data[21:]


SECOND = encoded(z(2), [b"two"], z(1), synced=z(1))
WRITTEN_WITH_IT = encoded(z(3), [b"three"], z(2), synced=z(1))
WRITTEN_LATER = encoded(z(3), [b"three"], z(2), synced=z(2))


@pytest.mark.parametrize(
    ("tail", "synced", "is_torn"),
    [
        (b"", z(1), False),
        (bytes(50), z(1), False),
        (torn(SECOND), z(1), True),
        (torn(SECOND) + bytes(50), z(1), True),
        (torn(SECOND) + WRITTEN_WITH_IT, z(1), True),
        (torn(SECOND) + WRITTEN_LATER, z(1), None),
        (torn(SECOND), z(2), None),
    ],
)
def test_what_was_forced_is_not_taken_for_a_torn_end(
    tail: bytes, synced: Zxid, is_torn: bool | None
) -> None:
    data = segment(encoded(z(1), [b"one"], ZERO))
    end = len(data)
    if is_torn is None:
        with pytest.raises(CorruptRecord, match=rf"at byte {end}, after 1:1; .* 1:2"):
            has_torn_end(data + tail, end, SALT, z(1), synced, "log")
    else:
        assert has_torn_end(data + tail, end, SALT, z(1), synced, "log") is is_torn


def test_a_segment_must_end_where_the_next_one_begins() -> None:
    found = list(batches(segment(encoded(z(1), [b"a", b"b"], ZERO)), SALT, ZERO, "log"))
    check_end(found, HEADER, z(2), "log")
    check_end([], HEADER, ZERO, "log")
    for batches_found, end in ((found, z(3)), ([], z(1))):
        with pytest.raises(CorruptRecord, match=r"log is damaged after .* all up to"):
            check_end(batches_found, HEADER, end, "log")
