"""What a program writes over a value of which it does not know every field."""

from dataclasses import dataclass, field
from typing import Any, NamedTuple, NotRequired, TypedDict

import attrs
import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec import Struct
from msgspec.structs import replace

from raykeeper.client.recipes.unknown_fields import UnknownFields
from raykeeper.client.recipes.value_types import Format, checked_classes, decoder_of

FORMATS: list[Format] = ["json", "msgpack"]


def updated(kind: Any, written: bytes, change: Any, form: Format = "json") -> bytes:
    """What is written when `change` was made of what there was, as a configuration does it."""
    classes = checked_classes("/app", kind)
    read = decoder_of(kind, classes, form).decode
    write = msgspec.json.encode if form == "json" else msgspec.msgpack.encode
    now = read(written)
    known = write(now)
    return UnknownFields(classes, form, read).keep(written, known, write(change(now)))


class Inner(Struct):
    """A part of a value."""

    a: int = 0


class Limits(Struct, omit_defaults=True):
    """What an older program knows."""

    rate: int = 100
    inner: Inner | None = None
    by_name: dict[str, Inner] = {}
    listed: list[Inner] = []


class Renamed(Struct, rename="camel"):
    """Its fields are written otherwise."""

    rate_max: int = 1


class Brief(Struct, omit_defaults=True):
    """What equals a default is not written."""

    rate: int = 100
    name: str = ""


class Tuned(Struct, tag="tuned", tag_field="kind"):
    """One of two."""

    rate: int = 0


class Fixed(Struct, tag="fixed", tag_field="kind"):
    """The other one; both say what kind they are."""

    rate: int = 0


class Array(Struct, array_like=True):
    """Written as an array."""

    rate: int
    name: str = ""


class ArrayOne(Struct, array_like=True, tag="one"):
    """An array that says what it is."""

    rate: int


class ArrayTwo(Struct, array_like=True, tag="two"):
    """Another one."""

    rate: int


class KindIsData(Struct):
    """It has a field that bears the name of a tag, beside one that has the tag."""

    kind: str
    one: Tuned | None = None


class Strict(Struct, forbid_unknown_fields=True):
    """It reads nothing that it does not know."""

    rate: int = 0


class Point(Struct, frozen=True):
    """An element of a set."""

    x: int


class Sets(Struct, omit_defaults=True):
    """Arrays whose elements have no order and are counted once."""

    names: set[str] = set()
    points: set[Point] = set()
    listed: list[Inner] = []


@dataclass
class Plain:
    """A dataclass."""

    rate: int = 0
    inner: Inner = field(default_factory=Inner)


@attrs.define
class Attrs:
    """A class of attrs."""

    rate: int = 0


class Typed(TypedDict):
    """A dict whose keys have types."""

    rate: int
    name: NotRequired[str]


class Named(NamedTuple):
    """A tuple whose places have names."""

    rate: int
    inner: Inner


def faster(now: Any) -> Any:
    now.rate += 1  # in its place: what was known is known from before
    return now


def without(name: str) -> Any:
    def change(now: Limits) -> Limits:
        return replace(now, by_name={k: v for k, v in now.by_name.items() if k != name})

    return change


def listed(*values: int) -> Any:
    return lambda now: replace(now, listed=[Inner(value) for value in values])


CASES: dict[str, tuple[Any, Any, Any, Any]] = {
    "a field": (Limits, {"rate": 7, "new": [1]}, faster, {"rate": 8, "new": [1]}),
    "no field is unknown": (Limits, {"rate": 7}, faster, {"rate": 8}),
    "nothing changes": (Limits, {"new": 1}, lambda now: now, {"new": 1}),
    "an object within": (
        Limits,
        {"inner": {"a": 1, "b": 2}},
        lambda now: replace(now, inner=Inner(5)),
        {"inner": {"a": 5, "b": 2}},
    ),
    "an object that goes": (
        Limits,
        {"inner": {"a": 1, "b": 2}, "c": 3},
        lambda now: replace(now, inner=None),
        {"c": 3},
    ),
    "an object that comes": (
        Limits,
        {"inner": None, "c": 3},
        lambda now: replace(now, inner=Inner(1)),
        {"inner": {"a": 1}, "c": 3},
    ),
    "objects by name": (
        Limits,
        {"by_name": {"x": {"a": 1, "b": 1}, "y": {"a": 2, "b": 2}}},
        lambda now: replace(now, by_name=now.by_name | {"x": Inner(9), "z": Inner(3)}),
        {"by_name": {"x": {"a": 9, "b": 1}, "y": {"a": 2, "b": 2}, "z": {"a": 3}}},
    ),
    "an object by name that goes": (
        Limits,
        {"by_name": {"x": {"a": 1, "b": 1}, "y": {"a": 2, "b": 2}}},
        without("x"),
        {"by_name": {"y": {"a": 2, "b": 2}}},
    ),
    "elements that are still there": (
        Limits,
        {"listed": [{"a": 1, "b": 1}, {"a": 2, "b": 2}, {"a": 2, "b": 3}]},
        listed(2, 2, 2, 1),
        {"listed": [{"a": 2, "b": 2}, {"a": 2, "b": 3}, {"a": 2}, {"a": 1, "b": 1}]},
    ),
    "an element that is changed": (
        Limits,
        {"listed": [{"a": 1, "b": 1}, {"a": 2, "b": 2}]},
        listed(1, 3),
        {"listed": [{"a": 1, "b": 1}, {"a": 3}]},
    ),
    "a list instead of an object": (
        dict[str, Inner | list[int]],
        {"x": {"a": 1, "b": 2}},
        lambda now: {"x": [1]},
        {"x": [1]},
    ),
    "names that are written otherwise": (
        Renamed,
        {"rateMax": 7, "rate_max": 1},
        lambda now: Renamed(8),
        {"rateMax": 8, "rate_max": 1},
    ),
    "a default that is not written": (
        Brief,
        {"rate": 7, "name": "x", "new": 1},
        lambda now: Brief(),
        {"new": 1},
    ),
    "a default that was written": (
        Brief,
        {"rate": 100, "name": ""},
        lambda now: replace(now, name="x"),
        {"rate": 100, "name": "x"},
    ),
    "one of a tag": (
        Tuned | Fixed,
        {"kind": "tuned", "rate": 1, "new": 2},
        faster,
        {"kind": "tuned", "rate": 2, "new": 2},
    ),
    "one of another tag": (
        Tuned | Fixed,
        {"kind": "tuned", "rate": 1, "new": 2},
        lambda now: Fixed(3),
        {"kind": "fixed", "rate": 3},
    ),
    "a field called as a tag": (
        KindIsData,
        {"kind": "tuned", "new": 2},
        lambda now: KindIsData("other"),
        {"kind": "other", "one": None, "new": 2},
    ),
    "an array with more": (Array, [7, "x", {"new": 1}], faster, [8, "x", {"new": 1}]),
    "an array with less": (Array, [7], faster, [8, ""]),
    "an array of a tag": (ArrayOne | ArrayTwo, ["one", 1, 5], faster, ["one", 2, 5]),
    "an array of another tag": (
        ArrayOne | ArrayTwo,
        ["one", 1, 5],
        lambda now: ArrayTwo(3),
        ["two", 3],
    ),
    "one that takes nothing unknown": (Strict, {"rate": 1}, faster, {"rate": 2}),
    "a set beside": (
        Sets,
        {"names": [*"abcdefgh"], "listed": [{"a": 1, "b": 1}], "new": 1},
        lambda now: replace(now, names={"c"}, listed=[Inner(2), Inner(1)]),
        {"names": ["c"], "listed": [{"a": 2}, {"a": 1, "b": 1}], "new": 1},
    ),
    "a set that was written with repetitions": (
        Sets,
        {"names": ["x", "x", "y"], "new": 1},
        lambda now: Sets({"c", "d"}),
        {"names": ["c", "d"], "new": 1},
    ),
    "a set of objects": (
        Sets,
        {"points": [{"x": x, "new": x} for x in range(20)], "new": 1},
        lambda now: replace(now, points={each for each in now.points if each.x == 7}),
        {"points": [{"x": 7}], "new": 1},
    ),
    "a dataclass": (
        Plain,
        {"rate": 1, "inner": {"a": 1, "b": 2}, "new": 2},
        faster,
        {"rate": 2, "inner": {"a": 1, "b": 2}, "new": 2},
    ),
    "attrs": (Attrs, {"rate": 1, "new": 2}, faster, {"rate": 2, "new": 2}),
    "a TypedDict": (
        Typed,
        {"rate": 1, "name": "x", "new": 2},
        lambda now: {"rate": 2},
        {"rate": 2, "new": 2},
    ),
    "a NamedTuple": (
        Named,
        [1, {"a": 1, "b": 2}],
        lambda now: now._replace(rate=5),
        [5, {"a": 1, "b": 2}],
    ),
    "a dict, of which all is known": (
        dict,
        {"rate": 1, "new": 2},
        lambda now: {"rate": 2},
        {"rate": 2},
    ),
}


@pytest.mark.parametrize("form", FORMATS)
@pytest.mark.parametrize("case", CASES)
def test_unknown_fields_are_merged_into_the_new_value(case: str, form: Format) -> None:
    kind, written, change, expected = CASES[case]
    coding: Any = msgspec.json if form == "json" else msgspec.msgpack
    text = updated(kind, coding.encode(written), change, form)
    found = coding.decode(text)
    if "names" in found:
        found["names"].sort()
    if "points" in found:
        assert found["points"] in (expected["points"], [{"x": 7, "new": 7}])
        found["points"] = expected["points"]
    assert found == expected


def test_unknown_fields_stay_byte_for_byte() -> None:
    written = b'{ "rate": 7, "big": 1234567890123456789012345678901234567890, "e": 1.50e3 }'
    text = updated(Limits, written, faster)
    assert b'"big":1234567890123456789012345678901234567890,"e":1.50e3' in text


def test_keys_of_other_types_are_matched_too() -> None:
    written = msgspec.msgpack.encode({1: {"a": 1, "b": 2}, 2: {"a": 2, "b": 3}})
    kind = dict[int, Inner]
    text = updated(kind, written, lambda now: {1: Inner(5)}, "msgpack")
    assert msgspec.msgpack.decode(text) == {1: {"a": 5, "b": 2}}


class NewInner(Struct):
    """A part of a value, of a newer program."""

    a: int = 0
    b: list[int] = []


class NewLimits(Struct):
    """What a newer program writes."""

    rate: int = 100
    inner: NewInner | None = None
    by_name: dict[str, NewInner] = {}
    listed: list[NewInner] = []
    burst: int = 0


def values_of(inner: Any, kind: Any, **more: Any) -> Any:
    inners = st.builds(inner, a=st.integers(0, 2), **({"b": NUMBERS} if more else {}))
    names = st.sampled_from(["x", "y", "z"])
    return st.builds(
        kind,
        rate=st.integers(0, 2),
        inner=st.none() | inners,
        by_name=st.dictionaries(names, inners, max_size=3),
        listed=st.lists(inners, max_size=4),
        **more,
    )


NUMBERS = st.lists(st.integers(0, 2), max_size=2)


@given(
    values_of(NewInner, NewLimits, burst=st.integers(0, 9)),
    values_of(Inner, Limits),
    st.sampled_from(FORMATS),
)
def test_a_newer_and_an_older_program_each_find_their_fields(
    there: NewLimits, new: Limits, form: Format
) -> None:
    coding: Any = msgspec.json if form == "json" else msgspec.msgpack
    text = updated(Limits, coding.encode(there), lambda now: new, form)
    assert coding.decode(text, type=Limits) == new
    found = coding.decode(text, type=NewLimits)
    assert found.burst == there.burst
    if found.inner is not None and there.inner is not None:
        assert found.inner.b == there.inner.b
    for name, inner in found.by_name.items():
        assert inner.b == (there.by_name[name].b if name in there.by_name else [])
    for inner in found.listed:
        assert inner.b == [] or inner in there.listed
    if new.listed == [Inner(each.a) for each in there.listed]:
        assert found.listed == there.listed
