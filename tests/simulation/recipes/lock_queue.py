"""The lock queue: each element has one holder at a time, is consumed once, and is never lost."""

from typing import Any, Final

from raykeeper.client.errors import WaitTimeoutError
from tests.harness.schedule import Schedule
from tests.simulation.checks.truth import Truth
from tests.simulation.recipes.holders import Holders
from tests.simulation.recipes.process import Process
from tests.simulation.recipes.queue import ELEMENTS, PATH, QueueScenario
from tests.simulation.recipes.scenario import patience, span
from tests.simulation.recipes.script import GaveUpError, Pause, Script, Within

LOCKS: Final = f"{PATH}/locks"


class LockQueueScenario(QueueScenario):
    """Consumers die with elements, release them, or consume them."""

    has_priorities = True

    def __init__(self, schedule: Schedule, truth: Truth) -> None:
        super().__init__(schedule, truth)
        self._holders: dict[str, Holders] = {}
        self._consumed: set[bytes] = set()

    def look(self) -> None:
        """Check the holders after each step."""
        for holders in self._holders.values():
            holders.look()

    def queue_of(self, process: Process) -> Any:
        """Return the queue."""
        return process.lock_queue(PATH, self._bound)

    def _consume(self, process: Process, queue: Any) -> Script:
        random = process.random
        while not self.is_done_with(process):
            yield Pause(span(random, 0, 20, 200))
            self.maybe_inject(process)
            try:
                limit_s = 3 if self.is_ending else span(random, 100, 1_000) / 1_000
                limit_ms = None if self.is_ending else patience(random)
                held = yield Within(queue.get(limit_s), limit_ms)
            except (WaitTimeoutError, GaveUpError):
                self.counts["recipe.given_up"] += 1
                continue
            value = bytes(held.value)
            assert value in self._put, f"Elements: {value!r} was never put"
            assert value not in self._consumed, f"Elements: {value!r} is there again"
            holders = self._holders.setdefault(held.path, Holders(self.schedule, held.path))
            holders.got(process, held)
            self.counts["recipe.got"] += 1
            self.maybe_inject(process)
            yield Pause(span(random, 0, 20, 300))
            if not self.is_ending and random.random() < 0.2:
                yield held.release()
                continue
            self._got[value] = process.name  # counts even if the reply is lost
            yield held.consume()
            self._consumed.add(value)
            self.counts["recipe.consumed"] += 1

    def may_stay(self) -> set[str]:
        """Return the znodes that may remain: also the parent of the locks."""
        return {*super().may_stay(), LOCKS}

    def finish(self) -> None:
        """Check that no element is lost."""
        here = {*self._got, *self._left().values()}
        lost = [value for value, is_known in self._put.items() if is_known and value not in here]
        assert not lost, f"Elements: {lost} are lost"
        left = set(self._left().values()) & self._consumed
        assert not left, f"Elements: {left} in {ELEMENTS} after they were consumed"
