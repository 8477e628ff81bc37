"""Crowds: many watches on one znode, many contenders for one lock, many members of one group.

Each crowd has an ensemble of its own. Beside it a bystander sets a znode every 10 ms, and the rows
tell how long it waits: alone, beside as many processes as the crowd has that only compute, beside
the sessions of the crowd while they are idle, while the crowd forms, and while it is told of
changes. A pause counts for all sets that were due in it. What the second row shows is contention
for processors, for which no server can do anything; bench/bystander.py measures without any.
"""

import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from statistics import median
from typing import Annotated, Literal

import psutil
from msgspec import Meta, Struct

from raykeeper.bench.experiment_run import (
    ExperimentRun,
    cpu_s,
    resident_mb,
    server_pids,
    split_task,
)
from raykeeper.bench.experiments.contract import Count, Experiment, Processes, Seconds
from raykeeper.bench.experiments.idle_sessions import IdleSizes, measure_idle_sessions
from raykeeper.bench.experiments.returns import ReturnSizes, measure_returns
from raykeeper.bench.loads.crowd_sessions import GROUP, LOCK, NEW_MEMBER, WATCHED
from raykeeper.bench.loads.processes import LoadProcesses, burning
from raykeeper.bench.loads.task import LoadReport, LoadTask
from raykeeper.bench.measures import Span, percentile
from raykeeper.bench.plots import plot_bars
from raykeeper.bench.results import OURS, Row, Value
from raykeeper.bench.systems.contract import EnsembleShape, poll
from raykeeper.bench.systems.raykeeper import RaykeeperServers
from raykeeper.client import Client

Crowd = Literal["watchers", "contenders", "members", "idle", "returns"]

_PATIENCE_S = 300.0
"""For a crowd that forms: how long none of its watches may be set, ..."""
_READ_S = 0.2
"""... and for each member of a group how long the reads of all others may take."""
_SETTLE_S = 2.0
"""After the sessions were opened."""
_WATCHES_EACH = {"watchers": 1, "contenders": 2, "members": 2}
"""Watches that each client of a crowd has once it has formed."""


class CrowdSizes(Struct, frozen=True, kw_only=True):
    """How large the crowds are."""

    servers: Annotated[int, Meta(ge=1, le=255, description="servers that vote")] = 3
    crowds: Annotated[
        tuple[Crowd, ...],
        Meta(min_length=1, description="watchers, contenders, members, idle, returns"),
    ] = ("watchers", "contenders", "members", "idle", "returns")
    watchers: Annotated[Count, Meta(description="one-shot watches on one znode")] = 10_000
    contenders: Annotated[Count, Meta(description="contenders for one lock")] = 10_000
    members: Annotated[Count, Meta(description="members of one group that watch it")] = 5_000
    idle: Annotated[Count, Meta(description="sessions that do nothing")] = 20_000
    returns: Annotated[Count, Meta(description="sessions whose leader is killed")] = 5_000
    kills: Annotated[Count, Meta(description="kills of the leader")] = 10
    changes: Annotated[Count, Meta(description="changes that a crowd is told of")] = 10
    interval_s: Annotated[Seconds, Meta(description="from one change to the next")] = 3.0
    seconds: Annotated[
        Seconds, Meta(description="alone, with busy processors, and beside idle sessions")
    ] = 10.0
    processes: Processes = 4


class Phase(Struct, frozen=True):
    """A part of the measurement of one crowd. `seconds` is of one change where there are any."""

    name: str
    spans: list[Span]
    seconds: float
    columns: dict[str, Value]


def run_crowds(run: ExperimentRun, sizes: CrowdSizes) -> Iterator[Row]:
    """Yield a row for each phase of each crowd."""
    run.leave_out_others("it has no such generator")
    run.expect(len(sizes.crowds) + (sizes.kills - 1) * ("returns" in sizes.crowds))
    for system in run.systems:
        for crowd in sizes.crowds:
            with run.ensemble(system, EnsembleShape(sizes.servers)) as servers:
                assert isinstance(servers, RaykeeperServers)
                yield from _measure(run, servers, system.clients[0], crowd, sizes)


def _measure(
    run: ExperimentRun, servers: RaykeeperServers, client: str, crowd: Crowd, sizes: CrowdSizes
) -> Iterator[Row]:
    """Yield the rows of one crowd; `idle` and `returns` are those of the experiments so named."""
    rows: Iterator[Row]
    if crowd == "idle":
        idle = IdleSizes(sessions=(sizes.idle,), processes=sizes.processes, seconds=sizes.seconds)
        rows = measure_idle_sessions(run, servers, client, idle)
    elif crowd == "returns":
        returns = ReturnSizes(sessions=sizes.returns, processes=sizes.processes, kills=sizes.kills)
        rows = measure_returns(run, servers, client, returns)
    else:
        yield from measure_crowd(run, servers, client, crowd, sizes)
        return
    for row in rows:
        yield {"crowd": crowd, **row}


def measure_crowd(
    run: ExperimentRun, servers: RaykeeperServers, client: str, crowd: Crowd, sizes: CrowdSizes
) -> Iterator[Row]:
    """Yield the rows of one crowd on an ensemble that has nothing else to do."""
    count = getattr(sizes, crowd)
    where = servers.where()
    bystander = LoadTask(kind="bystander", client=client, where=where, number=0)
    task = LoadTask(
        kind=crowd, client=client, where=where, number=1, clients=count, count=sizes.changes
    )
    with servers.load(client, [bystander]) as beside, servers.ensemble.connect() as changer:
        beside.begin()
        act = _change_of(crowd, changer)
        phases = [rest_phase(run, servers, f"{crowd}: the bystander alone", "alone", sizes.seconds)]
        niceness = psutil.Process(servers.pid(servers.leader())).nice()
        with burning(sizes.processes, niceness):
            phases.append(
                rest_phase(run, servers, f"{crowd}: busy processors", "busy", sizes.seconds)
            )
        run.step(f"{crowd}: {count} sessions are opened")
        with servers.load(client, split_task(task, sizes.processes)) as load:
            time.sleep(_SETTLE_S)
            phases.append(
                rest_phase(run, servers, f"{crowd}: idle sessions", "idle", sizes.seconds)
            )
            phases.append(_form(run, servers, load, crowd, count))
            begun = _changes(run, servers, act, crowd, sizes)
            load.stop()
            reports = load.reports(_PATIENCE_S)
        phases.append(change_phase(begun, reports))
        beside.stop()
        (waited,) = beside.reports(_PATIENCE_S)
    first: dict[str, Value] = {"system": OURS, "client": client, "servers": sizes.servers}
    rows = rows_of(phases, waited.timings["set"], sum(report.errors for report in reports))
    for index, row in enumerate(rows):
        whole = {**first, "crowd": crowd, "sessions": count, **row}
        yield run.done(whole) if index == len(rows) - 1 else whole


def _change_of(crowd: Crowd, client: Client) -> Callable[[int], object]:
    """Prepare the znodes of a crowd; return what makes a change."""
    client.ensure_path("/crowd")
    if crowd == "watchers":
        client.create(WATCHED)
        return lambda number: client.set(WATCHED, str(number).encode())
    if crowd == "contenders":
        held = client.lock(LOCK).acquire()
        # The release begins the handovers; each contender whose turn it is releases it again.
        return lambda number: held.release() if number == 0 else None
    group = client.group(GROUP)
    return lambda number: group.join(f"{NEW_MEMBER}{number}", b"")


def rest_phase(
    run: ExperimentRun, servers: RaykeeperServers, text: str, name: str, seconds: float
) -> Phase:
    """Let so many seconds pass, and return what the servers take in them."""
    run.step(text)
    begun = BegunPhase(servers)
    time.sleep(seconds)
    return begun.end(name)


class BegunPhase:
    """A phase that lasts from now until its end."""

    def __init__(self, servers: RaykeeperServers) -> None:
        self._pids = server_pids(servers)
        self._before_s, self._began = cpu_s(self._pids), time.monotonic()

    def end(self, name: str) -> Phase:
        """Return it with what the servers took in it."""
        span = (self._began, time.monotonic())
        seconds = span[1] - span[0]
        cores = (cpu_s(self._pids) - self._before_s) / seconds
        return Phase(
            name, [span], seconds, {"server_mb": resident_mb(self._pids), "server_cores": cores}
        )


def _form(
    run: ExperimentRun,
    servers: RaykeeperServers,
    load: LoadProcesses,
    crowd: Crowd,
    count: int,
) -> Phase:
    """Let the crowd act, and wait until all of it waits for what it watches."""
    run.step(f"{crowd}: they form")
    pids = server_pids(servers)
    before, began = cpu_s(pids), load.begin()
    due, are_set = count * _WATCHES_EACH[crowd], 0

    def there_are_more() -> bool:
        nonlocal are_set
        before, are_set = are_set, sum(each.watches for each in servers.ensemble.status().servers)
        return are_set > before or are_set >= due

    while are_set < due:
        poll(
            there_are_more,
            _PATIENCE_S,
            f"{count} {crowd} have set {are_set} of {due} watches, none for {_PATIENCE_S:g} s",
        )
    if crowd == "members":
        load.wait_until_ready(_PATIENCE_S + _READ_S * count)
    span = (began, time.monotonic())
    return Phase(
        "forming",
        [span],
        span[1] - span[0],
        {"server_mb": resident_mb(pids), "server_cpu_s": cpu_s(pids) - before},
    )


def _changes(
    run: ExperimentRun,
    servers: RaykeeperServers,
    act: Callable[[int], object],
    crowd: Crowd,
    sizes: CrowdSizes,
) -> list[Span]:
    """Make the changes; return when each began, and the processor time of the servers after it."""
    pids = server_pids(servers)
    begun: list[Span] = []
    for number in range(sizes.changes):
        run.step(f"{crowd}: change {number + 1}")
        before, began = cpu_s(pids), time.monotonic()
        act(number)
        time.sleep(max(0.0, began + sizes.interval_s - time.monotonic()))
        begun.append((began, cpu_s(pids) - before))
    return begun


def change_phase(begun: Sequence[Span], reports: Sequence[LoadReport]) -> Phase:
    """Return the phase of the changes, each from its begin until the last client was told of it."""
    told = sorted(moment for report in reports for moment, _ in report.timings["told"])
    ends = [moment for moment, _ in begun[1:]] + [float("inf")]
    spans: list[Span] = []
    counts: list[int] = []
    for (began, _), end in zip(begun, ends, strict=True):
        here = [moment for moment in told if began <= moment < end]
        if here:
            counts.append(len(here))
            spans.append((began, here[-1]))
    seconds = median([end - began for began, end in spans]) if spans else 0.0
    cpu = median([each for _, each in begun])
    told_of_one = median(counts) if counts else 0
    return Phase("changes", spans, seconds, {"told": told_of_one, "server_cpu_s": cpu})


def rows_of(phases: Sequence[Phase], sets: Sequence[Span], errors: int) -> list[Row]:
    """Return a row for each phase: how long the sets that were due in it took."""
    rows: list[Row] = []
    alone = 0.0
    for phase in phases:
        row: dict[str, Value] = {"phase": phase.name, "seconds": phase.seconds, **phase.columns}
        waits = [
            took / 1000
            for due, took in sets
            if any(began <= due <= ended for began, ended in phase.spans)
        ]
        row["sets"] = len(waits)
        if waits:
            p99 = percentile(waits, 99)
            alone = alone or p99
            row |= {"set_p50_ms": percentile(waits, 50), "set_p99_ms": p99}
            row |= {"set_max_ms": max(waits), "p99_of_alone": p99 / alone}
        rows.append(row)
    return [{**row, "errors": errors} for row in rows]


def _plot(path: Path, rows: Sequence[Row]) -> None:
    bars: dict[str, dict[str, float]] = {}
    for row in rows:
        if "set_p99_ms" in row:
            phases = bars.setdefault(str(row["crowd"]), {})
            phases[str(row["phase"])] = float(row["set_p99_ms"])
    panels = {"p99 of a bystander's set, ms": bars}
    plot_bars(path, "A bystander of crowds", panels, is_log=True)


CROWDS = Experiment(
    name="crowds",
    title="Crowds: watches on one znode, contenders for one lock, members of one group",
    sizes=CrowdSizes,
    quick=CrowdSizes(
        crowds=("watchers", "contenders", "members"),
        watchers=20,
        contenders=20,
        members=10,
        changes=2,
        interval_s=0.5,
        seconds=0.5,
        processes=2,
    ),
    run=run_crowds,
    plot=_plot,
    by=("servers", "crowd", "sessions", "phase"),
    values=("seconds", "set_p99_ms"),
    is_less_better=True,
)
