"""etcd, from Debian's package, as child processes on the loopback interface, with its defaults."""

import importlib.util
import shutil
import urllib.request
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from raykeeper.bench.loads.processes import GENERATE, LoadProcesses
from raykeeper.bench.loads.task import LoadTask
from raykeeper.bench.systems.child import ChildProcess, free_ports, wait_until
from raykeeper.bench.systems.contract import EnsembleShape, Servers

_START_S = 60.0
_ASK_S = 2.0


class EtcdServers:
    """One ensemble. It has no observers, because etcd's learners serve no clients."""

    def __init__(self, shape: EnsembleShape, folder: Path) -> None:
        self._folder = folder
        ids = range(1, shape.servers + 1)
        ports = free_ports(2 * shape.servers)
        self._ports = {i: ports[i - 1] for i in ids}
        peers = {i: f"http://127.0.0.1:{ports[shape.servers + i - 1]}" for i in ids}
        self._children = {i: self._child(i, peers) for i in ids}

    def start_all(self) -> None:
        """Start all servers, and wait until all serve."""
        for child in self._children.values():
            child.start()
        children = list(self._children.values())
        wait_until(lambda: all(self.serves(i) for i in self._ports), _START_S, children)

    def stop_all(self) -> None:
        """Stop every process."""
        for child in self._children.values():
            child.stop()

    def where(self, server: int | None = None) -> str:
        """See `Servers`."""
        chosen = self._ports.values() if server is None else [self._ports[server]]
        return ",".join(f"127.0.0.1:{port}" for port in chosen)

    def leader(self) -> int:
        """See `Servers`."""
        found: list[int] = []

        def is_found() -> bool:
            found[:] = [i for i in self._ports if self._gauge(i, "etcd_server_is_leader") == 1]
            return bool(found)

        wait_until(is_found, _START_S, [c for c in self._children.values() if c.is_up()])
        return found[0]

    def pid(self, server: int) -> int:
        """See `Servers`."""
        child = self._children.get(server)  # there is none for an observer
        return 0 if child is None else child.pid

    def crash(self, server: int) -> float:
        """See `Servers`; restarts the process at once, as a supervisor would."""
        moment = self.kill(server)
        self.start(server)
        return moment

    def kill(self, server: int) -> float:
        """See `Servers`."""
        return self._children[server].kill()

    def start(self, server: int) -> None:
        """See `Servers`."""
        self._children[server].start()

    def serves(self, server: int) -> bool:
        """See `Servers`."""
        return self._gauge(server, "etcd_server_has_leader") == 1

    def folder(self, server: int) -> Path:
        """See `Servers`."""
        return self._folder / str(server)

    def load(self, _client: str, tasks: Sequence[LoadTask]) -> LoadProcesses:
        """See `Servers`."""
        return LoadProcesses(GENERATE, tasks)

    def _child(self, server: int, peers: dict[int, str]) -> ChildProcess:
        folder = self._folder / str(server)
        client = f"http://127.0.0.1:{self._ports[server]}"
        options = {
            "name": str(server),
            "data-dir": str(folder),
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
    clients: tuple[str, ...] = ("grpc",)

    def missing(self) -> str:
        """See `System`."""
        if shutil.which("etcd") is None:
            return "there is no etcd (Debian's package etcd-server)"
        if importlib.util.find_spec("grpc") is None:
            return "there is no grpcio (pip install 'raykeeper[bench]')"
        return ""

    @contextmanager
    def launch(self, shape: EnsembleShape, folder: Path) -> Iterator[Servers]:
        """See `System`."""
        servers = EtcdServers(shape, folder)
        try:
            servers.start_all()
            yield servers
        finally:
            servers.stop_all()

    def close(self) -> None:
        """See `System`."""


def gauge_of(metrics: str, name: str) -> float | None:
    """Return the value of a metric in Prometheus' text format, None if it is missing."""
    for line in metrics.splitlines():
        told, _, value = line.partition(" ")
        if told == name:
            return float(value)
    return None
