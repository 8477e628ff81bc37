"""Values that a format would change: a value is written only if reading gives it back.

JSON and msgpack have no tuples and no sets, JSON has no keys but text, no NaN, no bytes and no
times. Where a type says what a value is, reading makes it that again; where it does not (`dict`,
`Any`, a field of such a type), a tuple comes back as a list and the key 1 as "1". The invariant of
this file: no difference means that both are equal, part by part; NaN equals itself here, and
objects of a class without `__eq__` are equal if their fields are.
"""

import dataclasses
from collections.abc import Mapping
from typing import Any

from msgspec import Struct

_SHOWN_MAX = 60
"""Characters of a value in an error."""


def difference(given: Any, read: Any, place: str = "") -> str:
    """Return what reading changed, the first difference in words; "" if it changed nothing.

    `place` is where in the value the two are.
    """
    if given is read or given == read or (given != given and read != read):
        return ""
    if isinstance(given, dict) and isinstance(read, dict):
        return _difference_of_keys(given, read, place) or _first(given, read, given, place)
    for kind in (list, tuple):
        if isinstance(given, kind) and isinstance(read, kind) and len(given) == len(read):
            return _first(given, read, range(len(given)), place)
    if type(given) is not type(read) or not has_fields(type(given)):
        return f"{place} {_short(given)} would be read as {_short(read)}".strip()
    names = _field_names(type(given))
    pairs = ((f"{place}.{name}", getattr(given, name), getattr(read, name)) for name in names)
    return next(filter(None, (difference(one, two, at) for at, one, two in pairs)), "")


def has_fields(kind: type) -> bool:
    """Return whether a class has typed fields: a Struct, a dataclass or a class of attrs."""
    is_struct = issubclass(kind, Struct)
    return is_struct or dataclasses.is_dataclass(kind) or hasattr(kind, "__attrs_attrs__")


def _difference_of_keys(given: Mapping[Any, Any], read: Mapping[Any, Any], place: str) -> str:
    for one, two in zip(given, read, strict=False):
        if one != two:
            return f"{place} the key {_short(one)} would be read as {_short(two)}".strip()
    return "" if len(given) == len(read) else f"{place} keys would be lost".strip()


def _first(given: Any, read: Any, indexes: Any, place: str) -> str:
    differences = (difference(given[i], read[i], f"{place}[{i!r}]") for i in indexes)
    return next(filter(None, differences), "")


def _field_names(kind: type) -> tuple[str, ...]:
    if issubclass(kind, Struct):
        return kind.__struct_fields__
    if dataclasses.is_dataclass(kind):
        return tuple(field.name for field in dataclasses.fields(kind))
    return tuple(field.name for field in kind.__attrs_attrs__)  # type: ignore[attr-defined]


def _short(value: object) -> str:
    shown = repr(value)
    return shown if len(shown) <= _SHOWN_MAX else f"{shown[:_SHOWN_MAX]}..."
