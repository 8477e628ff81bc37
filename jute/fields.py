"""How the fields of a record are read and written: one `Field` for each type of ZooKeeper's jute.

A record is a `Record` struct; its annotations are its schema. `Int` and `Long` tell the two sizes
of numbers apart. The field of each type is made once, from the annotations of the record.

ZooKeeper: `zookeeper.jute` and what its compiler makes of it.
"""

import struct
from collections.abc import Callable
from types import UnionType
from typing import Annotated, Any, Final, NamedTuple, get_args, get_origin, get_type_hints

from msgspec import Meta, Struct
from msgspec.structs import astuple

from raykeeper.jute.archives import (
    BOOL_BYTES,
    INT_BYTES,
    LONG_BYTES,
    InputArchive,
    OutputArchive,
)
from raykeeper.znodes.acl import Acl
from raykeeper.znodes.stat import Stat

Int = Annotated[int, Meta(ge=-(1 << 31), le=(1 << 31) - 1)]
Long = Annotated[int, Meta(ge=-(1 << 63), le=(1 << 63) - 1)]


class Record(Struct, frozen=True):
    """The base of all records. A vector that is None has the count -1."""


class EncodedStrings(Struct, frozen=True):
    """Strings that are encoded already, to be written where a record has a list of strings."""

    count: int
    data: bytearray


class Field(NamedTuple):
    """How values of one type are read and written. Each takes `least_bytes` or more."""

    least_bytes: int
    read: Callable[[InputArchive], Any]
    write: Callable[[OutputArchive, Any], None]


_INT: Final = Field(INT_BYTES, InputArchive.read_int, OutputArchive.write_int)
_LONG: Final = Field(LONG_BYTES, InputArchive.read_long, OutputArchive.write_long)

FIELDS: Final[dict[Any, Field]] = {
    bool: Field(BOOL_BYTES, InputArchive.read_bool, OutputArchive.write_bool),
    Int: _INT,
    Long: _LONG,
    bytes | None: Field(INT_BYTES, InputArchive.read_buffer, OutputArchive.write_buffer),
    str: Field(INT_BYTES, InputArchive.read_string, OutputArchive.write_string),
}
"""The field of each type that was met so far; a record with a form of its own adds its own."""


def field_of(kind: Any) -> Field:
    """Return the field of a type, made at its first use."""
    field = FIELDS.get(kind)
    if field is None:
        field = FIELDS[kind] = _vector(kind) if isinstance(kind, UnionType) else record_field(kind)
    return field


def record_field(kind: type[Struct]) -> Field:
    """Return the field of a record: those of its members, in order."""
    hints = get_type_hints(kind, include_extras=True)
    return _members(kind, [(name, field_of(hints[name])) for name in kind.__struct_fields__])


def _members(kind: type[Struct], members: list[tuple[str, Field]]) -> Field:
    readers = [field.read for _, field in members]
    writers = [(name, field.write) for name, field in members]

    def read(archive: InputArchive) -> Struct:
        return kind(*[read_member(archive) for read_member in readers])

    def write(archive: OutputArchive, record: Struct) -> None:
        for name, write_member in writers:
            write_member(archive, getattr(record, name))

    return Field(sum(field.least_bytes for _, field in members), read, write)


def _vector(kind: UnionType) -> Field:
    vector = get_args(kind)[0]
    assert get_origin(vector) is list, kind
    element_type = get_args(vector)[0]
    least_bytes, read_element, write_element = field_of(element_type)

    def read(archive: InputArchive) -> list[Any] | None:
        count = archive.read_count(least_bytes)
        if count is None:
            return None
        archive.take_elements(element_type, count)
        return [read_element(archive) for _ in range(count)]

    def write(archive: OutputArchive, elements: list[Any] | EncodedStrings | None) -> None:
        if elements is None:
            archive.write_int(-1)
            return
        if isinstance(elements, EncodedStrings):
            archive.write_int(elements.count)
            archive.data += elements.data
            return
        archive.write_int(len(elements))
        if element_type is str:
            archive.write_strings(elements)
            return
        for each in elements:
            write_element(archive, each)

    return Field(INT_BYTES, read, write)


# Two structs of the tree are records of ZooKeeper too, with the same members in the same order.
# Almost every reply has a Stat, so it is read and written in one go.
_stat = struct.Struct(">qqqqiiiqiiq")


def _read_stat(archive: InputArchive) -> Stat:
    return Stat(*_stat.unpack(archive.read_bytes(_stat.size)))


def _write_stat(archive: OutputArchive, stat: Stat) -> None:
    archive.data += _stat.pack(*astuple(stat))


FIELDS[Stat] = Field(_stat.size, _read_stat, _write_stat)
_ACL_FIELDS: Final = (_INT, FIELDS[str], FIELDS[str])
FIELDS[Acl] = _members(Acl, list(zip(Acl.__struct_fields__, _ACL_FIELDS, strict=True)))
