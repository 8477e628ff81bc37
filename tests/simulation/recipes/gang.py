"""The gang: who is told that its generation is finished knows that all members had finished."""

from typing import Final

from raykeeper.client.errors import BrokenBarrierError, WaitTimeoutError
from raykeeper.client.ray_tools.gang import FINISHED, finish
from tests.simulation.checks.truth import Truth
from tests.simulation.recipes.process import Process
from tests.simulation.recipes.scenario import ABOVE, Scenario, patience, span, timeout_s
from tests.simulation.recipes.script import GaveUpError, Pause, Script, Within
from tests.simulation.schedule import Schedule

PATH: Final = f"{ABOVE}/gang"
SIZE: Final = 2


class GangScenario(Scenario):
    """Two work together, whoever of them comes."""

    def __init__(self, schedule: Schedule, truth: Truth) -> None:
        super().__init__(schedule, truth)
        self._said: dict[int, set[int]] = {}
        self._ended: set[str] = set()

    def scripts(self, process: Process) -> list[Script]:
        """One of each process."""
        return [self._work(process)]

    def _work(self, process: Process) -> Script:
        random = process.random
        place = process.rendezvous(PATH, SIZE, process.name.encode())
        while not self._all_have_ended():
            is_last = self.is_ending
            yield Pause(span(random, 20, 200))
            self.tempt(process)
            limit_s, limit_ms = (3, None) if is_last else (timeout_s(random), patience(random))
            try:
                meeting = yield Within(place.join(limit_s), limit_ms)
            except (WaitTimeoutError, GaveUpError):
                self.counts["recipe.given_up"] += 1
                continue
            yield Pause(span(random, 20, 300))
            self.tempt(process)
            said = self._said.setdefault(meeting.generation, set())
            said.add(meeting.rank)
            try:
                yield Within(finish(meeting), limit_ms)
            except BrokenBarrierError:
                self.counts["recipe.broken"] += 1
            except GaveUpError:
                self.counts["recipe.given_up"] += 1
            else:
                self.counts["recipe.finished"] += 1
                assert said == set(range(SIZE)), f"Gang: {meeting.generation} finished by {said}"
                if is_last:
                    self._ended.add(process.name)
            yield meeting.leave()

    def _all_have_ended(self) -> bool:
        names = [member.program.name for member in self.members if member.program is not None]
        return self.is_ending and self._ended.issuperset(names)

    def may_stay(self) -> set[str]:
        """The numbers of the last generation, and of the last that was finished."""
        return {ABOVE, PATH, f"{PATH}/{FINISHED}"}
