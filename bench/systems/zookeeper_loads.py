"""Loads by ZooKeeper's own clients, on whatever takes them: its servers, or our port for them."""

import importlib.util
import shutil
from collections.abc import Sequence
from pathlib import Path
from typing import Final

from raykeeper.bench.loads.processes import GENERATE, LoadProcesses, compile_java
from raykeeper.bench.loads.task import LoadTask

JARS = Path("/usr/share/java")
CLIENTS: Final = ("java", "kazoo")
"""The kinds of load generators, the fastest first."""
_NEEDED = ("zookeeper.jar", "zookeeper-jute.jar")
_LOGGING = ("slf4j-log4j12.jar", "log4j-1.2.jar")
_SOURCE = Path(__file__).parents[1] / "loads/Load.java"
_LOG = """log4j.rootLogger=${bench.level}, out
log4j.appender.out=org.apache.log4j.ConsoleAppender
log4j.appender.out.layout=org.apache.log4j.PatternLayout
log4j.appender.out.layout.ConversionPattern=%d{ISO8601} - %-5p [%t:%C{1}@%L] - %m%n
"""


def missing_client(client: str, jars: Path = JARS) -> str:
    """Return what must be installed before this client can be used; empty if nothing."""
    if client == "kazoo":
        return "" if importlib.util.find_spec("kazoo") else "there is no kazoo (pip install kazoo)"
    if any(not (jars / name).exists() for name in _NEEDED):
        return f"there is no {jars / _NEEDED[0]} (Debian's package zookeeper)"
    if shutil.which("javac") is None:
        return "there is no javac (Debian's package default-jdk-headless)"
    return ""


class ZooKeeperLoads:
    """Starts loads; keeps the compiled generator and the settings of Java's log in a folder."""

    def __init__(self, folder: Path, jars: Path = JARS) -> None:
        self._classes = folder / "classes"
        self._jars = jars
        self.classpath = f"{folder}:{':'.join(str(jars / name) for name in (*_NEEDED, *_LOGGING))}"
        """Of servers and clients."""
        (folder / "log4j.properties").write_text(_LOG)

    def start(self, client: str, tasks: Sequence[LoadTask], niceness: int = 0) -> LoadProcesses:
        """Start generators of the kind `client`; see `LoadProcesses` for the niceness."""
        if client == "kazoo":
            return LoadProcesses(GENERATE, tasks, niceness=niceness)
        if not self._classes.exists():
            self._classes.mkdir()
            compile_java(_SOURCE, self.classpath, self._classes)
        path = f"{self.classpath}:{self._classes}"
        command = ["java", "-Dbench.level=WARN", "-cp", path, "Load"]
        return LoadProcesses(command, tasks, niceness=niceness)
