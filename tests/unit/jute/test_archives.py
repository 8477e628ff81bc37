"""Jute's primitive types: their bytes, and what is refused."""

from collections.abc import Callable
from typing import Any

import pytest

from raykeeper.jute.archives import InputArchive, OutputArchive
from raykeeper.jute.errors import JuteError, TooManyElements

BYTES: list[tuple[str, Any, bytes]] = [
    ("bool", False, b"\x00"),
    ("bool", True, b"\x01"),
    ("int", 0, b"\x00\x00\x00\x00"),
    ("int", 1, b"\x00\x00\x00\x01"),
    ("int", -1, b"\xff\xff\xff\xff"),
    ("int", -(1 << 31), b"\x80\x00\x00\x00"),
    ("long", 1 << 32, b"\x00\x00\x00\x01\x00\x00\x00\x00"),
    ("long", -2, b"\xff\xff\xff\xff\xff\xff\xff\xfe"),
    # No bytes are not the same as none.
    ("buffer", None, b"\xff\xff\xff\xff"),
    ("buffer", b"", b"\x00\x00\x00\x00"),
    ("buffer", b"ab", b"\x00\x00\x00\x02ab"),
    # A length counts bytes, not characters.
    ("string", "", b"\x00\x00\x00\x00"),
    ("string", "/é", b"\x00\x00\x00\x03/\xc3\xa9"),
]


@pytest.mark.parametrize(("kind", "value", "data"), BYTES)
def test_each_type_has_its_bytes(kind: str, value: Any, data: bytes) -> None:
    archive = OutputArchive()
    getattr(archive, f"write_{kind}")(value)
    assert archive.data == data
    source = InputArchive(data)
    assert getattr(source, f"read_{kind}")() == value
    assert source.remaining == 0


@pytest.mark.parametrize(
    "texts",
    [
        [],
        ["", "a", "task-0000000017", "a"],
        ["a" * 127, "b"],
        ["a" * 128, "b"],  # longer than a length of one ASCII character tells
        ["a", "é", "\x7f", "\0"],  # as many characters as others have, and more bytes
        ["é" * 127],
    ],
)
def test_several_texts_have_the_bytes_of_each_alone(texts: list[str]) -> None:
    together, alone = OutputArchive(), OutputArchive()
    together.write_strings(texts)
    for text in texts:
        alone.write_string(text)
    assert together.data == alone.data


@pytest.mark.parametrize(("kind", "value", "data"), BYTES)
def test_a_value_that_is_cut_is_refused(kind: str, value: Any, data: bytes) -> None:
    for size in range(len(data)):
        with pytest.raises(JuteError):
            getattr(InputArchive(data[:size]), f"read_{kind}")()


def test_every_byte_but_0_is_true() -> None:
    assert InputArchive(b"\x02").read_bool() is True


def test_a_null_string_is_empty_and_bad_utf_8_is_replaced_as_in_java() -> None:
    assert InputArchive(b"\xff\xff\xff\xff").read_string() == ""
    assert InputArchive(b"\x00\x00\x00\x02/\xff").read_string() == "/\ufffd"


@pytest.mark.parametrize(
    "read", [InputArchive.read_buffer, InputArchive.read_string, lambda a: a.read_count(4)]
)
@pytest.mark.parametrize("length", [-2, -(1 << 31), 2, (1 << 31) - 1])
def test_a_length_is_checked_against_what_remains(
    read: Callable[[InputArchive], object], length: int
) -> None:
    with pytest.raises(JuteError):
        read(InputArchive(length.to_bytes(4, signed=True) + b"x"))


def test_a_count_is_checked_by_the_least_that_its_elements_take() -> None:
    data = b"\x00\x00\x00\x02" + bytes(8)
    assert InputArchive(data).read_count(4) == 2
    with pytest.raises(JuteError, match="a vector of 2 in 8 bytes"):
        InputArchive(data).read_count(5)
    assert InputArchive(b"\xff\xff\xff\xff").read_count(4) is None


def test_a_payload_may_have_so_many_elements_of_a_kind_in_all() -> None:
    archive = InputArchive(b"", {int: 3})
    archive.take_elements(int, 2)
    archive.take_elements(str, 1 << 30)
    archive.take_elements(int, 1)
    with pytest.raises(TooManyElements, match="more than 3 elements int") as caught:
        archive.take_elements(int, 1)
    assert (caught.value.kind, caught.value.most) == (int, 3)
