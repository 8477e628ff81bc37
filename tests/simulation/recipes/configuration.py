"""The configuration: whole values, each made of the one before, and all who follow see the last."""

import json
from typing import Any

from msgspec import Struct

from raykeeper.client.recipes.configuration import Configuration, Versioned
from raykeeper.zab.ids import ZERO
from tests.simulation.checks.truth import Truth
from tests.simulation.recipes.process import Process
from tests.simulation.recipes.scenario import ABOVE, Scenario, span
from tests.simulation.recipes.script import Pause, Script
from tests.simulation.schedule import Schedule

PATH = f"{ABOVE}/limits"


class Limits(Struct, frozen=True):
    """What is written: `twice` is never anything but that."""

    count: int = 0
    twice: int = 0


class ConfigurationScenario(Scenario):
    """All update it, and most follow it."""

    def __init__(self, schedule: Schedule, truth: Truth) -> None:
        super().__init__(schedule, truth)
        self._begun = 0
        self._told: set[int] = set()
        self._working: set[tuple[str, int]] = set()

    def scripts(self, process: Process) -> list[Script]:
        """Some update, some follow."""
        configuration = process.configuration(PATH, Limits, Limits())
        return [self._update(process, configuration), self._follow(process, configuration)]

    def _update(self, process: Process, configuration: Any) -> Script:
        random = process.random
        is_last = False
        while not is_last:
            is_last = self.is_ending
            yield Pause(span(random, 20, 200))
            self.tempt(process)
            self._begun += 1
            new = yield from Configuration.update.turns(configuration, _next)
            self.counts["recipe.updated"] += 1
            assert new.value.count not in self._told, f"Sum: {new.value} twice"
            self._told.add(new.value.count)
            if random.random() < 0.3:
                read = yield from Configuration.get.turns(configuration)
                _is_whole(read)
                assert read.version >= new.version, f"Sum: {read} after {new}"

    def _follow(self, process: Process, configuration: Any) -> Script:
        random = process.random
        while True:
            is_last = self.is_ending
            yield Pause(span(random, 20, 200))
            seen: list[Versioned[Limits]] = []
            live = yield configuration.follow(_follower(seen))
            self.counts["recipe.followed"] += 1
            if is_last:
                while not self._is_current(live):
                    yield Pause(50)
            else:
                yield Pause(span(random, 100, 1_000, 3_000))
                self.tempt(process)
            yield live.close()
            if is_last:
                return

    def _is_current(self, live: Any) -> bool:
        """Whether nobody updates any more, and the newest is seen."""
        for member in self.members:
            program = member.program
            if program is None or program.is_over or not program.scripts[0].is_done:
                return False
        return bool(live.value.count == json.loads(self.truth.znodes[PATH].value)["count"])

    def may_stay(self) -> set[str]:
        """It does."""
        return {ABOVE, PATH}

    def finish(self) -> None:
        """Each was made of the one before."""
        past = self.truth.between(PATH, ZERO, self.truth.zxid)
        values = [json.loads(was.value)["count"] for _, was in past if was is not None]
        assert values == list(range(1, len(values) + 1)), f"Sum: {values}"
        assert self._told <= set(values), f"Sum: {self._told - set(values)} never were"


def _next(value: Limits) -> Limits:
    return Limits(value.count + 1, 2 * value.count + 2)


def _is_whole(read: Versioned[Limits]) -> None:
    assert read.value.twice == 2 * read.value.count, f"Sum: {read} is half a value"


def _follower(seen: list[Versioned[Limits]]) -> Any:
    def on_change(new: Versioned[Limits] | None, old: Versioned[Limits] | None) -> None:
        assert old == (seen[-1] if seen else None), f"Observed: {old} after {seen}"
        assert new is not None, "Observed: it is gone"
        _is_whole(new)
        assert old is None or new.version > old.version, f"Observed: {new} after {old}"
        seen.append(new)

    return on_change
