"""Quotas: a subtree with limits, and creations that race to exceed them."""

from collections.abc import Callable
from random import Random
from typing import Final

from raykeeper.client.core.outstanding import NewRequest
from raykeeper.znodes.quotas import QuotaLimits, format_limits
from raykeeper.znodes.requests import (
    ANY_VERSION,
    CountDescendants,
    Create,
    CreateMode,
    Delete,
    GetQuota,
    Multi,
    SetData,
    TxnOp,
)

LIMITED: Final = ["/q0", "/q0/in"]
"""One within the other: both quotas count."""


class Limited:
    """The requests of one session for quotas."""

    def __init__(self, random: Random, value: Callable[[], bytes]) -> None:
        self._random = random
        self._value = value

    def next(self) -> NewRequest:
        """Return the next request."""
        random = self._random
        kind, path = random.random(), random.choice(LIMITED)
        if kind < 0.1:
            return Create(path, b"", 0)
        if kind < 0.3:
            return self._quota(path)
        if kind < 0.45:
            return Create(f"{path}/s-", self._sized(), CreateMode.SEQUENTIAL)
        if kind < 0.6:
            flags = random.choice([0, 0, CreateMode.EPHEMERAL])
            return Create(f"{path}/x{random.randint(0, 3)}", self._sized(), flags)
        if kind < 0.75:
            return SetData(f"{path}/x{random.randint(0, 3)}", self._sized(), ANY_VERSION)
        if kind < 0.85:
            return Delete(f"{path}/x{random.randint(0, 3)}", ANY_VERSION)
        if kind < 0.95:
            return self._together(path)
        return random.choice([CountDescendants(0, path), GetQuota(0, path)])

    def _quota(self, path: str) -> NewRequest:
        """Set a quota, in steps or at once, change it, or delete it."""
        kind = self._random.random()
        quota, limits = f"/zookeeper/quota{path}", f"/zookeeper/quota{path}/zookeeper_limits"
        if kind < 0.6:
            made = [Create(quota, b"", 0), Create(limits, self._text(), 0)]
            return self._random.choice([*made, Multi([], list(made), [])])
        if kind < 0.8:
            return SetData(limits, self._text(), ANY_VERSION)
        return Delete(limits, ANY_VERSION) if kind < 0.9 else Create(limits, b"count=many", 0)

    def _text(self) -> bytes:
        random = self._random
        limits = QuotaLimits(
            random.choice([-1, 2]),
            random.choice([-1, 50]),
            random.choice([-1, 3, 6, 12]),
            random.choice([-1, 20, 60, 200]),
        )
        return format_limits(limits)

    def _together(self, path: str) -> Multi:
        """Free and use space in one multi, or use more than there is."""
        place = f"{path}/x{self._random.randint(0, 3)}"
        made = [Create(f"{path}/s-", self._sized(), CreateMode.SEQUENTIAL) for _ in range(2)]
        ops: list[TxnOp] = [Delete(place, ANY_VERSION), *made]
        self._random.shuffle(ops)
        return Multi([], ops, [])

    def _sized(self) -> bytes:
        value = self._value()
        return value * self._random.choice([0, 1, 2, 5])
