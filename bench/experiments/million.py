"""The cost of a million znodes: memory, snapshots and their effect on writes, restart.

First the ensemble is filled, after a warm-up whose znodes are deleted again. Then some clients
write for a while, so that snapshots are due, and another client writes one request at a time: its
latencies are reported separately for requests during a snapshot. These loads are warmed too.
Finally a follower's process is killed; the restart lasts until it serves again.
"""

import threading
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Annotated

from msgspec import Meta, structs

from raykeeper.bench.experiment_run import (
    Contender,
    ExperimentRun,
    contenders,
    measure_warm,
    resident_mb,
    warm_columns,
    warm_up,
)
from raykeeper.bench.experiments.contract import (
    Count,
    Ensembles,
    Experiment,
    Seconds,
    ValueBytes,
    WarmedSizes,
)
from raykeeper.bench.loads.task import LoadReport, LoadTask
from raykeeper.bench.measures import Span, percentile, split_by
from raykeeper.bench.plots import plot_bars
from raykeeper.bench.results import Row, Value
from raykeeper.bench.systems.contract import Servers, System, follower_of, poll

_PATIENCE_S = 120.0
_POLL_S = 0.02
_MB = 1e6


class MillionSizes(WarmedSizes, frozen=True, kw_only=True):
    """How large the load is."""

    servers: Ensembles = (3,)
    znodes: Annotated[Count, Meta(description="znodes")] = 1_000_000
    value_bytes: ValueBytes = 100
    outstanding: Annotated[Count, Meta(description="creations under way")] = 1_000
    writers: Annotated[Count, Meta(description="clients that write while snapshots are due")] = 4
    writes: Annotated[Count, Meta(description="of each of them under way")] = 20
    seconds: Annotated[Seconds, Meta(description="that they write")] = 60.0


class SnapshotTimes:
    """When each snapshot in a data folder was begun and finished, derived from its files."""

    def __init__(self, before: Iterable[str] = ()) -> None:
        """`before` has the names of snapshots that exist already; they do not count."""
        self._before = frozenset(before)
        self._seen: dict[str, tuple[float, float, int]] = {}  # begun, grown last, size

    def observe(self, moment: float, sizes: Mapping[str, int]) -> None:
        """Record the names and sizes of the files at `moment`."""
        for name, size in sizes.items():
            begun, _, known = self._seen.get(name, (moment, moment, None))
            if name not in self._before and size != known:
                self._seen[name] = (begun, moment, size)

    @property
    def spans(self) -> list[Span]:
        """Return when each snapshot was written, in order."""
        return sorted((begun, done) for begun, done, _ in self._seen.values())

    @property
    def sizes(self) -> list[int]:
        """Return the sizes of the snapshots, as far as they are written."""
        return [size for _, _, size in self._seen.values()]

    def columns(self) -> Row:
        """Return the number of snapshots, and duration and size of the last one."""
        if not self._seen:
            return {"snapshots": 0}
        begun, done, size = max(self._seen.values())
        return {
            "snapshots": len(self._seen),
            "snapshot_s": done - begun,
            "snapshot_mb": size / _MB,
        }


def snapshot_sizes(folder: Path) -> dict[str, int]:
    """Return the snapshot files in a data folder and their sizes, under their final names."""
    found = {}
    for path in folder.rglob("snapshot*"):
        try:
            found[path.name.removesuffix(".tmp")] = path.stat().st_size
        except FileNotFoundError:
            continue  # it was renamed or pruned meanwhile
    return found


@contextmanager
def watched(folder: Path) -> Iterator[SnapshotTimes]:
    """Observe the snapshot files in `folder` while the context lasts."""
    times, over = SnapshotTimes(snapshot_sizes(folder)), threading.Event()

    def look() -> None:
        while not over.wait(_POLL_S):
            times.observe(time.monotonic(), snapshot_sizes(folder))

    looking = threading.Thread(target=look, name="snapshots")
    looking.start()
    try:
        yield times
    finally:
        over.set()
        looking.join()


def run_million(run: ExperimentRun, sizes: MillionSizes) -> Iterator[Row]:
    """Yield a row for each ensemble."""
    run.expect(len(sizes.servers))
    for system, servers in run.ensembles(sizes.servers):
        # The servers have the cost, so one kind of client is enough.
        contender, *_ = contenders(system, servers)
        row = {**contender.columns, "znodes": sizes.znodes}
        run.step(f"{system.name}: {sizes.znodes} znodes are created")
        row.update(_fill(contender, sizes))
        leader = servers.leader()
        follower = follower_of(servers)
        row["leader_mb"] = resident_mb([servers.pid(leader)])
        row["follower_mb"] = resident_mb([servers.pid(follower)])
        run.step(f"{system.name}: snapshots under load")
        row.update(_snapshots(contender, leader, sizes))
        run.step(f"{system.name}: a server restarts")
        row["restart_s"] = _restart_s(system, servers, follower)
        for each in system.clients:
            run.done({"client": each})
        yield row


def _fill(contender: Contender, sizes: MillionSizes) -> Row:
    task = LoadTask(
        kind="fill",
        client=contender.client,
        where=contender.servers.where(),
        number=0,
        outstanding=sizes.outstanding,
        count=sizes.znodes,
        value_bytes=sizes.value_bytes,
        seconds=sizes.znodes / 500,  # how long it may take
    )
    warm, measured = measure_warm(sizes.warm_up_bounds, contender.servers, task)
    columns = {f"fill_{name}": value for name, value in warm_columns(warm).items()}
    return {"fill_s": measured.seconds, **columns}


def _snapshots(contender: Contender, server: int, sizes: MillionSizes) -> Row:
    client, servers = contender.client, contender.servers
    single = LoadTask(
        kind="sets",
        client=client,
        where=servers.where(),
        number=0,
        seconds=sizes.seconds,
        value_bytes=sizes.value_bytes,
    )
    press = structs.replace(
        single, kind="mixed", number=1, clients=sizes.writers, outstanding=sizes.writes
    )
    with servers.load(client, [single, press]) as load:
        warm = warm_up(sizes.warm_up_bounds, servers, load)
        with watched(servers.folder(server)) as times:
            load.begin()
            reports = load.reports(sizes.seconds + _PATIENCE_S)
    return {**times.columns(), **set_times(reports, times.spans), **warm_columns(warm)}


def set_times(reports: Sequence[LoadReport], spans: Sequence[Span]) -> Row:
    """Return the percentiles of single sets in milliseconds, without and during a snapshot."""
    timings = next(report.timings["set"] for report in reports if report.timings)
    row: dict[str, Value] = {}
    for name, taken in zip(("without", "during"), split_by(timings, spans), strict=True):
        if taken:
            row[f"set_p50_{name}_ms"] = percentile(taken, 50) / 1000
            row[f"set_p99.9_{name}_ms"] = percentile(taken, 99.9) / 1000
    return row


def _restart_s(system: System, servers: Servers, server: int) -> float:
    """Kill a server's process, and return the seconds until it serves again.

    Raises:
        BenchError: the server does not return.
    """
    pid = servers.pid(server)
    killed = servers.crash(server)
    poll(
        lambda: servers.pid(server) not in (0, pid) and servers.serves(server),
        _PATIENCE_S,
        f"a server of {system.name} does not serve {_PATIENCE_S:g} s after its kill",
    )
    return time.monotonic() - killed


def _plot(path: Path, rows: Sequence[Row]) -> None:
    shown = {
        "fill_s": "fill, s",
        "follower_mb": "memory, MB",
        "snapshot_mb": "snapshot, MB",
        "snapshot_s": "snapshot, s",
        "restart_s": "restart, s",
    }
    bars: dict[str, dict[str, float]] = {label: {} for label in shown.values()}
    for row in rows:
        for name, label in shown.items():
            if name in row:
                bars[label][f"{row['system']}, {row['servers']} servers"] = float(row[name])
    title = f"The cost of {rows[0]['znodes']} znodes"
    plot_bars(path, title, {"": {label: bar for label, bar in bars.items() if bar}}, is_log=True)


MILLION = Experiment(
    name="million",
    title="A million znodes: memory, snapshots, restart",
    sizes=MillionSizes,
    quick=MillionSizes(
        znodes=2_000,
        outstanding=100,
        writers=1,
        writes=5,
        seconds=1.0,
        warm_least_s=0.2,
        warm_most_s=0.4,
    ),
    run=run_million,
    plot=_plot,
    by=("servers", "znodes"),
    values=("fill_s", "leader_mb", "follower_mb", "snapshot_s", "restart_s", "set_p99.9_during_ms"),
    is_less_better=True,
)
