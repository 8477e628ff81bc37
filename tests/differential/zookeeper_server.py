"""One server of ZooKeeper, as a child process, with settings for tests.

It is that of Debian's package `zookeeper`, or one whose jars are in the folder that the environment
variable `ZOOKEEPER_JARS` names; the package pyspark, for example, has the jars of a newer version.

Its log is not forced to disk: no test pulls the plug of it. Znodes with a TTL are allowed, and the
bounds of session timeouts are those of the pure servers.
"""

import os
import socket
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from raykeeper.bench.systems.child import ChildProcess, free_ports_in_a_row, wait_until
from raykeeper.bench.systems.contract import EnsembleShape
from raykeeper.bench.systems.zookeeper import configure
from raykeeper.bench.systems.zookeeper_loads import ZooKeeperLoads, missing_client
from tests.differential.targets import LIMITS

_PATIENCE_S = 120.0
_OPTIONS = (
    "-Dbench.level=WARN",
    *("-Xmx300m", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1"),
    "-Dzookeeper.forceSync=no",
    "-Dzookeeper.extendedTypesEnabled=true",
    "-Dzookeeper.admin.enableServer=false",
)
_MAIN = "org.apache.zookeeper.server.ZooKeeperServerMain"


def jars_folder() -> Path | None:
    """Return the folder that `ZOOKEEPER_JARS` names, None if it names none."""
    named = os.environ.get("ZOOKEEPER_JARS")
    return Path(named) if named else None


def missing(jars: Path | None = None) -> str:
    """Return why no such server can run here, empty if one can."""
    if jars is None:
        return missing_client("java")
    return "" if next(jars.glob("zookeeper-[0-9]*.jar"), None) else f"no ZooKeeper in {jars}"


@contextmanager
def zookeeper_server(jars: Path | None = None) -> Iterator[str]:
    """Run a server while the block lasts; gives its address."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        port = free_ports_in_a_row(1)
        configure(folder / "1", 1, EnsembleShape(1), [port])
        settings = folder / "1" / "zoo.cfg"
        settings.write_text(
            settings.read_text()
            + f"minSessionTimeout={LIMITS.session_timeout_min_ms}\n"
            + f"maxSessionTimeout={LIMITS.session_timeout_max_ms}\n"
        )
        classpath = ZooKeeperLoads(folder).classpath if jars is None else f"{jars}/*"
        words = ["java", *_OPTIONS, "-cp", classpath, _MAIN, str(settings)]
        child = ChildProcess(words, folder / "printed")
        child.start()
        try:
            wait_until(lambda: _accepts(port), _PATIENCE_S, [child])
            yield f"127.0.0.1:{port}"
        finally:
            child.stop()


def _accepts(port: int) -> bool:
    try:
        with socket.create_connection(("127.0.0.1", port), 1.0) as asking:
            asking.sendall(b"srvr")
            return b"Mode" in asking.makefile("rb").read()
    except OSError:
        return False
