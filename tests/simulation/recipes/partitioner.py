"""The partitioner: no partition has two owners; in quiet all are owned, in even shares."""

from collections import Counter
from typing import Any, Final

from raykeeper.zab.ids import ZERO
from tests.harness.schedule import Schedule
from tests.simulation.checks.truth import Truth
from tests.simulation.recipes.process import Process
from tests.simulation.recipes.scenario import ABOVE, Scenario, span
from tests.simulation.recipes.script import Pause, Script

PATH: Final = f"{ABOVE}/shards"
NAMES: Final = "abcde"


class PartitionerScenario(Scenario):
    """Members come and go; in the end all are present, and then none."""

    def __init__(self, schedule: Schedule, truth: Truth) -> None:
        super().__init__(schedule, truth)
        self._owners: dict[str, list[tuple[Process, Any]]] = {name: [] for name in NAMES}
        self._tokens = dict.fromkeys(NAMES, ZERO)
        self._last: set[str] = set()
        self._is_settled = False

    def scripts(self, process: Process) -> list[Script]:
        """Return the script of one member for each process."""
        return [self._belong(process)]

    def look(self) -> None:
        """Check the owners after each step."""
        for name, owners in self._owners.items():
            if len(owners) > 1:
                owners[:] = [each for each in owners if _believes(*each)]
                assert len(owners) <= 1, f"Exclusion: {name} is owned by " + " and by ".join(
                    process.name for process, _ in owners
                )

    def _belong(self, process: Process) -> Script:
        random = process.random
        is_last = False
        while not is_last:
            is_last = self.is_ending
            yield Pause(span(random, 20, 200))
            self.maybe_inject(process)
            member = process.partitioner(
                PATH,
                NAMES,
                process.name.encode(),
                lambda partition: self._acquired(process, partition),
                lambda partition: self._released(process, partition),
            )
            yield member.start()
            if is_last:
                self._last.add(process.name)
                while not self._has_settled():
                    yield Pause(50)
            else:
                yield Pause(span(random, 50, 500, 3_000))
                self.maybe_inject(process)
            yield member.close()
            assert member.owned == [], f"Exclusion: {process.name} has {member.owned} for ever"

    def _acquired(self, process: Process, partition: Any) -> None:
        self.counts["recipe.acquired"] += 1
        self.maybe_inject(process)
        if not _believes(process, partition):
            return
        name, token = partition.name, partition.token
        assert token > self._tokens[name], f"TokenOrder: {name} of {process.name}"
        self._tokens[name] = token
        self._owners[name].append((process, partition))
        self.look()

    def _released(self, process: Process, partition: Any) -> None:
        self.counts["recipe.released"] += 1
        self.maybe_inject(process)
        owners = self._owners[partition.name]
        owners[:] = [each for each in owners if each[1] is not partition]

    def _has_settled(self) -> bool:
        """Return whether there was a moment with all members present and all partitions divided."""
        programs = [member.program for member in self.members if member.program is not None]
        if not self._is_settled and self._last.issuperset(each.name for each in programs):
            znodes = self.truth.znodes
            owners = [znodes.get(f"{PATH}/owners/{name}") for name in NAMES]
            shares = Counter(each.value for each in owners if each is not None)
            sizes = [*shares.values(), *([0] * (len(programs) - len(shares)))]
            self._is_settled = None not in owners and max(sizes) - min(sizes) <= 1
        return self._is_settled

    def may_stay(self) -> set[str]:
        """Return the znodes that may remain: the parents of owners and members."""
        return {ABOVE, PATH, f"{PATH}/owners"}


def _believes(process: Process, partition: Any) -> bool:
    """Return whether the process would say that it owns the partition, if it looked now."""
    if process.is_killed:
        return False
    with process.seen_from_outside():
        return not partition.lost.is_set()
