"""Locks built on the fair lock: the reentrant lock and the multi lock."""

from typing import Any

from tests.harness.schedule import Schedule
from tests.simulation.checks.truth import Truth
from tests.simulation.recipes.contended import Contended, Way
from tests.simulation.recipes.holders import Holders
from tests.simulation.recipes.lock import OneHolder
from tests.simulation.recipes.process import Process
from tests.simulation.recipes.scenario import ABOVE
from tests.simulation.recipes.script import Script

PATH = f"{ABOVE}/lock"
PATHS = [f"{ABOVE}/a", f"{ABOVE}/b", f"{ABOVE}/c"]


class ReentrantLockScenario(OneHolder):
    """Some holders acquire it again while they hold it: at once, with the same token.

    All scripts of a process run in one thread, so each has its own lock object, as the owner.
    """

    def scripts(self, process: Process) -> list[Script]:
        """Return scripts with one lock object each."""
        threads = process.random.choice(self.threads)
        return [self._thread(process, process.reentrant_lock(PATH)) for _ in range(threads)]

    def _thread(self, process: Process, lock: Any) -> Script:
        def got(held: Any) -> None:
            self.holders.got(process, held)

        yield from self.work(process, [(lock.acquire, got)], lock)

    def use(self, process: Process, held: Any, more: Any) -> Script:
        """Sometimes acquire the lock once more while it is held."""
        if process.random.random() < 0.5:
            again = yield more.acquire(0)
            assert again.token == held.token, "TokenOrder: another token within"
            yield from super().use(process, held, more)
            yield again.release()
        yield from super().use(process, held, more)


class MultiLockScenario(Contended):
    """Two of three locks together, or one of them alone."""

    def __init__(self, schedule: Schedule, truth: Truth) -> None:
        super().__init__(schedule, truth)
        self._holders = {path: Holders(schedule, path) for path in PATHS}

    def look(self) -> None:
        """Check the holders after each step."""
        for holders in self._holders.values():
            holders.look()

    def ways(self, process: Process) -> list[Way]:
        """Return pairs in any order, and single locks."""
        pair = process.random.sample(PATHS, 2)
        several = process.multi_lock(pair)
        single = process.lock(pair[0])

        def got(held: Any) -> None:
            for path, part in zip(several.paths, held.parts, strict=True):
                assert held.tokens[path] == part.token, held.tokens
                self._holders[path].got(process, part, whole=held)

        return [
            (several.acquire, got),
            (single.acquire, lambda held: self._holders[pair[0]].got(process, held)),
        ]
