"""Containers, and znodes with a time to live: made and refreshed here, ended by the ensemble."""

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
    """Those of one session."""

    def __init__(self, random: Random, value: Callable[[], bytes]) -> None:
        self._random = random
        self._value = value
        self._newest = ""

    def next(self) -> NewRequest:
        """One of them."""
        random = self._random
        kind, path = random.random(), random.choice(EXPIRING)
        if self._newest and kind < 0.5:
            # While its creation is under way, or its end.
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
            return SetData(path, self._value(), ANY_VERSION)  # lives on
        if kind < 0.9:
            return self._together(path)
        return Query(Exists, random.choice([*EXPIRING, *CONTAINERS]), None, random.random() < 0.5)

    def _container(self) -> Create:
        return Create(self._random.choice(CONTAINERS), self._value(), CreateMode.CONTAINER)

    def _together(self, path: str) -> Multi:
        """A container with its first child, or one that begins anew."""
        ttl_ms = self._random.choice(TTL_MS)
        if self._random.random() < 0.5:
            container = self._container()
            child = Create(f"{container.path}/x", self._value(), 0)
            return Multi([], [container, child], [])
        made = Create(path, self._value(), CreateMode.TTL, None, ttl_ms)
        return Multi([], [Delete(path, ANY_VERSION), made], [])
