"""A driver's script that defines types, and has them used where they arrive.

    python -m tests.recipes.driver_types dump           # what cloudpickle makes of them
    python -m tests.recipes.driver_types ray NAME       # in a worker of Ray; prints the outcomes

Not imported by the tests: what it defines belongs to `__main__`, as in a user's script.
"""

import base64
import dataclasses
import enum
import json
import sys
from typing import Any, Generic, NamedTuple, NotRequired, TypedDict, TypeVar

import attrs
from msgspec import Struct

from raykeeper.client.errors import BadArgumentsError, InvalidValueError
from tests.recipes.importable import ImportedBase, ImportedLimits

T = TypeVar("T")


class Limits(Struct, rename="camel"):
    """What users write first."""

    rate_max: int = 1


class Go(Struct, tag=True):
    """One of two."""

    speed: int


class Stop(Struct, tag=True):
    """The other one."""

    reason: str


class Grown(ImportedBase):
    """The fields of an imported one, and one more."""

    more: int = 0


class SameFields(ImportedBase):
    """The fields of an imported one."""

    def double(self) -> int:
        return 2 * self.base


class Holds(Struct, Generic[T]):
    """A generic one."""

    inside: T


class Node(Struct):
    """One that holds its own kind."""

    next: "Node | None" = None


@dataclasses.dataclass
class Plain:
    """Fields with and without a default, and a default factory."""

    rate: int
    name: str = "web"
    tags: list[str] = dataclasses.field(default_factory=list)

    def __post_init__(self) -> None:
        if self.rate < 0:
            raise ValueError("a rate is positive")


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Strict:
    """A frozen one with slots."""

    rate: int
    plain: Plain


@dataclasses.dataclass
class Longer(Plain):
    """A dataclass of a dataclass."""

    more: int = dataclasses.field(default=3, kw_only=True)


@dataclasses.dataclass
class HoldsStruct:
    """A dataclass that holds a Struct."""

    limits: Limits


@attrs.define
class Attrs:
    """A class of attrs."""

    rate: int
    tags: list[str] = attrs.field(factory=list)


class Typed(TypedDict):
    """A dict whose keys have types."""

    rate: int
    name: NotRequired[str]


class Named(NamedTuple):
    """A tuple whose places have names."""

    rate: int
    name: str = "web"


class Color(enum.Enum):
    """One of a few."""

    RED = "red"


@dataclasses.dataclass
class Text:
    """Annotations that are text, and mean something that all know."""

    rate: "int"


@dataclasses.dataclass
class TextOfOurs:
    """Annotations that are text, and mean something of this script."""

    plain: "Plain"


@dataclasses.dataclass
class Colored:
    """A dataclass with an enum, and what is optional."""

    color: Color
    plain: Plain | None = None


KINDS: dict[str, tuple[Any, str]] = {
    "struct": (Limits, '{"rateMax":7}'),
    "struct in a list": (list[Limits], '[{"rateMax":7}]'),
    "struct in a dict": (dict[str, Limits], '{"a":{"rateMax":7}}'),
    "struct, optional, in a dataclass": (HoldsStruct, '{"limits":{"rateMax":7}}'),
    "union of structs": (Go | Stop, '{"type":"Stop","reason":"x"}'),
    "struct with an imported base": (Grown, '{"base":7,"more":1}'),
    "generic struct": (Holds[int], '{"inside":7}'),
    "recursive struct": (Node, '{"next":{"next":null}}'),
    "imported struct": (ImportedLimits, '{"rateMax":7}'),
    "imported struct in a list": (list[ImportedLimits], '[{"rateMax":7}]'),
    "struct that adds no field": (SameFields, '{"base":7}'),
    "dataclass": (Plain, '{"rate":7,"name":"web","tags":["a"]}'),
    "frozen dataclass": (Strict, '{"rate":7,"plain":{"rate":8,"name":"b","tags":[]}}'),
    "dataclass of a dataclass": (Longer, '{"rate":7,"name":"web","tags":[],"more":4}'),
    "dataclass with an enum": (Colored, '{"color":"red","plain":null}'),
    "dataclass with text": (Text, '{"rate":7}'),
    "dataclass with text of ours": (
        TextOfOurs,
        '{"plain":{"rate":7,"name":"web","tags":[]}}',
    ),
    "list of dataclasses": (list[Plain], '[{"rate":7,"name":"web","tags":[]}]'),
    "attrs": (Attrs, '{"rate":7,"tags":["a"]}'),
    "TypedDict": (Typed, '{"rate":7,"name":"x"}'),
    "NamedTuple": (Named, '[7,"web"]'),
    "dict": (dict, '{"rate":7}'),
    "int": (int, "7"),
}


def tried(client: Any, kinds: dict[str, tuple[Any, str]]) -> dict[str, str]:
    """What a znode holds after an update that changes nothing; or why the type is refused."""
    outcomes: dict[str, str] = {}
    for number, (name, (kind, text)) in enumerate(kinds.items()):
        try:
            configuration = client.configuration(f"/types-{number}", kind)
        except BadArgumentsError as error:
            outcomes[name] = str(error)
            continue
        value = json.loads(text)
        written = client.configuration(f"/types-{number}", type(value))
        written.set(value)
        configuration.update(lambda now: now)
        outcomes[name] = json.dumps(written.get().value, separators=(",", ":"))
    return outcomes


def defaults(kinds: dict[str, tuple[Any, str]], client: Any) -> dict[str, str]:
    """What the dataclasses make of what others left out."""
    outcomes: dict[str, str] = {}
    for text in ("{}", '{"rate":7}'):
        client.configuration("/defaults", dict).set(json.loads(text))
        try:
            outcomes[text] = repr(client.configuration("/defaults", kinds["dataclass"][0]).get()[0])
        except InvalidValueError as error:
            outcomes[text] = str(error)
    return outcomes


def main() -> None:
    """Do what the first argument says."""
    from ray import cloudpickle

    if sys.argv[1] == "dump":
        sent = cloudpickle.dumps((tried, defaults, KINDS))
        print(base64.b64encode(sent).decode())
        return

    import ray

    from raykeeper.clusters import attach

    ray.init(log_to_driver=False)
    ensemble = attach(sys.argv[2])

    @ray.remote
    def work(kinds: dict[str, tuple[Any, str]]) -> list[dict[str, str]]:
        with ensemble.connect() as client:
            return [tried(client, kinds), defaults(kinds, client)]

    with ensemble.connect() as client:
        here = tried(client, KINDS)  # first: what msgspec keeps in classes must not be in the way
        assert here == {name: text for name, (_, text) in KINDS.items()}
    print(json.dumps([here, *ray.get(work.remote(KINDS))]))


if __name__ == "__main__":
    main()
