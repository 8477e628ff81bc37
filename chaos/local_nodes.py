"""A Ray cluster of several nodes on this machine, whose nodes can be lost and come back.

Each node has a home folder of its own, which stands for its disk: an ensemble below `~` has another
folder on each node, and a node that comes back has the one from before. All addresses are of
loopback or of this machine; nothing of the cluster outlives the process.
"""

import logging
import os
import signal
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, redirect_stdout
from pathlib import Path
from typing import Any, Final

import psutil
import ray
from ray.cluster_utils import Cluster

from raykeeper.chaos.client_pool import ChaosError

_DETECTION: Final = {
    "health_check_initial_delay_ms": 0,
    "health_check_period_ms": 500,
    "health_check_timeout_ms": 1_000,
    "health_check_failure_threshold": 6,
}
"""Ray calls a node dead after some 3 s, not after 14 s: the time of Ray is not what is measured."""
_NOTICE_S: Final = 60.0
_POLL_S: Final = 0.02


class LocalNodes:
    """The nodes, numbered from 0; node 0 is the head, which cannot be lost."""

    def __init__(
        self, folder: Path, number: int, more: Mapping[int, Mapping[str, Any]] | None = None
    ) -> None:
        """Start the head and `number` - 1 other nodes, with homes below `folder`.

        `more` has further arguments of Ray for some nodes.
        """
        self._folder = folder
        self._more = more or {}
        head = {**self._arguments(0), "_system_config": _DETECTION}
        self._cluster = Cluster(initialize_head=True, head_node_args=head)
        self._nodes: dict[int, Any] = {0: self._cluster.head_node}
        for each in range(1, number):
            self.start(each)

    @property
    def address(self) -> str:
        """The address of the cluster, for `ray.init`."""
        address: str = self._cluster.address
        return address

    def ray_ids(self) -> dict[int, str]:
        """Return Ray's id of each node that was not lost."""
        return {number: node.node_id for number, node in self._nodes.items()}

    def home(self, number: int) -> Path:
        """Return the home folder of a node, lost or not."""
        return self._folder / f"node-{number}"

    def start(self, number: int) -> None:
        """Start a node, or start it again after its loss; Ray gives it another id."""
        self._nodes[number] = self._cluster.add_node(**self._arguments(number))

    def lose(self, number: int) -> int:
        """Kill all processes of a node and wait until Ray calls it dead.

        Returns:
            When they were killed, in nanoseconds of the monotonic clock.

        Raises:
            ChaosError: Ray does not notice.
        """
        node = self._nodes.pop(number)
        (raylet,) = node.all_processes["raylet"]
        process = psutil.Process(raylet.process.pid)
        workers = process.children(recursive=True)
        lost_at = time.monotonic_ns()
        for each in (process, *workers):
            with _may_be_gone():
                each.kill()
        self._cluster.remove_node(node, allow_graceful=False)
        deadline = time.monotonic() + _NOTICE_S
        while node.node_id in _alive():
            if time.monotonic() > deadline:
                raise ChaosError(f"{_NOTICE_S:g} s after the loss of a node Ray calls it alive")
            time.sleep(_POLL_S)
        return lost_at

    def stop(self) -> None:
        """End all nodes."""
        self._cluster.shutdown()  # type: ignore[no-untyped-call]

    def _arguments(self, number: int) -> dict[str, Any]:
        home = self.home(number)
        home.mkdir(exist_ok=True)
        more = dict(self._more.get(number, {}))
        env_vars = {"HOME": str(home), **token_place(os.environ), **more.pop("env_vars", {})}
        return {"num_cpus": 1, "include_dashboard": False, "env_vars": env_vars, **more}


def token_place(environment: Mapping[str, str]) -> dict[str, str]:
    """Return where a process with another home finds Ray's token; nothing if that is told already.

    `environment` is that of this process. Ray looks below the home for a token if none is named.
    """
    if any(environment.get(name) for name in ("RAY_AUTH_TOKEN", "RAY_AUTH_TOKEN_PATH")):
        return {}
    if environment.get("RAY_AUTH_MODE", "").lower() != "token":
        return {}
    return {"RAY_AUTH_TOKEN_PATH": str(Path.home() / ".ray" / "auth_token")}


@contextmanager
def local_nodes(
    folder: Path, number: int, more: Mapping[int, Mapping[str, Any]] | None = None
) -> Iterator[LocalNodes]:
    """Start a cluster for this process alone and connect to it, and end it afterwards.

    Standard output is discarded meanwhile, because Ray prints its messages there. SIGTERM ends the
    process as ^C does, in place of Ray's own handler, so that everything is cleaned up.

    Args:
        folder: For the homes of the nodes and Ray's own files. Its path must be short, because it
            is a part of the names of Unix sockets.
        number: How many nodes.
        more: Further arguments of Ray for some nodes, by number.
    """
    before = os.environ.get("RAY_TMPDIR")
    os.environ["RAY_TMPDIR"] = str(folder)
    with Path(os.devnull).open("w") as nowhere, redirect_stdout(nowhere):
        nodes = LocalNodes(folder, number, more)
        try:
            ray.init(address=nodes.address, logging_level=logging.ERROR, log_to_driver=False)
            signal.signal(signal.SIGTERM, signal.default_int_handler)
            yield nodes
        finally:
            ray.shutdown()
            nodes.stop()
            if before is None:
                del os.environ["RAY_TMPDIR"]
            else:
                os.environ["RAY_TMPDIR"] = before


@contextmanager
def _may_be_gone() -> Iterator[None]:
    try:
        yield
    except psutil.NoSuchProcess:
        return


def _alive() -> set[str]:
    nodes: list[dict[str, Any]] = ray.nodes()  # type: ignore[no-untyped-call]
    return {node["NodeID"] for node in nodes if node["Alive"]}
