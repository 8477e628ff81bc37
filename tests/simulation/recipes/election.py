"""Elections: one leader at a time, epochs without gaps, and queries that name the leader."""

import itertools
import json
from typing import Any

from raykeeper.client.recipes.election import Leader
from raykeeper.zab.ids import ZERO
from tests.harness.schedule import Schedule
from tests.simulation.checks.truth import Truth
from tests.simulation.recipes.contended import Contended, Way
from tests.simulation.recipes.holders import Holders
from tests.simulation.recipes.process import Process
from tests.simulation.recipes.scenario import ABOVE, span
from tests.simulation.recipes.script import GaveUpError, Pause, Script, Within

PATH = f"{ABOVE}/election"


class Elected(Contended):
    """The checks of all recipes that elect a leader."""

    def __init__(self, schedule: Schedule, truth: Truth) -> None:
        super().__init__(schedule, truth)
        self.holders = Holders(schedule, "the leadership")
        self._epoch = 0

    def look(self) -> None:
        """Check the leaders after each step."""
        self.holders.look()

    def leads(self, process: Process, leadership: Any) -> None:
        """Record that a script became the leader."""
        if self.holders.got(process, leadership):
            epoch = leadership.epoch
            assert epoch > self._epoch, f"Epochs: {epoch} after {self._epoch}"
            self._epoch = epoch

    def may_stay(self) -> set[str]:
        """Return the znodes that may remain: the epoch."""
        return {ABOVE, PATH}

    def finish(self) -> None:
        """Check that every leadership raised the epoch by one."""
        past = self.truth.between(PATH, ZERO, self.truth.zxid)
        values = {was.stat.mzxid: was.value for _, was in past if was is not None}
        epochs = [json.loads(value)["epoch"] for value in values.values() if value]
        assert epochs == list(range(1, len(epochs) + 1)), f"Epochs: {epochs}"


class ElectionScenario(Elected):
    """Candidates, and processes that ask for the leader or observe it."""

    def ways(self, process: Process) -> list[Way]:
        """Return the election, the only way to lead."""
        election = process.election(PATH, process.name.encode())
        return [(election.lead, lambda held: self.leads(process, held))]

    def scripts(self, process: Process) -> list[Script]:
        """Return the scripts of one or two candidates, and one of an observer."""
        return [*super().scripts(process), self._ask(process)]

    def _ask(self, process: Process) -> Script:
        random = process.random
        election = process.election(PATH)
        observation = None
        told: list[Leader | None] = []
        if random.random() < 0.5:
            observation = yield election.observe(told.append)
        while not self.is_ending:
            yield Pause(span(random, 50, 500))
            epoch = self._epoch
            for _ in range(random.choice([0, 300])):  # waits for the moment right after an election
                if self._epoch != epoch or self.is_ending:
                    break
                yield Pause(1, is_exact=True)
            before = self.holders.believing()
            try:
                leader = yield Within(election.leader(), span(random, 3_000))
            except GaveUpError:
                continue
            self.counts["recipe.asked"] += 1
            if before and before == self.holders.believing():
                leads = before[0].held
                assert leader is not None, f"Leader: nobody leads, and {before[0]} does"
                found = leader.token, leader.epoch
                assert found == (leads.token, leads.epoch), f"Leader: {leader}, and {before[0]}"
        if observation is not None:
            yield from self._are_told(told, observation)

    def _are_told(self, told: list[Leader | None], observation: Any) -> Script:
        """Check that observers see leaders in order, each once, and at last that none leads."""
        while PATH in self.truth.znodes and (
            self.truth.znodes[PATH].children or not told or told[-1] is not None
        ):
            yield Pause(50)
        yield observation.close()
        epochs = [leader.epoch for leader in told if leader is not None]
        assert epochs == sorted(set(epochs)), f"Observed: {epochs}"
        pairs = itertools.pairwise(told)
        assert all(one != other for one, other in pairs), f"Observed: {told}"


class LeaderLatchScenario(Elected):
    """Latches, which compete with candidates on the same path."""

    def __init__(self, schedule: Schedule, truth: Truth) -> None:
        super().__init__(schedule, truth)
        self._latches: list[tuple[Process, Any]] = []

    def ways(self, process: Process) -> list[Way]:
        """Return the way of a candidate, which competes with the latches."""
        election = process.election(PATH)
        return [(election.lead, lambda held: self.leads(process, held))]

    def scripts(self, process: Process) -> list[Script]:
        """Return the script of a latch or of a candidate."""
        if process.random.random() < 0.25:
            return super().scripts(process)
        return [self._latch(process)]

    def look(self) -> None:
        """Check, after each step, what latches report of themselves."""
        super().look()
        leading = []
        for each in self._latches:
            process, latch = each
            if not process.is_killed:
                with process.seen_from_outside():
                    if latch.has_leadership:
                        leading.append(process.name)
        assert len(leading) <= 1, f"Exclusion: {' and '.join(leading)} lead"

    def _latch(self, process: Process) -> Script:
        random = process.random
        is_last = False
        while not is_last:
            is_last = self.is_ending
            yield Pause(span(random, 20, 200))
            told: list[tuple[str, int]] = []
            latch = process.leader_latch(
                PATH,
                process.name.encode(),
                lambda held, told=told: told.append(("gained", held.epoch)),
                lambda held, told=told: told.append(("lost", held.epoch)),
            )
            yield latch.start()
            self._latches = [each for each in self._latches if not each[0].is_over]
            self._latches.append((process, latch))
            self.maybe_inject(process)
            try:
                limit_ms = None if is_last else span(random, 50, 500, 3_000)
                leadership = yield Within(latch.wait(), limit_ms)
                self.leads(process, leadership)
                self.counts["recipe.granted"] += 1
                self.maybe_inject(process)
                yield Pause(span(random, 0, 20, 300, 1_000))
            except GaveUpError:
                self.counts["recipe.given_up"] += 1
            yield latch.close()
            self._latches.remove((process, latch))
            kinds = [kind for kind, _ in told]
            assert kinds == ["gained", "lost"][: len(kinds)], f"Observed: {told}"
