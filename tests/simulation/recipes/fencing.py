"""Fencing: once a newer token has passed a guard, no older one passes it or the next guard.

A resource has one guard at a time. Here many guards follow each other, and some stay for a while:
a token that they admit then may be refused by the next guard.
"""

from typing import Any, Final

from raykeeper.client.errors import StaleTokenError, WaitTimeoutError
from tests.harness.schedule import Schedule
from tests.simulation.checks.truth import Truth
from tests.simulation.recipes.process import Process
from tests.simulation.recipes.scenario import ABOVE, Scenario, patience, span
from tests.simulation.recipes.script import GaveUpError, Pause, Script, Within

PATH: Final = f"{ABOVE}/lock"
GUARD: Final = f"{ABOVE}/guard"


class FencingScenario(Scenario):
    """Holders of a lock show their tokens, also after they lost it, to guards that die."""

    def __init__(self, schedule: Schedule, truth: Truth) -> None:
        super().__init__(schedule, truth)
        self._tokens: list[int] = []
        self._passed = 0

    def scripts(self, process: Process) -> list[Script]:
        """Return the scripts of a holder and a guard."""
        return [self._hold(process), self._guard(process, process.fenced_resource(GUARD))]

    def _hold(self, process: Process) -> Script:
        random = process.random
        lock = process.lock(PATH)
        while not self.is_ending:
            yield Pause(span(random, 20, 200))
            try:
                held = yield Within(lock.acquire(1), patience(random))
            except (WaitTimeoutError, GaveUpError):
                continue
            self._tokens.append(held.token)
            self.maybe_inject(process)
            yield Pause(span(random, 0, 100))
            yield held.release()

    def _guard(self, process: Process, guard: Any) -> Script:
        random = process.random
        while not self.is_ending:
            yield Pause(span(random, 0, 50))
            if not self._tokens:
                continue
            token = random.choice(self._tokens[-3:])
            passed = guard.newest or self._passed
            self.maybe_inject(process)
            try:
                yield Within(guard.check(token), patience(random))
            except StaleTokenError:
                self.counts["recipe.refused"] += 1
                assert token < max(self._tokens), f"Fencing: {token} is the newest, and refused"
                continue
            except GaveUpError:
                continue
            self.counts["recipe.passed"] += 1
            assert token >= passed, f"Fencing: {token} passes after {passed}"
            self._passed = max(self._passed, token)

    def may_stay(self) -> set[str]:
        """Return the znodes that may remain: the tokens that the guards stored."""
        return {ABOVE, GUARD}
