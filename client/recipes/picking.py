"""Strategies that pick one instance of a service. Each is a callable of the instances, with state.

    client.services("/services").pick("search", choose=Sticky(RandomPick(Random(7))))

Nothing here is random by itself: the caller passes the random generator. The list of instances is
never empty.

Curator: `RoundRobinStrategy`, `RandomStrategy`, `StickyStrategy`.
"""

from collections.abc import Callable
from random import Random
from typing import Any

from msgspec import Struct

from raykeeper.zab.ids import Zxid


class Instance(Struct, frozen=True):
    """One instance of a service."""

    service: str
    name: str
    address: str
    port: int
    metadata: Any
    token: Zxid
    """The time of its registration: an instance that registered later has a larger token."""


Choose = Callable[[list[Instance]], Instance]


class RoundRobin:
    """A strategy that picks one after the other, in the order of registration.

    Instances may come and go in between.
    """

    def __init__(self) -> None:
        self._last: dict[str, tuple[Zxid, str]] = {}  # by service

    def __repr__(self) -> str:
        return "RoundRobin()"

    def __call__(self, instances: list[Instance]) -> Instance:
        """Pick the next instance."""
        service = instances[0].service
        last = self._last.get(service, (-1, ""))
        later = [each for each in instances if _key(each) > last]
        picked = (later or instances)[0]
        self._last[service] = _key(picked)
        return picked


class RandomPick:
    """A strategy that picks any instance, each with the same probability."""

    def __init__(self, rng: Random) -> None:
        """`rng` is the random generator."""
        self._rng = rng

    def __repr__(self) -> str:
        return "RandomPick()"

    def __call__(self, instances: list[Instance]) -> Instance:
        """Pick an instance."""
        return self._rng.choice(instances)


class Sticky:
    """A strategy that picks the same instance while it is there, then another one."""

    def __init__(self, choose: Choose) -> None:
        """`choose` picks the first instance, and another one when that is gone."""
        self._choose = choose
        self._last: dict[str, tuple[Zxid, str]] = {}

    def __repr__(self) -> str:
        return f"Sticky({self._choose!r})"

    def __call__(self, instances: list[Instance]) -> Instance:
        """Pick an instance."""
        service = instances[0].service
        for each in instances:
            if _key(each) == self._last.get(service):
                return each
        picked = self._choose(instances)
        self._last[service] = _key(picked)
        return picked


def _key(instance: Instance) -> tuple[Zxid, str]:
    return instance.token, instance.name
