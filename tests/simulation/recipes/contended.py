"""Scenarios in which members contend for something: acquire it, hold it for a while, release it.

The scenarios of all locks are of this kind. They differ in what can be acquired, and in which
holders may coexist.
"""

from collections.abc import Callable
from typing import Any, ClassVar

from raykeeper.client.errors import WaitTimeoutError
from tests.simulation.recipes.process import Process
from tests.simulation.recipes.scenario import Scenario, patience, span, timeout_s
from tests.simulation.recipes.script import GaveUpError, Pause, Script, Within

Acquire = Callable[[float | None], Any]
"""With a bound in seconds: the call that gets it."""
Got = Callable[[Any], None]
"""Told what a script was given."""
Way = tuple[Acquire, Got]


class Contended(Scenario):
    """One or two threads of each process acquire it, one after the other."""

    threads = (1, 1, 2)
    refusals: ClassVar[tuple[type[Exception], ...]] = ()
    """The errors of an acquire that is refused for a while."""

    def ways(self, process: Process) -> list[Way]:
        """Return the objects that can be acquired, for all threads of a process."""
        raise NotImplementedError

    def scripts(self, process: Process) -> list[Script]:
        """Return the scripts of the threads, which share recipe objects, as they may."""
        ways = self.ways(process)
        return [self.work(process, ways) for _ in range(process.random.choice(self.threads))]

    def work(self, process: Process, ways: list[Way], more: Any = None) -> Script:
        """Run one thread; at the end it acquires once more, with patience. `more` is for `use`."""
        random = process.random
        while not self.is_ending:
            yield Pause(span(random, 20, 200))
            acquire, got = random.choice(ways)
            self.maybe_inject(process)
            is_alone = len(process.scripts) == 1 and not process.flows.is_cleaning_up
            try:
                held = yield Within(acquire(timeout_s(random)), patience(random))
            except (WaitTimeoutError, GaveUpError, *self.refusals) as error:
                self.counts["recipe.given_up"] += 1
                if isinstance(error, WaitTimeoutError) and is_alone:
                    self._check_nothing_is_left(process, error)
                continue
            yield from self._hold(process, held, got, more)
        for acquire, got in ways:
            held = None
            while held is None:
                try:
                    held = yield acquire(None)
                except self.refusals:
                    yield Pause(span(random, 200))
            yield from self._hold(process, held, got, more)

    def _check_nothing_is_left(self, process: Process, error: WaitTimeoutError) -> None:
        """Check that a caller with a server is told of its timeout when all is given back."""
        session = self.truth.sessions.get(process.core.session_id)
        if session is not None and "as soon as a server answers" not in str(error):
            self.counts["recipe.given_back"] += 1
            assert not session.ephemerals, f"GivenBack: {process.name} has {session.ephemerals}"

    def use(self, process: Process, held: Any, more: Any) -> Script:
        """Do what a holder does while it holds."""
        yield Pause(span(process.random, 0, 20, 300, 1_000))

    def _hold(self, process: Process, held: Any, got: Got, more: Any) -> Script:
        got(held)
        self.counts["recipe.granted"] += 1
        self.maybe_inject(process)
        yield from self.use(process, held, more)
        if process.random.random() < 0.1:
            held.lost.check()
        self.maybe_inject(process)
        yield held.release()
