"""The common part of the experiments: measured systems, progress, loads, measurements."""

import os
import tempfile
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path
from typing import Self

import psutil
from msgspec import Struct, structs
from rich.console import Console
from rich.progress import BarColumn, Progress, TaskID, TextColumn, TimeElapsedColumn

from raykeeper.bench.loads.processes import LoadProcesses
from raykeeper.bench.loads.task import THREADED, LoadReport, LoadTask
from raykeeper.bench.measures import Span, WarmUp, WarmUpBounds, judge_warm_up, rate
from raykeeper.bench.results import OURS, Row, Value
from raykeeper.bench.systems.contract import EnsembleShape, Servers, System
from raykeeper.bench.termination import ended_by_sigterm

BUSY = 0.9
"""A core counts as busy if it works for this part of the time."""
_PATIENCE_S = 120.0
_REQUESTS_S = 0.2
"""A generous bound for what `LoadTask.count` counts as one: a few requests, one by one."""


class Measurement(Struct, frozen=True):
    """The measurement of one load on one ensemble."""

    reports: list[LoadReport]
    began: float
    server_cpu_s: Mapping[int, float]
    """The processor time of each server, by its number."""
    sidecars_cpu_s: float = 0.0
    """The processor time of the processes beside the servers."""

    @property
    def servers_cpu_s(self) -> float:
        """Return the processor time of all servers."""
        return sum(self.server_cpu_s.values())

    @property
    def seconds(self) -> float:
        """Return the seconds until the last generator was done."""
        return max(report.seconds for report in self.reports)

    def columns(self) -> dict[str, Value]:
        """Return the cores used, the errors, and a note if the generators are the bottleneck."""
        generators = sum(report.cpu_s for report in self.reports) / self.seconds
        return {
            "server_cores": self.servers_cpu_s / self.seconds,
            "generator_cores": generators,
            "errors": sum(report.errors for report in self.reports),
            "note": bottleneck_note(self.reports, self.servers_cpu_s, len(os.sched_getaffinity(0))),
        }

    def us_per_request(self, leader: int) -> dict[str, float]:
        """Return the processor time of one request, in microseconds, on each kind of process.

        `leader_us` and `follower_us` are those of one server, the latter on average, and missing
        without followers; `sidecars_us` and `client_us` those of all these processes together.
        """
        done = sum(report.done for report in self.reports)
        if not done:
            return {}
        others = [s for number, s in self.server_cpu_s.items() if number != leader]
        taken = {"leader_us": self.server_cpu_s[leader]}
        if others:
            taken["follower_us"] = sum(others) / len(others)
        taken["sidecars_us"] = self.sidecars_cpu_s
        taken["client_us"] = sum(report.cpu_s for report in self.reports)
        return {name: seconds / done * 1e6 for name, seconds in taken.items()}


def bottleneck_note(reports: Sequence[LoadReport], servers_cpu_s: float, cores: int) -> str:
    """Return a note if the generators, and not the servers, limited the load; else ""."""
    if all(report.cpu_s > BUSY * report.seconds * report.threads for report in reports):
        return "the generator is the limit"
    generators_cpu_s = sum(report.cpu_s for report in reports)
    available_s = cores * max(report.seconds for report in reports)
    if generators_cpu_s > servers_cpu_s and generators_cpu_s + servers_cpu_s > BUSY * available_s:
        return "the generator takes most of the cores"
    return ""


class ExperimentRun:
    """One experiment on each system in turn. A context manager that stops what it started."""

    def __init__(self, systems: Sequence[System], console: Console, scratch: Path | None) -> None:
        """Servers keep their data in `scratch`; None: in a temporary folder."""
        self.systems = list(systems)
        self.console = console
        self._open = ExitStack()
        self._scratch = scratch
        self._progress = Progress(
            TextColumn("{task.description}", markup=False),
            BarColumn(),
            TextColumn("{task.completed}/{task.total}", markup=False),
            TimeElapsedColumn(),
            console=console,
            transient=True,
        )
        self._task = TaskID(0)

    def __enter__(self) -> Self:
        folder = tempfile.TemporaryDirectory(
            prefix="raykeeper-bench-", dir=self._scratch, ignore_cleanup_errors=True
        )
        self.folder = Path(self._open.enter_context(folder))
        self._open.enter_context(ended_by_sigterm(self.folder))
        for system in self.systems:
            self._open.callback(system.close)
        self._open.enter_context(self._progress)
        self._task = self._progress.add_task("starting", total=None)
        return self

    def __exit__(self, *_error: object) -> None:
        self._open.close()

    def leave_out_others(self, reason: str) -> None:
        """Measure only our own system, and print the reason for each other one."""
        for system in self.systems:
            if system.name != OURS:
                self.console.print(f"{system.name} is left out: {reason}")
        self.systems = [system for system in self.systems if system.name == OURS]

    def expect(self, steps: int) -> None:
        """Announce the number of steps for each kind of client of each system."""
        contenders = sum(len(system.clients) for system in self.systems)
        self._progress.update(self._task, total=steps * max(contenders, 1))

    def step(self, text: str) -> None:
        """Show that a step begins."""
        self._progress.update(self._task, description=text)

    def done(self, row: Row) -> Row:
        """Count a finished step, and return its row."""
        self._progress.advance(self._task)
        return row

    def ensembles(
        self, sizes: Sequence[int], observers: int = 0
    ) -> Iterator[tuple[System, Servers]]:
        """Yield each system at each size, started with empty disks and stopped afterwards."""
        for voters in sizes:
            for system in self.systems:
                with self.ensemble(system, EnsembleShape(voters, observers)) as servers:
                    yield system, servers

    @contextmanager
    def ensemble(self, system: System, shape: EnsembleShape) -> Iterator[Servers]:
        """Start one ensemble with empty disks, and stop it afterwards."""
        self.step(f"{system.name}: {shape.servers} servers start")
        with (
            tempfile.TemporaryDirectory(dir=self.folder, ignore_cleanup_errors=True) as folder,
            system.launch(shape, Path(folder)) as servers,
        ):
            yield servers


class Contender(Struct, frozen=True):
    """One kind of client of one ensemble: what is measured, and a row of the results tells of."""

    system: str
    client: str
    servers: Servers

    def __str__(self) -> str:
        return f"{self.system} ({self.client}), {self.servers.shape.servers} servers"

    @property
    def columns(self) -> dict[str, Value]:
        """Return the columns that name it."""
        shape = self.servers.shape
        return {"system": self.system, "client": self.client, "servers": shape.servers}


def contenders(system: System, servers: Servers) -> list[Contender]:
    """Return each kind of client of an ensemble."""
    return [Contender(system.name, client, servers) for client in system.clients]


def measure_warm(
    bounds: WarmUpBounds, servers: Servers, task: LoadTask, processes: int = 1
) -> tuple[WarmUp, Measurement]:
    """Warm, then measure a load from `processes` processes, which share the clients of `task`."""
    with servers.load(task.client, split_task(task, processes)) as load:
        warm = warm_up(bounds, servers, load)
        return warm, measure_round(servers, load, patience_s(task))


def measure_round(
    servers: Servers, load: LoadProcesses, patience_s: float, **changes: float
) -> Measurement:
    """Measure one round of a load that is ready; `changes` are fields of its task."""
    numbers, sidecars = servers.shape.numbers(), servers.sidecar_pids()
    groups = [[pid] for pid in server_pids(servers)] + [sidecars]
    before = list(map(cpu_s, groups))
    began = load.begin(**changes)
    reports = load.reports(patience_s)
    *taken, beside = (cpu_s(pids) - early for pids, early in zip(groups, before, strict=True))
    return Measurement(reports, began, dict(zip(numbers, taken, strict=True)), beside)


def warm_up(
    bounds: WarmUpBounds, servers: Servers, load: LoadProcesses, **changes: float
) -> WarmUp:
    """Load a system, as it will be measured, until its rate stands still (`judge_warm_up`).

    A round takes a window, or the `count` of `changes`.
    """
    windows: list[tuple[int, float]] = []
    changes = {"count": 0, "seconds": bounds.window_s, **changes}
    while (warm := judge_warm_up(windows, bounds)) is None:
        measured = measure_round(servers, load, bounds.most_s + _PATIENCE_S, **changes)
        windows.append((sum(report.done for report in measured.reports), measured.seconds))
    return warm


def warm_columns(warm: WarmUp) -> dict[str, Value]:
    """Return for how long a system was warmed, its rate then, and whether that stood still."""
    return {
        "warmed_s": warm.seconds,
        "warm_ops_per_s": warm.rate,
        "warmed": "steady" if warm.is_steady else "still moving",
    }


def patience_s(task: LoadTask) -> float:
    """Return how long a load may take: by its time if it has one, else by its amount of work."""
    return (task.seconds or task.count * _REQUESTS_S * max(1, task.participants)) + _PATIENCE_S


def split_task(task: LoadTask, processes: int) -> list[LoadTask]:
    """Split a task among processes, each with at least one client.

    One process has all the clients of a library whose threads use every core: more of them would
    only be more to warm.
    """
    count = 1 if task.client in THREADED else min(processes, task.clients)
    least, more = divmod(task.clients, count)
    shares = [least + (i < more) for i in range(count)]
    return [
        structs.replace(task, number=task.number + i, clients=share, first_client=sum(shares[:i]))
        for i, share in enumerate(shares)
    ]


def server_pids(servers: Servers) -> list[int]:
    """Return the pids of all servers; 0 for one that is down."""
    return [servers.pid(number) for number in servers.shape.numbers()]


def cpu_s(pids: Sequence[int]) -> float:
    """Return the processor time of these processes so far; an ended process counts 0."""
    total = 0.0
    for pid in filter(None, pids):  # clock 0 would be our own
        with suppress(OSError):  # it has ended
            total += time.clock_gettime(_cpu_clock(pid))
    return total


def _cpu_clock(pid: int) -> int:
    """Return the id of a process's processor clock, as `clock_getcpuclockid` of Linux does.

    It counts nanoseconds. /proc counts ticks of 10 ms, which is more than a server takes for a
    short round of one client.
    """
    return (~pid << 3) | 2


def resident_mb(pids: Sequence[int]) -> float:
    """Return how many megabytes of memory these processes have together."""
    return sum(psutil.Process(pid).memory_info().rss for pid in pids) / 1e6


def throughput(measured: Measurement, seconds: float) -> float:
    """Return operations per second from the beginning of a load, for so many seconds."""
    window: Span = (measured.began, measured.began + seconds)
    return rate([report.counts for report in measured.reports], window)
