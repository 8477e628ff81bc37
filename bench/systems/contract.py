"""The interface of a measured system: start servers, find the leader, kill and restart servers."""

import time
from abc import abstractmethod
from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Any, Protocol

from msgspec import Struct

from raykeeper.bench.errors import BenchError
from raykeeper.bench.loads.processes import LoadProcesses
from raykeeper.bench.loads.task import LoadTask

_POLL_S = 0.02


class EnsembleShape(Struct, frozen=True):
    """The numbers of servers of an ensemble."""

    servers: int = 3
    observers: int = 0
    settings: Mapping[str, Any] = {}
    """Further settings of an ensemble of ours."""

    def numbers(self) -> range:
        """Return the numbers of all servers, observers after the others."""
        return range(1, self.servers + self.observers + 1)


class Servers(Protocol):
    """A running ensemble. Servers are numbered from 1, observers after the others."""

    shape: EnsembleShape

    @abstractmethod
    def where(self, server: int | None = None) -> str:
        """Return the value of `LoadTask.where` for all servers or only one."""

    @abstractmethod
    def where_each(self) -> str:
        """Return the value of `LoadTask.where` with which each client has a server in turn."""

    @abstractmethod
    def leader(self) -> int:
        """Return the leader; waits until there is one."""

    @abstractmethod
    def pid(self, server: int) -> int:
        """Return the pid of a server; 0 when it is down."""

    @abstractmethod
    def sidecar_pids(self) -> list[int]:
        """Return the pids of the processes that run beside the servers."""

    @abstractmethod
    def crash(self, server: int) -> float:
        """Kill a server's process, which a supervisor restarts at once; return the moment."""

    @abstractmethod
    def kill(self, server: int) -> float:
        """Kill a server's process, which stays down; return the moment."""

    @abstractmethod
    def start(self, server: int) -> None:
        """Start a killed server, without waiting until it serves."""

    @abstractmethod
    def serves(self, server: int) -> bool:
        """Return whether a server is up and has a leader or leads."""

    @abstractmethod
    def folder(self, server: int) -> Path:
        """Return the data folder of a server."""

    @abstractmethod
    def load(self, client: str, tasks: Sequence[LoadTask]) -> LoadProcesses:
        """Start generators of the kind `client`."""


class System(Protocol):
    """A service that can be measured."""

    name: str
    clients: tuple[str, ...]
    """The kinds of load generators, the fastest first."""
    server_cores_max: int | None
    """How many cores one server can use; None: all that there are."""

    @abstractmethod
    def missing(self) -> str:
        """Return what must be installed first; empty if the system can be measured."""

    @abstractmethod
    def launch(self, shape: EnsembleShape, folder: Path) -> AbstractContextManager[Servers]:
        """Start an ensemble with its data in the empty `folder`, and wait for a leader."""

    @abstractmethod
    def close(self) -> None:
        """End what the ensembles of a run share."""


def wait_for_all(servers: Servers, patience_s: float) -> None:
    """Wait until all servers serve.

    Raises:
        BenchError: a server does not serve in time.
    """
    problem = f"not all servers serve after {patience_s:g} s"
    poll(lambda: all(map(servers.serves, servers.shape.numbers())), patience_s, problem)


def poll(found: Callable[[], bool], patience_s: float, problem: str) -> None:
    """Call `found` until it returns True; the systems offer no event to wait for.

    Raises:
        BenchError: it takes too long; says `problem`.
    """
    deadline = time.monotonic() + patience_s
    while not found():
        if time.monotonic() > deadline:
            raise BenchError(problem)
        time.sleep(_POLL_S)


def follower_of(servers: Servers) -> int:
    """Return a server that does not lead now; with a single server, that one."""
    leader = servers.leader()
    return next((i for i in range(1, servers.shape.servers + 1) if i != leader), leader)
