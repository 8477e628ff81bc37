"""Run many seeds on all cores: a progress bar, minimized failures, a summary."""

import os
import signal
import time
from collections import deque
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path

from msgspec import Struct
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

from tests.simulation.attempt import ROOT, Failure, Outcome, attempt
from tests.simulation.draw import draw_plan
from tests.simulation.minimize import Minimized, minimize
from tests.simulation.plan import Plan
from tests.simulation.plan_file import name_of, write_plan
from tests.simulation.summary import Failed, Tally, show, show_recipe
from tests.simulation.workers import Lost, Workers

SEED_LIMIT_S = 120.0
"""Of a core. A run takes a fraction of a second."""
MINIMIZE_LIMIT_S = 120.0
GRACE_S = 600.0
"""How much later than a run ends itself a silent process is killed: cores may be shared."""
FOLDER = ROOT / "build" / "simulation"
"""Where the minimized plans of failing seeds are written."""


class RunSeed(Struct, frozen=True):
    """A job: run a seed, of a recipe if one is named."""

    seed: int
    recipe: str = ""


class Shrink(Struct, frozen=True):
    """A job: minimize a failing plan."""

    plan: Plan
    failure: Failure


Job = RunSeed | Shrink


class Options(Struct, frozen=True):
    """The options of a simulation."""

    first: int
    seeds: int
    jobs: int
    failures_max: int = 10
    """No new seeds are begun after so many failed ones."""
    seed_limit_s: float = SEED_LIMIT_S
    minimize_limit_s: float = MINIMIZE_LIMIT_S
    is_minimizing: bool = True
    folder: Path = FOLDER
    recipe: str = ""


def cores() -> int:
    """Return the number of cores that this process may use."""
    return len(os.sched_getaffinity(0))


def simulate(options: Options, console: Console, prepare: Callable[[], None] | None = None) -> int:
    """Run the seeds, print failures and the summary. Ctrl-C ends it with the summary so far.

    Args:
        options: The seeds and their limits.
        console: Gets the progress and the summary.
        prepare: Called first in each process; a mutation changes the code under test there.

    Returns:
        The exit code: 0 when all passed, 1 when one failed, 130 when interrupted.
    """
    simulation = _Simulation(options, console)
    is_whole = simulation.run(prepare)
    if simulation.tally.failed:
        return 1
    return 0 if is_whole else 130


class _Simulation:
    """The seeds that are left, the failures to minimize, and the tally so far."""

    def __init__(self, options: Options, console: Console) -> None:
        self._options = options
        self._console = console
        self._seeds = iter(range(options.first, options.first + options.seeds))
        self._shrinks: deque[Shrink] = deque()
        self.tally = Tally()

    def run(self, prepare: Callable[[], None] | None) -> bool:
        """Run all jobs; return whether the simulation was not interrupted."""
        options = self._options
        task = partial(_do, options.seed_limit_s, options.minimize_limit_s)
        workers = Workers[Job, Outcome | Minimized](options.jobs, task, self._limit_s, prepare)
        began = time.monotonic()
        with Progress(
            TextColumn("seeds from {task.fields[first]}"),
            BarColumn(),
            MofNCompleteColumn(),
            TextColumn("{task.fields[failed]} failed"),
            TimeRemainingColumn(),
            console=self._console,
        ) as progress:
            bar = progress.add_task("", total=options.seeds, first=options.first, failed=0)
            with _interrupts() as interrupts:
                for job, answer in workers.run(self._next_job, lambda: bool(interrupts)):
                    self._take(job, answer)
                    failed = len(self.tally.failed)
                    progress.update(bar, completed=self.tally.runs, failed=failed)
        if interrupts:
            self._console.print("interrupted; the summary so far:")
        wall_s = time.monotonic() - began
        if options.recipe:
            show_recipe(options.recipe, self.tally, wall_s, self._console)
        else:
            show(self.tally, wall_s, self._console)
        return not interrupts

    def _next_job(self) -> Job | None:
        if self._shrinks:
            return self._shrinks.popleft()
        if len(self.tally.failed) >= self._options.failures_max:
            return None
        seed = next(self._seeds, None)
        return None if seed is None else RunSeed(seed, self._options.recipe)

    def _limit_s(self, job: Job) -> float:
        limits = self._options
        own = limits.seed_limit_s if isinstance(job, RunSeed) else limits.minimize_limit_s
        return own + limits.seed_limit_s * isinstance(job, Shrink) + GRACE_S

    def _take(self, job: Job, answer: Outcome | Minimized | Lost) -> None:
        if isinstance(job, Shrink):
            self._take_shrunk(job, answer)
            return
        if isinstance(answer, Lost):
            lost = Failure("process lost", answer.reason, answer.reason, 0, is_endless=True)
            answer = Outcome(job.seed, 0, 0, 0.0, None, lost)
        assert isinstance(answer, Outcome)
        self.tally.add(answer)
        if answer.failure is not None:
            self._take_failure(answer.seed, answer.failure)

    def _take_failure(self, seed: int, failure: Failure) -> None:
        recipe = self._options.recipe
        replay = f"python -m tests.simulation --seed {seed}{f' --recipe {recipe}' * bool(recipe)}"
        self.tally.failed.append(Failed(seed, failure, replay))
        # A plan that hangs or kills its process cannot be tried hundreds of times.
        if self._options.is_minimizing and not failure.is_endless:
            self._say(f"seed {seed} failed, minimizing: {failure.kind}")
            self._shrinks.append(Shrink(draw_plan(seed, recipe), failure))
        else:
            self._report(seed, failure)

    def _take_shrunk(self, job: Shrink, answer: Outcome | Minimized | Lost) -> None:
        seed, failure = job.plan.seed, job.failure
        if isinstance(answer, Lost):
            self._say(f"seed {seed} could not be minimized: {answer.reason}")
        else:
            assert isinstance(answer, Minimized)
            failure = answer.failure
            path = self._options.folder / f"{name_of(seed, self._options.recipe)}.json"
            write_plan(path, failure.kind, answer.plan)
            self._say(
                f"seed {seed}: {len(job.plan.faults)} faults made {len(answer.plan.faults)} in "
                f"{answer.runs} runs; python -m tests.simulation --plan {path}"
            )
            self._say(path.read_text())
        self._report(seed, failure)

    def _report(self, seed: int, failure: Failure) -> None:
        self._say(failure.detail)
        self._say(f"seed {seed} failed: {failure.message}", style="bold red")

    def _say(self, text: str, style: str = "default") -> None:
        self._console.print(text, style=style, markup=False, highlight=False, soft_wrap=True)


@contextmanager
def _interrupts() -> Iterator[list[int]]:
    """Collect Ctrl-C in a list: raised as an exception it could be lost in a finalizer."""
    interrupts: list[int] = []
    before = signal.signal(signal.SIGINT, lambda number, _frame: interrupts.append(number))
    try:
        yield interrupts
    finally:
        signal.signal(signal.SIGINT, before)


def _do(seed_limit_s: float, minimize_limit_s: float, job: Job) -> Outcome | Minimized:
    """Run a job in a worker."""
    if isinstance(job, RunSeed):
        return attempt(draw_plan(job.seed, job.recipe), seed_limit_s)
    limited = partial(attempt, limit_s=seed_limit_s)
    return minimize(job.plan, job.failure, limited, seconds_max=minimize_limit_s)
