"""Bytes on disk and on the wire for each write: log, snapshots, messages of servers and clients.

The tree is filled first, so that snapshots have a size. Then clients write while the kernel counts
what the servers write to their disks and what they and the clients send to each other
(`bench/traffic.py`). Snapshots that end meanwhile are told apart by the size of their files.
"""

from collections.abc import Iterator, Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import Annotated

from msgspec import Meta

from raykeeper.bench.experiment_run import (
    Contender,
    ExperimentRun,
    contenders,
    measure_round,
    patience_s,
    server_pids,
    split_task,
    warm_columns,
    warm_up,
)
from raykeeper.bench.experiments.contract import (
    Count,
    Ensembles,
    Experiment,
    Processes,
    Seconds,
    Sessions,
    ValueBytes,
    WarmedSizes,
)
from raykeeper.bench.experiments.million import watched
from raykeeper.bench.loads.task import LoadTask
from raykeeper.bench.plots import plot_bars
from raykeeper.bench.results import Row
from raykeeper.bench.traffic import Traffic, check_ss, measure_traffic


class BytesSizes(WarmedSizes, frozen=True, kw_only=True):
    """How large the load is."""

    servers: Ensembles = (3,)
    znodes: Annotated[Count, Meta(description="znodes in the tree, for the snapshots")] = 10_000
    clients: Sessions = 12
    outstanding: Annotated[
        tuple[Count, ...], Meta(min_length=1, description="requests of each session under way")
    ] = (1, 100)
    processes: Processes = 6
    seconds: Annotated[Seconds, Meta(description="that they write")] = 30.0
    value_bytes: ValueBytes = 1024


def run_bytes(run: ExperimentRun, sizes: BytesSizes) -> Iterator[Row]:
    """Yield a row for each number of requests under way, of each client.

    Raises:
        BenchError: there is no `ss`.
    """
    check_ss()
    run.expect(len(sizes.servers) * len(sizes.outstanding))
    for system, servers in run.ensembles(sizes.servers):
        first, *_ = found = contenders(system, servers)
        run.step(f"{first}: {sizes.znodes} znodes are created")
        _fill(first, sizes)
        for index, contender in enumerate(found):
            for outstanding in sizes.outstanding:
                run.step(f"{contender}, {outstanding} outstanding")
                number = index * len(sizes.outstanding) + sizes.outstanding.index(outstanding)
                yield run.done(_point(contender, sizes, outstanding, number * sizes.processes))


def _fill(contender: Contender, sizes: BytesSizes) -> None:
    task = LoadTask(
        kind="fill",
        client=contender.client,
        where=contender.servers.where(),
        number=0,
        outstanding=100,
        count=sizes.znodes,
        value_bytes=sizes.value_bytes,
    )
    with contender.servers.load(contender.client, [task]) as load:
        load.begin()
        load.reports(patience_s(task))


def _point(contender: Contender, sizes: BytesSizes, outstanding: int, number: int) -> Row:
    servers = contender.servers
    task = LoadTask(
        kind="mixed",
        client=contender.client,
        where=servers.where_each(),
        number=number,
        clients=sizes.clients,
        outstanding=outstanding,
        seconds=sizes.seconds,
        value_bytes=sizes.value_bytes,
    )
    folders = [servers.folder(server) for server in servers.shape.numbers()]
    with servers.load(contender.client, split_task(task, sizes.processes)) as load:
        warm = warm_up(sizes.warm_up_bounds, servers, load)
        pids = server_pids(servers), servers.sidecar_pids(), load.pids
        before = measure_traffic(*pids)
        with ExitStack() as stack:
            times = [stack.enter_context(watched(folder)) for folder in folders]
            measured = measure_round(servers, load, patience_s(task))
        traffic = measure_traffic(*pids).since(before)
    writes = sum(report.done for report in measured.reports)
    return {
        **contender.columns,
        "outstanding": outstanding,
        "processes": len(measured.reports),
        "writes": writes,
        **bytes_per_write(traffic, [size for each in times for size in each.sizes], writes),
        **warm_columns(warm),
        **measured.columns(),
    }


def bytes_per_write(traffic: Traffic, snapshots: Sequence[int], writes: int) -> Row:
    """Return the bytes of one write, on all servers together, and the number of snapshots.

    `log_bytes` is what the disks took beside the snapshots. `snapshots` has their sizes.
    """
    of_snapshots = sum(snapshots)
    total = {
        "disk_bytes": traffic.disk,
        "log_bytes": traffic.disk - of_snapshots,
        "snapshot_bytes": of_snapshots,
        "peer_bytes": traffic.peers,
        "client_bytes": traffic.clients,
    }
    return {
        **{name: size / max(writes, 1) for name, size in total.items()},
        "snapshots": len(snapshots),
    }


def _plot(path: Path, rows: Sequence[Row]) -> None:
    panels: dict[str, dict[str, dict[str, float]]] = {}
    for name in ("disk_bytes", "peer_bytes", "client_bytes"):
        for row in rows:
            group = panels.setdefault(name, {}).setdefault(f"{row['outstanding']} outstanding", {})
            group[f"{row['system']} ({row['client']})"] = float(row[name])
    plot_bars(path, "Bytes of one write, on all servers together", panels)


BYTES = Experiment(
    name="bytes",
    title="Bytes of one write on disks and between processes",
    sizes=BytesSizes,
    quick=BytesSizes(
        znodes=100,
        clients=2,
        outstanding=(10,),
        processes=2,
        seconds=0.5,
        warm_least_s=0.2,
        warm_most_s=0.4,
    ),
    run=run_bytes,
    plot=_plot,
    by=("servers", "outstanding"),
    values=("disk_bytes", "log_bytes", "snapshot_bytes", "peer_bytes", "client_bytes"),
    is_less_better=True,
)
