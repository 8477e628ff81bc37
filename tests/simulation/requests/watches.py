"""Persistent watches: set, requested in several modes at once, and removed again."""

from random import Random
from typing import Final

from raykeeper.client.core.outstanding import NewRequest, WatchAddition, WatchRemoval
from raykeeper.znodes.requests import WatchKind, WatchMode
from tests.simulation.requests.acls import GUARDED
from tests.simulation.requests.expiring_znodes import CONTAINERS, EXPIRING
from tests.simulation.requests.quotas import LIMITED
from tests.simulation.requests.transactions import PLACES

WATCHED: Final = [*PLACES[:2], "/n0", "/n1", *PLACES[4:]]
RARER: Final = ["/", "/n2", *GUARDED, *CONTAINERS, *EXPIRING, *LIMITED]


class Watches:
    """The persistent watches of one session: few watchers, so that they meet.

    Some sessions use them whatever else they do, and some of these watch the rarer paths: znodes
    that others protect, znodes that expire, and the whole tree.
    """

    def __init__(self, random: Random) -> None:
        self._random = random
        self._share = random.choice([0.0, 0.0, 0.0, 0.02, 0.1])
        self._paths = random.choice([WATCHED, WATCHED, WATCHED + RARER, RARER])
        self._removals = random.choice([0.1, 0.3, 0.5])
        self._values = random.choice([0.0, 0.3, 1.0])

    def beside(self) -> NewRequest | None:
        """Return a request for persistent watches now and then, else None."""
        return self.next() if self._share and self._random.random() < self._share else None

    def next(self) -> NewRequest:
        """Return the next request."""
        random = self._random
        path, watcher = random.choice(self._paths), f"w{random.randint(0, 2)}"
        if random.random() >= self._removals:
            mode = random.choice(list(WatchMode))
            return WatchAddition(path, mode, random.random() < self._values, watcher)
        if random.random() < 0.7:
            lasting = random.choice([WatchKind.PERSISTENT, WatchKind.RECURSIVE])
            return WatchRemoval(path, lasting, watcher if random.random() < 0.7 else None)
        return WatchRemoval(path, random.choice([WatchKind.DATA, WatchKind.CHILD]), None)
