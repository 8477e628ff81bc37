"""The barrier: no process passes while it exists all the time; all pass once it is gone."""

from raykeeper.client.errors import WaitTimeoutError
from tests.simulation.recipes.process import Process
from tests.simulation.recipes.scenario import ABOVE, Scenario, patience, span, timeout_s
from tests.simulation.recipes.script import GaveUpError, Pause, Script, Within

PATH = f"{ABOVE}/barriers/one"


class BarrierScenario(Scenario):
    """All processes create the barrier, wait for it, and remove it."""

    def scripts(self, process: Process) -> list[Script]:
        """Return a script that creates and removes the barrier, and scripts that wait for it."""
        waiting = [self._wait(process) for _ in range(process.random.choice([1, 2]))]
        return [self._keep(process), *waiting]

    def _keep(self, process: Process) -> Script:
        random = process.random
        barrier = process.barrier(PATH)
        while not self.is_ending:
            yield Pause(span(random, 50, 500))
            self.maybe_inject(process)
            yield barrier.create()
            yield Pause(span(random, 50, 500))
            yield barrier.remove()
        yield barrier.remove()

    def _wait(self, process: Process) -> Script:
        random = process.random
        barrier = process.barrier(PATH)
        is_last = False
        while not is_last:
            is_last = self.is_ending
            yield Pause(span(random, 20, 200))
            for _ in range(random.choice([0, 300])):  # waits for the barrier's creation
                if PATH in self.truth.znodes or self.is_ending:
                    break
                yield Pause(1, is_exact=True)
            since = self.truth.zxid
            self.maybe_inject(process)
            limit_s, limit_ms = (None, None) if is_last else (timeout_s(random), patience(random))
            try:
                yield Within(barrier.wait(limit_s), limit_ms)
            except (WaitTimeoutError, GaveUpError):
                self.counts["recipe.given_up"] += 1
                continue
            self.counts["recipe.passed"] += 1
            assert self.truth.is_ever_missing(PATH, since, self.truth.zxid), (
                f"Passage: {process.name} passes a barrier that was there all the time"
            )
