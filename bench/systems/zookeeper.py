"""Apache ZooKeeper, from Debian's package, as child processes on the loopback interface.

The settings are ZooKeeper's defaults: those of its sample `zoo.cfg`, a heap of 1000 MB as in
`zkEnv.sh`, a log forced to disk. Only two things that would disturb are off: the web server for
administrators, and the limit of connections per address, because all clients are on this machine.
"""

import socket
from collections.abc import Sequence
from contextlib import AbstractContextManager
from pathlib import Path

from raykeeper.bench.loads.processes import LoadProcesses
from raykeeper.bench.loads.task import LoadTask
from raykeeper.bench.systems.child import ChildProcess, ChildServers, free_ports
from raykeeper.bench.systems.contract import EnsembleShape, Servers
from raykeeper.bench.systems.zookeeper_loads import CLIENTS, JARS, ZooKeeperLoads, missing_client

_HEAP = "-Xmx1000m"
_ASK_S = 2.0


class ZooKeeperServers(ChildServers):
    """One ensemble."""

    def __init__(self, shape: EnsembleShape, folder: Path, jars: Path = JARS) -> None:
        ports = free_ports(3 * (shape.servers + shape.observers))
        super().__init__(shape, folder, dict(enumerate(ports[::3], 1)))
        self._loads = ZooKeeperLoads(folder, jars)
        for server in self._ports:
            configure(self.folder(server), server, shape, ports)

    def serves(self, server: int) -> bool:
        """See `Servers`."""
        return self._mode(server) in ("leader", "follower", "observer", "standalone")

    def load(self, client: str, tasks: Sequence[LoadTask]) -> LoadProcesses:
        """See `Servers`."""
        return self._loads.start(client, tasks)

    def _leads(self, server: int) -> bool:
        return self._mode(server) in ("leader", "standalone")

    def _child(self, server: int) -> ChildProcess:
        folder = self.folder(server)
        main = "org.apache.zookeeper.server.quorum.QuorumPeerMain"
        options = [_HEAP, "-Dbench.level=INFO", "-Dzookeeper.admin.enableServer=false"]
        words = ["java", *options, "-cp", self._loads.classpath, main, str(folder / "zoo.cfg")]
        return ChildProcess(words, folder / "printed")

    def _mode(self, server: int) -> str:
        """Return a server's mode, empty if it does not answer."""
        try:
            with socket.create_connection(("127.0.0.1", self._ports[server]), _ASK_S) as asked:
                asked.sendall(b"srvr")
                answer = b""
                while data := asked.recv(4096):
                    answer += data
        except OSError:
            return ""
        return mode_of(answer.decode(errors="replace"))


class ZooKeeper:
    """ZooKeeper; every ensemble is started anew."""

    name = "zookeeper"
    server_cores_max: int | None = None

    def __init__(self, jars: Path = JARS) -> None:
        self._jars = jars
        self.clients: tuple[str, ...] = tuple(
            client for client in CLIENTS if client == "java" or not missing_client(client)
        )

    def missing(self) -> str:
        """See `System`."""
        return missing_client("java", self._jars)  # whose jars are the servers' too

    def launch(self, shape: EnsembleShape, folder: Path) -> AbstractContextManager[Servers]:
        """See `System`."""
        return ZooKeeperServers(shape, folder, self._jars).running()

    def close(self) -> None:
        """See `System`."""


def configure(folder: Path, server: int, shape: EnsembleShape, ports: Sequence[int]) -> None:
    """Create the folder of a server with its settings; `ports` has three for each server."""
    folder.mkdir(parents=True)
    (folder / "myid").write_text(str(server))
    lines = [
        "tickTime=2000",
        "initLimit=10",
        "syncLimit=5",
        f"dataDir={folder}",
        f"clientPort={ports[3 * (server - 1)]}",
        "clientPortAddress=127.0.0.1",
        "4lw.commands.whitelist=srvr",
        "maxClientCnxns=0",  # none; by default 60 from one address
    ]
    count = shape.servers + shape.observers
    if server > shape.servers:
        lines.append("peerType=observer")
    if count > 1:
        for each in range(1, count + 1):
            _, peer, election = ports[3 * (each - 1) : 3 * each]
            role = ":observer" if each > shape.servers else ""
            lines.append(f"server.{each}=127.0.0.1:{peer}:{election}{role}")
    (folder / "zoo.cfg").write_text("\n".join(lines) + "\n")


def mode_of(answer: str) -> str:
    """Return the mode in an answer to `srvr`: leader, follower, observer, standalone, or empty."""
    for line in answer.splitlines():
        name, _, value = line.partition(": ")
        if name == "Mode":
            return value.strip()
    return ""
