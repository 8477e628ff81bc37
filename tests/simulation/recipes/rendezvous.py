"""The rendezvous: all participants get one list, are present at once, one generation at a time."""

import json
from typing import Any, Final

from raykeeper.zab.ids import ZERO, Millis
from tests.harness.schedule import Schedule
from tests.simulation.checks.truth import Truth
from tests.simulation.recipes.meeting import SIZE, MeetingScenario, Together
from tests.simulation.recipes.process import Process
from tests.simulation.recipes.scenario import ABOVE, span
from tests.simulation.recipes.script import Pause

PATH: Final = f"{ABOVE}/train"


class RendezvousScenario(MeetingScenario):
    """Any two processes meet."""

    path = PATH

    def __init__(self, schedule: Schedule, truth: Truth) -> None:
        super().__init__(schedule, truth)
        self._lists: dict[int, list[str]] = {}

    def together(self, process: Process, meeting: Any, limit_ms: Millis | None) -> Together:
        """Stay for a moment."""
        self._is_one_list(process, meeting)
        self.maybe_inject(process)
        yield Pause(span(process.random, 20, 300, 1_000))
        return True

    def _is_one_list(self, process: Process, meeting: Any) -> None:
        self.counts["recipe.met"] += 1
        names = [each.name for each in meeting.members]
        text = f"Meeting: {process.name} is {meeting.rank} of {names}"
        assert len(names) == SIZE, text
        assert meeting.path.endswith(names[meeting.rank]), text
        assert meeting.members[meeting.rank].data == process.name.encode(), text
        known = self._lists.setdefault(meeting.generation, names)
        assert known == names, f"{text}, and of {known} for another"

    def may_stay(self) -> set[str]:
        """Return the znodes that may remain: the number of the last generation."""
        return {ABOVE, PATH}

    def finish(self) -> None:
        """Check that all of a generation were present, after one of the previous one had left."""
        last: list[str] = []
        number = 0
        for zxid, was in self.truth.between(PATH, ZERO, self.truth.zxid):
            if was is None or was.stat.mzxid != zxid or not was.value:
                continue
            value = json.loads(was.value)
            if value["number"] == number:
                continue
            number, names = value["number"], [each["name"] for each in value["members"]]
            here = [name for name in names if self.truth.at(f"{PATH}/{name}", zxid) is not None]
            assert here == names, f"Meeting: {number} is {names}, of whom there are {here}"
            stay = [name for name in last if self.truth.at(f"{PATH}/{name}", zxid) is not None]
            assert not last or stay != last, f"Meeting: {number} begins, and all of {last} stay"
            last = names
