"""Bytes that were once well-formed: cut, flipped, spliced, repeated, with lengths that lie."""

import struct
from collections.abc import Callable
from random import Random
from typing import Final

from hypothesis import strategies as st

_CLAIMS: Final = [
    b"\xdd\xff\xff\xff\xff",  # msgpack: an array, map, string, bytes of 4 GiB
    b"\xdf\xff\xff\xff\xff",
    b"\xdb\xff\xff\xff\xff",
    b"\xc6\xff\xff\xff\xff",
    b"\xdc\xff\xff",
    b"\xc9\x7f\xff\xff\xff\x00",
    b"\xcf" + b"\xff" * 8,
    b"\xd3\x80" + b"\x00" * 7,
    b"\xca\x7f\xc0\x00\x00",
    b"\xa1\xff",  # not UTF-8
    b"\xc1",
    b"\xff" * 4,
    b"\x00" * 4,
    struct.pack("<Q", (1 << 63) - 1),
]
_DEEP: Final = [b"\x91", b"\x92\x00", b"\x81\x00", b"[", b'{"":']


def mutate(data: bytes, donor: bytes, rng: Random) -> bytes:
    """Up to four changes of `data`, with slices of `donor` among them."""
    for _ in range(rng.randint(1, 4)):
        data = rng.choice(_MUTATIONS)(data, donor, rng)
    return data


def _flip(data: bytes, _donor: bytes, rng: Random) -> bytes:
    if not data:
        return b"\x00"
    at = rng.randrange(len(data))
    return data[:at] + bytes([data[at] ^ 1 << rng.randrange(8)]) + data[at + 1 :]


def _set(data: bytes, _donor: bytes, rng: Random) -> bytes:
    at = rng.randrange(len(data) + 1)
    return data[:at] + bytes([rng.randrange(256)]) + data[at + 1 :]


def _truncate(data: bytes, _donor: bytes, rng: Random) -> bytes:
    return data[: rng.randrange(len(data) + 1)]


def _behead(data: bytes, _donor: bytes, rng: Random) -> bytes:
    return data[rng.randrange(len(data) + 1) :]


def _insert(data: bytes, _donor: bytes, rng: Random) -> bytes:
    at = rng.randrange(len(data) + 1)
    return data[:at] + rng.randbytes(rng.randint(1, 8)) + data[at:]


def _repeat(data: bytes, _donor: bytes, rng: Random) -> bytes:
    start, end = sorted(rng.randrange(len(data) + 1) for _ in range(2))
    return data[:end] + data[start:end] * rng.randint(1, 3) + data[end:]


def _splice(data: bytes, donor: bytes, rng: Random) -> bytes:
    start, end = sorted(rng.randrange(len(donor) + 1) for _ in range(2))
    at, to = sorted(rng.randrange(len(data) + 1) for _ in range(2))
    return data[:at] + donor[start:end] + data[to:]


def _claim(data: bytes, _donor: bytes, rng: Random) -> bytes:
    at = rng.randrange(len(data) + 1)
    claim = rng.choice(_CLAIMS)
    return data[:at] + claim + data[at + rng.choice([0, 1, len(claim)]) :]


def _nest(data: bytes, _donor: bytes, rng: Random) -> bytes:
    at = rng.randrange(len(data) + 1)
    return data[:at] + rng.choice(_DEEP) * rng.choice([3, 100, 2_000]) + data[at:]


_MUTATIONS: Final[list[Callable[[bytes, bytes, Random], bytes]]] = [
    _flip,
    _flip,
    _set,
    _truncate,
    _behead,
    _insert,
    _repeat,
    _splice,
    _splice,
    _claim,
    _claim,
    _nest,
]


@st.composite
def hostile_bytes(draw: st.DrawFn, valid: st.SearchStrategy[bytes]) -> bytes:
    """Mutations of valid encodings, and now and then bytes that never were one."""
    if draw(st.integers(0, 9)) == 0:
        return draw(st.binary(max_size=200))
    rng = draw(st.randoms(use_true_random=False, note_method_calls=False))
    return mutate(draw(valid), draw(valid), Random(rng.getrandbits(64)))
