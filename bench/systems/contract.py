"""What a measured system can do: start servers, say who leads, lose one and get it back."""

from abc import abstractmethod
from collections.abc import Sequence
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Protocol

from msgspec import Struct

from raykeeper.bench.loads.processes import LoadProcesses
from raykeeper.bench.loads.task import LoadTask


class EnsembleShape(Struct, frozen=True):
    """An ensemble to start."""

    servers: int = 3
    observers: int = 0


class Servers(Protocol):
    """An ensemble that runs. Servers are numbered from 1, observers after the others."""

    @abstractmethod
    def where(self, server: int | None = None) -> str:
        """What a load generator is told, to use all servers or only one."""

    @abstractmethod
    def leader(self) -> int:
        """Who leads now; waits until somebody does."""

    @abstractmethod
    def pid(self, server: int) -> int:
        """Its process; 0 when it is down."""

    @abstractmethod
    def crash(self, server: int) -> float:
        """SIGKILL its process, and have it started again as soon as that is noticed: the moment."""

    @abstractmethod
    def kill(self, server: int) -> float:
        """SIGKILL its process, which stays away: the moment."""

    @abstractmethod
    def start(self, server: int) -> None:
        """Start one that was killed, without waiting until it serves."""

    @abstractmethod
    def serves(self, server: int) -> bool:
        """Whether it is up and takes part, as leader or follower."""

    @abstractmethod
    def folder(self, server: int) -> Path:
        """Where its data lies."""

    @abstractmethod
    def load(self, client: str, tasks: Sequence[LoadTask]) -> LoadProcesses:
        """Start generators of that kind."""


class System(Protocol):
    """A service that can be measured."""

    name: str
    clients: tuple[str, ...]
    """The kinds of load generators, the best case first."""

    @abstractmethod
    def missing(self) -> str:
        """What is not there that it needs; empty when it can be measured."""

    @abstractmethod
    def launch(self, shape: EnsembleShape, folder: Path) -> AbstractContextManager[Servers]:
        """Start an ensemble with its data in an empty folder, and wait for a leader."""

    @abstractmethod
    def close(self) -> None:
        """End what all ensembles of a run have shared."""


def follower_of(servers: Servers, shape: EnsembleShape) -> int:
    """A server that does not lead now; with one server that one."""
    leader = servers.leader()
    return next((server for server in range(1, shape.servers + 1) if server != leader), leader)
