"""The semaphore: never more holders than permits."""

from typing import Final

from tests.harness.schedule import Schedule
from tests.simulation.checks.truth import Truth
from tests.simulation.recipes.contended import Contended, Way
from tests.simulation.recipes.holders import Holders
from tests.simulation.recipes.process import Process
from tests.simulation.recipes.scenario import ABOVE

PATH: Final = f"{ABOVE}/permits"


class SemaphoreScenario(Contended):
    """One to three permits, for up to ten threads."""

    def __init__(self, schedule: Schedule, truth: Truth) -> None:
        super().__init__(schedule, truth)
        self._permits = self.random.choice([1, 2, 2, 3])
        self._holders = Holders(schedule, "a permit", self._permits)

    def look(self) -> None:
        """Check the holders after each step."""
        self._holders.look()

    def ways(self, process: Process) -> list[Way]:
        """Return the semaphore."""
        semaphore = process.semaphore(PATH, self._permits)
        return [
            (semaphore.acquire, lambda held: self._holders.got(process, held, in_order=False)),
        ]
