"""The fair lock: one holder at a time, tokens that grow, and everybody gets its turn."""

from raykeeper.client.errors import LostError, WaitTimeoutError
from tests.simulation.recipes.holders import Holders
from tests.simulation.recipes.process import Process
from tests.simulation.recipes.scenario import ABOVE, Scenario, patience, span, timeout_s
from tests.simulation.recipes.script import GaveUpError, Pause, Script, Within
from tests.simulation.schedule import Schedule

PATH = f"{ABOVE}/lock"


class LockScenario(Scenario):
    """One or two threads of each process take a lock, one after the other."""

    def __init__(self, schedule: Schedule) -> None:
        super().__init__(schedule)
        self.holders = Holders(schedule, "the lock")

    def scripts(self, process: Process) -> list[Script]:
        """Threads share the lock object, as they may."""
        lock = process.lock(PATH)
        return [self._work(process, lock) for _ in range(process.random.choice([1, 1, 2]))]

    def look(self) -> None:
        """After each step."""
        self.holders.look()

    def _work(self, process: Process, lock: object) -> Script:
        random = process.random
        is_last = False
        while not is_last:
            is_last = self.is_ending
            yield Pause(span(random, 20, 200))
            self.tempt(process)
            limit_s, limit_ms = (None, None) if is_last else (timeout_s(random), patience(random))
            try:
                held = yield Within(lock.acquire(limit_s), limit_ms)
            except (WaitTimeoutError, GaveUpError):
                self.counts["recipe.given_up"] += 1
                continue
            self.holders.got(process, held)
            self.counts["recipe.granted"] += 1
            self.tempt(process)
            yield Pause(span(random, 0, 20, 300, 1_000))
            self.tempt(process)
            if random.random() < 0.1:
                held.lost.check()
            try:
                yield held.release()
            except LostError:
                assert not process.may_act, "Exclusion: a lock is lost, though nobody took it"
