"""How one instance of a service is picked. Each is a function of the instances, and remembers.

    client.services("/services").pick("search", choose=Sticky(RandomPick(Random(7))))

Nothing here is random by itself: whoever wants chance brings it. A list is never empty here.

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
    """When it was registered: who registered later has a larger one."""


Choose = Callable[[list[Instance]], Instance]


class RoundRobin:
    """One after the other, in the order of registration, whoever comes and goes in between."""

    def __init__(self) -> None:
        self._last: dict[str, tuple[Zxid, str]] = {}  # by service

    def __call__(self, instances: list[Instance]) -> Instance:
        """Pick the next one."""
        service = instances[0].service
        last = self._last.get(service, (-1, ""))
        later = [each for each in instances if _key(each) > last]
        picked = (later or instances)[0]
        self._last[service] = _key(picked)
        return picked


class RandomPick:
    """Any one, each as likely."""

    def __init__(self, rng: Random) -> None:
        """`rng` is the chance."""
        self._rng = rng

    def __call__(self, instances: list[Instance]) -> Instance:
        """Pick one."""
        return self._rng.choice(instances)


class Sticky:
    """The same one for as long as it is there; then another one."""

    def __init__(self, choose: Choose) -> None:
        """`choose` picks the other one."""
        self._choose = choose
        self._last: dict[str, tuple[Zxid, str]] = {}

    def __call__(self, instances: list[Instance]) -> Instance:
        """Pick one."""
        service = instances[0].service
        for each in instances:
            if _key(each) == self._last.get(service):
                return each
        picked = self._choose(instances)
        self._last[service] = _key(picked)
        return picked


def _key(instance: Instance) -> tuple[Zxid, str]:
    return instance.token, instance.name
