"""The counter: every addition counts once, and each returns another number."""

from raykeeper.zab.ids import ZERO
from tests.harness.schedule import Schedule
from tests.simulation.checks.truth import Truth
from tests.simulation.recipes.process import Process
from tests.simulation.recipes.scenario import ABOVE, Scenario, patience, span
from tests.simulation.recipes.script import GaveUpError, Pause, Script, Within

PATH = f"{ABOVE}/counter"


class CounterScenario(Scenario):
    """All processes add one."""

    def __init__(self, schedule: Schedule, truth: Truth) -> None:
        super().__init__(schedule, truth)
        self._begun = 0
        self._told: set[int] = set()
        self._newest = 0

    def scripts(self, process: Process) -> list[Script]:
        """Return scripts, some of which share a counter object."""
        counter = process.counter(PATH)
        return [self._count(process, counter) for _ in range(process.random.choice([1, 2, 3]))]

    def _count(self, process: Process, counter: object) -> Script:
        random = process.random
        is_last = False
        while not is_last:
            is_last = self.is_ending
            yield Pause(span(random, 0, 20, 200))
            self.maybe_inject(process)
            before = self._newest
            self._begun += 1
            try:
                number = yield Within(counter.increment(), None if is_last else patience(random))
            except GaveUpError:
                self.counts["recipe.given_up"] += 1
                continue
            self.counts["recipe.added"] += 1
            assert number not in self._told, f"Sum: {number} twice"
            assert number > before, f"Sum: {number} after {before} was told"
            self._told.add(number)
            self._newest = max(self._newest, number)
            if random.random() < 0.2:
                read = yield counter.get()
                assert read >= number, f"Sum: {read} is read after {number} was told"

    def may_stay(self) -> set[str]:
        """Return the znodes that may remain: the counter."""
        return {ABOVE, PATH}

    def finish(self) -> None:
        """Check that the value is the number of additions, and changed by one each time."""
        past = self.truth.between(PATH, ZERO, self.truth.zxid)
        values = [int(was.value) for _, was in past if was is not None]
        assert values == list(range(1, len(values) + 1)), f"Sum: {values}"
        assert self._told <= set(values), f"Sum: {self._told - set(values)} never were"
        assert len(values) <= self._begun, f"Sum: {len(values)} of {self._begun} additions"
