"""One server of Debian's package `zookeeper`, as a child process, with settings for tests.

Its log is not forced to disk: no test pulls the plug of it. Znodes with a TTL are allowed, and the
bounds of session timeouts are those of the pure servers.
"""

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


def missing() -> str:
    """Return why no such server can run here, empty if one can."""
    return missing_client("java")


@contextmanager
def zookeeper_server() -> Iterator[str]:
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
        words = ["java", *_OPTIONS, "-cp", ZooKeeperLoads(folder).classpath, _MAIN, str(settings)]
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
