"""etcd, from Debian's package, as child processes on the loopback interface, with its defaults."""

import importlib.util
import shutil
import urllib.request
from collections.abc import Sequence
from contextlib import AbstractContextManager
from pathlib import Path

from raykeeper.bench.loads.processes import GENERATE, LoadProcesses
from raykeeper.bench.loads.task import LoadTask
from raykeeper.bench.systems.child import ChildProcess, ChildServers, free_ports
from raykeeper.bench.systems.contract import EnsembleShape, Servers

_ASK_S = 2.0


class EtcdServers(ChildServers):
    """One ensemble. It has no observers, because etcd's learners serve no clients."""

    def __init__(self, shape: EnsembleShape, folder: Path) -> None:
        ports = free_ports(2 * shape.servers)
        super().__init__(shape, folder, dict(enumerate(ports[::2], 1)))
        self._peers = {i: f"http://127.0.0.1:{port}" for i, port in enumerate(ports[1::2], 1)}

    def serves(self, server: int) -> bool:
        """See `Servers`."""
        return self._gauge(server, "etcd_server_has_leader") == 1

    def load(self, _client: str, tasks: Sequence[LoadTask]) -> LoadProcesses:
        """See `Servers`."""
        return LoadProcesses(GENERATE, tasks)

    def _leads(self, server: int) -> bool:
        return self._gauge(server, "etcd_server_is_leader") == 1

    def _child(self, server: int) -> ChildProcess:
        peers = self._peers
        client = f"http://127.0.0.1:{self._ports[server]}"
        options = {
            "name": str(server),
            "data-dir": str(self.folder(server)),
            "listen-client-urls": client,
            "advertise-client-urls": client,
            "listen-peer-urls": peers[server],
            "initial-advertise-peer-urls": peers[server],
            "initial-cluster": ",".join(f"{i}={url}" for i, url in peers.items()),
        }
        words = ["etcd", *(f"--{name}={value}" for name, value in options.items())]
        return ChildProcess(words, self._folder / f"printed-{server}")

    def _gauge(self, server: int, name: str) -> float | None:
        """Return one metric of a server, None if it does not answer."""
        address = f"http://127.0.0.1:{self._ports[server]}/metrics"
        try:
            with urllib.request.urlopen(address, timeout=_ASK_S) as answer:
                return gauge_of(answer.read().decode(errors="replace"), name)
        except OSError:
            return None


class Etcd:
    """etcd; every ensemble is started anew."""

    name = "etcd"
    server_cores_max: int | None = None
    clients: tuple[str, ...] = ("grpc",)

    def missing(self) -> str:
        """See `System`."""
        if shutil.which("etcd") is None:
            return "there is no etcd (Debian's package etcd-server)"
        if importlib.util.find_spec("grpc") is None:
            return "there is no grpcio (pip install 'raykeeper[bench]')"
        return ""

    def launch(self, shape: EnsembleShape, folder: Path) -> AbstractContextManager[Servers]:
        """See `System`."""
        return EtcdServers(shape, folder).running()

    def close(self) -> None:
        """See `System`."""


def gauge_of(metrics: str, name: str) -> float | None:
    """Return the value of a metric in Prometheus' text format, None if it is missing."""
    for line in metrics.splitlines():
        told, _, value = line.partition(" ")
        if told == name:
            return float(value)
    return None
