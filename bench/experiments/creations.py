"""The rate of creations: Table 2, and sequential against pipelined creations.

Table 2: each worker creates a znode of 1 KB, waits for the answer, deletes it without waiting, and
repeats. The second experiment checks section 2.3: changing a configuration of 5 000 znodes takes a
fraction of the time if the client does not wait for each request. The warm-up of the second
one deletes what it creates.

Paper: sections 5.2 and 2.3.
"""

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Annotated

from msgspec import Meta

from raykeeper.bench.experiment_run import (
    ExperimentRun,
    contenders,
    measure_warm,
    warm_columns,
)
from raykeeper.bench.experiments.contract import (
    Count,
    Ensembles,
    Experiment,
    ValueBytes,
    WarmedSizes,
)
from raykeeper.bench.loads.task import Kind, LoadTask
from raykeeper.bench.plots import curves, plot_bars, plot_curves
from raykeeper.bench.results import Row


class Table2Sizes(WarmedSizes, frozen=True, kw_only=True):
    """How large the load is."""

    servers: Ensembles = (3, 5)
    workers: Annotated[tuple[Count, ...], Meta(min_length=1, description="numbers of workers")] = (
        1,
        10,
        20,
    )
    creates: Annotated[Count, Meta(description="znodes that each worker creates")] = 5_000
    processes: Annotated[Count, Meta(description="processes of workers")] = 4
    value_bytes: ValueBytes = 1024


class ZnodesSizes(WarmedSizes, frozen=True, kw_only=True):
    """How large the load is."""

    servers: Ensembles = (3,)
    znodes: Annotated[Count, Meta(description="znodes that are created")] = 5_000
    value_bytes: ValueBytes = 1024


def run_table2(run: ExperimentRun, sizes: Table2Sizes) -> Iterator[Row]:
    """Measure creations per second."""
    run.expect(len(sizes.servers) * len(sizes.workers))
    for system, servers in run.ensembles(sizes.servers):
        number = 0
        for workers in sizes.workers:
            for contender in contenders(system, servers):
                run.step(f"{contender}, {workers} workers")
                task = LoadTask(
                    kind="creates",
                    client=contender.client,
                    where=servers.where_each(),
                    number=number,
                    clients=workers,
                    count=sizes.creates,
                    value_bytes=sizes.value_bytes,
                )
                number += sizes.processes
                warm, measured = measure_warm(sizes.warm_up_bounds, servers, task, sizes.processes)
                created = sum(report.done for report in measured.reports)
                yield run.done(
                    {
                        **contender.columns,
                        "workers": workers,
                        "creates_per_s": created / measured.seconds,
                        "mean_ms": workers * measured.seconds / created * 1000,
                        **warm_columns(warm),
                        **measured.columns(),
                    }
                )


def run_znodes(run: ExperimentRun, sizes: ZnodesSizes) -> Iterator[Row]:
    """Measure the seconds that all creations take."""
    ways: tuple[Kind, ...] = ("one_by_one", "pipelined")
    run.expect(len(sizes.servers) * len(ways))
    for system, servers in run.ensembles(sizes.servers):
        for number, contender in enumerate(contenders(system, servers)):
            for way in ways:
                run.step(f"{contender}, {sizes.znodes} znodes, {way}")
                task = LoadTask(
                    kind=way,
                    client=contender.client,
                    where=servers.where(),
                    number=number,
                    outstanding=sizes.znodes,
                    count=sizes.znodes,
                    value_bytes=sizes.value_bytes,
                )
                warm, measured = measure_warm(sizes.warm_up_bounds, servers, task)
                yield run.done(
                    {
                        **contender.columns,
                        "way": way,
                        "znodes": sizes.znodes,
                        "seconds": measured.seconds,
                        **warm_columns(warm),
                        **measured.columns(),
                    }
                )


def _plot_table2(path: Path, rows: Sequence[Row]) -> None:
    lines = curves(rows, "workers", "creates_per_s", ("system", "client", "servers"))
    plot_curves(path, "Create requests processed per second", lines, ("workers", "creates/s"))


def _plot_znodes(path: Path, rows: Sequence[Row]) -> None:
    bars: dict[str, dict[str, float]] = {}
    for row in rows:
        label = f"{row['system']} ({row['client']}), {row['servers']} servers"
        bars.setdefault(str(row["way"]), {})[label] = float(row["seconds"])
    plot_bars(path, f"{rows[0]['znodes']} znodes created", {"seconds": bars}, is_log=True)


TABLE2 = Experiment(
    name="table2",
    title="Creations by workers that wait for each (Table 2)",
    sizes=Table2Sizes,
    quick=Table2Sizes(
        servers=(3,), workers=(1, 3), creates=20, processes=2, warm_least_s=0.2, warm_most_s=0.4
    ),
    run=run_table2,
    plot=_plot_table2,
    by=("servers", "workers"),
    values=("creates_per_s",),
)
ZNODES = Experiment(
    name="znodes",
    title="5 000 znodes, one after the other and pipelined (section 2.3)",
    sizes=ZnodesSizes,
    quick=ZnodesSizes(znodes=50, warm_least_s=0.2, warm_most_s=0.4),
    run=run_znodes,
    plot=_plot_znodes,
    by=("servers", "way"),
    values=("seconds",),
    is_less_better=True,
)
