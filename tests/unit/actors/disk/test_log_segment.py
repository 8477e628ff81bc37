"""One segment: named once it is whole, filled at its end."""

import random
from contextlib import suppress
from pathlib import Path

import pytest

from raykeeper.actors.disk.file_operations import read_file
from raykeeper.actors.disk.log_format import (
    SegmentHeader,
    encode_segment_header,
)
from raykeeper.actors.disk.log_segment import (
    TailSegment,
    read_header,
    read_segment,
    segment_firsts,
    segment_name,
)
from raykeeper.actors.disk.storage_errors import CorruptRecord
from raykeeper.zab.ids import ZERO, Zxid
from tests.contract.faulty_files import Crashed, FaultyFiles, Loss, crash_at, fail_at

FOLDER = Path("/")
HEADER = SegmentHeader(7, Zxid(0x101), ZERO, 1000)
PATH = FOLDER / "log.0000000000000101"


def test_names_are_in_the_order_of_their_zxids() -> None:
    firsts = [Zxid(n) for n in (1, 9, 10, 0xFFFF_FFFF_FFFF, (1 << 63) - 1)]
    names = [segment_name(first) for first in firsts]
    assert names == sorted(names)
    assert segment_firsts([*reversed(names), "snapshot.0000000000000001"]) == firsts
    with pytest.raises(CorruptRecord, match=r"log\.x is not"):
        segment_firsts(["log.x"])


def made(files: FaultyFiles, content: bytes = b"") -> TailSegment:
    allocated = Path("/allocated")
    fd = files.create(allocated)
    files.allocate(fd, HEADER.size)
    return TailSegment(files, PATH, HEADER, content, (fd, allocated))


def test_a_segment_is_named_and_filled() -> None:
    files = FaultyFiles()
    segment = made(files, b"content")
    segment.append([b"one", b"two"], 6)
    segment.append([b"three"], 5)
    segment.close()
    assert read_header(files, PATH) == HEADER
    assert read_segment(files, PATH) == (HEADER, bytes(files.content(PATH)))
    written = encode_segment_header(HEADER) + b"contentonetwothree"
    assert segment.left == 1000 - len(written)
    after = files.crash(Loss.ALL, random.Random(0))
    assert read_file(after, PATH) == written + bytes(1000 - len(written))


def test_a_segment_is_never_written_beyond_its_allocation() -> None:
    segment = made(FaultyFiles())
    with pytest.raises(AssertionError):
        segment.append([bytes(segment.left + 1)], segment.left + 1)


def test_a_segment_is_named_last() -> None:
    for operation in range(1, 7):
        for loss in Loss:
            files = FaultyFiles()
            files.on_operation = crash_at(operation)
            with suppress(Crashed):
                made(files, b"content")
            after = files.crash(loss, random.Random(operation))
            if after.exists(PATH):
                assert read_header(after, PATH) == HEADER


def test_a_failure_leaves_no_file_open() -> None:
    for operation in range(3, 7):
        files = FaultyFiles()
        files.on_operation = fail_at(operation)
        with pytest.raises(OSError, match="failed"):
            made(files)
        assert files.open_files() == 0


def test_a_file_of_another_size_is_refused() -> None:
    files = FaultyFiles()
    made(files).close()
    for change in (lambda data: data.append(0), lambda data: data.__delitem__(slice(998, None))):
        change(files.content(PATH))
        with pytest.raises(CorruptRecord, match=r"bytes, not 1000"):
            read_header(files, PATH)


def test_a_header_of_another_segment_is_refused() -> None:
    files = FaultyFiles()
    made(files).close()
    files.rename(PATH, FOLDER / "log.0000000000000102")
    with pytest.raises(CorruptRecord, match="holds the segment"):
        read_header(files, FOLDER / "log.0000000000000102")
