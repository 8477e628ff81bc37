"""What a format changes of a value: the first difference, in words; and what it keeps."""

import math
from dataclasses import dataclass, field
from datetime import date
from decimal import Decimal
from enum import Enum
from typing import Any

import attrs
import msgspec
import pytest

from raykeeper.client.recipes.round_trip import difference


@dataclass
class Limits:
    rate: float = 1.0
    hosts: Any = None
    tags: set[int] = field(default_factory=set)
    pair: tuple[int, ...] = ()


class Other(msgspec.Struct, eq=False):
    nested: Any = None


@attrs.define(eq=False)
class Third:
    nested: Any = None


class Color(Enum):
    RED = "red"


@dataclass
class More(Limits):
    burst: int = 0


def read_back(kind: Any, value: Any, form: str) -> Any:
    coding: Any = getattr(msgspec, form)
    return coding.decode(coding.encode(value), type=kind)


@pytest.mark.parametrize(
    ("kind", "value", "changed"),
    [
        # What the type says is read back, by whatever the text has in its place.
        (Limits, Limits(rate=3, tags={1}, pair=(1, 2)), ""),
        (dict[int, int], {1: 2}, ""),
        (dict[str, date], {"a": date(2020, 1, 1)}, ""),
        (Color, Color.RED, ""),
        (dict, {"a": [1, 2.5, None, True, {"b": "c"}]}, ""),
        (int, 10**30, ""),
        # Without one it is something else.
        (dict, {"a": (1, 2)}, "['a'] (1, 2) would be read as [1, 2]"),
        (dict, {"a": [{"b": ()}]}, "['a'][0]['b'] () would be read as []"),
        (dict, {1: 2}, "the key 1 would be read as '1'"),
        (dict, {"a": {1: 2, "1": 3}}, "['a'] the key 1 would be read as '1'"),
        (dict, {"a": {1}}, "['a'] {1} would be read as [1]"),
        (dict, {"a": math.nan}, "['a'] nan would be read as None"),
        (dict, {"a": b"x"}, "['a'] b'x' would be read as 'eA=='"),
        (dict, {"a": date(2020, 1, 1)}, "['a'] datetime.date(2020, 1, 1) would be read as '20"),
        (dict, {"a": Decimal(1)}, "['a'] Decimal('1') would be read as '1'"),
        (dict, {"a": Color.RED}, f"['a'] {Color.RED!r} would be read as 'red'"),
        (dict, {"a": "x", "b": Other()}, "['b'] Other(nested=None) would be read as {"),
        (list, ["x" * 99, ("x" * 99,)], f"[1] ('{'x' * 58}... would be read as ['{'x' * 58}..."),
        # Within objects, those without `__eq__` too; a subclass is another class.
        (Limits, Limits(hosts=[("a",)]), ".hosts[0] ('a',) would be read as ['a']"),
        (Other, Other({"a": 1}), ""),
        (Other, Other({"a": ()}), ".nested['a'] () would be read as []"),
        (Third, Third([1]), ""),
        (Third, Third(()), ".nested () would be read as []"),
        (Limits, More(), "More(rate=1.0, hosts=None, tags=set(), pair=(), burst=0) would be re"),
        (list[float], [2**53 + 1], "[0] 9007199254740993 would be read as 90071992"),
    ],
)  # fmt: skip
def test_json_keeps_what_the_type_says(kind: Any, value: Any, changed: str) -> None:
    found = difference(value, read_back(kind, value, "json"))
    assert found[: len(changed)] == changed and bool(found) == bool(changed)


def test_msgpack_keeps_more() -> None:
    for value in ({1: math.nan}, {"a": b"x"}, {math.inf: [math.nan]}):
        assert difference(value, read_back(dict, value, "msgpack")) == ""
    assert difference({"a": ()}, {"a": []}) == "['a'] () would be read as []"


def test_what_is_lost_is_told() -> None:
    assert difference({"a": 1, "b": 2}, {"a": 1}) == "keys would be lost"
    assert difference([1], [1, 2]) == "[1] would be read as [1, 2]"
