"""The latency of one request on an idle ensemble: p50, p99 and p99.9.

One client makes one request at a time. A linearizable get of ZooKeeper is a `sync` and a get sent
together. The latency of a watch runs from the start of another client's set to the call of the
watcher. A lock without other contenders is acquired and released by the recipe of the library;
the generator in Java and etcd's have none.
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
from raykeeper.bench.loads.task import LoadTask
from raykeeper.bench.measures import percentile
from raykeeper.bench.plots import plot_bars
from raykeeper.bench.results import Row
from raykeeper.bench.systems.contract import follower_of

PERCENTILES = (50, 90, 99, 99.9, 100)


class LatencySizes(WarmedSizes, frozen=True, kw_only=True):
    """How large the load is."""

    servers: Ensembles = (3,)
    requests: Annotated[Count, Meta(description="of each kind")] = 5_000
    value_bytes: ValueBytes = 1024


def run_latency(run: ExperimentRun, sizes: LatencySizes) -> Iterator[Row]:
    """Yield a row for each kind of request."""
    run.expect(len(sizes.servers))
    for system, servers in run.ensembles(sizes.servers):
        for number, contender in enumerate(contenders(system, servers)):
            run.step(str(contender))
            task = LoadTask(
                kind="latency",
                client=contender.client,
                where=servers.where(follower_of(servers)),
                number=number,
                count=sizes.requests,
                value_bytes=sizes.value_bytes,
            )
            warm, measured = measure_warm(sizes.warm_up_bounds, servers, task)
            for name, timings in measured.reports[0].timings.items():
                taken = [value for _, value in timings]
                yield {
                    **contender.columns,
                    "request": name,
                    **columns_of(taken),
                    **warm_columns(warm),
                }
            run.done({})


def columns_of(taken_us: Sequence[float]) -> Row:
    """Return the percentiles in milliseconds."""
    return {f"p{percent}_ms": percentile(taken_us, percent) / 1000 for percent in PERCENTILES}


def _plot(path: Path, rows: Sequence[Row]) -> None:
    panels: dict[str, dict[str, dict[str, float]]] = {}
    for row in rows:
        for percent in ("50", "99", "99.9"):
            group = panels.setdefault(f"p{percent}, ms", {}).setdefault(str(row["request"]), {})
            label = f"{row['system']} ({row['client']}), {row['servers']} servers"
            group[label] = float(row[f"p{percent}_ms"])
    plot_bars(path, "Latency of one request at a time", panels)


LATENCY = Experiment(
    name="latency",
    title="Latency of synchronous requests and of watches: p50, p99, p99.9",
    sizes=LatencySizes,
    quick=LatencySizes(requests=20, warm_least_s=0.4, warm_most_s=1.0),
    run=run_latency,
    plot=_plot,
    by=("servers", "request"),
    values=("p50_ms", "p99_ms", "p99.9_ms"),
    is_less_better=True,
)
