"""Arguments: which ones are refused before a request has a number; how others are converted."""

from collections.abc import Callable
from typing import Any

import pytest

from raykeeper.client import arguments
from raykeeper.client.core.outstanding import Query
from raykeeper.client.errors import BadArgumentsError
from raykeeper.client.request_builder import RequestBuilder
from raykeeper.znodes.requests import Create, Delete, GetData, SetData

BUILDER = RequestBuilder(value_bytes_max=4)


def create(path: Any = "/a", value: Any = b"", sequence: bool = False) -> Create:
    return BUILDER.creation(path, value, sequence=sequence)


def set_(value: Any = b"", version: Any = -1) -> SetData:
    return BUILDER.setting("/a", value, version)


class Unhashable:
    __hash__ = None  # type: ignore[assignment]

    def __call__(self, _: object) -> None: ...


@pytest.mark.parametrize(
    ("call", "text"),
    [
        (lambda: create("a"), 'must start with "/"'),
        (lambda: create("/a/"), 'must not end with "/"'),
        (lambda: create(b"/a"), "must be a string, not bytes"),
        (lambda: arguments.deletion("//", -1), "path"),
        (lambda: arguments.query(GetData, ""), "cannot be empty"),
        (lambda: create(value="text"), "must be bytes, not str"),
        (lambda: create(value=None), "must be bytes, not NoneType"),
        (lambda: create(value=b"12345"), "5 bytes, at most 4"),
        (lambda: set_(bytearray(5)), "5 bytes, at most 4"),
        (lambda: set_(version=1 << 31), "32-bit"),
        (lambda: set_(version="1"), "32-bit"),
        (lambda: set_(version=True), "32-bit"),
        (lambda: arguments.deletion("/a", None), "32-bit"),  # type: ignore[arg-type]
        (lambda: arguments.query(GetData, "/a", True), "must be callable, not bool"),
        (lambda: arguments.query(GetData, "/a", Unhashable()), "hashable"),
        (lambda: arguments.milliseconds("timeout_s", 0), "timeout_s must be a positive"),
        (lambda: arguments.milliseconds("timeout_s", -1.0), "positive"),
        (lambda: arguments.milliseconds("timeout_s", float("nan")), "positive"),
        (lambda: arguments.milliseconds("timeout_s", float("inf")), "positive"),
        (lambda: arguments.milliseconds("timeout_s", "5"), "positive"),  # type: ignore[arg-type]
    ],
)
def test_invalid_arguments_are_refused(call: Callable[[], object], text: str) -> None:
    with pytest.raises(BadArgumentsError, match="bad arguments") as caught:
        call()
    assert text in str(caught.value)
    assert caught.value.definite


def test_valid_arguments_are_converted() -> None:
    assert create(value=bytearray(b"1234")) == Create("/a", b"1234", 0)
    assert create(value=memoryview(b"12")) == Create("/a", b"12", 0)
    assert create("/a/", sequence=True) == Create("/a/", b"", 2)
    creation = BUILDER.creation("/a", b"", ephemeral=True, sequence=True)
    assert creation.flags == 3
    assert set_(version=-(1 << 31)).version == -(1 << 31)
    assert arguments.deletion("/a", 0) == Delete("/a", 0)
    assert arguments.query(GetData, "/", print) == Query(GetData, "/", print)
    assert arguments.milliseconds("s", 0.0001) == 1
    assert arguments.milliseconds("s", 10) == 10_000
