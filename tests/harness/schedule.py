"""Virtual time: the order and the moments of all actions. One seed decides everything."""

import heapq
from collections.abc import Callable
from random import Random

from raykeeper.zab.ids import Millis, Now

WALL_AT_START = 1_700_000_000_000

Trace = Callable[[int, str], None]
"""Takes the moment in virtual milliseconds and a line of what happened."""


class Schedule:
    """A clock that jumps from one planned action to the next."""

    def __init__(self, seed: int, trace: Trace | None = None) -> None:
        self.seed = seed
        self.now = Millis(0)
        self.steps = 0
        self.trace = trace
        """None when nobody listens; then nothing need be put into words."""
        self.watcher: Callable[[], None] | None = None
        """Sees the world after each step."""
        self._plan: list[tuple[Millis, int, Callable[[], None]]] = []
        self._count = 0

    def stream(self, name: str) -> Random:
        """Return the randomness of one part of the world, which no other part can disturb."""
        return Random(f"{self.seed}.{name}")

    def after(self, delay_ms: int, action: Callable[[], None]) -> None:
        """Plan an action; actions of one moment happen in the order in which they were planned."""
        self._count += 1
        heapq.heappush(self._plan, (Millis(self.now + delay_ms), self._count, action))

    def say(self, text: str) -> None:
        """Write a line to the trace."""
        if self.trace is not None:
            self.trace(self.now, text)

    def times(self) -> Now:
        """Return the time as an event carries it."""
        return Now(self.now, Millis(WALL_AT_START + self.now))

    def run_until(self, until: Millis, done: Callable[[], bool] = lambda: False) -> bool:
        """Run actions until a moment, or until `done`; return whether it is done."""
        plan, pop = self._plan, heapq.heappop
        while not done():
            if not plan or plan[0][0] > until:
                self.now = max(self.now, until)
                return done()
            self.now, _, action = pop(plan)
            self.steps += 1
            action()
            if self.watcher is not None:
                self.watcher()
        return True
