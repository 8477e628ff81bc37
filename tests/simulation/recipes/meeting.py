"""Scenarios of meetings: processes meet again and again, in any combination."""

from collections.abc import Generator
from typing import Any, ClassVar, Final

from raykeeper.client.errors import WaitTimeoutError
from raykeeper.zab.ids import Millis
from tests.harness.schedule import Schedule
from tests.simulation.checks.truth import Truth
from tests.simulation.recipes.process import Process
from tests.simulation.recipes.scenario import Scenario, patience, span, timeout_s
from tests.simulation.recipes.script import GaveUpError, Pause, Script, Within

SIZE: Final = 2
Together = Generator[Any, Any, bool]
"""What one does in a meeting, as a `Script`; returns whether it was done to the end."""


class MeetingScenario(Scenario):
    """`SIZE` processes meet at `path`. The run ends when each has met again after all faults."""

    path: ClassVar[str]

    def __init__(self, schedule: Schedule, truth: Truth) -> None:
        super().__init__(schedule, truth)
        self._done: set[str] = set()

    def scripts(self, process: Process) -> list[Script]:
        """Return one script for each process."""
        return [self._meet(process)]

    def together(self, process: Process, meeting: Any, limit_ms: Millis | None) -> Together:
        """Act between joining and leaving; `limit_ms` is how long to wait for the others."""
        raise NotImplementedError

    def _meet(self, process: Process) -> Script:
        random = process.random
        place = process.rendezvous(self.path, SIZE, process.name.encode())
        while not self._all_have_done():
            is_last = self.is_ending
            yield Pause(span(random, 20, 200))
            self.maybe_inject(process)
            limit_s, limit_ms = (3, None) if is_last else (timeout_s(random), patience(random))
            try:
                meeting = yield Within(place.join(limit_s), limit_ms)
            except (WaitTimeoutError, GaveUpError):
                self.counts["recipe.given_up"] += 1
                continue
            is_done = yield from self.together(process, meeting, limit_ms)
            yield meeting.leave()
            if is_last and is_done:
                self._done.add(process.name)

    def _all_have_done(self) -> bool:
        names = [member.program.name for member in self.members if member.program is not None]
        return self.is_ending and self._done.issuperset(names)
