"""Queues: one consumer per element, none lost except with its consumer, the first one first."""

from typing import Any, Final

from raykeeper.client.errors import WaitTimeoutError
from raykeeper.zab.ids import ZERO, Zxid
from tests.harness.schedule import Schedule
from tests.simulation.checks.truth import Truth
from tests.simulation.recipes.process import Process
from tests.simulation.recipes.scenario import ABOVE, Scenario, patience, span, timeout_s
from tests.simulation.recipes.script import GaveUpError, Pause, Script, Within

PATH: Final = f"{ABOVE}/queue"
ELEMENTS: Final = f"{PATH}/elements"
ROOM: Final = 4


class QueueScenario(Scenario):
    """Producers and consumers; sometimes the queue is bounded."""

    has_priorities = False

    def __init__(self, schedule: Schedule, truth: Truth) -> None:
        super().__init__(schedule, truth)
        self._bound = self.random.choice([None, ROOM])
        self._put: dict[bytes, bool] = {}  # for each element, whether its put was acknowledged
        self._got: dict[bytes, str] = {}
        self._asking = 0  # calls that ended with an unknown result

    def scripts(self, process: Process) -> list[Script]:
        """Return one or two scripts of each kind."""
        queue: Any = self.queue_of(process)
        random = process.random
        return [self._produce(process, queue), self._consume(process, queue)] + [
            self._consume(process, queue) for _ in range(random.choice([0, 1]))
        ]

    def queue_of(self, process: Process) -> Any:
        """Return the queue."""
        return process.queue(PATH, self._bound)

    def _produce(self, process: Process, queue: Any) -> Script:
        random, count = process.random, 0
        while not self.is_ending:
            yield Pause(span(random, 20, 200))
            self.maybe_inject(process)
            count += 1
            value = f"{process.name}.{count}".encode()
            self._put[value] = False
            options = {"priority": random.choice([1, 100, 100])} if self.has_priorities else {}
            call = queue.put(value, **options, timeout_s=timeout_s(random))
            try:
                yield Within(call, patience(random))
            except WaitTimeoutError:
                self.counts["recipe.full"] += 1
            except GaveUpError:
                self.counts["recipe.given_up"] += 1
            else:
                self._put[value] = True
                self.counts["recipe.put"] += 1

    def _consume(self, process: Process, queue: Any) -> Script:
        random = process.random
        while not self.is_done_with(process):
            yield Pause(span(random, 0, 20, 200))
            self.maybe_inject(process)
            known = process.core.last_zxid
            self._asking += 1
            try:
                limit_s = 3 if self.is_ending else span(random, 100, 1_000) / 1_000
                limit_ms = None if self.is_ending else patience(random)
                element = yield Within(queue.get(limit_s), limit_ms)
            except (WaitTimeoutError, GaveUpError):
                self._gives_back(process)
                self.counts["recipe.given_up"] += 1
                continue
            self._asking -= 1
            self.counts["recipe.got"] += 1
            self._takes(process, element, known)

    def _gives_back(self, process: Process) -> None:
        """Expect an abandoned call to give its element back, if the session lives long enough."""

        def all_is_back() -> None:
            if process.may_act:
                self._asking -= 1

        process.flows.when_cleaned_up(all_is_back)

    def is_done_with(self, process: Process) -> bool:
        """Return whether all elements are taken, at the end."""
        elements = self.truth.znodes.get(ELEMENTS)
        return self.is_ending and not (elements and elements.children)

    def _takes(self, process: Process, element: Any, known: Zxid) -> None:
        value = bytes(element)
        assert value in self._put, f"Elements: {value!r} was never put"
        assert value not in self._got, (
            f"Elements: {value!r} to {process.name} and {self._got[value]}"
        )
        self._got[value] = process.name
        own = element.path.rpartition("/")[2]
        for path in list(self.truth.paths()):
            above, _, name = path.rpartition("/")
            if above != ELEMENTS or not name < own or self.truth.at(path, known) is None:
                continue
            past = [was for _, was in self.truth.between(path, known, self.truth.zxid)]
            was_back = len([was for _, was in self.truth.between(path, ZERO, known)]) > 2
            assert None in past or was_back, f"Order: {own} is taken before {name}"

    def may_stay(self) -> set[str]:
        """Return the znodes that may remain: the parent of the elements, and late elements."""
        left = self._left()
        return {ABOVE, PATH, ELEMENTS, *left}

    def _left(self) -> dict[str, bytes]:
        znodes = self.truth.znodes
        found = znodes.get(ELEMENTS)
        paths = [f"{ELEMENTS}/{name}" for name in sorted(found.children)] if found else []
        return {path: znodes[path].value for path in paths}

    def finish(self) -> None:
        """Check that each element was taken, or lost with a consumer whose session ended."""
        lost = [
            value for value, is_known in self._put.items() if is_known and value not in self._got
        ]
        assert len(lost) <= self._asking, f"Elements: {lost}, and {self._asking} ended as they took"
        for path in self.truth.paths():
            if path.rpartition("/")[0] == ELEMENTS:
                was = next(was for _, was in self.truth.between(path, ZERO, self.truth.zxid) if was)
                assert was.value in self._put, f"Elements: {was.value!r}"


class PriorityQueueScenario(QueueScenario):
    """A queue with the lowest priority number first."""

    has_priorities = True

    def queue_of(self, process: Process) -> Any:
        """Return the queue."""
        return process.priority_queue(PATH, self._bound)
