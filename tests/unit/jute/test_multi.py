"""The records of multi and multiRead, with the bytes of the public protocol."""

import pytest

from raykeeper.jute.archives import InputArchive, OutputArchive
from raykeeper.jute.errors import JuteError
from raykeeper.jute.fields import Record, field_of
from raykeeper.jute.multi import (
    _OPERATIONS,
    _RESULTS,
    ERROR_TYPE,
    MultiRequest,
    MultiResponse,
    Operation,
    Result,
)
from raykeeper.jute.records import (
    CheckVersionRequest,
    Create2Response,
    CreateRequest,
    CreateResponse,
    CreateTTLRequest,
    DeleteRequest,
    EmptyResponse,
    ErrorResponse,
    GetChildrenResponse,
    GetDataResponse,
    PathWatchRequest,
    SetDataRequest,
    StatResponse,
)
from raykeeper.jute.schema import REPLIES, REQUESTS
from raykeeper.zab.ids import Millis, Zxid
from raykeeper.znodes.acl import Acl
from raykeeper.znodes.stat import Stat

STAT = Stat(Zxid(1), Zxid(1), Millis(0), Millis(0), 0, 0, 0, 0, 0, 0, Zxid(1))
OPEN = [Acl(31, "world", "anyone")]
END = b"\xff\xff\xff\xff\x01\xff\xff\xff\xff"


def written(record: Record) -> bytes:
    archive = OutputArchive()
    field_of(type(record)).write(archive, record)
    return bytes(archive.data)


@pytest.mark.parametrize(
    ("record", "data"),
    [
        (MultiRequest([]), END),
        (
            MultiRequest([Operation(13, CheckVersionRequest("/a", 7))]),
            b"\0\0\0\x0d\0\xff\xff\xff\xff" b"\0\0\0\x02/a\0\0\0\x07" + END,
        ),
        (
            MultiRequest([Operation(4, PathWatchRequest("/a", False))]),
            b"\0\0\0\x04\0\xff\xff\xff\xff" b"\0\0\0\x02/a\0" + END,
        ),
        (
            MultiResponse([Result(1, CreateResponse("/a")), Result(2, EmptyResponse())]),
            b"\0\0\0\x01\0\0\0\0\0" b"\0\0\0\x02/a" b"\0\0\0\x02\0\0\0\0\0" + END,
        ),
        # An operation that failed has its code twice.
        (
            MultiResponse([Result(ERROR_TYPE, ErrorResponse(-101))]),
            b"\xff\xff\xff\xff\0\xff\xff\xff\x9b" b"\xff\xff\xff\x9b" + END,
        ),
    ],
)  # fmt: skip
def test_the_bytes(record: Record, data: bytes) -> None:
    assert written(record) == data
    assert field_of(type(record)).read(InputArchive(data)) == record


@pytest.mark.parametrize(
    "record",
    [
        MultiRequest(
            [
                Operation(1, CreateRequest("/a", b"x", OPEN, 0)),
                Operation(2, DeleteRequest("/a", -1)),
                Operation(5, SetDataRequest("/a", None, 3)),
                Operation(8, PathWatchRequest("/", False)),
                Operation(15, CreateRequest("/b", None, None, 2)),
                Operation(19, CreateRequest("/c", b"", [], 4)),
                Operation(21, CreateTTLRequest("/d", b"", OPEN, 5, 1000)),
            ]
        ),
        MultiResponse(
            [
                Result(4, GetDataResponse(None, STAT)),
                Result(5, StatResponse(STAT)),
                Result(8, GetChildrenResponse(["a"])),
                Result(13, EmptyResponse()),
                Result(15, Create2Response("/a", STAT)),
                Result(19, Create2Response("/b", STAT)),
                Result(21, Create2Response("/c", STAT)),
            ]
        ),
    ],
)
def test_every_part_returns_as_it_was(record: Record) -> None:
    data = written(record)
    assert field_of(type(record)).read(InputArchive(data)) == record
    for size in range(len(data)):
        with pytest.raises(JuteError):
            field_of(type(record)).read(InputArchive(data[:size]))


def test_the_parts_are_the_records_of_the_same_opcodes() -> None:
    assert all(REQUESTS[code] is kind for code, kind in _OPERATIONS.items())
    assert all(REPLIES[code] is kind for code, kind in _RESULTS.items() if code != ERROR_TYPE)
    assert set(_RESULTS) == {*_OPERATIONS, ERROR_TYPE}


@pytest.mark.parametrize("kind", [MultiRequest, MultiResponse])
@pytest.mark.parametrize("type_", [0, 14, 3, 99])
def test_another_operation_is_refused(kind: type[Record], type_: int) -> None:
    data = type_.to_bytes(4) + b"\0\0\0\0\0" + END
    with pytest.raises(JuteError, match=f"type {type_}"):
        field_of(kind).read(InputArchive(data))
