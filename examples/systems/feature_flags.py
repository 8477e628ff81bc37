"""Feature flags: pushed to running actors, which never see a half-written or invalid one.

    python -m raykeeper.examples.systems feature_flags

ZooKeeper paper, section 2.4, "Configuration Management". One znode, /flags, holds all flags as
JSON. Each shop follows it: a lasting watch brings every new value, nobody asks for it.
"""

import threading
import time
from concurrent.futures import ThreadPoolExecutor
from typing import Annotated

import ray
from msgspec import Meta, Struct
from msgspec.structs import replace

from raykeeper.clusters import Ensemble
from raykeeper.examples.systems.scene import PATIENCE_S, expect, kill, scene, start, tell

PATH = "/flags"


class Flags(Struct, frozen=True):
    """The switches that can be turned while the shops are open."""

    new_checkout_percent: Annotated[int, Meta(ge=0, le=100)] = 0
    experiments: tuple[str, ...] = ()


class Shop:
    """Serves customers as the flags say that are the newest valid ones."""

    def __init__(self, ensemble: Ensemble) -> None:
        self._changed = threading.Condition()
        self._client = ensemble.connect()
        flags = self._client.configuration(PATH, Flags, default=Flags())
        self._flags = flags.follow(self._wake, on_error=self._wake)

    def _wake(self, *what: object) -> None:
        with self._changed:
            self._changed.notify_all()

    def checkout(self, customer: int) -> str:
        """Which checkout a customer gets."""
        flags = self._flags.value or Flags()
        return "new" if customer % 100 < flags.new_checkout_percent else "old"

    def wait_for_version(self, version: int) -> None:
        """Return when the flags have arrived here."""
        with self._changed:
            self._changed.wait_for(lambda: self._flags.version >= version)

    def wait_for_problem(self) -> str:
        """Return when something invalid has arrived here: what is wrong with it."""
        with self._changed:
            self._changed.wait_for(lambda: self._flags.last_error is not None)
        return str(self._flags.last_error)


def main() -> None:
    with scene("flags") as ensemble, ensemble.connect() as client:
        shops = [start(Shop, ensemble) for _ in range(3)]
        flags = client.configuration(PATH, Flags, default=Flags())

        def arrived(version: int) -> None:
            ray.get([shop.wait_for_version.remote(version) for shop in shops], timeout=PATIENCE_S)

        def new_checkouts() -> list[int]:
            asked = [[shop.checkout.remote(customer) for customer in range(100)] for shop in shops]
            return [ray.get(answers).count("new") for answers in asked]

        expect(new_checkouts() == [0, 0, 0], "the default holds while there are no flags")
        tell("no flags yet: of 100 customers of each shop none gets the new checkout")
        began = time.monotonic()
        arrived(flags.set(Flags(new_checkout_percent=25)).version)
        tell(f"25 percent are to get it: {(time.monotonic() - began) * 1000:.0f} ms to all shops")
        expect(new_checkouts() == [25, 25, 25], "a quarter gets the new checkout")
        tell("25 of 100 customers of each shop get the new checkout")

        # Two people change different flags at once, and neither loses a change.
        def experiment(name: str) -> None:
            flags.update(lambda now: replace(now, experiments=(*now.experiments, name)))

        with ThreadPoolExecutor(2) as people:
            list(people.map(experiment, [f"experiment-{number}" for number in range(20)]))
        now, version = flags.get()
        arrived(version)
        expect(len(now.experiments) == 20, "no change was lost")
        tell("two people added 20 experiments at once, all are there")

        # Somebody writes what is not a percentage, past all checks.
        client.set(PATH, b'{"new_checkout_percent": 400}')
        problems = [shop.wait_for_problem.remote() for shop in shops]
        problem, *_ = ray.get(problems, timeout=PATIENCE_S)
        tell(f"somebody wrote nonsense: {problem}")
        expect(new_checkouts() == [25, 25, 25], "the last valid flags stay")
        tell("the shops go on with the last valid flags")

        # A leader that dies holds up a change for a moment.
        status = ensemble.status()
        leader = next(server for server in status.servers if server.server_id == status.leader)
        kill(leader.pid)
        tell(f"killed server {leader.server_id}, the leader, process {leader.pid}")
        arrived(flags.set(replace(now, new_checkout_percent=100)).version)
        expect(new_checkouts() == [100, 100, 100], "everybody gets the new checkout")
        tell("everybody gets the new checkout all the same")
