"""Persistent watches, set, wanted in several ways at once, and removed again."""

from random import Random
from typing import Final

from raykeeper.client.outstanding import Ask, Unwatch, Watch
from raykeeper.znodes.requests import WatchKind, WatchMode
from tests.simulation.asks.transactions import PLACES

WATCHED: Final = [*PLACES[:2], "/n0", "/n1", *PLACES[4:]]
"""Not the root: what is below may be hidden from the watcher, which the checks do not judge."""


class Watches:
    """Those of one session: few watchers, which therefore meet."""

    def __init__(self, random: Random) -> None:
        self._random = random

    def next(self) -> Ask:
        """One of them."""
        random = self._random
        path, watcher = random.choice(WATCHED), f"w{random.randint(0, 2)}"
        kind = random.random()
        if kind < 0.7:
            mode = random.choice(list(WatchMode))
            return Watch(path, mode, random.random() < 0.3, watcher)
        if kind < 0.9:
            lasting = random.choice([WatchKind.PERSISTENT, WatchKind.RECURSIVE])
            return Unwatch(path, lasting, watcher if random.random() < 0.7 else None)
        return Unwatch(path, random.choice([WatchKind.DATA, WatchKind.CHILD]), None)
