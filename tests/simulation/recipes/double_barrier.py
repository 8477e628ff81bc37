"""The double barrier: nobody goes on before all were inside, and nobody leaves before all do."""

from typing import Any, Final, Literal

from raykeeper.client.errors import BarrierFullError, BrokenBarrierError, WaitTimeoutError
from raykeeper.zab.ids import ZERO
from tests.harness.schedule import Schedule
from tests.simulation.checks.truth import Truth
from tests.simulation.recipes.process import Process
from tests.simulation.recipes.scenario import ABOVE, Scenario, patience, span, timeout_s
from tests.simulation.recipes.script import GaveUpError, Pause, Script, Within

PATH: Final = f"{ABOVE}/step"
ROUND: Final = f"{PATH}/round"


class DoubleBarrierScenario(Scenario):
    """All members do round after round; at the end, until each has completed one."""

    def __init__(self, schedule: Schedule, truth: Truth) -> None:
        super().__init__(schedule, truth)
        kinds: tuple[Literal["abort"], Literal["continue"]] = ("abort", "continue")
        self._on_crash = self.random.choice(kinds)
        self._inside: dict[int, list[Process]] = {}
        self._crossed: set[str] = set()

    def scripts(self, process: Process) -> list[Script]:
        """Return one script for each process."""
        return [self._go_round(process)]

    def _go_round(self, process: Process) -> Script:
        random = process.random
        barrier = process.double_barrier(PATH, len(self.members), b"", self._on_crash)
        while not self._all_have_crossed():
            is_last = self.is_ending
            # Often at once, when all that was given up may still be there.
            yield Pause(span(random, *([20, 200] if self.is_ending else [0, 20, 200])))
            self.maybe_inject(process)
            limit_s, limit_ms = (8, None) if is_last else (timeout_s(random), patience(random))
            try:
                entered = yield Within(barrier.enter(limit_s), limit_ms)
            except (WaitTimeoutError, GaveUpError, BrokenBarrierError, BarrierFullError):
                self.counts["recipe.given_up"] += 1
                continue
            self._enters(process, entered.round)
            self.maybe_inject(process)
            yield Pause(span(random, 0, 20, 300))
            inside = self._inside[entered.round]
            inside.remove(process)
            try:
                yield Within(barrier.leave(limit_s), limit_ms)
            except (WaitTimeoutError, GaveUpError, BrokenBarrierError):
                self.counts["recipe.broken"] += 1
                continue
            self.counts["recipe.crossed"] += 1
            late = [each.name for each in inside if each.may_act]
            assert not late, f"Passage: {process.name} has left, {late} are inside"
            if is_last:
                self._crossed.add(process.name)

    def _all_have_crossed(self) -> bool:
        names = [member.program.name for member in self.members if member.program is not None]
        return self.is_ending and self._crossed.issuperset(names)

    def _enters(self, process: Process, number: int) -> None:
        self.counts["recipe.entered"] += 1
        self._inside.setdefault(number, []).append(process)
        past: list[Any] = list(self.truth.between(ROUND, ZERO, self.truth.zxid))
        opened = [
            zxid
            for zxid, was in past
            if was is not None and was.stat.czxid == number and was.stat.version > 0
        ]
        assert opened, f"Passage: {process.name} has entered a round that is not open"
        owners = [
            was.stat.ephemeral_owner
            for path, was in self.truth.all_at(opened[0])
            if path.rpartition("/")[0] == ROUND
        ]
        assert len(owners) == len(set(owners)), f"Passage: a member was counted twice in {owners}"
        assert len(owners) == len(self.members), f"Passage: {owners} of {len(self.members)}"

    def may_stay(self) -> set[str]:
        """Return the znodes that may remain: the parent of the rounds."""
        return {ABOVE, PATH}
