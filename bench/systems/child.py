"""Server processes that are children of this one: start, kill, restart, and stop them by pid.

`ChildServers` is the base of the systems whose servers are such processes, on the loopback
interface.
"""

import os
import signal
import socket
import subprocess
import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path

from raykeeper.bench.errors import BenchError
from raykeeper.bench.loads.processes import LoadProcesses
from raykeeper.bench.loads.task import LoadTask
from raykeeper.bench.systems.contract import EnsembleShape, Servers

OUTPUT_TAIL_BYTES = 2_000
_START_S = 60.0
_STOP_S = 10.0
_POLL_S = 0.02


class ChildProcess:
    """One server process; its output goes to a file."""

    def __init__(
        self, words: Sequence[str], printed: Path, environment: Mapping[str, str] | None = None
    ) -> None:
        self._words = list(words)
        self._printed = printed
        self._environment = {**os.environ, **(environment or {})}
        self._process: subprocess.Popen[bytes] | None = None

    @property
    def pid(self) -> int:
        """Return the pid; 0 when the process is down."""
        return self._process.pid if self._process is not None and self.is_up() else 0

    def is_up(self) -> bool:
        """Return whether the process runs."""
        return self._process is not None and self._process.poll() is None

    def start(self) -> None:
        """Start the process, unless it runs."""
        if self.is_up():
            return
        with self._printed.open("ab") as printed:
            self._process = subprocess.Popen(
                self._words,
                stdin=subprocess.DEVNULL,
                stdout=printed,
                stderr=printed,
                env=self._environment,
            )

    def kill(self) -> float:
        """Send SIGKILL, and return the moment."""
        moment = time.monotonic()
        if self._process is not None:
            self._process.send_signal(signal.SIGKILL)
            self._process.wait()
        return moment

    def stop(self) -> None:
        """Send SIGTERM, and SIGKILL if the process does not end."""
        if self._process is None:
            return
        self._process.terminate()
        try:
            self._process.wait(_STOP_S)
        except subprocess.TimeoutExpired:
            self.kill()

    def output_tail(self) -> str:
        """Return the end of its output."""
        return self._printed.read_bytes()[-OUTPUT_TAIL_BYTES:].decode(errors="replace").strip()


class ChildServers(ABC):
    """One ensemble of child processes; `ports` has the port of each server for clients."""

    def __init__(self, shape: EnsembleShape, folder: Path, ports: Mapping[int, int]) -> None:
        self.shape = shape
        self._folder = folder
        self._ports = ports
        self._children: dict[int, ChildProcess] = {}

    @contextmanager
    def running(self) -> Iterator[Servers]:
        """Start all servers and wait until all serve; stop every process afterwards."""
        self._children = {server: self._child(server) for server in self._ports}
        try:
            for child in self._children.values():
                child.start()
            children = list(self._children.values())
            wait_until(lambda: all(map(self.serves, self._ports)), _START_S, children)
            yield self
        finally:
            for child in self._children.values():
                child.stop()

    def where(self, server: int | None = None) -> str:
        """See `Servers`."""
        chosen = self._ports.values() if server is None else [self._ports[server]]
        return ",".join(f"127.0.0.1:{port}" for port in chosen)

    def where_each(self) -> str:
        """See `Servers`."""
        return ";".join(map(self.where, self._ports))

    def leader(self) -> int:
        """See `Servers`."""
        found: list[int] = []

        def is_found() -> bool:
            found[:] = filter(self._leads, self._ports)
            return bool(found)

        wait_until(is_found, _START_S, [c for c in self._children.values() if c.is_up()])
        return found[0]

    def pid(self, server: int) -> int:
        """See `Servers`."""
        child = self._children.get(server)  # etcd has none for an observer
        return 0 if child is None else child.pid

    def sidecar_pids(self) -> list[int]:
        """See `Servers`."""
        return []

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

    def folder(self, server: int) -> Path:
        """See `Servers`."""
        return self._folder / str(server)

    @abstractmethod
    def serves(self, server: int) -> bool:
        """See `Servers`."""

    @abstractmethod
    def load(self, client: str, tasks: Sequence[LoadTask]) -> LoadProcesses:
        """See `Servers`."""

    @abstractmethod
    def _leads(self, server: int) -> bool:
        """Return whether a server says that it leads."""

    @abstractmethod
    def _child(self, server: int) -> ChildProcess:
        """Return the process of a server, not started."""


def free_ports(count: int) -> list[int]:
    """Return different free ports of the loopback interface."""
    sockets = [socket.socket() for _ in range(count)]
    try:
        for each in sockets:
            each.bind(("127.0.0.1", 0))
        return [each.getsockname()[1] for each in sockets]
    finally:
        for each in sockets:
            each.close()


def free_ports_in_a_row(count: int) -> int:
    """Return the first of so many ports of the loopback interface that nobody listens on.

    Processes that ask at the same moment look at different ones first, and none is a port that the
    system gives to clients.

    Raises:
        BenchError: there are no such ports.
    """
    blocks = list(range(20_000, 30_000 - count, count))
    begin = os.getpid() % len(blocks)
    for first in blocks[begin:] + blocks[:begin]:
        with ExitStack() as bound, suppress(OSError):
            for port in range(first, first + count):
                bound.enter_context(socket.socket()).bind(("127.0.0.1", port))
            return first
    raise BenchError(f"there are no {count} free ports in a row")


def wait_until(
    found: Callable[[], bool], patience_s: float, children: Sequence[ChildProcess]
) -> None:
    """Poll until `found` returns True; the systems offer no event to wait for.

    Raises:
        BenchError: it takes too long, or a server ended; contains the output of a server.
    """
    deadline = time.monotonic() + patience_s
    while not found():
        ended = [child for child in children if not child.is_up()]
        if ended or time.monotonic() > deadline:
            what = "ended" if ended else f"does not serve after {patience_s:g} s"
            raise BenchError(f"a server {what}: {(ended or children)[0].output_tail()}")
        time.sleep(_POLL_S)
