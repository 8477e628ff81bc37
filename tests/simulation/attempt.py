"""One run of a plan: its report, or the kind of its failure.

Two failures are of the same kind if the same exception comes from the same function with the same
words before the first colon, ignoring numbers and paths. The minimizer keeps a smaller plan only
if its failure is of the same kind.
"""

import re
import signal
import time
import traceback
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from types import FrameType

from msgspec import Struct

from tests.harness.schedule import Trace
from tests.simulation.members.world import MembersWorld
from tests.simulation.plan import Plan
from tests.simulation.recipes.world import RecipeWorld
from tests.simulation.upgrades.world import UpgradeWorld
from tests.simulation.world import Report, World

ROOT = Path(__file__).parents[2]


class TooLongError(Exception):
    """Raised when a run exceeds its limit of processor time: it may never end."""


class Failure(Struct, frozen=True):
    """Why a run failed."""

    kind: str
    message: str
    """The first line."""
    detail: str
    """The traceback."""
    at_ms: int
    """When in virtual time."""
    is_endless: bool = False
    """Whether the run did not end by itself, so that it is not one to repeat."""


class Outcome(Struct, frozen=True):
    """The outcome of a plan: a report or a failure."""

    seed: int
    steps: int
    virtual_ms: int
    cpu_s: float
    report: Report | None
    failure: Failure | None


def attempt(plan: Plan, limit_s: float | None = None, trace: Trace | None = None) -> Outcome:
    """Run a plan once. Any exception is a failure of the run.

    Args:
        plan: The plan to run.
        limit_s: Processor seconds after which a run counts as hanging; needs the main thread.
        trace: Called with every line of the trace.
    """
    began = time.process_time()
    report, failure = None, None
    world = None
    try:
        with _time_limit(limit_s):
            world = world_of(plan, trace)
            report = world.run()
    except Exception as error:
        failure = failure_of(error, world.schedule.now if world else 0)
    return Outcome(
        plan.seed,
        world.schedule.steps if world else 0,
        world.schedule.now if world else 0,
        time.process_time() - began,
        report,
        failure,
    )


def world_of(plan: Plan, trace: Trace | None = None) -> World:
    """Create the world of a plan."""
    if plan.keeper is not None:
        # A late import: it takes Ray along, which most worlds do without.
        from tests.simulation.keepers.world import KeeperWorld

        return KeeperWorld(plan, trace)
    if plan.upgrade is not None:
        return UpgradeWorld(plan, trace)
    if plan.members is not None:
        return MembersWorld(plan, trace)
    return RecipeWorld(plan, trace) if plan.recipe else World(plan, trace)


def failure_of(error: Exception, at_ms: int) -> Failure:
    """Describe an exception as a failure."""
    frames = traceback.extract_tb(error.__traceback__)
    ours = [frame for frame in frames if _is_ours(frame.filename)]
    where = f"{Path(ours[-1].filename).stem}.{ours[-1].name}" if ours else "?"
    message = (str(error).splitlines() or [""])[0]
    if not message and ours:
        message = ours[-1].line or ""  # an assertion without a message
    return Failure(
        f"{type(error).__name__} in {where}: {_words(message)}",
        f"{type(error).__name__}: {message}",
        "".join(traceback.format_exception(error)),
        at_ms,
        isinstance(error, TooLongError),
    )


def _is_ours(filename: str) -> bool:
    path = Path(filename)
    return path.is_relative_to(ROOT) and "site-packages" not in path.parts


def _words(message: str) -> str:
    """Return the part of a message that does not depend on a znode, client or moment."""
    head = re.sub(r"/[\w/-]*", "PATH", message)
    return re.sub(r"\d+", "N", head.partition(": ")[0])


@contextmanager
def _time_limit(seconds: float | None) -> Iterator[None]:
    if seconds is None:
        yield
        return

    def interrupt(_signal: int, _frame: FrameType | None) -> None:
        raise TooLongError(f"no end within {seconds:.0f} s")

    # Processor time, not wall time: other processes may use the machine, too.
    handler = signal.signal(signal.SIGVTALRM, interrupt)
    began = time.process_time()
    outer_s, _ = signal.setitimer(signal.ITIMER_VIRTUAL, seconds)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_VIRTUAL, 0)
        signal.signal(signal.SIGVTALRM, handler)
        if outer_s:  # an outer limit continues
            left_s = outer_s - (time.process_time() - began)
            signal.setitimer(signal.ITIMER_VIRTUAL, max(left_s, 0.001))
