"""Unknown fields: a program keeps fields that it does not know when it updates a value.

    written by a newer program      {"rate": 7, "burst": 3}
    decoded by this program         {"rate": 7}
    the new value                   {"rate": 8}
    written by this program         {"rate": 8, "burst": 3}

Names of fields are the encoded names, so it does not matter how a type calls its fields. A field is
unknown if it was written, but is missing after the type has decoded and encoded the value. The
invariant of this file: the written text decodes to exactly the new value.

Objects are matched by the names of fields and the keys of dicts that lead to them. Elements of a
list have no names: an unchanged element, wherever it is now, is kept as it was written; a changed
element is written as this program knows it. Of an `array_like` Struct the elements after the known
fields are kept. An object keeps no unknown field if it has become another tagged Struct.
"""

from collections import deque
from collections.abc import Callable, Iterable
from contextlib import suppress
from typing import Any

import msgspec
from msgspec import Raw, Struct

from raykeeper.client.recipes.value_types import Format

Decode = Callable[[bytes], Any]


class UnknownFields:
    """Keeps the unknown fields of values of one type."""

    def __init__(self, classes: Iterable[type], form: Format, read: Decode) -> None:
        """`classes` are the classes that the type consists of; `read` decodes its values."""
        self._classes = tuple(classes)
        coding: Any = msgspec.json if form == "json" else msgspec.msgpack
        self._read = read
        self._encode: Callable[..., bytes] = coding.encode
        self._objects = coding.Decoder(dict[Any, Raw])
        self._lists = coding.Decoder(list[Raw])
        configs = [each.__struct_config__ for each in self._classes if issubclass(each, Struct)]
        self._tag_fields = {config.tag_field for config in configs if config.tag is not None}
        self._tags = {coding.encode(config.tag) for config in configs if config.tag is not None}

    def keep(self, written: bytes, known: bytes, new: bytes) -> bytes:
        """Return the text to write for a new value.

        Args:
            written: The old text.
            known: The old text, decoded and encoded again by the type.
            new: The new value, encoded by the type.
        """
        if not self._classes:
            return new  # the type knows all fields
        for with_lists in (True, False):  # an array may be a set, which has no order to go by
            merged = self._merge(written, known, new, with_lists=with_lists)
            if self._recode(merged) == self._recode(new):
                return merged
        return new

    def _merge(self, written: bytes, known: bytes, new: bytes, *, with_lists: bool) -> bytes:
        if written == known:
            return new
        if known == new:
            return written
        parts = [self._split(each) for each in (written, known, new)]
        if all(isinstance(each, dict) for each in parts):
            return self._merge_objects(new, *parts, with_lists=with_lists)
        if with_lists and all(isinstance(each, list) for each in parts):
            return self._merge_lists(*parts)
        return new

    def _merge_objects(
        self,
        text: bytes,
        written: dict[Any, Raw],
        known: dict[Any, Raw],
        new: dict[Any, Raw],
        *,
        with_lists: bool,
    ) -> bytes:
        if any(self._is_other_tag(known.get(name), new.get(name)) for name in self._tag_fields):
            return text
        merged = dict(new)
        for name in new.keys() & written.keys() & known.keys():
            texts = (bytes(each[name]) for each in (written, known, new))
            merged[name] = Raw(self._merge(*texts, with_lists=with_lists))
        unknown = (name for name in written if name not in known and name not in new)
        merged.update((name, written[name]) for name in unknown)
        return self._encode(merged)

    def _merge_lists(self, written: list[Raw], known: list[Raw], new: list[Raw]) -> bytes:
        kept: dict[bytes, deque[Raw]] = {}
        for as_written, as_known in zip(written, known, strict=False):
            if self._split(bytes(as_written)) is not None:
                kept.setdefault(bytes(as_known), deque()).append(as_written)
        merged = [
            kept[each].popleft() if kept.get(each := bytes(value)) else value for value in new
        ]
        if len(known) == len(new) and not (known and self._is_other_tag(known[0], new[0])):
            merged += written[len(known) :]
        return self._encode(merged)

    def _split(self, text: bytes) -> Any:
        """Return the members of an object or an array; None for anything else."""
        for decoder in (self._objects, self._lists):
            with suppress(msgspec.ValidationError):
                return decoder.decode(text)
        return None

    def _is_other_tag(self, known: Raw | None, new: Raw | None) -> bool:
        """Return whether both texts are tags, of different Structs."""
        if known is None or new is None:
            return False
        tags = {bytes(known), bytes(new)}
        return len(tags) == 2 and tags <= self._tags

    def _recode(self, text: bytes) -> bytes:
        return self._encode(self._read(text))
