"""Virtual time: what happens next, and when. One seed decides everything."""

import heapq
from collections.abc import Callable
from random import Random

from raykeeper.zab.ids import Millis, Now

WALL_AT_START = 1_700_000_000_000


class Schedule:
    """A clock that jumps from one planned action to the next."""

    def __init__(self, seed: int) -> None:
        self.random = Random(seed)
        self.now = Millis(0)
        self.steps = 0
        self._plan: list[tuple[Millis, int, Callable[[], None]]] = []
        self._count = 0

    def after(self, delay_ms: int, action: Callable[[], None]) -> None:
        """Plan an action; those of one moment happen in the order they were planned."""
        self._count += 1
        heapq.heappush(self._plan, (Millis(self.now + delay_ms), self._count, action))

    def times(self) -> Now:
        """The time as an event is told it."""
        return Now(self.now, Millis(WALL_AT_START + self.now))

    def run_until(self, until: Millis, done: Callable[[], bool] = lambda: False) -> bool:
        """Let things happen until a moment, or until `done`; returns whether it is done."""
        while not done():
            if not self._plan or self._plan[0][0] > until:
                self.now = max(self.now, until)
                return done()
            self.now, _, action = heapq.heappop(self._plan)
            self.steps += 1
            action()
        return True
