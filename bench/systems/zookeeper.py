"""Apache ZooKeeper, from Debian's package, as child processes on the loopback interface.

The settings are ZooKeeper's defaults: those of its sample `zoo.cfg`, a heap of 1000 MB as in
`zkEnv.sh`, a log forced to disk. Only two things that would disturb are off: the web server for
administrators, and the limit of connections per address, because all clients are on this machine.
"""

import importlib.util
import shutil
import socket
from collections.abc import Sequence
from contextlib import AbstractContextManager
from pathlib import Path

from raykeeper.bench.loads.processes import GENERATE, LoadProcesses, compile_java
from raykeeper.bench.loads.task import LoadTask
from raykeeper.bench.systems.child import ChildProcess, ChildServers, free_ports
from raykeeper.bench.systems.contract import EnsembleShape, Servers

JARS = Path("/usr/share/java")
_NEEDED = ("zookeeper.jar", "zookeeper-jute.jar")
_LOGGING = ("slf4j-log4j12.jar", "log4j-1.2.jar")
_HEAP = "-Xmx1000m"
_ASK_S = 2.0
_SOURCE = Path(__file__).parents[1] / "loads/Load.java"
_LOG = """log4j.rootLogger=${bench.level}, out
log4j.appender.out=org.apache.log4j.ConsoleAppender
log4j.appender.out.layout=org.apache.log4j.PatternLayout
log4j.appender.out.layout.ConversionPattern=%d{ISO8601} - %-5p [%t:%C{1}@%L] - %m%n
"""


class ZooKeeperServers(ChildServers):
    """One ensemble."""

    def __init__(self, shape: EnsembleShape, folder: Path, jars: Path = JARS) -> None:
        ports = free_ports(3 * (shape.servers + shape.observers))
        super().__init__(shape, folder, dict(enumerate(ports[::3], 1)))
        self._jars = jars
        (folder / "log4j.properties").write_text(_LOG)
        for server in self._ports:
            configure(self.folder(server), server, shape, ports)
        self._classes: Path | None = None

    def serves(self, server: int) -> bool:
        """See `Servers`."""
        return self._mode(server) in ("leader", "follower", "observer", "standalone")

    def load(self, client: str, tasks: Sequence[LoadTask]) -> LoadProcesses:
        """See `Servers`."""
        if client == "kazoo":
            return LoadProcesses(GENERATE, tasks)
        if self._classes is None:
            self._classes = self._folder / "classes"
            self._classes.mkdir()
            compile_java(_SOURCE, classpath(self._jars), self._classes)
        path = f"{self._folder}:{self._classes}:{classpath(self._jars)}"
        return LoadProcesses(["java", "-Dbench.level=WARN", "-cp", path, "Load"], tasks)

    def _leads(self, server: int) -> bool:
        return self._mode(server) in ("leader", "standalone")

    def _child(self, server: int) -> ChildProcess:
        folder = self.folder(server)
        path = f"{self._folder}:{classpath(self._jars)}"
        main = "org.apache.zookeeper.server.quorum.QuorumPeerMain"
        options = [_HEAP, "-Dbench.level=INFO", "-Dzookeeper.admin.enableServer=false"]
        words = ["java", *options, "-cp", path, main, str(folder / "zoo.cfg")]
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

    def __init__(self, jars: Path = JARS) -> None:
        self._jars = jars
        has_kazoo = importlib.util.find_spec("kazoo") is not None
        self.clients: tuple[str, ...] = ("java", "kazoo") if has_kazoo else ("java",)

    def missing(self) -> str:
        """See `System`."""
        if any(not (self._jars / name).exists() for name in _NEEDED):
            return f"there is no {self._jars / _NEEDED[0]} (Debian's package zookeeper)"
        if shutil.which("javac") is None:
            return "there is no javac (Debian's package default-jdk-headless)"
        return ""

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


def classpath(jars: Path) -> str:
    """Return the class path of servers and clients."""
    return ":".join(str(jars / name) for name in (*_NEEDED, *_LOGGING))
