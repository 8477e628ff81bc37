"""What an error transaction tells of the request that it refuses."""

import pytest

from raykeeper.znodes.errors import Code
from raykeeper.znodes.limits import PATH_CHARS_MAX
from raykeeper.znodes.refusals import (
    PathOp,
    refused,
    refused_auth,
    refused_multi,
    refused_undecoded,
)
from raykeeper.znodes.requests import (
    AddAuth,
    Check,
    CloseSession,
    Create,
    Delete,
    Multi,
    ReadChildren,
    ReadData,
    ReadStat,
    SetAcls,
    SetData,
    encode_op,
)
from raykeeper.znodes.txns import ErrorTxn

NO_AUTH = Code.NO_AUTH
NAMED: list[tuple[PathOp, int]] = [
    (Create("/a", b"secret", 0), 1),
    (Delete("/a", 0), 2),
    (SetData("/a", b"secret", 0), 3),
    (SetAcls("/a", [], 0), 5),
    (Check("/a", 0), 7),
    (ReadData("/a"), 8),
    (ReadStat("/a"), 9),
    (ReadChildren("/a"), 10),
]


@pytest.mark.parametrize(("op", "tag"), NAMED)
def test_a_request_about_a_path_is_named(op: PathOp, tag: int) -> None:
    assert refused(NO_AUTH, op) == ErrorTxn(NO_AUTH, tag, "/a")


def test_a_path_that_is_too_long_is_cut_off() -> None:
    path = "/" + "x" * PATH_CHARS_MAX
    assert refused(NO_AUTH, Delete(path, 0)).path == path[:PATH_CHARS_MAX]
    assert refused_multi(NO_AUTH, path).path == path[:PATH_CHARS_MAX]


@pytest.mark.parametrize(
    ("raw", "error"),
    [
        (encode_op(SetData("/a", b"", 0)), ErrorTxn(NO_AUTH, 3, "/a")),
        (encode_op(AddAuth("digest", b"ann:secret")), ErrorTxn(NO_AUTH, 6)),
        (encode_op(Multi([], [Delete("/a", 0)], [])), ErrorTxn(NO_AUTH, 11)),
        (encode_op(CloseSession()), ErrorTxn(NO_AUTH, 4)),
        (encode_op(Check("/a", 0)), ErrorTxn(NO_AUTH)),  # no write
        (b"\xff", ErrorTxn(NO_AUTH)),
    ],
)
def test_a_request_that_was_not_decoded_is_named_if_it_can_be(raw: bytes, error: ErrorTxn) -> None:
    assert refused_undecoded(NO_AUTH, raw) == error


def test_credentials_are_not_told() -> None:
    assert refused_auth() == ErrorTxn(Code.AUTH_FAILED, 6)
