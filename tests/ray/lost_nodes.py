"""Clients on other Ray nodes than their server: killed, doubtful, and lost with their node.

Run as a program by test_deaths.py, because a driver does not survive every end of a cluster. All
"nodes" are on one machine, but Ray's ids tell them apart: the server asks Ray, not the kernel.
"""

import os
import signal
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import psutil
import ray
from ray.cluster_utils import Cluster

from raykeeper.client import Client
from raykeeper.clusters import launch
from tests.ray import holders, programs

AT_ONCE_S = 0.4
SOON_S = 2.5
REFERENCE_S = 6.0
"""The timeout of sessions that end by it."""
PATIENCE_S = 40.0


TELLS_ACTORS = tuple(int(part) for part in ray.__version__.split(".")[:2]) >= (2, 52)
"""Whether Ray tells an actor that it is to exit; before, it just ends it, without any doubt."""


class Gone:
    """When each of some ephemeral znodes went."""

    def __init__(self, client: Client, paths: list[str]) -> None:
        self.at: dict[str, float] = {}
        for path in paths:
            assert client.exists(path, watch=self._told) is not None, path

    def _told(self, event: Any) -> None:
        self.at[event.path] = time.monotonic()

    def after(self, path: str, act: Callable[[], object]) -> float:
        """How long after `act` it went."""
        began = time.monotonic()
        act()
        eventually(lambda: path in self.at)
        return self.at[path] - began


def eventually(found: Callable[[], Any]) -> Any:
    deadline = time.monotonic() + PATIENCE_S
    while not (answer := found()):
        assert time.monotonic() < deadline, answer
        time.sleep(0.02)
    return answer


def raylet(node: Any) -> int:
    pid: int = node.all_processes["raylet"][0].process.pid
    return pid


def main(home: Path) -> None:
    head = {"num_cpus": 1, "resources": {"slot_1": 1.0}}
    cluster = Cluster(initialize_head=True, head_node_args=head)
    lost, frozen = (
        cluster.add_node(num_cpus=1, resources={name: 100.0}) for name in ("lost", "frozen")
    )
    cluster.connect()
    ensemble = launch(name="far", data_dir=home / "data", servers=1, placement={"resource": "slot"})

    def start(path: str, node: str, timeout_s: float = holders.TIMEOUT_S) -> Any:
        return holders.start("far", path, timeout_s, resources={node: 1.0})

    with ensemble.connect() as client:
        actors = {f"/killed-{i}": start(f"/killed-{i}", "lost") for i in range(3)}
        killed = list(actors)
        actors["/by-ray"] = start("/by-ray", "lost")
        actors["/on-lost"] = start("/on-lost", "lost", REFERENCE_S)
        actors["/on-frozen"] = start("/on-frozen", "frozen", REFERENCE_S)
        doubtful = start("/out-of-scope", "frozen")
        pids = {path: ray.get(actor.pid.remote()) for path, actor in actors.items()}
        doubtful_pid = ray.get(doubtful.pid.remote())

        if TELLS_ACTORS:  # Ray says that it has ended, and it stands still.
            ray.get(doubtful.freeze_at_the_end.remote())
            del doubtful
        else:
            os.kill(doubtful_pid, signal.SIGSTOP)
        eventually(lambda: psutil.Process(doubtful_pid).status() == "stopped")

        # The raylet itself has met their end; or it has told it to come, and a task looks.
        gone = Gone(client, [*killed, "/by-ray"])
        took = [
            gone.after(path, lambda pid=pids[path]: os.kill(pid, signal.SIGKILL))  # type: ignore[misc]
            for path in killed
        ]
        assert min(took) <= AT_ONCE_S, took  # the machine may be busy with something else
        took.append(gone.after("/by-ray", lambda: ray.kill(actors["/by-ray"])))
        assert max(took) <= SOON_S, took

        # Nodes that are lost: one whose raylet is dead, and so its workers, one that stands still.
        gone = Gone(client, ["/on-lost", "/on-frozen"])
        assert client.exists("/out-of-scope") is not None
        began = time.monotonic()
        os.kill(raylet(frozen), signal.SIGSTOP)
        os.kill(pids["/on-frozen"], signal.SIGKILL)
        os.kill(raylet(lost), signal.SIGKILL)
        lost.all_processes["raylet"][0].process.wait()
        eventually(lambda: not psutil.pid_exists(pids["/on-lost"]))
        eventually(lambda: "/on-lost" in gone.at and "/on-frozen" in gone.at)
        lasted = [gone.at[path] - began for path in ("/on-lost", "/on-frozen")]
        assert min(lasted) > SOON_S, lasted
        assert client.exists("/out-of-scope") is not None, "and still"
        assert psutil.Process(doubtful_pid).status() == "stopped"
    os.kill(doubtful_pid, signal.SIGKILL)
    os.kill(raylet(frozen), signal.SIGCONT)
    ensemble.shutdown()
    ray.shutdown()
    cluster.shutdown()
    sys.stdout.write(f"killed {took}, lost {lasted}\nall is well\n")


if __name__ == "__main__":
    programs.in_temporary_folder(main)
