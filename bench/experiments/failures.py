"""Throughput over time while servers are killed and come back (Figure 8), and failover gaps.

Figure 8: five servers, 30 % writes, and the failures of the paper in its order: a follower, another
follower, the leader, two followers at once, and the leader again; each is down for a while.
Failover gaps: one client writes, one request at a time, while the leader is killed several times
and restarted at once.

A gap is the longest time around a kill in which no write of any client completed.

Paper: section 5.1, Figure 8.
"""

import time
from collections.abc import Iterator, Sequence
from enum import StrEnum
from pathlib import Path
from typing import Annotated

from msgspec import Meta, Struct

from raykeeper.bench.experiment_run import (
    Contender,
    ExperimentRun,
    contenders,
    split_task,
    warm_columns,
    warm_up,
)
from raykeeper.bench.experiments.contract import (
    Count,
    Experiment,
    Outstanding,
    Percent,
    Processes,
    Seconds,
    Sessions,
    ValueBytes,
    WarmedSizes,
)
from raykeeper.bench.loads.processes import LoadProcesses
from raykeeper.bench.loads.task import LoadReport, LoadTask
from raykeeper.bench.measures import longest_pause, percentile, series
from raykeeper.bench.plots import curves, plot_curves
from raykeeper.bench.results import Row
from raykeeper.bench.systems.contract import EnsembleShape, Servers, System, wait_for_all

_PATIENCE_S = 60.0


class FailureTarget(StrEnum):
    """The servers that a failure kills; each failure has a name, because it returns later."""

    FIRST = "a follower"
    SECOND = "another follower"
    LEADER = "the leader"
    TWO = "two followers"
    LAST = "the leader again"


class FailureEvent(Struct, frozen=True):
    """A failure, or the return of the killed servers."""

    at_s: float
    target: FailureTarget
    is_return: bool

    @property
    def label(self) -> str:
        """Return the text for the progress."""
        return f"{self.target} {'returns' if self.is_return else 'fails'}"


class Figure8Sizes(WarmedSizes, frozen=True, kw_only=True):
    """How large the load is."""

    servers: Annotated[
        int, Meta(ge=5, le=255, description="servers that vote; two fail at once")
    ] = 5
    reads: Annotated[Percent, Meta(description="share of reads")] = 70
    clients: Sessions = 12
    outstanding: Outstanding = 100
    processes: Processes = 6
    seconds: Annotated[Seconds, Meta(description="the whole run")] = 120.0
    step_s: Annotated[Seconds, Meta(description="length of a sample")] = 0.5
    value_bytes: ValueBytes = 1024


class FailoverSizes(WarmedSizes, frozen=True, kw_only=True):
    """How large the load is."""

    servers: Annotated[Count, Meta(description="servers that vote")] = 3
    kills: Annotated[Count, Meta(description="kills of the leader")] = 10
    seconds: Annotated[Seconds, Meta(description="of writes around each kill")] = 8.0
    value_bytes: ValueBytes = 1024


def plan_of(seconds: float) -> list[FailureEvent]:
    """Return the failures of Figure 8, spread evenly over the time."""
    order = [(victim, is_return) for victim in FailureTarget for is_return in (False, True)]
    return [
        FailureEvent(seconds * (index + 1) / (len(order) + 1), victim, is_return)
        for index, (victim, is_return) in enumerate(order)
    ]


def run_figure8(run: ExperimentRun, sizes: Figure8Sizes) -> Iterator[Row]:
    """Yield a row for each sample, and one for each kill."""
    run.expect(len(FailureTarget) * 2)
    for system in run.systems:
        for client in system.clients:
            # Each client kind begins with all servers, on empty disks.
            with run.ensemble(system, EnsembleShape(sizes.servers)) as servers:
                yield from _failures(run, sizes, system, client, servers)


def _failures(
    run: ExperimentRun, sizes: Figure8Sizes, system: System, client: str, servers: Servers
) -> Iterator[Row]:
    task = LoadTask(
        kind="mixed",
        client=client,
        where=servers.where(),
        number=0,
        clients=sizes.clients,
        outstanding=sizes.outstanding,
        reads_percent=sizes.reads,
        seconds=sizes.seconds,
        value_bytes=sizes.value_bytes,
    )
    with servers.load(client, split_task(task, sizes.processes)) as load:
        run.step(f"{system.name} ({client}): warm up")
        warm = warm_up(sizes.warm_up_bounds, servers, load)
        first: Row = {"system": system.name, "client": client, **warm_columns(warm)}
        began = load.begin()
        kills = []
        inflict = _Failures(servers)
        for moment in plan_of(sizes.seconds):
            run.step(f"{system.name} ({client}): {moment.label}")
            inflict.prepare(moment)
            time.sleep(max(0.0, began + moment.at_s - time.monotonic()))
            at = inflict.perform(moment)
            if not moment.is_return:
                kills.append((moment, at))
            run.done(first)
        reports = load.reports(sizes.seconds + _PATIENCE_S)
    for at_s, ops_per_s in series(
        [report.counts for report in reports], (began, began + sizes.seconds), sizes.step_s
    ):
        yield {**first, "kind": "sample", "at_s": at_s, "ops_per_s": ops_per_s}
    for moment, at in kills:
        yield {
            **first,
            "kind": "kill",
            "at_s": at - began,
            "victim": str(moment.target),
            "gap_ms": _gap_ms(reports, at, sizes.seconds / (2 * len(FailureTarget) + 1)),
            "errors": sum(report.errors for report in reports),
        }


def _gap_ms(reports: Sequence[LoadReport], at: float, seconds: float) -> float:
    """Return the longest pause of all writes in the time after a kill."""
    return longest_pause([report.pauses for report in reports], (at, at + seconds)) * 1000


class _Failures:
    """Kills servers and starts them again."""

    def __init__(self, servers: Servers) -> None:
        self._servers = servers
        self._chosen: list[int] = []
        self._away: list[int] = []
        self._spared: list[int] = []

    def prepare(self, moment: FailureEvent) -> None:
        """Choose the servers to kill in advance, because that takes a while."""
        if moment.is_return:
            return
        leader = self._servers.leader()
        followers = [i + 1 for i in range(self._servers.shape.servers) if i + 1 != leader]
        if moment.target in (FailureTarget.LEADER, FailureTarget.LAST):
            self._chosen = [leader]
            return
        # Prefer followers that were not killed before.
        fresh = [i for i in followers if i not in self._spared] or followers
        self._chosen = fresh[: 2 if moment.target is FailureTarget.TWO else 1]
        self._spared += self._chosen

    def perform(self, moment: FailureEvent) -> float:
        """Kill or start the servers, and return the moment."""
        if moment.is_return:
            for server in self._away:
                self._servers.start(server)
            self._away = []
            return time.monotonic()
        at = [self._servers.kill(server) for server in self._chosen]
        self._away = self._chosen
        return at[0]


def run_failover(run: ExperimentRun, sizes: FailoverSizes) -> Iterator[Row]:
    """Yield a row for each kill, and one for all of them."""
    run.expect(sizes.kills)
    for system, servers in run.ensembles([sizes.servers]):
        for number, contender in enumerate(contenders(system, servers)):
            yield from _kills(run, sizes, contender, number)


def _kills(
    run: ExperimentRun, sizes: FailoverSizes, contender: Contender, number: int
) -> Iterator[Row]:
    """Kill the leader again and again; one session goes on, and warms the servers before each."""
    servers = contender.servers
    task = LoadTask(
        kind="mixed",
        client=contender.client,
        where=servers.where(),
        number=number,
        seconds=sizes.seconds,
        value_bytes=sizes.value_bytes,
    )
    gaps = []
    with servers.load(contender.client, [task]) as load:
        for kill in range(1, sizes.kills + 1):
            run.step(f"{contender}, kill {kill} of {sizes.kills}")
            wait_for_all(servers, _PATIENCE_S)
            warm = warm_up(sizes.warm_up_bounds, servers, load)
            gap_ms = _one_gap_ms(servers, load, sizes.seconds)
            gaps.append(gap_ms)
            row: Row = {**contender.columns, "kind": "kill", "kill": kill, "gap_ms": gap_ms}
            yield run.done({**row, **warm_columns(warm)})
    yield {
        **contender.columns,
        "kind": "all",
        "median_ms": percentile(gaps, 50),
        "worst_ms": max(gaps),
    }


def _one_gap_ms(servers: Servers, load: LoadProcesses, seconds: float) -> float:
    leader = servers.leader()
    load.begin()
    time.sleep(seconds / 4)
    at = servers.crash(leader)
    return _gap_ms(load.reports(seconds + _PATIENCE_S), at, seconds)


def _plot_figure8(path: Path, rows: Sequence[Row]) -> None:
    lines = curves(rows, "at_s", "ops_per_s", ("system", "client"))
    kills = [row for row in rows if row["kind"] == "kill"]
    first = kills[: len(FailureTarget)]
    marks = {f"{i + 1}. {row['victim']}": float(row["at_s"]) for i, row in enumerate(first)}
    plot_curves(path, "Throughput upon failures", lines, ("s", "operations/s"), marks=marks)


def _plot_failover(path: Path, rows: Sequence[Row]) -> None:
    lines = {}
    for label, points in curves(rows, "kill", "gap_ms", ("system", "client")).items():
        ordered = sorted(gap for _, gap in points)
        lines[label] = [(float(i + 1), gap) for i, gap in enumerate(ordered)]
    plot_curves(path, "Pause of writes after a kill of the leader", lines, ("kills, sorted", "ms"))


FIGURE8 = Experiment(
    name="figure8",
    title="Throughput over time upon failures, and the gaps (Figure 8)",
    sizes=Figure8Sizes,
    quick=Figure8Sizes(
        clients=2, outstanding=5, processes=1, seconds=11.0, warm_least_s=0.4, warm_most_s=1.0
    ),
    run=run_figure8,
    plot=_plot_figure8,
    by=("kind", "victim"),
    values=("gap_ms",),
    is_less_better=True,
)
FAILOVER = Experiment(
    name="failover",
    title="Pause of a client's writes when the leader is killed",
    sizes=FailoverSizes,
    quick=FailoverSizes(kills=1, seconds=3.0, warm_least_s=0.4, warm_most_s=1.0),
    run=run_failover,
    plot=_plot_failover,
    by=("servers", "kind"),
    values=("median_ms",),
    is_less_better=True,
)
