"""Checks of the types that users name for values: a type must not have lost fields by pickling.

Cloudpickle brings a class that the driver's script defines to a Ray worker: it takes the class
apart and builds it anew there. On the way each kind of type loses:

    msgspec.Struct       its fields, and its settings such as `rename` or `tag`
    dataclass            which fields have no default, and the default factories: repaired here
    text annotations     the names that they refer to (`from __future__ import annotations`)
    TypedDict, NamedTuple, attrs, Enum, dict, ...       nothing

A Struct without fields decodes every value as empty, and so would overwrite the value with `{}`.
The invariant of this file: no value is decoded or encoded by a type that has lost a field. One loss
cannot be detected: the settings of a Struct that defines no field of its own.
"""

import dataclasses
from collections.abc import Iterable, Iterator
from contextlib import suppress
from typing import Any, Final, Literal, get_origin

import msgspec
from msgspec import Struct, inspect

from raykeeper.client.errors import BadArgumentsError

Format = Literal["json", "msgpack"]
Decoder = msgspec.json.Decoder[Any] | msgspec.msgpack.Decoder[Any]

_ADVICE: Final = (
    "A Struct that the driver's script defines comes to Ray workers without its fields, and an "
    "annotation that is text without the names that it means: put the class into a module that "
    "workers import, or use a dataclass"
)
_MISSING_TYPE: Final = type(dataclasses.MISSING)


def decoder_of(kind: Any, classes: Iterable[type], form: Format = "json") -> Decoder:
    """Return a decoder for a type; `classes` are its classes, which `checked_classes` returned."""
    decoder = msgspec.json.Decoder(kind) if form == "json" else msgspec.msgpack.Decoder(kind)
    for each in classes:
        # The cache of msgspec cannot be pickled, and the class may still be sent to workers.
        _drop_cache(each)
    return decoder


def checked_classes(path: str, kind: Any) -> list[type]:
    """Return the classes that a type consists of; check that none of them has lost fields.

    Raises:
        BadArgumentsError: msgspec does not know the type, or a class has lost fields.
    """
    try:
        info = inspect.type_info(kind)
    except Exception as error:  # a TypeError, or NameError of an annotation that is text
        detail = f"kind must be a type for msgspec, not {name_of(kind)}: {error}. {_ADVICE}"
        raise BadArgumentsError(path, detail) from error
    classes = list(_classes_of(info))
    for each in classes:
        if issubclass(each, Struct):
            _check_struct(path, each)
        elif dataclasses.is_dataclass(each):
            _repair_dataclass(each)
    return classes


def name_of(kind: Any) -> str:
    """Return the name of a type for error texts."""
    return kind.__name__ if isinstance(kind, type) else str(kind)


def _classes_of(info: inspect.Type) -> Iterator[type]:
    seen: set[int] = set()
    todo: list[Any] = [info]
    while todo:
        node = todo.pop()
        if isinstance(node, tuple):
            todo.extend(node)
        elif isinstance(node, inspect.Type | inspect.Field) and id(node) not in seen:
            seen.add(id(node))  # types may be recursive
            todo.extend(getattr(node, name) for name in node.__struct_fields__)
            if hasattr(node, "cls"):
                yield get_origin(node.cls) or node.cls


def _check_struct(path: str, kind: type[Struct]) -> None:
    for each in kind.__mro__:
        slots = vars(each).get("__slots__", ()) if issubclass(each, Struct) else ()
        names = {name for name in slots if not (name.startswith("__") and name.endswith("__"))}
        if lost := sorted(names.difference(kind.__struct_fields__)):
            detail = f"{each.__name__} has lost its fields here: {', '.join(lost)}. {_ADVICE}"
            raise BadArgumentsError(path, detail)


def _repair_dataclass(kind: type) -> None:
    """Put `dataclasses.MISSING` back where a field has no default.

    After pickling, that object is another one, which msgspec takes for a default.
    """
    for field in dataclasses.fields(kind):
        for name in ("default", "default_factory"):
            if type(getattr(field, name)) is _MISSING_TYPE:
                setattr(field, name, dataclasses.MISSING)
    _drop_cache(kind)  # it has the other object as a default


def _drop_cache(kind: type) -> None:
    """Let msgspec inspect the class anew."""
    if "__msgspec_cache__" in vars(kind):
        with suppress(AttributeError):  # another thread was quicker
            delattr(kind, "__msgspec_cache__")
