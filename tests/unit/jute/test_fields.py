"""Fields: members in the order of the record, vectors of any element, the tree's own structs."""

from typing import Any

import pytest

from raykeeper.jute.archives import InputArchive, OutputArchive
from raykeeper.jute.errors import JuteError
from raykeeper.jute.fields import EncodedStrings, Int, Long, Record, field_of
from raykeeper.jute.records import GetChildrenResponse
from raykeeper.zab.ids import Millis, Zxid
from raykeeper.znodes.acl import Acl
from raykeeper.znodes.stat import Stat


class Inner(Record, frozen=True):
    flag: bool
    number: Long


class Outer(Record, frozen=True):
    number: Int
    data: bytes | None
    inner: list[Inner] | None
    names: list[str] | None


def written(kind: type, value: object) -> bytes:
    archive = OutputArchive()
    field_of(kind).write(archive, value)
    return bytes(archive.data)


@pytest.mark.parametrize(
    ("record", "data"),
    [
        (
            Outer(1, b"x", [Inner(True, 2)], ["a", ""]),
            b"\0\0\0\x01" b"\0\0\0\x01x" b"\0\0\0\x01\x01\0\0\0\0\0\0\0\x02"
            b"\0\0\0\x02\0\0\0\x01a\0\0\0\0",
        ),
        # A vector has a null of its own, beside the empty one.
        (
            Outer(-1, None, None, []),
            b"\xff\xff\xff\xff" b"\xff\xff\xff\xff" b"\xff\xff\xff\xff" b"\0\0\0\0",
        ),
    ],
)  # fmt: skip
def test_members_stand_in_order(record: Outer, data: bytes) -> None:
    assert written(Outer, record) == data
    assert field_of(Outer).read(InputArchive(data)) == record


def test_a_field_knows_the_least_that_it_takes() -> None:
    assert field_of(Inner).least_bytes == 9
    assert field_of(Outer).least_bytes == 16
    assert field_of(Acl).least_bytes == 12
    assert field_of(Stat).least_bytes == 68


def test_a_vector_cannot_claim_more_than_arrived() -> None:
    data = b"\0\0\0\0\0\0\0\0\x0f\xff\xff\xff" + bytes(1000)
    with pytest.raises(JuteError):
        field_of(Outer).read(InputArchive(data))


def test_a_stat_has_eleven_numbers() -> None:
    stat = Stat(Zxid(1), Zxid(2), Millis(3), Millis(4), -5, 6, 7, 8, 9, 10, Zxid(11))
    data = written(Stat, stat)
    assert data == (
        bytes.fromhex("0000000000000001 0000000000000002 0000000000000003 0000000000000004")
        + bytes.fromhex("fffffffb 00000006 00000007 0000000000000008 00000009 0000000a")
        + bytes.fromhex("000000000000000b")
    )
    assert field_of(Stat).read(InputArchive(data)) == stat


def test_an_acl_has_permissions_scheme_and_id() -> None:
    acl = Acl(31, "world", "anyone")
    data = b"\0\0\0\x1f\0\0\0\x05world\0\0\0\x06anyone"
    assert written(Acl, acl) == data
    assert field_of(Acl).read(InputArchive(data)) == acl


def test_encoded_strings_are_written_in_place_of_a_list() -> None:
    names = ["a", "é", ""]
    archive = OutputArchive()
    for name in names:
        archive.write_string(name)
    whole = [OutputArchive(), OutputArchive()]
    field = field_of(GetChildrenResponse)
    field.write(whole[0], GetChildrenResponse(names))
    encoded: Any = EncodedStrings(3, archive.data)
    field.write(whole[1], GetChildrenResponse(encoded))
    assert whole[0].data == whole[1].data
