"""What the experiments share: whom to measure and against whom, progress, loads, results."""

import os
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Self

import psutil
from msgspec import Struct, structs
from rich.console import Console
from rich.progress import BarColumn, Progress, TaskID, TextColumn, TimeElapsedColumn

from raykeeper.bench.loads.task import LoadReport, LoadTask
from raykeeper.bench.measures import Span, rate
from raykeeper.bench.results import Row, Value
from raykeeper.bench.systems.contract import EnsembleShape, Servers, System

BUSY = 0.9
"""The part of its time from which on a core is taken to be busy."""
_PATIENCE_S = 120.0
_REQUESTS_S = 0.2
"""The requests that `LoadTask.count` counts as one, of each client, one after the other, slowly."""


class Measurement(Struct, frozen=True):
    """A load on one ensemble, and what it took."""

    reports: list[LoadReport]
    began: float
    servers_cpu_s: float

    @property
    def seconds(self) -> float:
        """Until the last generator was done."""
        return max(report.seconds for report in self.reports)

    def columns(self) -> dict[str, Value]:
        """How many cores were used by whom, errors, and a note if the generators are the limit."""
        generators = sum(report.cpu_s for report in self.reports) / self.seconds
        return {
            "server_cores": self.servers_cpu_s / self.seconds,
            "generator_cores": generators,
            "errors": sum(report.errors for report in self.reports),
            "note": bottleneck_note(self.reports, self.servers_cpu_s, len(os.sched_getaffinity(0))),
        }


def bottleneck_note(reports: Sequence[LoadReport], servers_cpu_s: float, cores: int) -> str:
    """A note when the servers could have done more, had it not been for the generators."""
    if all(report.cpu_s > BUSY * report.seconds * report.threads for report in reports):
        return "the generator is the limit"
    generators_cpu_s = sum(report.cpu_s for report in reports)
    available_s = cores * max(report.seconds for report in reports)
    if generators_cpu_s > servers_cpu_s and generators_cpu_s + servers_cpu_s > BUSY * available_s:
        return "the generator takes most of the cores"
    return ""


class ExperimentRun:
    """One experiment, on each system in turn. A context, which stops what it has started."""

    def __init__(self, systems: Sequence[System], console: Console, scratch: Path | None) -> None:
        """`scratch` is where servers keep their data; None is a temporary folder."""
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
        for system in self.systems:
            self._open.callback(system.close)
        self._open.enter_context(self._progress)
        self._task = self._progress.add_task("starting", total=None)
        return self

    def __exit__(self, *_error: object) -> None:
        self._open.close()

    def expect(self, steps: int) -> None:
        """There will be so many steps for each kind of client of each system."""
        contenders = sum(len(system.clients) for system in self.systems)
        self._progress.update(self._task, total=steps * max(contenders, 1))

    def step(self, text: str) -> None:
        """A step begins."""
        self._progress.update(self._task, description=text)

    def done(self, row: Row) -> Row:
        """A step is over; returns its row."""
        self._progress.advance(self._task)
        return row

    def ensembles(
        self, sizes: Sequence[int], observers: int = 0
    ) -> Iterator[tuple[System, EnsembleShape, Servers]]:
        """Each system at each size in turn, started with empty disks and stopped afterwards."""
        for voters in sizes:
            for system in self.systems:
                shape = EnsembleShape(voters, observers)
                with self.ensemble(system, shape) as servers:
                    yield system, shape, servers

    @contextmanager
    def ensemble(self, system: System, shape: EnsembleShape) -> Iterator[Servers]:
        """One of them."""
        self.step(f"{system.name}: {shape.servers} servers start")
        with (
            tempfile.TemporaryDirectory(dir=self.folder, ignore_cleanup_errors=True) as folder,
            system.launch(shape, Path(folder)) as servers,
        ):
            yield servers


def measure_load(
    servers: Servers, shape: EnsembleShape, task: LoadTask, processes: int
) -> Measurement:
    """A load from `processes` processes, each with its share of the clients of `task`."""
    shares = split_task(task, processes)
    with servers.load(task.client, shares) as load:
        pids = [servers.pid(i + 1) for i in range(shape.servers + shape.observers)]
        before = cpu_s(pids)
        began = load.begin()
        reports = load.reports(patience_s(task))
        return Measurement(reports, began, cpu_s(pids) - before)


def patience_s(task: LoadTask) -> float:
    """How long a load may take: one that is told no time, by how much it has to do."""
    return (task.seconds or task.count * _REQUESTS_S * max(1, task.participants)) + _PATIENCE_S


def split_task(task: LoadTask, processes: int) -> list[LoadTask]:
    """The tasks of the processes; no process is without a client."""
    count = min(processes, task.clients)
    least, more = divmod(task.clients, count)
    return [
        structs.replace(task, number=task.number + i, clients=least + (i < more))
        for i in range(count)
    ]


def cpu_s(pids: Sequence[int]) -> float:
    """Processor time of these processes so far; one that is gone counts nothing."""
    total = 0.0
    for pid in pids:
        try:
            times = psutil.Process(pid).cpu_times()
        except psutil.NoSuchProcess:
            continue
        total += times.user + times.system
    return total


def throughput(measured: Measurement, warmup_s: float, seconds: float) -> float:
    """Operations per second after the warm-up."""
    window: Span = (measured.began + warmup_s, measured.began + warmup_s + seconds)
    return rate([report.counts for report in measured.reports], window)
