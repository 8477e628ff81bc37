"""`raykeeper demo`: launch, work, kill coordinator and leader half-way, check the counts."""

import os
import queue
import signal
import sys
import time
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import ray
from msgspec import Struct
from rich.console import Console

from raykeeper.client import Client, Leader, WatchedEvent
from raykeeper.client.errors import KeeperError
from raykeeper.clusters.ensemble import Ensemble
from raykeeper.clusters.launch import launch
from raykeeper.clusters.local_ray import private_ray
from raykeeper.commands.demo import job
from raykeeper.commands.demo.job import JobConfig, Progress, Result, Task
from raykeeper.commands.demo.words import OWN_TEXTS, InputError, count_words, cut, find_texts
from raykeeper.commands.demo.worker import DemoWorker
from raykeeper.links.ray_internals import own_token
from raykeeper.zab.errors import RayKeeperError

WORKERS = 6
SLOW, QUICK = JobConfig(pause_ms=250), JobConfig(pause_ms=120)
TIMEOUT_S = 50.0


class DemoError(RayKeeperError):
    """Raised when the job of the demo does not come to its end.

    The caller should look at the last line that was printed: it says how far the job came.
    """


class FileCount(Struct, frozen=True):
    """The word counts of one file."""

    file: str
    words: int
    different: int
    plain_words: int
    """The count of a plain loop."""
    is_right: bool
    """Whether workers and plain loop agree on every word."""


class DemoReport(Struct, frozen=True):
    """The result of the job."""

    files: list[FileCount]
    seconds: float

    @property
    def words(self) -> int:
        """Return the number of words in all files."""
        return sum(count.words for count in self.files)

    @property
    def wrong_files(self) -> list[str]:
        """Return the files whose words were not counted right."""
        return [count.file for count in self.files if not count.is_right]


def run_demo(folder: Path | None, console: Console) -> DemoReport:
    """Run the job on the text files of `folder`, or on the project's own; report on `console`.

    Raises:
        InputError: there is no text to count.
        DemoError: the job did not finish in time.
    """
    folder = (folder or OWN_TEXTS).expanduser().absolute()
    if not folder.is_dir():
        raise InputError(f"{folder} is not a folder; name one with --input")
    texts = find_texts(folder)
    console.file = console.file  # pin standard output, which `private_ray` redirects
    log = _ProgressLog(console)
    folder_of_data = TemporaryDirectory(prefix="raykeeper-demo-", ignore_cleanup_errors=True)
    with private_ray(), folder_of_data as data_dir:
        log.print("Ray runs on this machine")
        ensemble = launch(name="demo", servers=3, data_dir=data_dir)
        log.print(f"three servers are up, server {ensemble.status().leader} leads")
        log.print(f"to see it in a browser meanwhile: {page_command(ensemble.name)}")
        try:
            results = _DemoJob(ensemble, folder, texts, log).run()
        finally:
            ensemble.shutdown()
    return DemoReport(list(_counts(texts, results)), log.elapsed_s)


def page_command(name: str) -> str:
    """Return the command that serves the page of an ensemble in the Ray of this process."""
    program = sys.argv[0] if Path(sys.argv[0]).name == "raykeeper" else "raykeeper"
    mode = "" if own_token() is None else "RAY_AUTH_MODE=token "
    return f"{mode}{program} ui {name} --address {ray.get_runtime_context().gcs_address}"


class _ProgressLog:
    """Prints what happens, with times."""

    def __init__(self, console: Console) -> None:
        self._console = console
        self._began = time.monotonic()

    @property
    def elapsed_s(self) -> float:
        return time.monotonic() - self._began

    def print(self, text: str) -> None:
        self._console.print(f"{self.elapsed_s:6.2f} s  {text}")


class _DemoJob:
    """The job seen from outside: starts the workers, watches the progress, and kills processes."""

    def __init__(
        self, ensemble: Ensemble, folder: Path, texts: dict[str, str], log: _ProgressLog
    ) -> None:
        self._ensemble = ensemble
        self._folder = folder
        self._texts = texts
        self._pieces = cut(texts)
        self._log = log
        self._events: queue.SimpleQueue[WatchedEvent | Leader | None] = queue.SimpleQueue()
        """Of the progress, and each new coordinator or none."""
        self._epoch = 0
        self._coordinator = ""
        self._actors: list[Any] = []  # an actor ends when its last handle goes
        self._runs: dict[str, ray.ObjectRef[Any]] = {}
        self._killed = ""

    def run(self) -> list[tuple[Task, Result]]:
        """Return the task and the result of every piece."""
        with self._ensemble.connect() as client:
            self._create_znodes(client)
            client.election(job.ELECTION).observe(self._events.put)
            self._start_workers()
            self._watch_until(client, self._is_half_done)
            self._kill_both(client)
            self._watch_until(client, self._is_finished)
            self._show_shares()
            return self._results(client)

    def _create_znodes(self, client: Client) -> None:
        for path in job.FOLDERS:
            client.create(path)
        client.create(job.CONFIG, job.encode(SLOW))
        client.create(job.PROGRESS, job.encode(Progress(0, len(self._pieces))))
        creations = [
            client.create_async(f"{job.TASKS}/{number}", job.encode(Task(piece)))
            for number, piece in enumerate(self._pieces)
        ]
        for creation in creations:
            creation.result()
        self._log.print(f"{len(self._texts)} files are cut into {len(self._pieces)} tasks")

    def _start_workers(self) -> None:
        actor_class: Any = ray.remote(num_cpus=0, max_restarts=0)(DemoWorker)
        for number in range(1, WORKERS + 1):
            name = f"worker-{number}"
            actor = actor_class.remote(self._ensemble, name, str(self._folder))
            self._actors.append(actor)
            self._runs[name] = actor.run.remote()

    def _watch_until(self, client: Client, reached: Callable[[Progress], bool]) -> None:
        """Follow progress and new coordinators until `reached` returns True.

        Raises:
            DemoError: the job takes too long, or a worker failed.
        """
        while True:
            value, _ = client.get(job.PROGRESS, self._events.put)
            is_reached = reached(job.decode(value, type=Progress))
            # A coordinator that came before the progress was read is shown in any case.
            while not is_reached or not self._events.empty():
                try:
                    event = self._events.get(timeout=1.0)
                except queue.Empty:
                    self._check_workers()
                    continue
                if isinstance(event, Leader):
                    self._show_leader(event)
                elif event is not None and not is_reached:
                    break  # there is progress
            else:
                return

    def _check_workers(self) -> None:
        for name, run in self._runs.items():
            if name != self._killed and ray.wait([run], timeout=0)[0]:
                self._share(name)
        if self._log.elapsed_s > TIMEOUT_S:
            raise DemoError(f"the job is not finished after {TIMEOUT_S:g} s")

    def _share(self, name: str) -> int:
        """Return how many pieces a worker counted."""
        try:
            counted: int = ray.get(self._runs[name], timeout=TIMEOUT_S)
        except (ray.exceptions.RayError, KeeperError) as error:
            raise DemoError(f"{name} failed: {getattr(error, 'cause', error)}") from None
        return counted

    def _show_shares(self) -> None:
        shares = {name: self._share(name) for name in self._runs if name != self._killed}
        counted = ", ".join(f"{name} {share}" for name, share in shares.items())
        self._log.print(f"the job is finished; pieces by worker: {counted}")

    def _show_leader(self, leader: Leader) -> None:
        if leader.epoch > self._epoch:
            self._epoch, self._coordinator = leader.epoch, leader.identifier.decode()
            self._log.print(f"{self._coordinator} coordinates, epoch {self._epoch}")

    def _is_half_done(self, progress: Progress) -> bool:
        return progress.done * 2 >= progress.total

    def _is_finished(self, progress: Progress) -> bool:
        return progress.done == progress.total

    def _kill_both(self, client: Client) -> None:
        """Send SIGKILL to the coordinator's process and to the leader's."""
        self._killed = name = self._coordinator
        member = job.decode(client.get(f"{job.WORKERS}/{name}")[0], type=job.Worker)
        report = self._ensemble.status()
        leader = next(s for s in report.servers if s.server_id == report.leader)
        done = job.decode(client.get(job.PROGRESS)[0], type=Progress)
        self._log.print(f"half-way: {done.done} of {done.total} tasks are done")
        os.kill(member.pid, signal.SIGKILL)
        os.kill(leader.pid, signal.SIGKILL)
        self._log.print(
            f"killed {name}, process {member.pid}, "
            f"and server {leader.server_id}, the leader, process {leader.pid}"
        )
        killed_at = self._log.elapsed_s
        client.set(job.CONFIG, job.encode(QUICK))
        pause_ms = (self._log.elapsed_s - killed_at) * 1000
        self._log.print(
            f"the new configuration is written, {pause_ms:.0f} ms after the kill; "
            f"server {self._ensemble.wait_for_leader()} leads"
        )

    def _results(self, client: Client) -> list[tuple[Task, Result]]:
        numbers = sorted(map(int, client.get_children(job.RESULTS)))
        found = []
        for number in numbers:
            task = job.decode(client.get(f"{job.TASKS}/{number}")[0], type=Task)
            result = job.decode(client.get(f"{job.RESULTS}/{number}")[0], type=Result)
            found.append((task, result))
        return found


def _counts(texts: dict[str, str], results: list[tuple[Task, Result]]) -> Iterator[FileCount]:
    """Compare the counts of the workers with those of a plain loop over the same files."""
    counts: dict[str, Counter[str]] = {name: Counter() for name in texts}
    for task, result in results:
        counts[task.piece.file].update(result.words)
    for name, text in texts.items():
        counted, plain = counts[name], Counter(count_words(text))
        yield FileCount(name, counted.total(), len(counted), plain.total(), counted == plain)
