"""Arguments: which ones are refused before a request has a number; how others are converted."""

from collections.abc import Callable
from typing import Any

import pytest

from raykeeper.client import arguments
from raykeeper.client.core.outstanding import Query
from raykeeper.client.errors import BadArgumentsError
from raykeeper.client.request_builder import RequestBuilder
from raykeeper.znodes.requests import Create, Delete, GetData, Reconfig, SetData

BUILDER = RequestBuilder(value_bytes_max=4)


def create(path: Any = "/a", value: Any = b"", sequence: bool = False) -> Create:
    return BUILDER.creation(path, value, sequence=sequence)


def set_(value: Any = b"", version: Any = -1) -> SetData:
    return BUILDER.setting("/a", value, version)


def test_a_step_of_the_members_is_a_reconfig() -> None:
    assert arguments.member_step(4, None, True, -1) == Reconfig(4, 0, True, -1)
    assert arguments.member_step(4, 2, False, 0x100000007) == Reconfig(4, 2, False, 0x100000007)
    assert arguments.member_step(None, 254, False, 0) == Reconfig(0, 254, False, 0)


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
        (lambda: arguments.member_step(None, None, False, -1), "name the server"),
        (lambda: arguments.member_step("4", None, False, -1), "joining must be a server id, 1 to"),
        (lambda: arguments.member_step(None, 255, False, -1), "leaving must be a server id, 1 to"),
        (lambda: arguments.member_step(True, None, False, -1), "254, not True"),
        (lambda: arguments.member_step(4, None, 1, -1), "True or False, not 1"),
        (lambda: arguments.member_step(None, 4, True, -1), "and none does"),
        (lambda: arguments.member_step(4, None, True, "5"), "-1 for any, not '5'"),
        (lambda: arguments.member_step(4, None, True, 1 << 63), "-1 for any, not"),
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
