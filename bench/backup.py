"""The latency of writes while a backup is taken, and while an archive follows, beside that without.

    python bench/backup.py [--rate N] [--seconds N] [--rounds N] [--znodes N] [--mb-per-s N]

A client in a process of its own starts 1 KB `set`s at an even rate and notes how long each takes,
from the moment at which it was due: a client that is late counts, too. Rounds without a backup,
with backups one after the other, and with an archive that is followed alternate, so that whatever
else the machine does meets all three. An archive is followed as `raykeeper backup --follow` does by
default; how far it is behind is from the answer of a write to the report that it is archived.
"""

import argparse
import asyncio
import shutil
import statistics
import sys
import tempfile
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Any

import ray

from raykeeper.bench.loads.raykeeper_clients import client_options
from raykeeper.bench.measures import percentile
from raykeeper.client import AsyncClient
from raykeeper.clusters import Ensemble, launch
from raykeeper.clusters.backups import BackupReport, FollowEvent, follow
from raykeeper.clusters.config import DEFAULTS
from raykeeper.clusters.local_ray import private_ray
from raykeeper.zab.ids import Zxid

PATHS = [f"/load/{number}" for number in range(100)]
TICK_S = 0.005
VALUE = bytes(1024)
OUTSTANDING_MAX = 5_000


class Load:
    """The client, an actor."""

    def __init__(self, name: str) -> None:
        self._name = name

    async def run(self, rate: int, seconds: float) -> tuple[list[float], float]:
        """Write; return the milliseconds of each write, and writes in a second."""
        options = await asyncio.to_thread(client_options, self._name)
        client = await AsyncClient.open(*options)
        async with client:
            taken: list[float] = []
            loop = asyncio.get_running_loop()
            began, sent = loop.time(), 0

            def note(due: float, _: object) -> None:
                taken.append((loop.time() - due) * 1000)

            while (now := loop.time()) < began + seconds:
                while sent < (now - began) * rate and sent - len(taken) < OUTSTANDING_MAX:
                    due = began + sent / rate
                    future = client.set(PATHS[sent % len(PATHS)], VALUE)
                    future.add_done_callback(partial(note, due))
                    sent += 1
                await asyncio.sleep(TICK_S)
            while len(taken) < sent:
                await asyncio.sleep(TICK_S)
            return taken, sent / (loop.time() - began)


def main() -> None:
    """Measure, and print a row for each round and the medians."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rate", type=int, default=20_000)
    parser.add_argument("--seconds", type=float, default=20.0)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--znodes", type=int, default=50_000)
    parser.add_argument("--mb-per-s", type=float, default=DEFAULTS.backup_mb_per_s)
    options = parser.parse_args()
    folder = Path(tempfile.mkdtemp(prefix="raykeeper-backup-"))
    try:
        with private_ray():
            settings = {"data_dir": str(folder / "data"), "backup_mb_per_s": options.mb_per_s}
            ensemble = launch(name="measured", timeout_s=120.0, **settings)
            fill(ensemble, options.znodes)
            measure(ensemble, folder, options)
    finally:
        shutil.rmtree(folder)


def fill(ensemble: Ensemble, count: int) -> None:
    """Make the tree as large as one that is worth a backup."""
    with ensemble.connect() as client:
        for path in ("/load", "/tree", *PATHS):
            client.create(path, VALUE)
        for start in range(0, count, 500):
            futures = [
                client.create_async(f"/tree/{number}", bytes(200))
                for number in range(start, min(count, start + 500))
            ]
            for future in futures:
                future.result()


def measure(ensemble: Ensemble, folder: Path, options: Any) -> None:
    """Run the rounds."""
    load: Any = ray.remote(Load).options(num_cpus=0).remote(ensemble.name)
    ray.get(load.run.remote(options.rate, options.seconds / 2))  # warm
    found: dict[str, list[float]] = {}
    for number in range(options.rounds):
        for kind in (alone, backups, followed):
            with kind(ensemble, folder) as told:
                taken, rate = ray.get(load.run.remote(options.rate, options.seconds))
            row = [percentile(taken, percent) for percent in (50, 99, 99.9)]
            found.setdefault(kind.__name__, []).append(row[-1])
            show(f"{number} {kind.__name__:9} {rate:7.0f}/s  p50 {row[0]:7.2f}  p99 {row[1]:7.2f}")
            show(f"  p99.9 {row[2]:8.2f} ms  {told()}")
    medians = {kind: statistics.median(values) for kind, values in found.items()}
    for name, value in medians.items():
        show(f"median p99.9 {name}: {value:.2f} ms, {value / medians['alone']:.2f} times")


@contextmanager
def alone(_ensemble: Ensemble, _folder: Path) -> Iterator[Any]:
    """Nothing beside the writes."""
    yield lambda: ""


@contextmanager
def backups(ensemble: Ensemble, folder: Path) -> Iterator[Any]:
    """Backups one after the other."""
    ended = threading.Event()
    taken: list[BackupReport] = []

    def run() -> None:
        while not ended.is_set():
            file = folder / "one.rkb"
            taken.append(ensemble.backup(file))
            file.unlink()

    def told() -> str:
        size = statistics.median(report.bytes for report in taken) / 1e6
        seconds = statistics.median(report.seconds for report in taken)
        return f"{len(taken)} backups of {size:.0f} MB in {seconds:.1f} s each"

    with _thread(run, ended):
        yield told


@contextmanager
def followed(ensemble: Ensemble, folder: Path) -> Iterator[Any]:
    """An archive that is followed; a client asks how far it is behind."""
    ended, archived = threading.Event(), list[tuple[float, Zxid]]()
    behind: list[float] = []

    def say(event: FollowEvent) -> None:
        archived.append((time.monotonic(), event.zxid or Zxid(0)))

    def look() -> None:
        with ensemble.connect() as client:
            while not ended.is_set():
                zxid, at = client.set("/load", b"").mzxid, time.monotonic()
                while not ended.is_set() and not (archived and archived[-1][1] >= zxid):
                    time.sleep(0.01)
                if archived and archived[-1][1] >= zxid:
                    behind.append(archived[-1][0] - at)

    def run() -> None:
        follow(ensemble.name, folder / "archive", say=say, stop=ended)

    with _thread(run, ended), _thread(look, ended):
        yield (
            lambda: (
                f"behind by {statistics.median(behind):.2f} s, at most {max(behind):.2f} s"
                if behind
                else "nothing was archived"
            )
        )
    shutil.rmtree(folder / "archive")


@contextmanager
def _thread(run: Any, ended: threading.Event) -> Iterator[None]:
    thread = threading.Thread(target=run)
    thread.start()
    try:
        yield
    finally:
        ended.set()
        thread.join()


def show(line: str) -> None:
    """Print a line past `private_ray`, which discards standard output."""
    sys.stderr.write(line + "\n")


if __name__ == "__main__":
    main()
