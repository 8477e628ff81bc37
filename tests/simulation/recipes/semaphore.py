"""The semaphore: never more holders than permits, and all holders mean the same number."""

from typing import Any, ClassVar, Final

from raykeeper.client.errors import RecipeError
from tests.harness.schedule import Schedule
from tests.simulation.checks.truth import Truth
from tests.simulation.recipes.contended import Contended, Way
from tests.simulation.recipes.holders import Holders
from tests.simulation.recipes.process import Process
from tests.simulation.recipes.scenario import ABOVE

PATH: Final = f"{ABOVE}/permits"


class SemaphoreScenario(Contended):
    """One to three permits, for up to ten threads. In some runs processes name other numbers."""

    refusals: ClassVar[tuple[type[Exception], ...]] = (RecipeError,)

    def __init__(self, schedule: Schedule, truth: Truth) -> None:
        super().__init__(schedule, truth)
        numbers = self.random.choice([[1], [2], [3], [1, 2], [2, 3]])
        self._holders = {number: Holders(schedule, "a permit", number) for number in numbers}

    def look(self) -> None:
        """Check the holders after each step."""
        for holders in self._holders.values():
            holders.look()
        held = [number for number, each in self._holders.items() if each.believing()]
        assert len(held) <= 1, f"Exclusion: permits of {held} are held at once"

    def ways(self, process: Process) -> list[Way]:
        """Return the semaphore."""
        number = process.random.choice(list(self._holders))
        semaphore = process.semaphore(PATH, number)

        def got(held: Any) -> None:
            self._holders[number].got(process, held, in_order=False)

        return [(semaphore.acquire, got)]
