"""Nodes with a server that are gone for good. Run as a program by test_healing.py.

Four Ray nodes with a home folder, and so a disk, each; three of them have a server. One of these is
lost under load, and the keeper moves its server to the fourth one. The node returns with the old
disk, and becomes the spare one: the fourth node is drained.
"""

import sys
import threading
import time
from pathlib import Path

import ray

from raykeeper.client import Client
from raykeeper.clusters import Ensemble, launch
from raykeeper.clusters.draining import drain_node, end_drain
from raykeeper.clusters.healing.vocabulary import Cause, MoveStep
from raykeeper.clusters.keeper_journal import Journal
from raykeeper.clusters.keeper_status import KeeperStatus
from tests.ray import holders, programs
from tests.ray.three_nodes import PATIENCE_S, Nodes, alive, eventually, homes

HEAL_AFTER_S = 2.0
LIMITS = {"heal_pause_s": 0, "heal_node_age_s": 0, "heal_moves_per_hour": 10}
STEPS = (MoveStep.BEGUN, MoveStep.STARTED, MoveStep.DONE)
VOTE_BACK_S = 120.0
"""On a busy machine; `raykeeper chaos --lose-nodes` measures how long it takes."""


class Writer:
    """Writes numbers into one znode, one after the other, and counts what was acknowledged."""

    def __init__(self, client: Client) -> None:
        self.acked = 0
        self.longest_gap_s = 0.0
        self.error: Exception | None = None
        self._client = client
        self._is_over = threading.Event()
        client.create("/written", b"0")
        self._thread = threading.Thread(target=self._write)
        self._thread.start()

    def _write(self) -> None:
        last = time.monotonic()
        try:
            while not self._is_over.is_set():
                self._client.set("/written", b"%d" % (self.acked + 1), version=self.acked)
                self.acked += 1
                now = time.monotonic()
                self.longest_gap_s = max(self.longest_gap_s, now - last)
                last = now
        except Exception as error:
            self.error = error

    def stop(self) -> None:
        self._is_over.set()
        self._thread.join()
        assert self.error is None, repr(self.error)


def moved_server(ensemble: Ensemble, gone: set[str]) -> dict[int, str] | None:
    """The node of each server, once all have a vote and none is on a node that is gone."""
    servers = ensemble.status().servers
    if any(server.problem or server.role not in ("leader", "follower") for server in servers):
        return None
    at = {server.server_id: server.node_id for server in servers}
    return None if gone & set(at.values()) else at


def steps_of(client: Client) -> list[MoveStep]:
    return [entry.decision.step for entry in Journal(client).read_entries()]


def keeper_of(ensemble: Ensemble) -> KeeperStatus:
    keeper = ensemble.keeper()
    assert keeper is not None
    return keeper


def preempt(nodes: Nodes, ensemble: Ensemble, client: Client, slot: int) -> None:
    """Tell Ray that a node will be taken away, as an autoscaler does; its server leaves in time."""
    node = nodes.by_slot[slot].node_id
    # A draining node that is idle ends at once, and servers do not make it busy.
    busy = holders.start("healed", "/busy", resources={f"slot_{slot}": 1.0})
    ray.get(busy.pid.remote())
    words = ["drain-node", "--address", nodes.cluster.address, "--node-id", node]
    words += ["--reason", "DRAIN_NODE_REASON_PREEMPTION", "--reason-message", "a test"]
    done = programs.run([Path(sys.executable).parent / "ray", *words])
    assert done.returncode == 0, done.stdout + done.stderr
    eventually(lambda: moved_server(ensemble, {node}), VOTE_BACK_S)
    eventually(lambda: steps_of(client) == [*STEPS, *STEPS, *STEPS])
    assert node in alive()
    causes = [entry.decision.cause for entry in Journal(client).read_entries()]
    assert causes[:: len(STEPS)] == [Cause.LOST, Cause.DRAINED, Cause.PREEMPTED]


def main(home: Path) -> None:
    nodes = Nodes(home)
    nodes.by_slot[4] = nodes.add(4)
    nodes.cluster.connect()
    ensemble = launch(name="healed", data_dir="~/data", heal_after_s=HEAL_AFTER_S, **LIMITS)
    before = homes(ensemble)
    slots = {node.node_id: slot for slot, node in nodes.by_slot.items()}
    (spare,) = set(slots) - set(before.values())
    with ensemble.connect() as client:
        writer = Writer(client)
        # The head cannot be killed.
        lost = next(server for server, node in before.items() if slots[node] != 1)
        nodes.kill(slots[before[lost]])
        began = time.monotonic()
        try:
            at: dict[int, str] = eventually(
                lambda: moved_server(ensemble, {before[lost]}), VOTE_BACK_S
            )
        except AssertionError:
            raise AssertionError(ensemble.keeper(), ensemble.status(), before) from None
        took = time.monotonic() - began
        writer.stop()
        assert at == {**before, lost: spare}, at
        value, stat = client.get("/written", consistency="linearizable")
        assert (int(value), stat.version) == (writer.acked, writer.acked)
        eventually(lambda: steps_of(client) == [*STEPS])

        # The node returns with the old disk: nothing happens but that its folder is set aside.
        slot = slots[before[lost]]
        nodes.by_slot[slot] = nodes.add(slot)
        folders = home / f"node-{slot}" / "data/healed"
        eventually(lambda: list(folders.glob(f"{lost}.stale-*")))
        (line,) = eventually(lambda: keeper_of(ensemble).stale_folders)
        assert line.startswith(f"server {lost} votes elsewhere"), line
        assert homes(ensemble) == at and not (folders / str(lost)).exists()

        # An operator drains the node to which the server moved: it goes to the one that returned.
        told: list[str] = []
        assert drain_node(ensemble, spare[:10], PATIENCE_S, told.append) == [lost]
        assert homes(ensemble) == {**before, lost: nodes.by_slot[slot].node_id}, told
        assert end_drain(ensemble, spare[:10]) and not end_drain(ensemble, spare[:10])
        eventually(lambda: steps_of(client) == [*STEPS, *STEPS])

        preempt(nodes, ensemble, client, slot)
        assert homes(ensemble) == at
        assert int(client.get("/written")[0]) == writer.acked
    ensemble.shutdown()
    assert ray.util.list_named_actors(all_namespaces=True) == []
    ray.shutdown()
    nodes.cluster.shutdown()
    sys.stdout.write(
        f"vote back after {took:.1f} s, {writer.acked} writes, gap {writer.longest_gap_s:.2f} s\n"
        "all is well\n"
    )


if __name__ == "__main__":
    programs.in_temporary_folder(main)
