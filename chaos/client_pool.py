"""The client processes of the load: start them together, replace killed ones, stop them."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import ray
from msgspec import Struct

from raykeeper.chaos.load_client import REQUEST_TIMEOUT_S, LoadSettings, start_client
from raykeeper.zab.errors import RayKeeperError

START_TIMEOUT_S = 60.0
STOP_TIMEOUT_S = 3 * REQUEST_TIMEOUT_S
_COUNT_BYTES = 1 << 20


class ChaosError(RayKeeperError):
    """Raised when the load or its ensemble fails in a way that no fault explains.

    Examples are a client that ends by itself and an ensemble that does not come back. The caller
    should look at the records, in the folder that the message names.
    """


class _PooledClient(Struct):
    """One client process."""

    name: str
    actor: Any
    pid: int
    ray_node: str | None


class ClientPool:
    """The clients that are alive. No name is used twice."""

    def __init__(self, settings: LoadSettings, ray_nodes: Sequence[str | None] = (None,)) -> None:
        """Place the clients on `ray_nodes` in turn; the attribute may be changed later."""
        self.ray_nodes = ray_nodes
        self._settings = settings
        self._members: list[_PooledClient] = []
        self._count = 0
        self._offsets: dict[Path, int] = {}
        self._answers = 0

    def start(self, size: int) -> None:
        """Start `size` more clients."""
        started = []
        for _ in range(size):
            ray_node = self.ray_nodes[self._count % len(self.ray_nodes)]
            self._count += 1
            name = f"c{self._count}"
            actor = start_client(self._settings, name, ray_node)
            started.append((name, actor, ray_node, actor.start.remote()))
        for name, actor, ray_node, starting in started:
            pid = ray.get(starting, timeout=START_TIMEOUT_S)
            self._members.append(_PooledClient(name, actor, pid, ray_node))

    def client_pids(self) -> Sequence[int]:
        """Return the process ids of all clients that are alive."""
        return [member.pid for member in self._members]

    def replace(self, pid: int) -> None:
        """Start another client in the place of a killed one."""
        self.remove(pid)
        self.start(1)

    def remove(self, pid: int) -> None:
        """Drop a client that was killed."""
        self._members = [member for member in self._members if member.pid != pid]

    def remove_on_node(self, ray_node: str) -> list[int]:
        """Drop the clients of a lost Ray node; return their process ids."""
        lost = [member.pid for member in self._members if member.ray_node == ray_node]
        for pid in lost:
            self.remove(pid)
        return lost

    def stop(self) -> None:
        """End all clients that are alive, and their sessions.

        Raises:
            ChaosError: a client failed, or does not end.
        """
        members, self._members = self._members, []
        stopping = [(member, member.actor.stop.remote()) for member in members]
        for member, stopped in stopping:
            try:
                ray.get(stopped, timeout=STOP_TIMEOUT_S)
            except ray.exceptions.RayError as error:
                raise ChaosError(
                    f"client {member.name} failed: {error}; records in {self._settings.records}"
                ) from error

    def record_files(self) -> list[Path]:
        """Return the record files of all clients, dead ones included."""
        return sorted(Path(self._settings.records).glob("c*.jsonl"))

    def answer_count(self) -> int:
        """Count the answers that all clients received; read from the records, which only grow."""
        for file in self.record_files():
            with file.open("rb") as records:
                records.seek(self._offsets.get(file, 0))
                while portion := records.read(_COUNT_BYTES):
                    self._answers += portion.count(b'"type":"returned"')
                    self._offsets[file] = records.tell()
        return self._answers
