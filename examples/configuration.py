"""A configuration that is pushed to running workers, and can be changed by any of them.

    python configuration.py

Each worker follows the settings and is told of every change, the present value first. `update`
makes the new value of the one that is there, so two who change it at once lose nothing, not even
the fields that only a newer version of the program knows.
"""

import queue
from dataclasses import dataclass, replace

import ray

from raykeeper.client import connect
from raykeeper.clusters import launch


@dataclass(frozen=True)
class Settings:
    """Fields with a default may be added later: old values are read with it."""

    rate: int
    message: str = "hello"


@dataclass(frozen=True)
class NewerSettings(Settings):
    """Those of the next version of this program, which runs beside this one for a while."""

    language: str = "en"


@ray.remote(num_cpus=0)
class Worker:
    def __init__(self, name):
        self.name = name
        self.seen: queue.Queue[Settings | None] = queue.Queue()
        self.client = connect("coord")
        self.settings = self.client.configuration("/app/settings", Settings)
        self.live = self.settings.follow(lambda new, old: self.seen.put(new))

    def next(self):
        """The next change that this worker was told of."""
        return f"{self.name} was told {self.seen.get(timeout=30)}"

    def double(self):
        self.settings.update(lambda now: replace(now, rate=now.rate * 2))

    def now(self):
        return f"{self.name} has {self.live.value}"


def main():
    ensemble = launch(name="coord", servers=3)  # starts Ray here if none runs
    with ensemble.connect() as client:
        settings = client.configuration("/app/settings", Settings)
        settings.set(Settings(rate=5))
        workers = [Worker.remote(name) for name in ("anna", "ben")]
        print(*ray.get([worker.next.remote() for worker in workers]), sep="\n")

        newer = client.configuration("/app/settings", NewerSettings)
        newer.set(NewerSettings(rate=10, message="good morning", language="it"))
        print(*ray.get([worker.next.remote() for worker in workers]), sep="\n")

        ray.get([worker.double.remote() for worker in workers])  # at once
        for _ in workers:
            ray.get([worker.next.remote() for worker in workers])
        print(*ray.get([worker.now.remote() for worker in workers]), sep="\n")
        client.sync()  # for the newest, whichever server this client has
        print("the newer program has", newer.get().value)


if __name__ == "__main__":
    main()
