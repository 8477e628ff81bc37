"""Whether the cost of a request grows with the number of znodes, watches and sessions.

Each size of each population (see populated_servers.py) has a process with a pure server; no
network, no disk, no Ray. The processes take turns, round by round, so a slow moment of the machine
affects all sizes, and the ratio to the smallest size compares costs of one round. The experiment
also measures the memory of each size.
"""

import multiprocessing
import statistics
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Annotated, Any

from msgspec import Meta, Struct

from raykeeper.bench.errors import BenchError
from raykeeper.bench.experiment_run import ExperimentRun
from raykeeper.bench.experiments.contract import Count, Experiment
from raykeeper.bench.plots import curves, plot_curves
from raykeeper.bench.populated_servers import POPULATIONS, Costs, serve
from raykeeper.bench.results import OURS, Row

_PATIENCE_S = 600.0


class GrowthSizes(Struct, frozen=True, kw_only=True):
    """How large the load is."""

    counts: Annotated[
        tuple[Count, ...], Meta(min_length=1, description="znodes, watches and sessions")
    ] = (1_000, 10_000, 100_000, 1_000_000)
    requests: Annotated[Count, Meta(description="of each kind in a round")] = 2_000
    rounds: Annotated[Count, Meta(description="of which the median counts")] = 9


def run_growth(run: ExperimentRun, sizes: GrowthSizes) -> Iterator[Row]:
    """Yield a row for each size and request, and one for the memory of each size."""
    counts = sorted(set(sizes.counts))
    run.expect(len(POPULATIONS) * (len(counts) + sizes.rounds))
    for what in POPULATIONS:
        with ExitStack() as crowds:
            pipes = []
            for count in counts:
                run.step(f"{count} {what}")
                size, pipe = crowds.enter_context(_crowd(what, count, sizes.requests))
                pipes.append(pipe)
                each = size / count
                yield run.done(
                    {**_row(what, count, "memory"), "mb": size / 1e6, "bytes_each": each}
                )
            rounds = []
            for _ in range(sizes.rounds):
                run.step(f"{what}: requests")
                rounds.append([_round(pipe) for pipe in pipes])
                run.done({})
        yield from summary(what, counts, rounds)


def summary(what: str, counts: Sequence[int], rounds: Sequence[Sequence[Costs]]) -> Iterator[Row]:
    """Return medians over the rounds, each of which has the costs of every size."""
    for request in rounds[0][0]:
        for place, count in enumerate(counts):
            costs = [each[place][request] for each in rounds]
            ratios = [each[place][request] / each[0][request] for each in rounds]
            yield {
                **_row(what, count, request),
                "us": statistics.median(costs),
                "of_smallest": statistics.median(ratios),
            }


def _row(what: str, count: int, request: str) -> Row:
    return {"system": OURS, "client": "core", "of": what, "count": count, "request": request}


@contextmanager
def _crowd(what: str, count: int, requests: int) -> Iterator[tuple[int, Connection]]:
    """Start the process of a population; yield its bytes, and the pipe that requests rounds."""
    context = multiprocessing.get_context("spawn")
    ours, theirs = context.Pipe()
    process = context.Process(target=serve, args=(theirs, what, count, requests), daemon=True)
    process.start()
    theirs.close()
    try:
        yield int(_told(ours)), ours
    finally:
        process.kill()
        process.join()
        ours.close()


def _round(pipe: Connection) -> Costs:
    pipe.send(True)
    costs: Costs = _told(pipe)
    return costs


def _told(pipe: Connection) -> Any:
    try:
        if pipe.poll(_PATIENCE_S):
            return pipe.recv()
    except EOFError:
        raise BenchError("a measured process has ended; perhaps the memory is full") from None
    raise BenchError(f"a measured process did not answer for {_PATIENCE_S:g} s")


def _plot(path: Path, rows: Sequence[Row]) -> None:
    lines = curves(rows, "count", "us", ("of", "request"))
    axes = ("znodes, watches, sessions", "µs of processor time")
    plot_curves(path, "The cost of a request", lines, axes, is_log_x=True)


GROWTH = Experiment(
    name="growth",
    title="The core alone: cost of a request over the number of znodes, watches, sessions",
    sizes=GrowthSizes,
    quick=GrowthSizes(counts=(100, 1_000), requests=100, rounds=1),
    run=run_growth,
    plot=_plot,
    by=("of", "count", "request"),
    values=("us",),
    is_less_better=True,
    is_alone=True,
)
