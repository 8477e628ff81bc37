"""Groups: members that believe to be one are, names are unique, watches see every change."""

from typing import Any, Final

from raykeeper.client.errors import WaitTimeoutError
from tests.harness.schedule import Schedule
from tests.simulation.checks.truth import Truth
from tests.simulation.recipes.holders import Holders
from tests.simulation.recipes.process import Process
from tests.simulation.recipes.scenario import ABOVE, Scenario, patience, span, timeout_s
from tests.simulation.recipes.script import GaveUpError, Pause, Script, Within

PATH: Final = f"{ABOVE}/workers"
MANY: Final = 1_000


class GroupScenario(Scenario):
    """Members with names that return, members without names, and observers."""

    def __init__(self, schedule: Schedule, truth: Truth) -> None:
        super().__init__(schedule, truth)
        self._named = {name: Holders(schedule, name) for name in ("one", "two")}
        self._every = Holders(schedule, "a membership", MANY)

    def look(self) -> None:
        """Check the members after each step."""
        for holders in self._named.values():
            holders.look()
        self._every.look()
        if self._every.is_held:
            znodes = self.truth.znodes
            for holder in self._every.believing():
                assert holder.held.path in znodes, f"Membership: {holder} is no member"

    def scripts(self, process: Process) -> list[Script]:
        """Return the scripts of one or two members, and one of an observer."""
        members = [self._join(process) for _ in range(process.random.choice([1, 2]))]
        return [*members, self._watch(process)]

    def _join(self, process: Process) -> Script:
        random = process.random
        group = process.group(PATH)
        is_last = False
        while not is_last:
            is_last = self.is_ending
            yield Pause(span(random, 20, 200))
            self.maybe_inject(process)
            name = random.choice([None, *self._named])
            limit_s, limit_ms = (None, None) if is_last else (timeout_s(random), patience(random))
            try:
                held = yield Within(group.join(name, b"0", limit_s), limit_ms)
            except (WaitTimeoutError, GaveUpError):
                self.counts["recipe.given_up"] += 1
                continue
            if name is not None:
                self._named[name].got(process, held)
            self._every.got(process, held, in_order=False)
            self.counts["recipe.joined"] += 1
            self.maybe_inject(process)
            yield Pause(span(random, 20, 300, 1_000))
            if random.random() < 0.3:
                yield held.update(b"1")
            yield held.leave()

    def _watch(self, process: Process) -> Script:
        random = process.random
        group = process.group(PATH)
        while True:
            is_last = self.is_ending
            yield Pause(span(random, 20, 200))
            told: list[Any] = []
            watch = yield group.watch(told.append)
            self.counts["recipe.watched"] += 1
            if is_last:
                while not told or told[-1].members or self._members():
                    yield Pause(50)
            else:
                yield Pause(span(random, 100, 1_000, 3_000))
                self.maybe_inject(process)
            yield watch.close()
            _follows(told)
            if is_last:
                return

    def _members(self) -> bool:
        group = self.truth.znodes.get(PATH)
        return group is not None and bool(group.children)


def _follows(told: list[Any]) -> None:
    """Check that each change begins where the one before ended."""
    before: dict[tuple[str, int], bytes] = {}
    for change in told:
        now = {(each.name, each.token): each.data for each in change.members}
        joined = {(each.name, each.token) for each in change.joined}
        left = {(each.name, each.token) for each in change.left}
        text = f"Observed: {change} after {before}"
        assert joined == set(now) - set(before), text
        assert left == set(before) - set(now), text
        tokens = [each.token for each in change.members]
        assert tokens == sorted(tokens), text
        before = now
