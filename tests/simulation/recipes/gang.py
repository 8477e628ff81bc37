"""The gang: a member that is told that its generation is finished knows that all had finished."""

from typing import Any, Final

from raykeeper.client.errors import BrokenBarrierError
from raykeeper.client.ray_tools.gang import FINISHED, finish
from raykeeper.zab.ids import Millis
from tests.harness.schedule import Schedule
from tests.simulation.checks.truth import Truth
from tests.simulation.recipes.meeting import SIZE, MeetingScenario, Together
from tests.simulation.recipes.process import Process
from tests.simulation.recipes.scenario import ABOVE, span
from tests.simulation.recipes.script import GaveUpError, Pause, Within

PATH: Final = f"{ABOVE}/gang"


class GangScenario(MeetingScenario):
    """Any two processes work together."""

    path = PATH

    def __init__(self, schedule: Schedule, truth: Truth) -> None:
        super().__init__(schedule, truth)
        self._said: dict[int, set[int]] = {}

    def together(self, process: Process, meeting: Any, limit_ms: Millis | None) -> Together:
        """Work, and finish."""
        yield Pause(span(process.random, 20, 300))
        self.maybe_inject(process)
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
            return True
        return False

    def may_stay(self) -> set[str]:
        """Return the znodes that may remain: the last number, and the last finished one."""
        return {ABOVE, PATH, f"{PATH}/{FINISHED}"}
