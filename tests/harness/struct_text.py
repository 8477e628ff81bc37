"""Structs as texts of one line, and back, for scenarios that are kept as data.

A struct is the name of its class and its fields, without those that have their default:

    AckEpoch current_epoch=1 last_zxid=1:3 promised=yes committed=1:1

A value without a name is that of the field in its place; the only field of a struct is written so,
and the fields of a struct in another one: `Ping 4`, `vote=(1 1:3 2)`. A zxid is `epoch:counter`, an
enum its name, commas separate items, and what is not a plain word stands in quotes. The types of
the fields say how a text is read, so a new struct needs no code here.
"""

import ast
import re
from collections.abc import Mapping
from enum import Enum
from functools import cache
from types import UnionType
from typing import Any, TypeVar, Union, get_args, get_origin, get_type_hints

import msgspec
from msgspec import Struct

from raykeeper.zab.ids import COUNTER_BITS, Epoch, Zxid, format_zxid, make_zxid

WORDS = {"none": None, "yes": True, "no": False}
PLAIN = re.compile(r"[\w.:/?-]+")
AnyStruct = TypeVar("AnyStruct", bound=Struct)


def format_struct(struct: Struct) -> str:
    """Return the text of a struct."""
    return f"{type(struct).__name__} {_format_fields(struct, is_named=True)}".rstrip()


def parse_struct(text: str, union: object, defaults: Mapping[str, object] | None = None) -> Struct:
    """Return the struct that `text` is, of one of the classes of `union`.

    `defaults` are those of required fields, by their names.

    Raises:
        KeyError: the union has no class of this name.
    """
    name, _, fields = text.partition(" ")
    return parse_fields(fields, {each.__name__: each for each in get_args(union)}[name], defaults)


def parse_fields(
    text: str, kind: type[AnyStruct], defaults: Mapping[str, object] | None = None
) -> AnyStruct:
    """Return a struct of a known class, of which `text` tells the fields."""
    hints = _hints(kind)
    values = {name: value for name, value in (defaults or {}).items() if name in hints}
    for place, part in enumerate(split(text, " ")):
        name, _, value = part.partition("=")
        if name not in hints:
            name, value = kind.__struct_fields__[place], part
        values[name] = parse_value(value, hints[name])
    return kind(**values)


def format_value(value: object, hint: Any = Any) -> str:
    """Return the text of a value that is declared as `hint`."""
    hint = _base(hint)
    if isinstance(value, Struct):
        fields = _format_fields(value, is_named=False)
        return f"({fields})" if type(value) is hint else f"({type(value).__name__} {fields})"
    if isinstance(value, Enum):
        return value.name
    if value is None or isinstance(value, bool):
        return next(word for word, meant in WORDS.items() if meant is value)
    if isinstance(value, dict):
        key, item = get_args(hint) or (Any, Any)
        pairs = (f"{format_value(k, key)}={format_value(v, item)}" for k, v in value.items())
        return ",".join(pairs) or "()"
    if isinstance(value, list | tuple):
        (item, *_) = get_args(hint) or (Any,)
        return ",".join(format_value(each, item) for each in value) or "()"
    if hint is Zxid or (hint is Any and isinstance(value, int) and value >> COUNTER_BITS):
        return format_zxid(Zxid(value))  # type: ignore[arg-type]
    text = value.decode("latin-1") if isinstance(value, bytes) else str(value)
    return text if PLAIN.fullmatch(text) else repr(text)


def parse_value(text: str, hint: Any) -> Any:
    """Return the value of type `hint` that `text` is."""
    hint = _base(hint)
    if text in WORDS and hint not in (str, bytes):
        return WORDS[text]
    if get_origin(hint) in (list, tuple, dict):
        items = [] if text == "()" else split(text, ",")
        if get_origin(hint) is dict:
            key, item = get_args(hint)
            pairs = (each.partition("=") for each in items)
            return {parse_value(k, key): parse_value(v, item) for k, _, v in pairs}
        return get_origin(hint)(parse_value(each, get_args(hint)[0]) for each in items)
    if text.startswith("(") and text != "()":
        inner = text[1:-1]
        return parse_fields(inner, hint) if isinstance(hint, type) else parse_struct(inner, hint)
    if hint is Zxid:
        epoch, _, counter = text.partition(":")
        return make_zxid(Epoch(int(epoch)), int(counter))
    if issubclass(hint, Enum):
        return hint[text]
    if text.startswith(("'", '"')):
        text = ast.literal_eval(text)
    return text.encode("latin-1") if hint is bytes else hint(text)


def split(text: str, separator: str) -> list[str]:
    """Split at a separator that stands neither in quotes nor in parentheses."""
    parts, depth, quote = [""], 0, ""
    for char in text:
        if char in "'\"" and quote in ("", char):
            quote = "" if quote else char
        depth += 0 if quote else (char == "(") - (char == ")")
        if char == separator and not depth and not quote:
            parts.append("")
        else:
            parts[-1] += char
    return [part for part in parts if part]


def _format_fields(struct: Struct, is_named: bool) -> str:
    fields = msgspec.structs.fields(struct)
    is_named &= len(fields) > 1
    parts = []
    for field in fields:
        value = getattr(struct, field.name)
        if not field.required and value == _default(field):
            is_named = True  # the place of the fields that follow says nothing any more
            continue
        text = format_value(value, _hints(type(struct))[field.name])
        parts.append(f"{field.name}={text}" if is_named else text)
    return " ".join(parts)


def _default(field: Any) -> object:
    made = field.default_factory is not msgspec.NODEFAULT
    return field.default_factory() if made else field.default


@cache
def _hints(kind: type[Struct]) -> dict[str, Any]:
    hints = get_type_hints(kind)
    return {name: hints[name] for name in kind.__struct_fields__}


def _base(hint: Any) -> Any:
    """Return the type below NewType, except for a zxid, and below `| None`."""
    while hint is not Zxid and hasattr(hint, "__supertype__"):
        hint = hint.__supertype__
    if get_origin(hint) in (Union, UnionType):
        others = [each for each in get_args(hint) if each is not type(None)]
        return _base(others[0]) if len(others) == 1 else hint
    return hint
