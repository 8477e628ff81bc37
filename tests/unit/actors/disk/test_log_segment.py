"""One segment: named once it is whole, filled at its end."""

import random
from contextlib import suppress
from pathlib import Path

import pytest

from raykeeper.actors.disk.atomic_file import read_file
from raykeeper.actors.disk.log_format import (
    SEGMENT_HEADER_BYTES,
    SegmentHeader,
    encode_segment_header,
)
from raykeeper.actors.disk.log_segment import (
    TailSegment,
    read_header,
    segment_firsts,
    segment_name,
)
from raykeeper.actors.disk.storage_errors import CorruptRecord
from raykeeper.zab.ids import ZERO, Zxid
from tests.contract.faulty_files import Crashed, FaultyFiles, Loss, crash_at, fail_at

FOLDER = Path("/")
HEADER = SegmentHeader(7, Zxid(0x101), ZERO)
PATH = FOLDER / "log.0000000000000101"


def test_names_are_in_the_order_of_their_zxids() -> None:
    firsts = [Zxid(n) for n in (1, 9, 10, 0xFFFF_FFFF_FFFF, (1 << 63) - 1)]
    names = [segment_name(first) for first in firsts]
    assert names == sorted(names)
    assert segment_firsts([*reversed(names), "snapshot.0000000000000001"]) == firsts
    with pytest.raises(CorruptRecord, match=r"log\.x is not"):
        segment_firsts(["log.x"])


def test_is_made_allocated_and_filled() -> None:
    files = FaultyFiles()
    segment = TailSegment(files, FOLDER, HEADER, b"content", 1000)
    segment.append([b"one", b"two"], 6)
    segment.append([b"three"], 5)
    segment.close()
    assert read_header(files, PATH) == HEADER
    written = encode_segment_header(HEADER) + b"contentonetwothree"
    after = files.crash(Loss.ALL, random.Random(0))
    assert read_file(after, PATH) == written + bytes(1000 - len(written))


def test_content_that_is_larger_than_a_segment_fits() -> None:
    segment = TailSegment(FaultyFiles(), FOLDER, HEADER, bytes(500), 100)
    assert segment.size == segment.end == SEGMENT_HEADER_BYTES + 500


def test_never_writes_beyond_what_was_allocated() -> None:
    segment = TailSegment(FaultyFiles(), FOLDER, HEADER, b"", 100)
    with pytest.raises(AssertionError):
        segment.append([bytes(100)], 100)


def test_the_name_comes_last() -> None:
    for operation in range(1, 7):
        for loss in Loss:
            files = FaultyFiles()
            files.on_operation = crash_at(operation)
            with suppress(Crashed):
                TailSegment(files, FOLDER, HEADER, b"content", 1000)
            after = files.crash(loss, random.Random(operation))
            if after.exists(PATH):
                assert read_header(after, PATH) == HEADER
                assert len(read_file(after, PATH)) == 1000


def test_a_full_disk_leaves_no_segment() -> None:
    files = FaultyFiles()
    files.on_operation = fail_at(2)  # the allocation
    with pytest.raises(OSError, match="allocate failed"):
        TailSegment(files, FOLDER, HEADER, b"", 1000)
    assert files.names(FOLDER) == ["log.0000000000000101.tmp"]
    assert files.open_files() == 0


def test_a_header_of_another_segment_is_refused() -> None:
    files = FaultyFiles()
    TailSegment(files, FOLDER, HEADER, b"", 100).close()
    files.rename(PATH, FOLDER / "log.0000000000000102")
    with pytest.raises(CorruptRecord, match="holds the segment"):
        read_header(files, FOLDER / "log.0000000000000102")
