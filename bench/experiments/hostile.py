"""Hostile clients on the port for ZooKeeper's clients, and what a native bystander waits meanwhile.

A native client sets a znode every 10 ms: alone, beside processes that only compute, and beside each
kind of hostile load (`bench/loads/hostile_clients.py`), all of it from the loopback interface. The
bounds are the defaults first, of which each server gives an address 60 connections. Then a further
ensemble has settings that allow very many; how long the bystander waits while these are opened is
a phase of its own. All is bounded in count and in time.
"""

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Annotated, Any

import psutil
from msgspec import Meta, Struct
from msgspec.structs import replace

from raykeeper.bench.experiment_run import ExperimentRun, split_task
from raykeeper.bench.experiments.contract import Count, Experiment, Processes, Seconds
from raykeeper.bench.experiments.crowds import BegunPhase, rest_phase, rows_of
from raykeeper.bench.loads.hostile_clients import LIST
from raykeeper.bench.loads.processes import GENERATE, LoadProcesses, burning
from raykeeper.bench.loads.task import Kind, LoadTask
from raykeeper.bench.plots import plot_bars
from raykeeper.bench.results import OURS, Row
from raykeeper.bench.systems.child import free_ports_in_a_row
from raykeeper.bench.systems.contract import EnsembleShape
from raykeeper.bench.systems.raykeeper import RaykeeperServers
from raykeeper.client import Client

_PATIENCE_S = 60.0
_CREATED_AT_ONCE = 500
_DEFAULT, _RAISED = "default", "raised"


class HostileSizes(Struct, frozen=True, kw_only=True):
    """How large the loads are."""

    servers: Annotated[int, Meta(ge=1, le=255, description="servers that vote")] = 3
    clients: Annotated[
        Count, Meta(description="connections of the silent, the slow, and those that never read")
    ] = 240
    loops: Annotated[Count, Meta(description="loops of connections with lengths that lie")] = 20
    connections: Annotated[Count, Meta(description="connections where the settings allow")] = 10_000
    names: Annotated[Count, Meta(description="names in the list that nobody reads")] = 20_000
    seconds: Annotated[Seconds, Meta(description="of each phase")] = 10.0
    processes: Processes = 2


def run_hostile(run: ExperimentRun, sizes: HostileSizes) -> Iterator[Row]:
    """Yield a row for each phase, first with the default bounds, then with raised ones."""
    run.leave_out_others("the loads are for our port, beside a native client")
    run.expect(2)
    few: dict[Kind, int] = {
        "silent": sizes.clients,
        "slow": sizes.clients,
        "lengths": sizes.loops,
        "unread": sizes.clients,
    }
    many: dict[Kind, int] = {"connections": sizes.connections}
    raised = {"zookeeper_clients_per_address": sizes.connections}
    for system in run.systems:
        client = system.clients[0]
        for bounds, settings, loads in (
            (_DEFAULT, {}, few),
            (_RAISED, raised, many),
        ):
            with run.ensemble(system, _shape(sizes.servers, settings)) as servers:
                assert isinstance(servers, RaykeeperServers)
                rows = _measure(run, servers, client, loads, sizes)
            for row in rows:
                yield {"system": OURS, "client": client, "bounds": bounds, **row}
            run.done({})


def _shape(servers: int, settings: dict[str, Any]) -> EnsembleShape:
    return EnsembleShape(
        servers, settings={"zookeeper_port": free_ports_in_a_row(servers), **settings}
    )


def _measure(
    run: ExperimentRun,
    servers: RaykeeperServers,
    client: str,
    loads: dict[Kind, int],
    sizes: HostileSizes,
) -> list[Row]:
    """Return the rows of one ensemble."""
    with servers.ensemble.connect() as creator:
        _create_list(creator, sizes.names)
    niceness = psutil.Process(servers.pid(servers.leader())).nice()
    bystander = LoadTask(kind="bystander", client=client, where=servers.where(), number=0)
    ports = servers.ports()
    with servers.load(client, [bystander]) as beside:
        beside.begin()
        phases = [rest_phase(run, servers, "the bystander alone", "alone", sizes.seconds)]
        with burning(sizes.processes, niceness):
            phases.append(rest_phase(run, servers, "busy processors", "busy", sizes.seconds))
        for kind, count in loads.items():
            run.step(f"{kind}: {count} clients begin")
            task = LoadTask(kind=kind, client=client, where=ports, number=1, clients=count)
            parts = split_task(task, sizes.processes)
            opening = BegunPhase(servers)
            with LoadProcesses(GENERATE, parts, niceness=niceness) as load:
                if kind == "connections":
                    phases.append(opening.end("opening"))
                load.begin()
                phase = rest_phase(run, servers, f"{kind}: {count} clients", kind, sizes.seconds)
                load.stop()
                reports = load.reports(_PATIENCE_S)
            opened = sum(report.done for report in reports)
            ended = sum(report.errors for report in reports)
            told = {"clients": count, "opened": opened, "ended": ended}
            phases.append(replace(phase, columns=phase.columns | told))
        phases.append(rest_phase(run, servers, "after them", "after", sizes.seconds))
        beside.stop()
        (waited,) = beside.reports(_PATIENCE_S)
    rows = rows_of(phases, waited.timings["set"], waited.errors)
    return [{"servers": sizes.servers, **row} for row in rows]


def _create_list(client: Client, names: int) -> None:
    client.create(LIST)
    for first in range(0, names, _CREATED_AT_ONCE):
        numbers = range(first, min(first + _CREATED_AT_ONCE, names))
        for future in [client.create_async(f"{LIST}/task-{number:010}") for number in numbers]:
            future.result()


def _plot(path: Path, rows: Sequence[Row]) -> None:
    bars: dict[str, dict[str, float]] = {}
    for row in rows:
        phases = bars.setdefault(str(row["bounds"]), {})
        if "set_p99_ms" in row:
            phases[str(row["phase"])] = float(row["set_p99_ms"])
    panels = {"p99 of a bystander's set, ms": bars}
    plot_bars(path, "A native bystander of hostile clients", panels, is_log=True)


HOSTILE = Experiment(
    name="hostile",
    title="Hostile clients on the port for ZooKeeper's clients, and a native bystander",
    sizes=HostileSizes,
    quick=HostileSizes(clients=6, loops=2, connections=30, names=50, seconds=0.5, processes=2),
    run=run_hostile,
    plot=_plot,
    by=("servers", "bounds", "phase"),
    values=("set_p99_ms", "server_mb"),
    is_less_better=True,
)
