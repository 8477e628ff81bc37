"""Katta: the shards of an index are assigned to workers that come and go, by an elected master.

    python -m raykeeper.examples.systems katta

ZooKeeper paper, section 2.5. The index tells how often a word occurs in the documents of this
project, each of which is a shard.

    /katta/master                election: the lowest candidate is the master
    /katta/workers/<worker>      ephemeral: its process id, and the shards that it serves
    /katta/assigned/<worker>     the shards that it is to serve

A master writes assignments in transactions with the condition that its candidate is still there.
So one that was paused and replaced meanwhile can assign nothing, even if it does not know yet. Its
successor sees all that it has written: its own first write, that of the epoch, came later.
"""

import json
import os
import re
from collections import Counter
from itertools import chain
from pathlib import Path
from queue import SimpleQueue
from typing import Any

import ray

from raykeeper.client import Client, WatchedEvent
from raykeeper.clusters import Ensemble
from raykeeper.examples.systems.scene import (
    SESSION_S,
    Watch,
    expect,
    kill,
    leader_of,
    scene,
    start,
    tell,
    until,
)

MASTER, WORKERS, ASSIGNED = "/katta/master", "/katta/workers", "/katta/assigned"
DOCUMENTS = Path(__file__).parents[2] / "docs"
SHARDS = sorted(path.name for path in DOCUMENTS.glob("*.md"))[:12]


def count(shard: str) -> Counter[str]:
    """How often each word occurs in a document."""
    return Counter(re.findall(r"\w+", (DOCUMENTS / shard).read_text().lower()))


class Worker:
    """Serves the shards that it is assigned."""

    def __init__(self) -> None:
        self._index: dict[str, Counter[str]] = {}

    def run(self, ensemble: Ensemble, name: str) -> None:
        """Join, and keep the index as it is assigned."""
        with ensemble.connect(session_timeout_s=SESSION_S) as client:
            changes: SimpleQueue[WatchedEvent] = SimpleQueue()
            client.add_watch(f"{ASSIGNED}/{name}", changes.put)
            me = client.group(WORKERS).join(name, json.dumps([os.getpid(), []]).encode())
            while True:
                changes.get()
                shards = json.loads(client.get(f"{ASSIGNED}/{name}")[0])
                self._index = {shard: self._index.get(shard) or count(shard) for shard in shards}
                me.update(json.dumps([os.getpid(), shards]).encode())

    def search(self, shard: str, word: str) -> int:
        """How often the word occurs in one shard."""
        return self._index[shard][word]


class Master:
    """Stands for election, and assigns shards when it is elected."""

    def run(self, ensemble: Ensemble, name: str) -> None:
        """Wait until elected, and be the master until somebody else is."""
        identifier = json.dumps([name, os.getpid()]).encode()
        with (
            ensemble.connect(session_timeout_s=SESSION_S) as client,
            client.election(MASTER, identifier) as leadership,
        ):
            changes: SimpleQueue[WatchedEvent] = SimpleQueue()
            while True:
                workers = sorted(client.get_children(WORKERS, changes.put))
                paths = {name: f"{ASSIGNED}/{name}" for name in client.get_children(ASSIGNED)}
                had = {name: json.loads(client.get(path)[0]) for name, path in paths.items()}
                plan = spread({worker: had.get(worker, []) for worker in workers})
                with client.transaction() as t:
                    t.when_held(leadership)
                    for worker in had:
                        t.delete(f"{ASSIGNED}/{worker}")
                    for worker, shards in plan.items():
                        t.create(f"{ASSIGNED}/{worker}", json.dumps(shards).encode())
                expect(bool(t.succeeded), "this master was replaced")
                changes.get()


def spread(had: dict[str, list[str]]) -> dict[str, list[str]]:
    """Give each worker its share, and leave with it what it has already, as far as that goes."""
    share = -(-len(SHARDS) // max(1, len(had)))
    plan = {worker: shards[:share] for worker, shards in had.items()}
    for shard in SHARDS:
        if plan and not any(shard in shards for shards in plan.values()):
            min(plan.values(), key=len).append(shard)
    return plan


def search(client: Client, workers: dict[str, Any], word: str) -> dict[str, int]:
    """Wait until `workers` serve all shards, and ask them; the process id of each."""

    def look(watch: Watch) -> dict[str, Any] | None:
        for name in client.get_children(WORKERS, watch):
            client.exists(f"{WORKERS}/{name}", watch)
        members = client.group(WORKERS).members()
        states = {member.name: json.loads(member.data) for member in members}
        served = [shards for _, shards in states.values()]
        is_even = {len(shards) for shards in served} == {len(SHARDS) // len(workers)}
        return states if is_even and sorted(chain(*served)) == SHARDS else None

    states = until(look, "a worker for every shard") or {}
    questions = [
        workers[name].search.remote(shard, word)
        for name, (_, shards) in states.items()
        for shard in shards
    ]
    found, right = sum(ray.get(questions)), sum(count(shard)[word] for shard in SHARDS)
    shares = ", ".join(f"{name} {len(states[name][1])}" for name in sorted(states))
    expect(found == right, f"{word} occurs {right} times, not {found}")
    tell(f"{len(SHARDS)} shards served, by worker: {shares}; '{word}' found {found} times")
    return {name: pid for name, (pid, _) in states.items()}


def main() -> None:
    with scene("katta") as ensemble, ensemble.connect() as client:
        for path in (WORKERS, ASSIGNED):
            client.ensure_path(path)
        for name in ("master-1", "master-2"):
            start(Master).run.remote(ensemble, name)
        workers = {f"worker-{number}": start(Worker) for number in range(1, 4)}
        for name, worker in workers.items():
            worker.run.remote(ensemble, name)
        pids = search(client, workers, "leader")

        tell(f"killing worker-2, process {pids['worker-2']}")
        kill(pids["worker-2"])
        del workers["worker-2"]
        search(client, workers, "quorum")

        name, pid, epoch = leader_of(client, MASTER)
        tell(f"killing {name}, the master of epoch {epoch}, process {pid}")
        kill(pid)
        workers["worker-4"] = start(Worker)
        workers["worker-4"].run.remote(ensemble, "worker-4")
        tell("worker-4 comes, while there is no master")
        search(client, workers, "epoch")
        name, _, next_epoch = leader_of(client, MASTER)
        expect(next_epoch == epoch + 1, "the next master has the next epoch")
        tell(f"{name} is the master of epoch {next_epoch}")
