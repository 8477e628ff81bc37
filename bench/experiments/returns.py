"""Crowds of idle sessions whose leader is killed, one after another: who comes back, and when.

The clients of a killed leader move to the survivors all at once. A row of each kill tells how long
they were away, how many sessions were lost, and what a return costs each end in processor time:
what the surviving servers, or the generators, took until the next kill, less what as many seconds
of idling take. The server that is started again is not counted.

`others` processes that only compute can load the machine meanwhile, with the niceness of Ray's
workers, as other jobs on the cluster have it.
"""

import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Annotated

import psutil
from msgspec import Meta, Struct

from raykeeper.bench.experiment_run import ExperimentRun, cpu_s, server_pids, split_task
from raykeeper.bench.experiments.contract import (
    Count,
    Ensembles,
    Experiment,
    Processes,
    Seconds,
    Sessions,
)
from raykeeper.bench.loads.processes import LoadProcesses, burning
from raykeeper.bench.loads.task import LoadReport, LoadTask
from raykeeper.bench.measures import Span, percentile
from raykeeper.bench.plots import curves, plot_curves
from raykeeper.bench.results import OURS, Row, Value
from raykeeper.bench.systems.contract import wait_for_all
from raykeeper.bench.systems.raykeeper import RaykeeperServers
from raykeeper.links.contract import RAY_CALLS

_PATIENCE_S = 120.0


class ReturnSizes(Struct, frozen=True, kw_only=True):
    """How large the crowd is."""

    servers: Ensembles = (3,)
    sessions: Sessions = 5_000
    processes: Processes = 5
    kills: Annotated[Count, Meta(description="kills of the leader")] = 10
    seconds: Annotated[Seconds, Meta(description="from one kill to the next")] = 15.0
    session_timeout_s: Annotated[Seconds, Meta(description="timeout of the sessions")] = 10.0
    others: Annotated[int, Meta(ge=0, description="processes that load the machine")] = 0


class Kill(Struct):
    """A kill of the leader, and the processor time of each end in the span that follows it."""

    span: Span
    clients: int
    """Clients of the killed leader."""
    servers_s: float
    generators_s: float
    over_calls: int
    """Clients that were served over Ray calls at the end of the span."""


def run_returns(run: ExperimentRun, sizes: ReturnSizes) -> Iterator[Row]:
    """Yield a row for each kill in each ensemble of ours."""
    run.leave_out_others("it has no such generator")
    run.expect(len(sizes.servers) * sizes.kills)
    for system, servers in run.ensembles(sizes.servers):
        assert isinstance(servers, RaykeeperServers)
        yield from measure_returns(run, servers, system.clients[0], sizes)


def measure_returns(
    run: ExperimentRun, servers: RaykeeperServers, client: str, sizes: ReturnSizes
) -> Iterator[Row]:
    """Yield a row for each kill; the ensemble has nothing else to do."""
    first: dict[str, Value] = {"system": OURS, "client": client, "servers": servers.shape.servers}
    first.update(sessions=sizes.sessions, others=sizes.others)
    task = LoadTask(
        kind="returns",
        client=client,
        where=servers.where(),
        number=0,
        clients=sizes.sessions,
        session_timeout_s=sizes.session_timeout_s,
    )
    niceness = psutil.Process(servers.pid(servers.leader())).nice()
    shares, idle = split_task(task, sizes.processes), (0.0, 0.0)
    for number in range(1, sizes.kills + 1):
        # A new crowd each time: the sessions that came back are all at the survivors, so the next
        # leader may be the server that has none.
        run.step(f"{OURS}: {sizes.sessions} sessions are opened for kill {number}")
        with servers.load(client, shares) as load, burning(sizes.others, niceness):
            load.begin()
            if number == 1:
                idle = _idle(servers, load, sizes.seconds)
            kill = _kill(servers, load, sizes.seconds)
            load.stop()
            reports = load.reports(_PATIENCE_S)
        yield run.done({**first, "kill": number, **kill_columns(kill, idle, reports)})


def _idle(servers: RaykeeperServers, load: LoadProcesses, seconds: float) -> tuple[float, float]:
    """Return the processor time that servers and generators take for each second without a kill."""
    pids = server_pids(servers)
    before = cpu_s(pids), cpu_s(load.pids)
    time.sleep(seconds)
    return (cpu_s(pids) - before[0]) / seconds, (cpu_s(load.pids) - before[1]) / seconds


def _kill(servers: RaykeeperServers, load: LoadProcesses, seconds: float) -> Kill:
    wait_for_all(servers, _PATIENCE_S)
    leader = servers.leader()
    survivors = [pid for pid in server_pids(servers) if pid != servers.pid(leader)]
    clients = sum(_carriers(servers, leader).values())
    before = cpu_s(survivors), cpu_s(load.pids)
    began = servers.crash(leader)
    time.sleep(max(0.0, began + seconds - time.monotonic()))
    ended = time.monotonic()
    return Kill(
        (began, ended),
        clients,
        cpu_s(survivors) - before[0],
        cpu_s(load.pids) - before[1],
        sum(_carriers(servers, server).get(RAY_CALLS, 0) for server in servers.shape.numbers()),
    )


def kill_columns(kill: Kill, idle: tuple[float, float], reports: Sequence[LoadReport]) -> Row:
    """Return who came back after a kill, who did not, how fast, and at what cost.

    `idle` is what servers and generators take for each second without a kill.
    """
    began, ended = kill.span
    told = {
        name: [
            took / 1000
            for report in reports
            for moment, took in report.timings.get(name, [])
            if began <= moment < ended
        ]
        for name in ("return", "lost")
    }
    away, seconds = told["return"], ended - began
    row: dict[str, Value] = {
        "clients": kill.clients,
        "returned": len(away),
        "lost": len(told["lost"]),
    }
    row["over_calls"] = kill.over_calls
    if away:
        row["away_p50_ms"] = percentile(away, 50)
        row["away_p99_ms"] = percentile(away, 99)
        row["away_max_ms"] = max(away)
        row["server_ms_each"] = (kill.servers_s - idle[0] * seconds) * 1000 / len(away)
        row["client_ms_each"] = (kill.generators_s - idle[1] * seconds) * 1000 / len(away)
    return row


def _carriers(servers: RaykeeperServers, server: int) -> dict[str, int]:
    """Return how many clients a server has over each carrier."""
    found = [each for each in servers.ensemble.status().servers if each.server_id == server]
    return dict(found[0].clients) if found else {}


def _plot(path: Path, rows: Sequence[Row]) -> None:
    lines = curves(rows, "kill", "away_max_ms", ("servers", "client"))
    plot_curves(path, "Until all are back after a kill of the leader", lines, ("kill", "ms"))


RETURNS = Experiment(
    name="returns",
    title="A crowd of idle sessions whose leader is killed: who returns, when, at what cost",
    sizes=ReturnSizes,
    quick=ReturnSizes(sessions=30, processes=2, kills=1, seconds=4.0),
    run=run_returns,
    plot=_plot,
    by=("servers", "sessions", "others", "kill"),
    values=("away_max_ms", "server_ms_each", "client_ms_each"),
    is_less_better=True,
)
