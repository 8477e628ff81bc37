"""Throughput of a saturated ensemble over the share of reads (Figures 5 and 6, Table 1).

Many clients keep many requests of 1 KB outstanding, each a read or a write. Figure 5 varies the
number of servers, and its ends are Table 1; in Figure 6 all clients are connected to the leader.
The sessions of a client library, and the ensemble, are kept over all shares of reads, and are
warmed by each share before it is measured.

`most_per_s` is for servers that have machines of their own: what the busiest server's processor
time of a request allows, if its machine has `machine_cores` cores and the server uses as many of
them as it can. It leaves out that larger batches make a request cheaper, and that disks, networks
and waiting threads may end the growth before.

Paper: section 5.1.
"""

from collections.abc import Iterator, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Annotated

from msgspec import Meta

from raykeeper.bench.experiment_run import (
    Contender,
    ExperimentRun,
    contenders,
    measure_round,
    patience_s,
    split_task,
    throughput,
    warm_columns,
    warm_up,
)
from raykeeper.bench.experiments.contract import (
    Count,
    Ensembles,
    Experiment,
    Outstanding,
    Percent,
    Processes,
    Seconds,
    Sessions,
    ValueBytes,
    WarmedSizes,
)
from raykeeper.bench.loads.task import LoadTask
from raykeeper.bench.plots import curves, plot_curves
from raykeeper.bench.results import Row


class ThroughputSizes(WarmedSizes, frozen=True, kw_only=True):
    """How large the load is."""

    servers: Ensembles = (1, 3, 5)
    observers: Annotated[int, Meta(ge=0, le=64, description="servers without a vote, added")] = 0
    reads: Annotated[
        tuple[Percent, ...], Meta(min_length=1, description="shares of reads, in percent")
    ] = (0, 20, 40, 50, 60, 80, 90, 100)
    clients: Sessions = 12
    outstanding: Outstanding = 100
    processes: Processes = 6
    seconds: Annotated[Seconds, Meta(description="each point is measured")] = 10.0
    value_bytes: ValueBytes = 1024
    machine_cores: Annotated[Count, Meta(description="cores of a machine, for most_per_s")] = 4


_QUICK = ThroughputSizes(
    servers=(3,),
    reads=(0, 100),
    clients=2,
    outstanding=10,
    processes=2,
    seconds=0.5,
    warm_least_s=0.4,
    warm_most_s=1.0,
)


def run_throughput(run: ExperimentRun, sizes: ThroughputSizes, *, on_leader: bool) -> Iterator[Row]:
    """Measure each share of reads; clients are on the leader, or spread over all servers."""
    run.expect(len(sizes.servers) * len(sizes.reads))
    for system, servers in run.ensembles(sizes.servers, sizes.observers):
        where = servers.where(servers.leader()) if on_leader else servers.where_each()
        cores = min(sizes.machine_cores, system.server_cores_max or sizes.machine_cores)
        for index, contender in enumerate(contenders(system, servers)):
            yield from _points(run, sizes, contender, where, index * sizes.processes, cores)


def _points(
    run: ExperimentRun,
    sizes: ThroughputSizes,
    contender: Contender,
    where: str,
    number: int,
    cores: int,
) -> Iterator[Row]:
    task = LoadTask(
        kind="mixed",
        client=contender.client,
        where=where,
        number=number,
        clients=sizes.clients,
        outstanding=sizes.outstanding,
        seconds=sizes.seconds,
        value_bytes=sizes.value_bytes,
    )
    shares = split_task(task, sizes.processes)
    with contender.servers.load(contender.client, shares) as load:
        for reads in sizes.reads:
            run.step(f"{contender}, {reads} % reads")
            warm = warm_up(sizes.warm_up_bounds, contender.servers, load, reads_percent=reads)
            measured = measure_round(
                *(contender.servers, load, patience_s(task)),
                reads_percent=reads,
                seconds=sizes.seconds,
            )
            taken_us = measured.us_per_request(contender.servers.leader())
            yield run.done(
                {
                    **contender.columns,
                    "observers": sizes.observers,
                    "reads": reads,
                    "processes": len(shares),
                    "ops_per_s": throughput(measured, sizes.seconds),
                    **warm_columns(warm),
                    **measured.columns(),
                    **taken_us,
                    "most_per_s": most_per_s(taken_us, cores),
                }
            )


def most_per_s(taken_us: Mapping[str, float], cores: int) -> float:
    """Return the operations per second that the busiest server's processor time allows."""
    busiest = max(taken_us.get("leader_us", 0.0), taken_us.get("follower_us", 0.0))
    return cores * 1e6 / busiest if busiest else 0.0


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
    values=("ops_per_s", "most_per_s"),
)
FIGURE6 = Experiment(
    name="figure6",
    title="The same with all clients on the leader (Figure 6)",
    sizes=ThroughputSizes,
    quick=_QUICK,
    run=partial(run_throughput, on_leader=True),
    plot=lambda path, rows: _plot("All clients on the leader", path, rows),
    by=("servers", "observers", "reads"),
    values=("ops_per_s", "most_per_s"),
)
