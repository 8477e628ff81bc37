"""The configuration: each value is made from the one before, and all followers see the last one."""

import json
from typing import Any

from msgspec import Struct

from raykeeper.zab.ids import ZERO
from tests.harness.schedule import Schedule
from tests.simulation.checks.truth import Truth
from tests.simulation.recipes.followed import FollowedScenario, follower
from tests.simulation.recipes.process import Process
from tests.simulation.recipes.scenario import ABOVE, span
from tests.simulation.recipes.script import Pause, Script

PATH = f"{ABOVE}/limits"


class Limits(Struct, frozen=True):
    """The value of the configuration: `twice` is always twice `count`."""

    count: int = 0
    twice: int = 0


class ConfigurationScenario(FollowedScenario):
    """All processes update the configuration, and most follow it."""

    def __init__(self, schedule: Schedule, truth: Truth) -> None:
        super().__init__(schedule, truth)
        self._begun = 0
        self._told: set[int] = set()
        self._working: set[tuple[str, int]] = set()

    def scripts(self, process: Process) -> list[Script]:
        """Return scripts of which some update and some follow."""
        configuration = process.configuration(PATH, Limits, Limits())
        return [self._update(process, configuration), self._follow(process, configuration)]

    def _update(self, process: Process, configuration: Any) -> Script:
        random = process.random
        is_last = False
        while not is_last:
            is_last = self.is_ending
            yield Pause(span(random, 20, 200))
            self.maybe_inject(process)
            self._begun += 1
            new = yield configuration.update(_next)
            self.counts["recipe.updated"] += 1
            assert new.value.count not in self._told, f"Sum: {new.value} twice"
            self._told.add(new.value.count)
            if random.random() < 0.3:
                read = yield configuration.get()
                _is_whole(read.value)
                assert read.version >= new.version, f"Sum: {read} after {new}"

    def _follow(self, process: Process, configuration: Any) -> Script:
        is_last = False
        while not is_last:
            is_last = self.is_ending
            yield Pause(span(process.random, 20, 200))
            live = yield configuration.follow(follower([], _is_whole, lambda limits: limits.count))
            yield from self.follow_for_a_while(process, live, is_last=is_last)

    def is_newest(self, live: Any) -> bool:
        """Return whether `live` shows the last update."""
        return bool(live.value.count == json.loads(self.truth.znodes[PATH].value)["count"])

    def may_stay(self) -> set[str]:
        """Return the znodes that may remain: the configuration."""
        return {ABOVE, PATH}

    def finish(self) -> None:
        """Check that each value was made from the one before."""
        past = self.truth.between(PATH, ZERO, self.truth.zxid)
        values = [json.loads(was.value)["count"] for _, was in past if was is not None]
        assert values == list(range(1, len(values) + 1)), f"Sum: {values}"
        assert self._told <= set(values), f"Sum: {self._told - set(values)} never were"


def _next(value: Limits) -> Limits:
    return Limits(value.count + 1, 2 * value.count + 2)


def _is_whole(read: Limits | None) -> None:
    assert read is not None, "Sum: it is gone"
    assert read.twice == 2 * read.count, f"Sum: {read} is half a value"
