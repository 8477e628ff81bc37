"""Containers and TTL znodes: clients create and refresh them, the ensemble deletes them."""

from collections.abc import Callable
from random import Random
from typing import Final

from raykeeper.client.core.outstanding import NewRequest, Query
from raykeeper.znodes.requests import (
    ANY_VERSION,
    Create,
    CreateMode,
    Delete,
    Exists,
    Multi,
    SetData,
)

CONTAINERS: Final = ["/b0", "/b1"]
EXPIRING: Final = ["/t0", "/t1", "/b0/t"]
NUMBERED: Final = "/b1/s-"
TTL_MS: Final = [1, 5, 50, 300, 1_000, 1_500]


class ExpiringZnodes:
    """The requests of one session for expiring znodes."""

    def __init__(self, random: Random, value: Callable[[], bytes]) -> None:
        self._random = random
        self._value = value
        self._newest = ""

    def next(self) -> NewRequest:
        """Return the next request."""
        random = self._random
        kind, path = random.random(), random.choice(EXPIRING)
        if self._newest and kind < 0.5:
            # while its creation or its deletion is under way
            newest, self._newest = self._newest, ""
            return SetData(newest, self._value(), ANY_VERSION)
        if kind < 0.2:
            return self._container()
        if kind < 0.4:
            self._newest = path
            return Create(path, self._value(), CreateMode.TTL, None, random.choice(TTL_MS))
        if kind < 0.5:
            return Create(
                NUMBERED, self._value(), CreateMode.TTL_SEQUENTIAL, None, random.choice(TTL_MS)
            )
        if kind < 0.6:
            place = random.choice([*CONTAINERS, "/t0"])
            return Create(f"{place}/x", self._value(), random.choice([0, CreateMode.EPHEMERAL]))
        if kind < 0.7:
            return Delete(random.choice([f"{CONTAINERS[0]}/x", "/t0/x", path]), ANY_VERSION)
        if kind < 0.85:
            return SetData(path, self._value(), ANY_VERSION)  # a refresh
        if kind < 0.9:
            return self._together(path)
        return Query(Exists, random.choice([*EXPIRING, *CONTAINERS]), None, random.random() < 0.5)

    def _container(self) -> Create:
        return Create(self._random.choice(CONTAINERS), self._value(), CreateMode.CONTAINER)

    def _together(self, path: str) -> Multi:
        """Create a container with its first child, or delete it and create it again."""
        ttl_ms = self._random.choice(TTL_MS)
        if self._random.random() < 0.5:
            container = self._container()
            child = Create(f"{container.path}/x", self._value(), 0)
            return Multi([], [container, child], [])
        made = Create(path, self._value(), CreateMode.TTL, None, ttl_ms)
        return Multi([], [Delete(path, ANY_VERSION), made], [])
