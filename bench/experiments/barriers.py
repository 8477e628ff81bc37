"""Double barriers: how long many clients take to enter and leave many of them (Table 3).

Each client enters all barriers, then leaves all of them in the same order. So the clients move in
lockstep, and the experiment measures only the recipe and the latency of the servers. Raykeeper
uses `Client.double_barrier`, ZooKeeper kazoo's `DoubleBarrier`; the other libraries have none.

Paper: section 5.3, Table 3: 50, 100 and 200 clients, 200 to 1 600 barriers, 1 950 to 3 100 enters
and leaves per second in all cases.
"""

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Annotated

from msgspec import Meta

from raykeeper.bench.experiment_run import (
    Contender,
    ExperimentRun,
    measure_round,
    patience_s,
    split_task,
    warm_columns,
    warm_up,
)
from raykeeper.bench.experiments.contract import (
    Count,
    Ensembles,
    Experiment,
    Processes,
    WarmedSizes,
)
from raykeeper.bench.loads.task import LoadTask
from raykeeper.bench.plots import curves, plot_curves
from raykeeper.bench.results import OURS, Row
from raykeeper.bench.systems.contract import System

Counts = Annotated[tuple[Count, ...], Meta(min_length=1)]


class BarrierSizes(WarmedSizes, frozen=True, kw_only=True):
    """How large the load is."""

    servers: Ensembles = (3,)
    clients: Annotated[Counts, Meta(description="numbers of clients")] = (50, 100, 200)
    barriers: Annotated[Counts, Meta(description="numbers of barriers")] = (20, 40, 80, 160)
    processes: Processes = 6


def clients_of(system: System) -> tuple[str, ...]:
    """Return the kinds of clients of a system that have double barriers."""
    have = system.clients[:1] if system.name == OURS else ()
    return (*have, *(client for client in system.clients if client == "kazoo"))


def run_table3(run: ExperimentRun, sizes: BarrierSizes) -> Iterator[Row]:
    """Measure seconds until all clients have left, and enters and leaves per second."""
    run.systems = [system for system in run.systems if clients_of(system)]
    run.expect(len(sizes.servers) * len(sizes.clients) * len(sizes.barriers))
    for system, servers in run.ensembles(sizes.servers):
        for kind in clients_of(system):
            for clients in sizes.clients:
                yield from _points(run, sizes, Contender(system.name, kind, servers), clients)


def _points(
    run: ExperimentRun, sizes: BarrierSizes, contender: Contender, clients: int
) -> Iterator[Row]:
    """Measure all numbers of barriers with the same sessions, which the smallest number warms."""
    servers = contender.servers
    task = LoadTask(
        kind="barriers",
        client=contender.client,
        where=servers.where_each(),
        number=0,
        clients=clients,
        participants=clients,
        count=max(sizes.barriers),
    )
    with servers.load(contender.client, split_task(task, sizes.processes)) as load:
        run.step(f"{contender}, {clients} clients")
        warm = warm_up(sizes.warm_up_bounds, servers, load, count=min(sizes.barriers))
        for barriers in sizes.barriers:
            run.step(f"{contender}, {clients} clients, {barriers} barriers")
            measured = measure_round(servers, load, patience_s(task), count=barriers)
            done = sum(report.done for report in measured.reports)
            yield run.done(
                {
                    **contender.columns,
                    "clients": clients,
                    "barriers": barriers,
                    "seconds": measured.seconds,
                    "barriers_per_s": barriers / measured.seconds,
                    "ops_per_s": done / measured.seconds,
                    **warm_columns(warm),
                    **measured.columns(),
                }
            )


def _plot(path: Path, rows: Sequence[Row]) -> None:
    lines = curves(rows, "barriers", "seconds", ("system", "client", "servers", "clients"))
    plot_curves(path, "Double barriers, entered and left", lines, ("barriers", "seconds"))


TABLE3 = Experiment(
    name="table3",
    title="Double barriers that many clients enter and leave in lockstep (Table 3)",
    sizes=BarrierSizes,
    quick=BarrierSizes(
        clients=(2, 3), barriers=(2, 4), processes=2, warm_least_s=0.2, warm_most_s=0.5
    ),
    run=run_table3,
    plot=_plot,
    by=("servers", "clients", "barriers"),
    values=("ops_per_s",),
)
