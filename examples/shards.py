"""Shards that are divided among workers: one is killed, the others take over what it had.

    python shards.py

Each worker counts the visits of its shards. A shard has one owner at a time: when a worker comes,
the others let go of some shards, and the newcomer begins with each where its owner has ended. When
a worker dies, the others share what it had. A visit is written only while its worker owns the
shard, so a worker that stands still and goes on too late writes nothing.
"""

import os
import signal
from itertools import chain

import ray

from raykeeper.client import connect
from raykeeper.clusters import launch

SHARDS = ["a", "b", "c", "d", "e", "f"]


@ray.remote(num_cpus=0)
class Worker:
    def __init__(self, name):
        self.name = name
        self.client = connect("coord", session_timeout_s=5)
        self.parts = self.client.partitioner("/shards", SHARDS, name.encode())
        self.parts.start()

    def pid(self):
        return os.getpid()

    def owned(self):
        """What this worker owns, when it owns its share."""
        return [part.name for part in self.parts.wait(timeout_s=60)]

    def visit(self):
        """Count one visit of each shard of this worker; how many were written."""
        written = 0
        for part in self.parts.owned:
            path = f"/visits/{part.name}"
            value, stat = self.client.get(path)
            with self.client.transaction() as t:
                t.when_held(part)  # so the last owner's visits are all there
                t.set(path, str(int(value) + 1).encode(), version=stat.version)
            written += 1 if t.succeeded else 0
        return written


def tell(workers):
    """Wait until every shard has one owner; print who owns what."""
    while True:
        owned = ray.get([worker.owned.remote() for worker in workers.values()])
        if sorted(chain(*owned)) == SHARDS:  # else one has not heard of the others yet
            shares = zip(workers, owned, strict=True)
            print(", ".join(f"{name}: {' '.join(shards)}" for name, shards in shares))
            return


def main():
    ensemble = launch(name="coord", servers=3)  # starts Ray here if none runs
    with ensemble.connect() as client:
        for shard in SHARDS:
            client.create(f"/visits/{shard}", b"0", makepath=True)
        workers = {name: Worker.remote(name) for name in ("anna", "ben")}
        tell(workers)
        visits = sum(ray.get([each.visit.remote() for each in workers.values()]))

        workers["cleo"] = Worker.remote("cleo")
        print("cleo comes")
        tell(workers)
        visits += sum(ray.get([each.visit.remote() for each in workers.values()]))

        pid = ray.get(workers["ben"].pid.remote())
        print("killing ben")
        os.kill(pid, signal.SIGKILL)
        del workers["ben"]
        tell(workers)
        visits += sum(ray.get([each.visit.remote() for each in workers.values()]))

        client.sync()  # for the newest, whichever server this client has
        counts = [int(client.get(f"/visits/{shard}")[0]) for shard in SHARDS]
        print(f"{visits} visits were written, {sum(counts)} are there: {counts}")
        client.delete("/visits", recursive=True)


if __name__ == "__main__":
    main()
