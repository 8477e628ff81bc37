"""What sessions cost the servers while their clients do nothing: processor time and memory.

The servers are first measured without sessions. Then the sessions of each size are opened, by
generators with many sessions each, and left alone. The processor time of a session is that of all
servers and of the actors beside them, less what they take without sessions.
"""

import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Annotated

from msgspec import Meta, Struct

from raykeeper.bench.errors import BenchError
from raykeeper.bench.experiment_run import (
    ExperimentRun,
    cpu_s,
    patience_s,
    resident_mb,
    server_pids,
    split_task,
)
from raykeeper.bench.experiments.contract import Count, Ensembles, Experiment, Processes, Seconds
from raykeeper.bench.loads.task import LoadTask
from raykeeper.bench.plots import curves, plot_curves
from raykeeper.bench.results import OURS, Row
from raykeeper.bench.systems.raykeeper import RaykeeperServers

_SETTLE_S = 5.0
"""Between the opening of the sessions and the measurement."""
_CLOSE_S = 0.01
"""A generous bound for the close of one session."""


class IdleSizes(Struct, frozen=True, kw_only=True):
    """How large the load is."""

    servers: Ensembles = (3,)
    sessions: Annotated[
        tuple[Count, ...], Meta(min_length=1, description="sessions that do nothing")
    ] = (1_000, 5_000, 20_000)
    processes: Processes = 4
    seconds: Annotated[Seconds, Meta(description="of each measurement")] = 30.0


def run_idle(run: ExperimentRun, sizes: IdleSizes) -> Iterator[Row]:
    """Yield a row for each number of sessions on each ensemble of ours."""
    run.leave_out_others("it has other signs of life")
    run.expect(len(sizes.servers) * len(sizes.sessions))
    for system, servers in run.ensembles(sizes.servers):
        assert isinstance(servers, RaykeeperServers)
        yield from measure_idle_sessions(run, servers, system.clients[0], sizes)


def measure_idle_sessions(
    run: ExperimentRun, servers: RaykeeperServers, client: str, sizes: IdleSizes
) -> Iterator[Row]:
    """Yield a row for each number of sessions on a running ensemble, the smallest first.

    The memory of a session is that of all servers together, compared with the servers before
    the first sessions.

    Raises:
        BenchError: a session was not connected at the end of its measurement.
    """
    voters = server_pids(servers)
    sidecars = servers.sidecar_pids()
    pids = voters + sidecars
    run.step(f"{OURS}: {len(voters)} servers without sessions")
    (base,), base_mb = _cores_of([pids], sizes.seconds), resident_mb(voters)
    for count in sorted(set(sizes.sessions)):
        run.step(f"{OURS}: {count} sessions")
        task = LoadTask(
            kind="idle",
            client=client,
            where=servers.where(),
            number=0,
            clients=count,
            seconds=sizes.seconds + 2 * _SETTLE_S,
        )
        with servers.load(client, split_task(task, sizes.processes)) as load:
            load.begin()
            time.sleep(_SETTLE_S)
            of_servers, of_sidecars = _cores_of([voters, sidecars], sizes.seconds)
            grown_mb = resident_mb(voters) - base_mb
            reports = load.reports(patience_s(task) + count * _CLOSE_S)
        if lost := sum(report.errors for report in reports):
            raise BenchError(f"{lost} of {count} idle sessions were not connected at the end")
        clients = sum(report.cpu_s / report.seconds for report in reports)
        yield run.done(
            {
                "system": OURS,
                "client": client,
                "servers": len(voters),
                "sessions": count,
                "us_each": (of_servers + of_sidecars - base) / count * 1e6,
                "kb_each": grown_mb / count * 1e3,
                "server_cores": of_servers,
                "sidecar_cores": of_sidecars,
                "base_cores": base,
                "client_us_each": clients / count * 1e6,
            }
        )


def _cores_of(groups: Sequence[Sequence[int]], seconds: float) -> list[float]:
    """Return how many cores each group of processes uses over the next `seconds`."""
    began, before = time.monotonic(), [cpu_s(pids) for pids in groups]
    time.sleep(seconds)
    after, took = [cpu_s(pids) for pids in groups], time.monotonic() - began
    return [(late - early) / took for early, late in zip(before, after, strict=True)]


def _plot(path: Path, rows: Sequence[Row]) -> None:
    lines = curves(rows, "sessions", "us_each", ("servers", "client"))
    axes = ("idle sessions", "µs of server processor per session and second")
    plot_curves(path, "The cost of an idle session", lines, axes, is_log_x=True)


IDLE = Experiment(
    name="idle",
    title="Idle sessions: processor time and memory of the servers",
    sizes=IdleSizes,
    quick=IdleSizes(sessions=(50,), processes=2, seconds=1.0),
    run=run_idle,
    plot=_plot,
    by=("servers", "sessions"),
    values=("us_each", "kb_each"),
    is_less_better=True,
)
