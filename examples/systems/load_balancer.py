"""A load balancer: web servers that come, go, die and are drained, found by service discovery.

    python -m raykeeper.examples.systems load_balancer

Each backend is an actor with a web server on a port that the system picks. It registers that port
as an instance of the service "shop". The balancer keeps a cache that is always current, so it asks
the ensemble for nothing when a request comes in, and takes one instance after the other.

    /services/shop/<instance>    ephemeral: address, port and metadata of one backend
"""

import os
import threading
from collections import Counter
from http.client import HTTPException

import ray
from msgspec import Struct
from msgspec.structs import replace

from raykeeper.client import Client
from raykeeper.client.recipes.picking import Instance, RoundRobin
from raykeeper.client.recipes.services import ServiceChange
from raykeeper.clusters import Ensemble
from raykeeper.examples.systems.scene import PATIENCE_S, SESSION_S, expect, kill, scene, start, tell
from raykeeper.examples.systems.web import HOST, fetch, serve

SERVICE = "shop"


class About(Struct, frozen=True):
    """The entry of a backend in the registry."""

    name: str
    pid: int
    is_draining: bool = False


class Backend:
    """A web server that says its name, registered for as long as its process lives."""

    def __init__(self, ensemble: Ensemble, name: str) -> None:
        self._about = About(name, os.getpid())
        self._port = serve(lambda path, agent: name)
        self._client = ensemble.connect(session_timeout_s=SESSION_S)
        services = self._client.services("/services")
        self._me = services.register(SERVICE, HOST, self._port, self._about)

    def drain(self) -> None:
        """Ask for no more requests; those that come are answered still."""
        self._me.announce(HOST, self._port, replace(self._about, is_draining=True))


class Balancer:
    """Passes requests on to the backends that are there, one after the other."""

    def __init__(self, client: Client) -> None:
        self._services = client.services("/services", About)
        self._in_turn = RoundRobin()
        self._changed = threading.Condition()
        self._open: dict[str, int] = {}
        self._services.watch(self._on_change, SERVICE)

    def _on_change(self, change: ServiceChange) -> None:
        with self._changed:
            abouts = [instance.metadata for instance in change.instances]
            self._open = {about.name: about.pid for about in abouts if not about.is_draining}
            self._changed.notify_all()

    def wait_for(self, *names: str) -> dict[str, int]:
        """Wait until these, and no others, are open; their process ids."""
        with self._changed:
            came = self._changed.wait_for(lambda: set(self._open) == set(names), PATIENCE_S)
            expect(came, f"{names} are open, not {set(self._open)}")
            tell(f"the balancer knows {', '.join(names)}")
            return self._open

    def _pick(self, instances: list[Instance]) -> Instance:
        ready = [instance for instance in instances if not instance.metadata.is_draining]
        return self._in_turn(ready or instances)

    def request(self) -> str:
        """Return the answer of a backend. One that has just died is passed over."""
        while True:
            instance = self._services.pick(SERVICE, self._pick, timeout_s=PATIENCE_S)
            try:
                return fetch(instance.port, "/", "balancer")
            except (OSError, HTTPException):
                tell(f"{instance.metadata.name} does not answer, the next one does")


def main() -> None:
    with scene("balancer") as ensemble, ensemble.connect() as client:
        balancer = Balancer(client)
        names = [f"backend-{number}" for number in range(1, 4)]
        backends = {name: start(Backend, ensemble, name) for name in names}

        def answers(count: int) -> dict[str, int]:
            counts = dict(sorted(Counter(balancer.request() for _ in range(count)).items()))
            tell(f"{count} requests, answered by {counts}")
            expect(sum(counts.values()) == count, "every request is answered")
            return counts

        pids = balancer.wait_for(*names)
        expect(answers(30) == dict.fromkeys(names, 10), "each has its share")

        tell(f"killing backend-2, process {pids['backend-2']}")
        kill(pids["backend-2"])
        answers(20)
        balancer.wait_for("backend-1", "backend-3")
        expect(answers(20) == {"backend-1": 10, "backend-3": 10}, "two do the work of three")

        backends["backend-4"] = start(Backend, ensemble, "backend-4")
        balancer.wait_for("backend-1", "backend-3", "backend-4")
        ray.get(backends["backend-1"].drain.remote(), timeout=PATIENCE_S)
        balancer.wait_for("backend-3", "backend-4")
        expect(answers(20) == {"backend-3": 10, "backend-4": 10}, "backend-1 is left alone")
