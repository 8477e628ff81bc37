"""Throughput of a saturated ensemble over the share of reads (Figures 5 and 6, Table 1).

Many clients keep many requests of 1 KB outstanding, each a read or a write. Figure 5 varies the
number of servers, and its ends are Table 1; in Figure 6 all clients are connected to the leader.

Paper: section 5.1.
"""

from collections.abc import Iterator, Sequence
from functools import partial
from pathlib import Path
from typing import Annotated

from msgspec import Meta, Struct

from raykeeper.bench.experiment_run import (
    Contender,
    ExperimentRun,
    contenders,
    measure_load,
    throughput,
)
from raykeeper.bench.experiments.contract import (
    Ensembles,
    Experiment,
    Outstanding,
    Percent,
    Processes,
    Seconds,
    Sessions,
    ValueBytes,
)
from raykeeper.bench.loads.task import LoadTask
from raykeeper.bench.plots import curves, plot_curves
from raykeeper.bench.results import Row


class ThroughputSizes(Struct, frozen=True, kw_only=True):
    """How large the load is."""

    servers: Ensembles = (1, 3, 5)
    observers: Annotated[int, Meta(ge=0, le=64, description="servers without a vote, added")] = 0
    reads: Annotated[
        tuple[Percent, ...], Meta(min_length=1, description="shares of reads, in percent")
    ] = (0, 20, 40, 50, 60, 80, 90, 100)
    clients: Sessions = 12
    outstanding: Outstanding = 100
    processes: Processes = 4
    seconds: Annotated[Seconds, Meta(description="each point is measured")] = 10.0
    warmup_s: Annotated[Seconds, Meta(description="seconds before that")] = 2.0
    value_bytes: ValueBytes = 1024


_QUICK = ThroughputSizes(
    servers=(3,), reads=(0, 100), clients=2, outstanding=10, processes=2, seconds=0.5, warmup_s=0.2
)


def run_throughput(run: ExperimentRun, sizes: ThroughputSizes, *, on_leader: bool) -> Iterator[Row]:
    """Measure each share of reads; clients are on the leader, or spread over all servers."""
    run.expect(len(sizes.servers) * len(sizes.reads))
    for system, servers in run.ensembles(sizes.servers, sizes.observers):
        where = servers.where(servers.leader()) if on_leader else servers.where()
        yield from _points(run, sizes, contenders(system, servers), where)


def _points(
    run: ExperimentRun, sizes: ThroughputSizes, clients: Sequence[Contender], where: str
) -> Iterator[Row]:
    number = 0
    for reads in sizes.reads:
        for contender in clients:
            run.step(f"{contender}, {reads} % reads")
            task = LoadTask(
                kind="mixed",
                client=contender.client,
                where=where,
                number=number,
                clients=sizes.clients,
                outstanding=sizes.outstanding,
                reads_percent=reads,
                seconds=sizes.warmup_s + sizes.seconds,
                value_bytes=sizes.value_bytes,
            )
            number += sizes.processes
            measured = measure_load(contender.servers, task, sizes.processes)
            yield run.done(
                {
                    **contender.columns,
                    "observers": sizes.observers,
                    "reads": reads,
                    "ops_per_s": throughput(measured, sizes.warmup_s, sizes.seconds),
                    **measured.columns(),
                }
            )


def _plot(title: str, path: Path, rows: Sequence[Row]) -> None:
    lines = curves(rows, "reads", "ops_per_s", ("system", "client", "servers"))
    plot_curves(path, title, lines, ("reads, %", "operations/s"))


FIGURE5 = Experiment(
    name="figure5",
    title="Throughput over the share of reads (Figure 5, Table 1)",
    sizes=ThroughputSizes,
    quick=_QUICK,
    run=partial(run_throughput, on_leader=False),
    plot=lambda path, rows: _plot("Throughput over the share of reads", path, rows),
    by=("servers", "observers", "reads"),
    values=("ops_per_s",),
)
FIGURE6 = Experiment(
    name="figure6",
    title="The same with all clients on the leader (Figure 6)",
    sizes=ThroughputSizes,
    quick=_QUICK,
    run=partial(run_throughput, on_leader=True),
    plot=lambda path, rows: _plot("All clients on the leader", path, rows),
    by=("servers", "observers", "reads"),
    values=("ops_per_s",),
)
