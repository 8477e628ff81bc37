"""Frames on a stream of bytes: a head of four bytes, then the frame itself.

A head is the length, doubled, plus one if no frame of the owner follows but a word between the two
ends of the link: an empty word is a keepalive, any other is the reason why the sender closes.

Invariant: the decoder returns the frames that were encoded, and keeps nothing of a length beyond
the bounds; after `end` it takes nothing more.
"""

from struct import Struct as Layout

from raykeeper.links.limits import CLOSE_REASON_BYTES_MAX, FRAME_BYTES_MAX

_HEAD = Layout(">I")
HEAD_BYTES = _HEAD.size
KEEPALIVE = _HEAD.pack(1)

assert FRAME_BYTES_MAX < 1 << 31, "a length leaves one bit of the head"


def encode_head(frame: bytes) -> bytes:
    """Return the bytes that go before a frame."""
    return _HEAD.pack(len(frame) << 1)


def encode_frame(frame: bytes) -> bytes:
    """Return the bytes that carry a frame."""
    return encode_head(frame) + frame


def close_frame(reason: str) -> bytes:
    """Return the bytes that end a stream after everything before them."""
    word = (reason or "closed").encode()[:CLOSE_REASON_BYTES_MAX]
    return _HEAD.pack(len(word) << 1 | 1) + word


class FrameDecoder:
    """Decodes the frames of one direction of a stream, from pieces of any size."""

    __slots__ = ("_buffered_bytes", "_frame_bytes_max", "_needed_bytes", "_pieces", "end")

    def __init__(self, frame_bytes_max: int = FRAME_BYTES_MAX) -> None:
        self._frame_bytes_max = frame_bytes_max
        self.end: str | None = None
        """Why nothing comes any more: the other end's reason, or what is wrong with its bytes."""
        self._pieces: list[bytes] = []  # of a frame that is not complete, its head included
        self._buffered_bytes = 0
        self._needed_bytes = 0

    def feed(self, data: bytes) -> list[bytes]:
        """Take what was read; return the frames that are now complete, perhaps none."""
        if self._pieces:
            self._pieces.append(data)
            self._buffered_bytes += len(data)
            if self._buffered_bytes < self._needed_bytes:
                return []
            data = b"".join(self._pieces)
            self._pieces.clear()
        ready: list[bytes] = []
        start, available = 0, len(data)
        self._needed_bytes = HEAD_BYTES
        while start + HEAD_BYTES <= available and self.end is None:
            head: int = _HEAD.unpack_from(data, start)[0]
            size, is_word = head >> 1, head & 1
            if size > (CLOSE_REASON_BYTES_MAX if is_word else self._frame_bytes_max):
                self.end = f"a {'word' if is_word else 'frame'} of {size} bytes was announced"
                return ready
            body = start + HEAD_BYTES
            if body + size > available:
                self._needed_bytes = HEAD_BYTES + size
                break
            start = body + size
            if not is_word:
                ready.append(data[body:start])
            elif size:
                self.end = data[body:start].decode(errors="replace")
        if start < available and self.end is None:
            self._pieces.append(data[start:])
            self._buffered_bytes = available - start
        return ready
