"""What the members of a world do with a recipe, and what is judged by somebody who sees them all.

While there are faults, members work at random, and give up at random. After the faults `is_ending`
is set: then each does what it does once more, with patience, and comes to an end.
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

TEMPTED_SHARE: Final = 0.05
HURTFUL: Final = (
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
        """Brings a fault about; nothing in a world without any."""
        self.members: list[Member] = []
        self.is_ending = False
        self.counts: Counter[str] = Counter()
        self.random = schedule.stream(f"scenario.{type(self).__name__}")

    def scripts(self, process: Process) -> list[Script]:
        """What a new process does."""
        raise NotImplementedError

    def look(self) -> None:
        """After each step of the world."""

    def is_done(self) -> bool:
        """When the faults are over: whether everybody got what it waited for."""
        return all(member.program is not None and member.program.is_done for member in self.members)

    def why_not(self) -> str:
        """Who still waits."""
        return ", ".join(
            f"{member.program.name} {[script.is_done for script in member.program.scripts]}"
            for member in self.members
            if member.program is not None
        )

    def may_stay(self) -> set[str]:
        """The znodes that may be there when everybody has ended."""
        return {ABOVE}

    def finish(self) -> None:
        """When everybody has ended: whether the result is right."""

    def tempt(self, process: Process) -> None:
        """A moment of the recipe's own, at which a fault hurts most: now and then one comes."""
        random = self.random
        if self.is_ending or random.random() > TEMPTED_SHARE:
            return
        fault = Fault(
            0,
            random.choice(HURTFUL),
            process.member.number,
            (random.randint(1, 3),),
            random.choice([10, 500, 1_500, 3_000, 6_000]),
            random.choice([5, 50, 300, 1_000]),
        )
        strike = lambda: None if self.is_ending else self.inject(fault)  # noqa: E731
        self.schedule.after(random.choice([0, 0, 1, 5, 20]), strike)

    def say(self, process: Process, text: str) -> None:
        """Tell the trace."""
        if self.schedule.trace is not None:
            self.schedule.say(f"client {process.member.name} {text}")


def span(random: Random, *often: int) -> int:
    """A random time around one of these."""
    return random.randint(0, random.choice(often))


def patience(random: Random) -> int | None:
    """How long somebody waits for a call before it thinks better of it; None for ever."""
    return span(random, 5, 50, 500, 3_000) if random.random() < 0.3 else None


def timeout_s(random: Random) -> float | None:
    """How long a recipe is told to wait."""
    drawn = random.random()
    if drawn < 0.5:
        return None
    return 0 if drawn < 0.6 else span(random, 20, 300, 3_000) / 1000
