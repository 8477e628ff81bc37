"""Three Ray nodes with a home folder, and so a disk, each. Run as a program by test_nodes.py.

It is a process of its own because the cluster needs settings that Ray reads when it is loaded, and
because a driver does not survive every end of a cluster.
"""

import logging
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import psutil
import ray
from ray.cluster_utils import Cluster

from raykeeper.actors.ray_actors import find_replica
from raykeeper.clusters import Ensemble, launch
from raykeeper.clusters.actor_calls import find_replicas
from raykeeper.zab.ids import ServerId
from tests.ray import programs

PATIENCE_S = 40.0


class Nodes:
    """Node i has the custom resource slot_i and the folder <home>/node-i as its home."""

    def __init__(self, home: Path) -> None:
        self._home = home
        self.cluster = Cluster(initialize_head=True, head_node_args=self._arguments(1))
        self.by_slot = {1: self.cluster.head_node, 2: self.add(2), 3: self.add(3)}

    def add(self, slot: int) -> Any:
        return self.cluster.add_node(**self._arguments(slot))

    def kill(self, slot: int) -> None:
        node = self.by_slot.pop(slot)
        self.cluster.remove_node(node, allow_graceful=False)
        eventually(lambda: node.node_id not in alive())

    def leave_unreaped(self, slot: int, servers: list[int]) -> float:
        """Kill the raylet alone and leave it a zombie until the processes `servers` have ended.

        Returns how long these took.
        """
        raylet = psutil.Process(self.by_slot[slot].all_processes["raylet"][0].process.pid)
        began = time.monotonic()
        raylet.kill()
        eventually(lambda: all(map(has_ended, servers)))
        took = time.monotonic() - began
        assert raylet.status() == psutil.STATUS_ZOMBIE
        self.kill(slot)
        return took

    def _arguments(self, slot: int) -> dict[str, Any]:
        home = self._home / f"node-{slot}"
        home.mkdir(exist_ok=True)
        return {
            "num_cpus": 1,
            "include_dashboard": False,
            "resources": {f"slot_{slot}": 1.0},
            "env_vars": {"HOME": str(home)},
        }


def has_ended(pid: int) -> bool:
    """Whether a process has ended, if nobody has reaped it too."""
    try:
        return psutil.Process(pid).status() == psutil.STATUS_ZOMBIE
    except psutil.NoSuchProcess:
        return True


def alive() -> set[str]:
    return {node["NodeID"] for node in ray.nodes() if node["Alive"]}


def eventually(found: Callable[[], Any], patience_s: float = PATIENCE_S) -> Any:
    deadline = time.monotonic() + patience_s
    while not (answer := found()):
        assert time.monotonic() < deadline, answer
        time.sleep(0.05)
    return answer


def homes(ensemble: Ensemble) -> dict[int, str]:
    """The node of each server, once all of them serve."""

    def found() -> dict[int, str] | None:
        servers = ensemble.status().servers
        is_up = all(server.role in ("leader", "follower") for server in servers)
        return {s.server_id: s.node_id for s in servers} if is_up else None

    answer: dict[int, str] = eventually(found)
    return answer


def move_and_return(nodes: Nodes, ensemble: Ensemble, moved: int) -> None:
    """A server moves because its node is lost, and the node returns with the old disk.

    The next losses, of another server and of the moved one, are made good by a launch alone.
    """
    told: list[str] = []

    class Told(logging.Handler):
        def emit(self, record: logging.LogRecord) -> None:
            told.append(record.getMessage())

    logger, handler = logging.getLogger("raykeeper.clusters"), Told()
    logger.addHandler(handler)
    old = homes(ensemble)[moved]
    pids = [server.pid for server in ensemble.status().servers if server.node_id == old]
    nodes.leave_unreaped(3, pids)
    launch(name=ensemble.name)
    eventually(lambda: [server.problem for server in ensemble.status().servers] == ["", "", ""])
    at = homes(ensemble)
    assert at[moved] in (nodes.by_slot[1].node_id, nodes.by_slot[2].node_id), at
    nodes.by_slot[3] = nodes.add(3)
    for lost in (next(server for server in at if server != moved), moved):
        told.clear()
        ray.kill(find_replica(ensemble.name, ServerId(lost)), no_restart=True)
        eventually(lambda gone=lost: gone not in find_replicas(ensemble.name))  # type: ignore[misc]
        eventually(lambda: ensemble.status().leader is not None)
        launch(name=ensemble.name)
        assert homes(ensemble) == at
        folder = f"data/{ensemble.name}/{moved} on "
        assert [text for text in told if folder in text and "left alone" in text], told
    logger.removeHandler(handler)


def main(home: Path) -> None:
    nodes = Nodes(home)
    nodes.cluster.connect()
    affine = launch(name="affine", data_dir="~/data")
    pinned = launch(name="pinned", data_dir="~/data", placement={"resource": "slot"})
    slots = {node.node_id: slot for slot, node in nodes.by_slot.items()}
    before = homes(affine)
    assert sorted(slots[node] for node in before.values()) == [1, 2, 3], before
    assert {s: slots[node] for s, node in homes(pinned).items()} == {1: 1, 2: 2, 3: 3}
    for server, node in before.items():
        folder = home / f"node-{slots[node]}" / "data/affine"
        assert [f.name for f in folder.iterdir() if f.is_dir()] == [str(server)], folder
    with affine.connect() as client, pinned.connect() as other:
        client.create("/kept", b"1")
        other.create("/kept", b"2")

        # Launched again, every server runs where its disk is.
        affine.shutdown()
        launch(name="affine", data_dir="~/data")
        assert homes(affine) == before

        # A node is lost, by a raylet that nobody reaps: its servers end, and the others go on.
        on_3 = [
            server.pid
            for ensemble in (affine, pinned)
            for server in ensemble.status().servers
            if slots[server.node_id] == 3
        ]
        assert len(on_3) == 2, on_3
        took = nodes.leave_unreaped(3, on_3)
        client.create("/without-3", b"1")
        other.create("/without-3", b"2")

        # It returns, under another node id, with its disk. Who is pinned comes back by himself,
        # the other server is started by the next launch.
        nodes.by_slot[3] = nodes.add(3)
        new_id = nodes.by_slot[3].node_id
        assert homes(pinned)[3] == new_id
        lost = next(server for server, node in before.items() if slots[node] == 3)
        launch(name="affine", data_dir="~/data")
        assert homes(affine) == {**before, lost: new_id}
        assert [server.problem for server in affine.status().servers] == ["", "", ""]
        assert client.get("/without-3")[0] == b"1"
        assert other.get("/without-3")[0] == b"2"
        move_and_return(nodes, affine, lost)
        assert client.get("/without-3")[0] == b"1"
    affine.shutdown()
    pinned.shutdown()
    ray.shutdown()
    nodes.cluster.shutdown()
    sys.stdout.write(f"servers ended {took:.1f} s after their raylet\nall is well\n")


if __name__ == "__main__":
    programs.in_temporary_folder(main)
