"""The fair lock: one holder at a time, rising tokens, and every waiter gets its turn."""

from tests.harness.schedule import Schedule
from tests.simulation.checks.truth import Truth
from tests.simulation.recipes.contended import Contended, Way
from tests.simulation.recipes.holders import Holders
from tests.simulation.recipes.process import Process
from tests.simulation.recipes.scenario import ABOVE

PATH = f"{ABOVE}/lock"


class OneHolder(Contended):
    """A lock with one holder at a time, and tokens in the order of the grants."""

    def __init__(self, schedule: Schedule, truth: Truth) -> None:
        super().__init__(schedule, truth)
        self.holders = Holders(schedule, "the lock")

    def look(self) -> None:
        """Check the holders after each step."""
        self.holders.look()


class LockScenario(OneHolder):
    """The fair lock."""

    def ways(self, process: Process) -> list[Way]:
        """Return the lock."""
        lock = process.lock(PATH)
        return [(lock.acquire, lambda held: self.holders.got(process, held))]


class SimpleLockScenario(OneHolder):
    """The simple lock: the same checks, but in no order."""

    def ways(self, process: Process) -> list[Way]:
        """Return the lock."""
        lock = process.simple_lock(PATH)
        return [(lock.acquire, lambda held: self.holders.got(process, held))]
