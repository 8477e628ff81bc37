"""Raykeeper on a private Ray on this machine."""

import os
import signal
import time
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import ExitStack, contextmanager, suppress
from functools import partial
from pathlib import Path
from typing import Any

import psutil
import ray
from msgspec.structs import replace

from raykeeper.actors.ray_actors import find_replica
from raykeeper.actors.replica_status import ReplicaStatus
from raykeeper.bench.loads.processes import GENERATE, LoadProcesses
from raykeeper.bench.loads.task import LoadTask
from raykeeper.bench.results import OURS
from raykeeper.bench.systems.child import free_ports_in_a_row
from raykeeper.bench.systems.contract import EnsembleShape, Servers, wait_for_all
from raykeeper.bench.systems.zookeeper_loads import ZooKeeperLoads
from raykeeper.clusters import Ensemble, launch
from raykeeper.clusters.actor_calls import call_actors
from raykeeper.clusters.config import DEFAULTS
from raykeeper.clusters.local_ray import private_ray
from raykeeper.links.ray_names import NAMESPACE, snapshotter_name, tracker_name
from raykeeper.zab.ids import ServerId

NAME = "bench"
_PATIENCE_S = 60.0
_CLIENTS_MAX = 100_000
"""All clients of ZooKeeper are on this machine."""


class RaykeeperServers:
    """One ensemble."""

    def __init__(self, shape: EnsembleShape, settings: dict[str, Any], folder: Path) -> None:
        """The folder is for data; `settings` are those of the ensemble."""
        self.shape = shape
        settings = {**settings, "servers": shape.servers, "observers": shape.observers}
        self._launch = partial(launch, name=NAME, data_dir=str(folder), **settings)
        self._folder = folder
        self._links = settings["links"]
        self.ensemble: Ensemble = self._launch()
        self._launches = ThreadPoolExecutor(1)
        self._zookeeper_loads = ZooKeeperLoads(folder)
        self._starting: list[Future[Ensemble]] = []

    def close(self) -> None:
        """Stop all servers, after pending launches have finished."""
        try:
            self._wait_for_launches()
        finally:
            self._launches.shutdown()
            self.ensemble.shutdown()

    def _wait_for_launches(self) -> None:
        """Wait until pending launches have finished."""
        for launched in self._starting:
            launched.result()
        self._starting.clear()

    def where(self, server: int | None = None) -> str:
        """See `Servers`."""
        return NAME if server is None else f"{NAME}/{server}"

    def where_each(self) -> str:
        """See `Servers`."""
        return ";".join(map(self.where, self.shape.numbers()))

    def leader(self) -> int:
        """See `Servers`."""
        return self.ensemble.wait_for_leader(_PATIENCE_S)

    def pid(self, server: int) -> int:
        """See `Servers`."""
        return next((s.pid for s in self.ensemble.status().servers if s.server_id == server), 0)

    def sidecar_pids(self) -> list[int]:
        """See `Servers`: the SessionTrackers and Snapshotters."""
        found = []
        for server in self.shape.numbers():
            for name in (tracker_name, snapshotter_name):
                with suppress(ValueError):  # it was not started: its server has never led
                    found.append(ray.get_actor(name(NAME, ServerId(server)), namespace=NAMESPACE))
        return [pid for pid in call_actors(found, "pid") if isinstance(pid, int)]

    def crash(self, server: int) -> float:
        """See `Servers`; Ray restarts the process."""
        pid = self.pid(server)
        moment = time.monotonic()
        os.kill(pid, signal.SIGKILL)
        return moment

    def kill(self, server: int) -> float:
        """See `Servers`."""
        self._wait_for_launches()  # a pending launch would restart the server, or not find it
        handle = find_replica(NAME, ServerId(server))
        moment = self.crash(server)
        ray.kill(handle, no_restart=True)
        return moment

    def start(self, server: int) -> None:
        """See `Servers`; a launch, one at a time, starts all missing servers."""
        self._starting.append(self._launches.submit(self._launch))

    def serves(self, server: int) -> bool:
        """See `Servers`."""
        try:
            (status,) = call_actors([find_replica(NAME, ServerId(server))], "status")
        except ValueError:  # it is not started
            return False
        return isinstance(status, ReplicaStatus) and status.is_active

    def ports(self) -> str:
        """Return the ports for ZooKeeper's clients, as a place of which each client has one."""
        return ";".join(server.zookeeper for server in self.ensemble.status().servers)

    def folder(self, server: int) -> Path:
        """See `Servers`."""
        return self._folder / NAME / str(server)

    def load(self, client: str, tasks: Sequence[LoadTask]) -> LoadProcesses:
        """See `Servers`."""
        niceness = psutil.Process(self.pid(self.leader())).nice()
        if client != self._links:
            addresses = {s.server_id: s.zookeeper for s in self.ensemble.status().servers}
            at_port = [replace(task, where=port_places(task.where, addresses)) for task in tasks]
            return self._zookeeper_loads.start(client, at_port, niceness)
        address = ray.get_runtime_context().gcs_address
        return LoadProcesses(
            GENERATE, tasks, niceness=niceness, environment={"RAY_ADDRESS": address}
        )


class Raykeeper:
    """Raykeeper; Ray is started with the first ensemble and kept for the next ones."""

    name = OURS
    server_cores_max: int | None = 1  # its threads share one interpreter

    def __init__(self, links: str = DEFAULTS.links, zookeeper_clients: Sequence[str] = ()) -> None:
        """`links` is the setting of that name, and names the kind of client too.

        `zookeeper_clients` are measured besides, on the port for ZooKeeper's clients.
        """
        self.clients: tuple[str, ...] = (links, *zookeeper_clients)
        self._settings = {"links": links}
        self._ray = ExitStack()

    def missing(self) -> str:
        """See `System`."""
        return ""

    @contextmanager
    def launch(self, shape: EnsembleShape, folder: Path) -> Iterator[Servers]:
        """See `System`."""
        if not ray.is_initialized():
            self._ray.enter_context(private_ray())
        settings: dict[str, Any] = dict(self._settings)
        if len(self.clients) > 1:
            settings["zookeeper_port"] = free_ports_in_a_row(shape.servers + shape.observers)
            settings["zookeeper_clients_per_address"] = _CLIENTS_MAX
        servers = RaykeeperServers(shape, settings | dict(shape.settings), folder)
        try:
            wait_for_all(servers, _PATIENCE_S)  # a launch returns when a majority serves
            yield servers
        finally:
            servers.close()

    def close(self) -> None:
        """See `System`."""
        self._ray.close()


def port_places(where: str, addresses: Mapping[ServerId, str]) -> str:
    """Return a place of native clients, `LoadTask.where`, as one of ZooKeeper's clients."""
    every = ",".join(addresses.values())
    servers = (place.rpartition("/") for place in where.split(";"))
    return ";".join(
        addresses[ServerId(int(server))] if name else every for name, _, server in servers
    )
