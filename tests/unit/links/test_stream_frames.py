"""Frames survive a stream that cuts them anywhere; no length is believed beyond its bound."""

import struct

import pytest
from hypothesis import given
from hypothesis import strategies as st

from raykeeper.links.limits import CLOSE_REASON_BYTES_MAX, FRAME_BYTES_MAX
from raykeeper.links.stream_frames import KEEPALIVE, FrameDecoder, close_frame, encode_frame


def in_pieces(data: bytes, sizes: list[int]) -> list[bytes]:
    pieces, start = [], 0
    for size in sizes:
        pieces.append(data[start : start + size])
        start += size
    return [piece for piece in [*pieces, data[start:]] if piece]


@given(st.lists(st.binary(max_size=20)), st.lists(st.integers(1, 25)))
def test_frames_are_decoded_as_they_were_encoded(frames: list[bytes], sizes: list[int]) -> None:
    data = KEEPALIVE.join(encode_frame(frame) for frame in frames) + close_frame("done")
    incoming = FrameDecoder()
    ready = [frame for piece in in_pieces(data, sizes) for frame in incoming.feed(piece)]
    assert ready == frames
    assert incoming.end == "done"


def test_a_large_frame_is_joined_from_its_pieces() -> None:
    frame = bytes(range(256)) * 40_000
    incoming = FrameDecoder()
    data = encode_frame(frame) + encode_frame(b"next")
    ready = [f for at in range(0, len(data), 65_536) for f in incoming.feed(data[at : at + 65_536])]
    assert ready == [frame, b"next"]


@pytest.mark.parametrize(
    ("head", "end"),
    [
        ((FRAME_BYTES_MAX + 1) << 1, f"a frame of {FRAME_BYTES_MAX + 1} bytes was announced"),
        ((1 << 32) - 2, "a frame of 2147483647 bytes was announced"),
        (
            (CLOSE_REASON_BYTES_MAX + 1) << 1 | 1,
            f"a word of {CLOSE_REASON_BYTES_MAX + 1} bytes was announced",
        ),
    ],
)
def test_a_length_over_the_bound_ends_the_stream(head: int, end: str) -> None:
    incoming = FrameDecoder()
    assert incoming.feed(encode_frame(b"before") + struct.pack(">I", head)) == [b"before"]
    assert incoming.end == end


def test_frames_of_the_largest_length_are_awaited() -> None:
    for head in (FRAME_BYTES_MAX << 1, CLOSE_REASON_BYTES_MAX << 1 | 1):
        incoming = FrameDecoder()
        assert incoming.feed(struct.pack(">I", head)) == []
        assert incoming.end is None


def test_nothing_is_decoded_after_a_close_frame() -> None:
    incoming = FrameDecoder()
    assert incoming.feed(encode_frame(b"a") + close_frame("enough") + encode_frame(b"b")) == [b"a"]
    assert incoming.end == "enough"


def test_a_close_frame_always_has_a_bounded_reason() -> None:
    for reason, end in (("", "closed"), ("x" * 5000, "x" * CLOSE_REASON_BYTES_MAX)):
        incoming = FrameDecoder()
        incoming.feed(close_frame(reason))
        assert incoming.end == end


def test_a_reason_that_is_not_utf8_is_still_shown() -> None:
    incoming = FrameDecoder()
    incoming.feed(struct.pack(">I", 3 << 1 | 1) + b"\xffno")
    assert incoming.end == "\ufffdno"
