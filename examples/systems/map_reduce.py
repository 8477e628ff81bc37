"""MapReduce: the coordinator dies half-way, another one goes on, and the old one is fenced.

    python -m raykeeper.examples.systems map_reduce

The words of the documents of this project are counted: one map task for each document, three
reduce tasks. What tasks make is in files, as in the MapReduce paper; znodes say what is done.

    /mr/coordinator              election: the lowest candidate coordinates, in an epoch of its own
    /mr/done/<task>              there is a file with its result
    /mr/finished                 so are all

Every order carries the epoch of its coordinator, and a worker refuses what comes of an earlier one
than it has heard of. A task is marked as done only while its coordinator's candidate is there.
"""

import json
import os
import re
import signal
import tempfile
import time
from collections import Counter
from itertools import chain
from pathlib import Path
from typing import Any
from uuid import uuid4
from zlib import crc32

import ray
from ray.exceptions import RayActorError

from raykeeper.client import Client
from raykeeper.client.recipes.election import Leadership
from raykeeper.client.recipes.recipe import Blocking
from raykeeper.clusters import Ensemble
from raykeeper.examples.systems.scene import SESSION_S, expect, kill, scene, start, tell, until

COORDINATOR, DONE, FINISHED = "/mr/coordinator", "/mr/done", "/mr/finished"
DOCUMENTS = sorted((Path(__file__).parents[2] / "docs").glob("*.md"))
HALF = len(DOCUMENTS) // 2
REDUCERS = 3
PHASES = {"map": len(DOCUMENTS), "reduce": REDUCERS}


def words_of(document: Path) -> list[str]:
    """All of them, in lower case."""
    return re.findall(r"\w+", document.read_text().lower())


class Worker:
    """Carries out tasks for whoever coordinates."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._epoch = 0

    def pid(self) -> int:
        """Of its process."""
        return os.getpid()

    def do(self, epoch: int, task: str) -> bool:
        """Carry out a task. False: the order is of a coordinator that was replaced."""
        if epoch < self._epoch:
            return False
        self._epoch = epoch
        kind, _, number = task.partition("-")
        (self._map if kind == "map" else self._reduce)(int(number))
        return True

    def _map(self, number: int) -> None:
        time.sleep(0.1)  # as if the document was larger
        parts: list[Counter[str]] = [Counter() for _ in range(REDUCERS)]
        for word in words_of(DOCUMENTS[number]):
            parts[crc32(word.encode()) % REDUCERS][word] += 1
        for reducer, part in enumerate(parts):
            self._write(f"map-{number}-{reducer}", part)

    def _reduce(self, number: int) -> None:
        total: Counter[str] = Counter()
        for part in self._folder.glob(f"map-*-{number}"):
            total.update(json.loads(part.read_text()))
        self._write(f"reduce-{number}", total)

    def _write(self, name: str, counts: Counter[str]) -> None:
        draft = self._folder / uuid4().hex
        draft.write_text(json.dumps(counts))
        draft.rename(self._folder / name)  # all of it, whoever else writes it too


class Coordinator:
    """Stands for election, and hands out what is not done yet when it is elected."""

    def run(self, ensemble: Ensemble, name: str, workers: list[Any]) -> None:
        """Wait until elected, then finish the job."""
        with (
            ensemble.connect(session_timeout_s=SESSION_S) as client,
            client.election(COORDINATOR, name.encode()) as leadership,
        ):
            for kind, count in PHASES.items():
                done = client.get_children(DONE)
                tasks = {f"{kind}-{number}" for number in range(count)}
                self._hand_out(client, leadership, sorted(tasks.difference(done)), list(workers))
            client.create(FINISHED, name.encode())

    def _hand_out(
        self, client: Client, mine: Leadership[Blocking], tasks: list[str], idle: list[Any]
    ) -> None:
        orders: dict[Any, tuple[Any, str]] = {}
        while tasks or orders:
            while tasks and idle:
                worker, task = idle.pop(), tasks.pop()
                orders[worker.do.remote(mine.epoch, task)] = worker, task
            [answer], _ = ray.wait(list(orders))
            worker, task = orders.pop(answer)
            try:
                expect(ray.get(answer), "this coordinator was replaced")
            except RayActorError:
                tasks.append(task)  # the worker is dead; another one does it
                continue
            if mine.epoch == 1 and len(client.get_children(DONE)) == HALF:
                os.kill(os.getpid(), signal.SIGKILL)  # at a bad moment: it is done, nobody knows
            with client.transaction() as t:
                t.when_held(mine)
                t.create(f"{DONE}/{task}", str(mine.epoch).encode())
            expect(bool(t.succeeded), "this coordinator was replaced")
            idle.append(worker)


def main() -> None:
    with (
        tempfile.TemporaryDirectory(prefix="raykeeper-map-reduce-") as folder,
        scene("map-reduce") as ensemble,
        ensemble.connect() as client,
    ):
        client.ensure_path(DONE)
        workers = [start(Worker, Path(folder)) for _ in range(4)]
        doomed = ray.get(workers[0].pid.remote())
        names = ("coordinator-1", "coordinator-2")
        runs = {start(Coordinator).run.remote(ensemble, name, workers): name for name in names}

        until(lambda watch: len(client.get_children(DONE, watch)) >= HALF, "the first half")
        kill(doomed)
        tell(f"{HALF} of {len(DOCUMENTS)} documents are mapped; killed a worker, process {doomed}")
        [dead], _ = ray.wait(list(runs))
        tell(f"{runs.pop(dead)}, the coordinator of epoch 1, has killed itself with SIGKILL")
        until(lambda watch: client.exists(FINISHED, watch), "the end of the job")
        tell(f"{client.get(FINISHED)[0].decode()} has finished the job")

        done = [client.get(f"{DONE}/{task}")[0].decode() for task in client.get_children(DONE)]
        expect(done.count("1") == HALF, "the first coordinator marked one half")
        expect(done.count("2") == len(done) - HALF, "the second coordinator marked the rest")
        tell(f"tasks marked in epoch 1: {HALF}, in epoch 2: {len(done) - HALF}")
        expect(not ray.get(workers[1].do.remote(1, "map-0")), "an order of epoch 1 is void")
        tell("a late order of epoch 1 is refused")
        counts: Counter[str] = Counter()
        for part in Path(folder).glob("reduce-*"):
            counts.update(json.loads(part.read_text()))
        plain = Counter(chain(*map(words_of, DOCUMENTS)))
        expect(counts == plain, "the counts are those of a plain loop")
        tell(f"{counts.total()} words, counted as a plain loop counts them")
