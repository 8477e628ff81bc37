"""A pool of workers that callers find by service discovery: one is killed, another one comes.

    python pool.py

Each worker is an actor that registers as an instance of the service "resize". It is in the pool
for as long as its process lives. Callers keep a list that is always current, and take one worker
after the other; a call that meets a dead one goes to the next.
"""

import os
import queue
import signal

import ray

from raykeeper.client import ServiceChange, connect
from raykeeper.clusters import launch


@ray.remote(num_cpus=0)
class Worker:
    def __init__(self, name):
        self.name = name
        self.client = connect("coord", session_timeout_s=5)  # held open, and the instance with it
        services = self.client.services("/services")
        services.register("resize", name, 0, {"pid": os.getpid()})

    def resize(self, picture):
        return f"{picture} by {self.name}"


class Pool:
    """The workers that are there, for one caller."""

    def __init__(self, client):
        self.services = client.services("/services")
        self.changes: queue.SimpleQueue[ServiceChange] = queue.SimpleQueue()
        self.services.watch(self.changes.put, "resize")

    def wait_for(self, names):
        """Wait until these workers are in the pool, and no others; their process ids."""
        while True:
            there = {each.address: each.metadata["pid"] for each in self.changes.get().instances}
            if sorted(there) == sorted(names):
                print(f"in the pool: {', '.join(sorted(there))}")
                return there

    def resize(self, picture):
        while True:
            worker = self.services.pick("resize", timeout_s=30)  # waits if there is none
            try:
                actor = ray.get_actor(worker.address)
                return ray.get(actor.resize.remote(picture))
            except (ValueError, ray.exceptions.RayActorError):
                continue  # it has just died


def main():
    ensemble = launch(name="coord", servers=3)  # starts Ray here if none runs
    with ensemble.connect() as client:
        pool = Pool(client)
        workers = {name: Worker.options(name=name).remote(name) for name in ("anna", "ben", "cleo")}
        pids = pool.wait_for(["anna", "ben", "cleo"])
        print(*[pool.resize(f"picture {number}") for number in (1, 2, 3)], sep="\n")

        print(f"killing ben, process {pids['ben']}")
        os.kill(pids["ben"], signal.SIGKILL)
        resized = [pool.resize(f"picture {number}") for number in (4, 5, 6, 7)]
        print(f"{len(resized)} more are resized, by ben: {sum('ben' in each for each in resized)}")
        pool.wait_for(["anna", "cleo"])

        workers["dora"] = Worker.options(name="dora").remote("dora")
        pool.wait_for(["anna", "cleo", "dora"])
        print(*[pool.resize(f"picture {number}") for number in (8, 9, 10)], sep="\n")


if __name__ == "__main__":
    main()
