"""The lease: one holder at a time, also when its time ends and the holder does not notice.

Wall clocks do not jump in these worlds; the recipe's documentation says what a jump may do.
"""

from typing import Any, Final

from raykeeper.client.errors import LostError, WaitTimeoutError
from tests.simulation.recipes.lock import OneHolder
from tests.simulation.recipes.process import Process
from tests.simulation.recipes.scenario import ABOVE, patience, span, timeout_s
from tests.simulation.recipes.script import GaveUpError, Pause, Script, Within

PATH: Final = f"{ABOVE}/lease"


class LeaseScenario(OneHolder):
    """Some holders renew the lease, some hold it for too long."""

    def scripts(self, process: Process) -> list[Script]:
        """Return scripts, each with its own duration of the lease."""
        return [self._lease(process) for _ in range(process.random.choice(self.threads))]

    def _lease(self, process: Process) -> Script:
        random = process.random
        lease = process.lease(PATH, random.choice([0.2, 1, 1, 3]))
        is_last = False
        while not is_last:
            is_last = self.is_ending
            if is_last:  # a short lease may always be too short for a slow ensemble
                lease = process.lease(PATH, 5)
            yield Pause(span(random, 20, 200))
            self.maybe_inject(process)
            limit_s, limit_ms = (None, None) if is_last else (timeout_s(random), patience(random))
            try:
                held = yield Within(lease.acquire(limit_s), limit_ms)
            except (WaitTimeoutError, GaveUpError):
                self.counts["recipe.given_up"] += 1
                continue
            except LostError:
                # The grant took the whole duration to arrive.
                self.counts["recipe.too_late"] += 1
                is_last = False
                continue
            self.holders.got(process, held)
            self.counts["recipe.granted"] += 1
            try:
                yield from self._use(process, held)
            except LostError:
                self.counts["recipe.ended"] += 1
                assert held.lost.is_set(), "Exclusion: LostError, and the lease is not lost"

    def _use(self, process: Process, held: Any) -> Script:
        random = process.random
        for _ in range(random.choice([0, 0, 1, 3])):
            yield Pause(span(random, 100, 600))
            self.maybe_inject(process)
            yield held.renew()
            self.counts["recipe.renewed"] += 1
        yield Pause(span(random, 0, 20, 300, 1_500))
        self.maybe_inject(process)
        yield held.release()
