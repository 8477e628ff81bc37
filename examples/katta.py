"""Katta: the shards of an index are assigned to workers that come and go, by an elected master.

    python -m examples katta

ZooKeeper paper, section 2.5. The index tells how often a word occurs in the documents of this
project, each of which is a shard.

    /katta/master                election: the lowest candidate is the master
    /katta/workers/<worker>      ephemeral: its process id, and the shards that it serves
    /katta/assigned/<worker>     the shards that it is to serve

A master writes assignments in transactions with the condition that its candidate is still there.
So one that was paused and replaced meanwhile can assign nothing, even if it does not know yet.
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

from examples.scene import SESSION_S, Watch, expect, kill, leader_of, scene, start, tell, until
from raykeeper.client import Client, WatchedEvent
from raykeeper.client.errors import KeeperError
from raykeeper.clusters import Ensemble

MASTER, WORKERS, ASSIGNED = "/katta/master", "/katta/workers", "/katta/assigned"
DOCUMENTS = Path(__file__).parents[1] / "docs"
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
            client.create(
                f"{WORKERS}/{name}", json.dumps([os.getpid(), []]).encode(), ephemeral=True
            )
            while True:
                changes.get()
                (shards,) = values(client, ASSIGNED, [name])
                self._index = {shard: self._index.get(shard) or count(shard) for shard in shards}
                client.set(f"{WORKERS}/{name}", json.dumps([os.getpid(), shards]).encode())

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
            is_master = True
            while is_master:
                workers = sorted(client.get_children(WORKERS, changes.put))
                known = client.get_children(ASSIGNED)
                had = dict(zip(known, values(client, ASSIGNED, known), strict=True))
                plan = spread({worker: had.get(worker) or [] for worker in workers})
                with client.transaction() as t:
                    t.when(leadership.path, "czxid", "==", leadership.token)
                    for worker in known:
                        t.delete(f"{ASSIGNED}/{worker}")
                    for worker, shards in plan.items():
                        t.create(f"{ASSIGNED}/{worker}", json.dumps(shards).encode())
                is_master = bool(t.succeeded)
                changes.get()


def spread(had: dict[str, list[str]]) -> dict[str, list[str]]:
    """Give each worker its share, and leave with it what it has already, as far as that goes."""
    share = -(-len(SHARDS) // max(1, len(had)))
    plan = {worker: shards[:share] for worker, shards in had.items()}
    for shard in SHARDS:
        if plan and not any(shard in shards for shards in plan.values()):
            min(plan.values(), key=len).append(shard)
    return plan


def values(client: Client, folder: str, names: list[str]) -> list[Any]:
    """What some znodes hold, None for those that are missing."""
    found = client.get_many([f"{folder}/{name}" for name in names])
    return [None if isinstance(each, KeeperError) else json.loads(each[0]) for each in found]


def search(client: Client, workers: dict[str, Any], word: str) -> dict[str, int]:
    """Wait until `workers` serve all shards, and ask them; the process id of each."""

    def look(watch: Watch) -> dict[str, Any] | None:
        names = client.get_children(WORKERS, watch)
        for name in names:
            client.exists(f"{WORKERS}/{name}", watch)
        states = dict(zip(names, values(client, WORKERS, names), strict=True))
        served = [state[1] if state else [] for state in states.values()]
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
        for path in (MASTER, WORKERS, ASSIGNED):
            client.ensure_path(path)
        masters = [start(Master) for _ in range(2)]
        for number, master in enumerate(masters, 1):
            master.run.remote(ensemble, f"master-{number}")
        workers = {f"worker-{number}": start(Worker) for number in range(1, 4)}
        for name, worker in workers.items():
            worker.run.remote(ensemble, name)
        pids = search(client, workers, "leader")

        victim = "worker-2"
        tell(f"killing {victim}, process {pids[victim]}")
        kill(pids[victim])
        del workers[victim]
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
