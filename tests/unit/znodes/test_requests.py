"""Requests: what a client sends arrives as it was, and an operation stays bytes on its way."""

import pytest
from msgspec import structs

from raykeeper.zab.errors import DECODE_ERRORS
from raykeeper.zab.ids import Millis, Zxid
from raykeeper.znodes.requests import (
    ClientFrame,
    CloseSession,
    Connect,
    Create,
    Delete,
    Exists,
    GetChildren,
    GetData,
    SessionId,
    SetData,
    SetWatches,
    Sync,
    Write,
    WriteOp,
    decode_client_frame,
    decode_op,
    encode_client_frame,
    encode_op,
    has_passwords,
)

OPS: list[WriteOp] = [
    Create("/a", b"v", 3),
    Delete("/a", -1),
    SetData("/é", b"\0\xff", 7),
    CloseSession(),
]


@pytest.mark.parametrize("op", OPS)
def test_an_operation_is_decoded_from_its_raw_bytes(op: WriteOp) -> None:
    frame = encode_client_frame(ClientFrame(1, [Write(5, 4, encode_op(op))]))
    decoded = decode_client_frame(frame)
    assert isinstance(decoded, ClientFrame)
    (write,) = decoded.requests
    assert isinstance(write, Write)
    assert (write.number, write.acked) == (5, 4)
    assert bytes(write.op) == encode_op(op)
    assert decode_op(write.op) == op


@pytest.mark.parametrize(
    "frame",
    [
        Connect(SessionId(0), b"p" * 16, Millis(5_000), Zxid(9), 3),
        ClientFrame(3, []),
        ClientFrame(
            4,
            [
                GetData(1, "/a", True),
                Exists(2, "/a", False),
                GetChildren(3, "/", True),
                Sync(4, "/"),
                SetWatches(5, Zxid(6), ["/a"], ["/b"], []),
            ],
        ),
    ],
)
def test_a_frame_survives_encoding(frame: Connect | ClientFrame) -> None:
    assert decode_client_frame(encode_client_frame(frame)) == frame


@pytest.mark.parametrize(
    ("password", "new_password", "right"),
    [
        (b"p" * 16, b"", True),
        (b"p" * 16, b"n" * 16, True),
        (b"", b"", False),
        (b"p" * 15, b"", False),
        (b"p" * 16, b"n" * 15, False),
        (b"p" * 17, b"n" * 16, False),
    ],
)
def test_a_password_has_sixteen_bytes(password: bytes, new_password: bytes, right: bool) -> None:
    connect = Connect(SessionId(7), password, Millis(5_000), Zxid(0), 1, new_password)
    assert has_passwords(connect) is right


def test_a_line_that_names_a_process_has_a_bound() -> None:
    longest = Connect(SessionId(0), b"p" * 16, Millis(5_000), Zxid(0), identity=b"i" * 250)
    assert decode_client_frame(encode_client_frame(longest)) == longest
    longer = structs.replace(longest, identity=b"i" * 251)
    with pytest.raises(DECODE_ERRORS):
        decode_client_frame(encode_client_frame(longer))
