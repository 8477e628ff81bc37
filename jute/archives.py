"""Jute's primitive types as bytes: big-endian numbers, lengths before strings and buffers.

An `InputArchive` reads one payload and checks every length and count against the bytes that
remain, so that what it builds is never larger than a constant times its input. It raises
`JuteError` alone. A reader may bound how many elements of a kind one payload has: small ones by the
ten thousand take long to build.

ZooKeeper: `BinaryInputArchive`, `BinaryOutputArchive`.
"""

from collections.abc import Mapping, Sequence
from struct import Struct
from typing import Final

from raykeeper.jute.errors import JuteError, TooManyElements

BOOL_BYTES: Final = 1
INT_BYTES: Final = 4
LONG_BYTES: Final = 8

ElementsMax = Mapping[type, int]
"""How many elements of a type all vectors of one payload may have; of others, as many as fit."""
UNBOUNDED: Final[ElementsMax] = {}

_pack_int, _unpack_int = Struct(">i").pack, Struct(">i").unpack_from
_pack_long, _unpack_long = Struct(">q").pack, Struct(">q").unpack_from

_NULL: Final = _pack_int(-1)
_SHORT_LENGTHS: Final = [f"\0\0\0{chr(length)}" for length in range(128)]


class InputArchive:
    """Reads the fields of one payload, in order.

    Each method checks for itself whether enough bytes remain: requests are many and short, so a
    call of a function costs more than the field.
    """

    __slots__ = ("_at", "_data", "_elements_max", "_size", "_taken")

    def __init__(self, data: bytes, elements_max: ElementsMax = UNBOUNDED, at: int = 0) -> None:
        """Read from `at` on."""
        self._data = data
        self._at = at
        self._size = len(data)
        self._elements_max = elements_max
        self._taken: dict[type, int] | None = None

    @property
    def remaining(self) -> int:
        """The bytes that are not read yet."""
        return self._size - self._at

    def read_bool(self) -> bool:
        """Read a byte; every value but 0 is true."""
        at = self._at
        if at >= self._size:
            raise self._too_short(BOOL_BYTES)
        self._at = at + BOOL_BYTES
        return self._data[at] != 0

    def read_int(self) -> int:
        """Read a signed number of 32 bits."""
        at = self._at
        end = at + INT_BYTES
        if end > self._size:
            raise self._too_short(INT_BYTES)
        self._at = end
        value: int = _unpack_int(self._data, at)[0]
        return value

    def read_long(self) -> int:
        """Read a signed number of 64 bits."""
        at = self._at
        end = at + LONG_BYTES
        if end > self._size:
            raise self._too_short(LONG_BYTES)
        self._at = end
        value: int = _unpack_long(self._data, at)[0]
        return value

    def read_buffer(self) -> bytes | None:
        """Read bytes; None for the length -1, which is not the same as no bytes."""
        at = self._at + INT_BYTES
        if at > self._size:
            raise self._too_short(INT_BYTES)
        size = _unpack_int(self._data, at - INT_BYTES)[0]
        self._at = at
        if size == -1:
            return None
        end = at + size
        if size < 0 or end > self._size:
            raise self._too_short(size)
        self._at = end
        return self._data[at:end]

    def read_string(self) -> str:
        """Read a text; a null one is "".

        Bytes that are not UTF-8 become U+FFFD, as in Java; no path may have it.
        """
        data = self.read_buffer()
        return "" if data is None else data.decode(errors="replace")

    def read_count(self, least_bytes: int) -> int | None:
        """Read the count of a vector whose elements take `least_bytes` or more; None for -1."""
        count = self.read_int()
        if count == -1:
            return None
        if not 0 <= count * least_bytes <= self.remaining:
            raise JuteError(f"a vector of {count} in {self.remaining} bytes")
        return count

    def take_elements(self, kind: type, count: int) -> None:
        """Note that `count` elements of a kind are read next.

        Raises:
            TooManyElements: these are more than the payload may have of them.
        """
        most = self._elements_max.get(kind)
        if most is None:
            return
        if self._taken is None:
            self._taken = {}
        taken = self._taken[kind] = self._taken.get(kind, 0) + count
        if taken > most:
            raise TooManyElements(kind, most)

    def read_bytes(self, size: int) -> bytes:
        """Read `size` bytes."""
        at = self._at
        end = at + size
        if size < 0 or end > self._size:
            raise self._too_short(size)
        self._at = end
        return self._data[at:end]

    def _too_short(self, size: int) -> JuteError:
        return JuteError(f"{size} bytes expected, {self.remaining} remain")


class OutputArchive:
    """Collects the fields of one payload, in order."""

    __slots__ = ("data",)

    def __init__(self) -> None:
        self.data = bytearray()

    def write_bool(self, value: bool) -> None:
        """Write one byte."""
        self.data.append(value)

    def write_int(self, value: int) -> None:
        """Write a signed number of 32 bits."""
        self.data += _pack_int(value)

    def write_long(self, value: int) -> None:
        """Write a signed number of 64 bits."""
        self.data += _pack_long(value)

    def write_buffer(self, value: bytes | None) -> None:
        """Write bytes behind their length, which is -1 for None."""
        if value is None:
            self.data += _NULL
        else:
            self.data += _pack_int(len(value))
            self.data += value

    def write_string(self, value: str) -> None:
        """Write a text in UTF-8."""
        data = value.encode()
        self.data += _pack_int(len(data))
        self.data += data

    def write_strings(self, values: Sequence[str]) -> None:
        """Write texts one after the other, as names of children: a third of the time of each alone.

        A length below 128 is four bytes of ASCII, so it can stand between texts of ASCII.
        """
        lengths = list(map(len, values))
        if max(lengths, default=0) < len(_SHORT_LENGTHS):
            parts: list[str] = [""] * (2 * len(lengths))
            parts[::2] = map(_SHORT_LENGTHS.__getitem__, lengths)
            parts[1::2] = values
            text = "".join(parts)
            if text.isascii():
                self.data += text.encode()
                return
        for value in values:
            self.write_string(value)
