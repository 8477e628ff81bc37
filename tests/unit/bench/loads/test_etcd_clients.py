"""The few messages of etcd, byte for byte as protobuf has them."""

import pytest

pytest.importorskip("grpc", reason="grpcio is not installed")

from raykeeper.bench.loads.etcd_clients import create, field, put


@pytest.mark.parametrize(
    ("number", "value", "expected"),
    [
        (1, b"",          b"\x0a\x00"),
        (1, b"ab",        b"\x0a\x02ab"),
        (2, bytes(127),   b"\x12\x7f" + bytes(127)),
        (2, bytes(128),   b"\x12\x80\x01" + bytes(128)),
        (2, bytes(1024),  b"\x12\x80\x08" + bytes(1024)),
    ],
)  # fmt: skip
def test_a_field_has_its_length_as_a_varint(number: int, value: bytes, expected: bytes) -> None:
    assert field(number, value) == expected


def test_a_creation_is_a_put_if_the_key_is_absent() -> None:
    assert put("/a", b"v") == b"\x0a\x02/a\x12\x01v"
    # compare { key: "/a" version: 0 } success { request_put { key: "/a" value: "v" } }
    assert create("/a", b"v") == b"\x0a\x06\x1a\x02/a\x20\x00\x12\x09\x12\x07\x0a\x02/a\x12\x01v"
