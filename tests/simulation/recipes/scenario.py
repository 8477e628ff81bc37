"""The acts of members with a recipe, and the checks by an observer who sees all of them.

While there are faults, members act and give up at random. After the faults `is_ending` is set: then
each member acts once more, with patience, and ends.
"""

from collections import Counter
from collections.abc import Callable
from random import Random
from typing import TYPE_CHECKING, Final

from tests.harness.schedule import Schedule
from tests.simulation.checks.truth import Truth
from tests.simulation.plan import Fault, FaultKind
from tests.simulation.recipes.process import Process
from tests.simulation.recipes.script import Script

if TYPE_CHECKING:
    from tests.simulation.recipes.member import Member

ABOVE = "/recipes"
"""What recipes make to stay is this one only."""

INJECTED_SHARE: Final = 0.05
CLIENT_FAULTS: Final = (
    *(FaultKind.CLIENT_FREEZES, FaultKind.CLIENT_FREEZES, FaultKind.CLIENT_RETURNS),
    *(
        FaultKind.CLIENT_WAKES,
        FaultKind.CLIENT_DIES,
        FaultKind.CLIENT_KILLED,
        FaultKind.BREAK_CLIENT,
    ),
)


class Scenario:
    """One run of a recipe."""

    def __init__(self, schedule: Schedule, truth: Truth) -> None:
        self.schedule = schedule
        self.truth = truth
        """What has been committed, with its past."""
        self.inject: Callable[[Fault], None] = lambda fault: None
        """Injects a fault; does nothing in a world without faults."""
        self.members: list[Member] = []
        self.is_ending = False
        self.counts: Counter[str] = Counter()
        self.random = schedule.stream(f"scenario.{type(self).__name__}")
        self._beat_ms = self.random.choice([1, 1, 20, 100])

    def scripts(self, process: Process) -> list[Script]:
        """Return the scripts of a new process."""
        raise NotImplementedError

    def look(self) -> None:
        """Check the members after each step of the world."""

    def is_done(self) -> bool:
        """Return, once the faults are over, whether all members got what they waited for."""
        return all(member.program is not None and member.program.is_done for member in self.members)

    def why_not(self) -> str:
        """Describe which members still wait."""
        return ", ".join(
            f"{member.program.name} {[script.is_done for script in member.program.scripts]}"
            for member in self.members
            if member.program is not None
        )

    def may_stay(self) -> set[str]:
        """Return the znodes that may remain when all members have ended."""
        return {ABOVE}

    def pause_ms(self, ms: int) -> int:
        """Return how long a pause takes. In half of the runs pauses end at common beats.

        Then several members act between any two requests of one.
        """
        return ms + -(self.schedule.now + ms) % self._beat_ms

    def finish(self) -> None:
        """Check the result when all members have ended."""

    def maybe_inject(self, process: Process) -> None:
        """Sometimes inject a fault of the client now, in a critical step of the recipe."""
        random = self.random
        if self.is_ending or random.random() > INJECTED_SHARE:
            return
        fault = Fault(
            0,
            random.choice(CLIENT_FAULTS),
            process.member.number,
            (random.randint(1, 3),),
            random.choice([10, 500, 1_500, 3_000, 6_000]),
            random.choice([5, 50, 300, 1_000]),
        )
        inject = lambda: None if self.is_ending else self.inject(fault)  # noqa: E731
        self.schedule.after(random.choice([0, 0, 1, 5, 20]), inject)

    def say(self, process: Process, text: str) -> None:
        """Write a line to the trace."""
        if self.schedule.trace is not None:
            self.schedule.say(f"client {process.member.name} {text}")


def span(random: Random, *often: int) -> int:
    """Return a random time near one of these."""
    return random.randint(0, random.choice(often))


def patience(random: Random) -> int | None:
    """Return how long a script waits for a call before it gives up; None for ever."""
    return span(random, 5, 50, 500, 3_000) if random.random() < 0.3 else None


def timeout_s(random: Random) -> float | None:
    """Return a timeout for a recipe."""
    drawn = random.random()
    if drawn < 0.5:
        return None
    return 0 if drawn < 0.6 else span(random, 20, 300, 3_000) / 1000
