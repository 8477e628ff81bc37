"""Faults of processes and of Ray nodes under load. Run as a program by test_chaos.py.

Three Ray nodes, each with a server and clients. One fault after the other: each is awaited until it
shows, and until the load has gone on in spite of it. The last line printed is the verdict.
"""

import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import msgspec
import psutil
import pytest
import ray
from msgspec import Struct

from raykeeper.chaos.checks.judge import HistoryReport, judge
from raykeeper.chaos.client_pool import ClientPool
from raykeeper.chaos.fault_injector import FaultInjector
from raykeeper.chaos.fault_plan import KINDS, Fault, FaultAction, FaultKind, Target
from raykeeper.chaos.history_file import read_history
from raykeeper.chaos.load_client import LoadSettings
from raykeeper.chaos.round import Round
from raykeeper.clusters import Ensemble, LeadershipTransferError, launch
from tests.ray import programs
from tests.ray.stale_reader import read_from_a_deposed_leader
from tests.ray.three_nodes import Nodes, alive, eventually

CLIENTS = 4
PROGRESS = 300
"""Answers that the clients must have had before a fault counts as borne."""
SEED = 1


class Verdict(Struct):
    """What test_chaos.py wants to know."""

    operations: int
    acked_writes: int
    longest_gap_s: float
    faults: list[str]
    lost: list[str]
    violations: list[str]
    undecided: list[str]


class Faults:
    """Does the faults, and waits until they were borne."""

    def __init__(self, nodes: Nodes, ensemble: Ensemble, round_: Round) -> None:
        self.done: list[str] = []
        self._nodes = nodes
        self._ensemble = ensemble
        self._crowd = round_.clients
        self._victims = FaultInjector(ensemble, self._crowd)

    def on_processes(self) -> None:
        """Every kind once."""
        for pick, kind in enumerate(KINDS):
            fault = Fault(kind, 0, 0, pick)
            processes = eventually(lambda fault=fault: self._victims.find_processes(fault))
            if kind.action is FaultAction.FREEZE:
                self._freeze(kind, processes)
            else:
                self._kill(kind, processes)
            self._done(str(kind))

    def on_deposed_leader(self, records: Path) -> None:
        """Freeze the leader until another one leads, and ask it as it wakes up."""
        read_from_a_deposed_leader(self._ensemble, records)
        self._done("wake deposed leader")

    def on_frozen_successor(self) -> None:
        """Transfer the lead to a server that has just been frozen: the leader must go on."""
        fault = Fault(FaultKind(FaultAction.FREEZE, Target.FOLLOWER), 0, 0, 0)
        processes = eventually(lambda: self._victims.find_processes(fault))
        (frozen,) = (s for s in self._ensemble.status().servers if s.pid == processes[0].pid)
        before = self._ensemble.wait_for_leader()
        self._victims.freeze(processes)
        try:
            with pytest.raises(LeadershipTransferError):
                self._ensemble.transfer_leadership(frozen.server_id)
            assert self._ensemble.wait_for_leader() == before
            self._await_progress()
        finally:
            self._victims.thaw_all()
        self._done("transfer to a frozen server")

    def on_ray_nodes(self) -> None:
        """Kill a raylet, by preference the leader's, then remove another node; both return."""
        report = self._ensemble.status()
        slots = sorted({2, 3}, key=lambda slot: slot != report.leader)
        self._lose(slots[0], self._kill_raylet)
        self._done("kill raylet")
        self._lose(slots[1], self._nodes.kill)
        self._done("remove node")

    def _kill(self, kind: FaultKind, processes: list[psutil.Process]) -> None:
        self._victims.kill(processes)
        eventually(lambda: not any(process.is_running() for process in processes))
        if kind.target is Target.CLIENT:
            self._crowd.replace(processes[0].pid)

    def _freeze(self, kind: FaultKind, processes: list[psutil.Process]) -> None:
        before = self._ensemble.status().leader
        try:
            if kind.target is Target.LONE_LEADER:
                self._victims.freeze_lone_leader(processes)
            else:
                self._victims.freeze(processes)
            if kind.target is Target.FOLLOWERS:
                eventually(lambda: self._ensemble.status().leader is None)
                return
            if kind.target in (Target.LEADER, Target.LONE_LEADER):
                eventually(lambda: self._ensemble.status().leader not in (None, before))
            self._await_progress()
        finally:
            self._victims.thaw_all()

    def _lose(self, slot: int, lose: Callable[[int], None]) -> None:
        """Server i is on node i, tied to it by a resource, so it returns with a node of that kind.

        Without the node the two others go on.
        """
        lost = self._nodes.by_slot[slot].node_id
        lose(slot)
        clients = self._crowd.remove_on_node(lost)
        eventually(lambda: not any(map(psutil.pid_exists, clients)))
        self._crowd.ray_nodes = [node.node_id for node in self._nodes.by_slot.values()]
        self._crowd.start(len(clients))
        eventually(lambda: self._ensemble.status().leader not in (None, slot))
        self._await_progress()
        self._nodes.by_slot[slot] = self._nodes.add(slot)
        self._await_servers()
        servers = self._ensemble.status().servers
        homes = {server.server_id: server.node_id for server in servers}
        assert homes[slot] == self._nodes.by_slot[slot].node_id != lost, homes

    def _kill_raylet(self, slot: int) -> None:
        """SIGKILL to the raylet alone; its workers follow. What else is left is cleaned up."""
        node = self._nodes.by_slot.pop(slot)
        node.kill_raylet()
        eventually(lambda: node.node_id not in alive())
        self._nodes.cluster.remove_node(node, allow_graceful=False)

    def _done(self, what: str) -> None:
        self._await_servers()
        self._await_progress()
        self.done.append(what)
        sys.stdout.write(f"{what}\n")
        sys.stdout.flush()

    def _await_progress(self) -> None:
        goal = self._crowd.answer_count() + PROGRESS
        eventually(lambda: self._crowd.answer_count() >= goal)

    def _await_servers(self) -> None:
        def serve() -> bool:
            report = self._ensemble.status()
            roles = {server.role for server in report.servers}
            return report.leader is not None and roles <= {"leader", "follower"}

        eventually(serve)


def depose_a_patient_leader(records: Path, settings: dict[str, Any]) -> HistoryReport:
    """A leader that bears eight seconds of silence is asked a moment after it was deposed."""
    records.mkdir()
    ensemble = launch(name="patient", tick_ms=2_000, **settings)
    read_from_a_deposed_leader(ensemble, records, restarts_followers=True)
    ensemble.shutdown()
    return judge(read_history(sorted(records.iterdir())))


def main(home: Path) -> None:
    nodes = Nodes(home)
    nodes.cluster.connect()
    settings: dict[str, Any] = {"data_dir": "~/data", "placement": {"resource": "slot"}}
    ensemble = launch(name="chaos", snapshot_every_txns=200, **settings)
    records = home / "records"
    records.mkdir()
    load = LoadSettings("chaos", "/load", str(records), SEED, (4.0, 10.0))
    ray_nodes = [node.node_id for node in nodes.by_slot.values()]
    round_ = Round(ensemble, load, ClientPool(load, ray_nodes))
    round_.begin(CLIENTS)
    faults = Faults(nodes, ensemble, round_)
    faults.on_processes()
    faults.on_deposed_leader(records)
    faults.on_frozen_successor()
    faults.on_ray_nodes()
    told = round_.finish()
    ensemble.shutdown()
    told.include(depose_a_patient_leader(home / "patient", settings))
    faults.done.append("wake patient leader")
    verdict = Verdict(
        operations=told.operations,
        acked_writes=told.acked_writes,
        longest_gap_s=told.longest_gap_ns / 1e9,
        faults=faults.done,
        lost=told.lost,
        violations=told.violations,
        undecided=told.undecided,
    )
    ray.shutdown()
    nodes.cluster.shutdown()
    sys.stdout.write(msgspec.json.encode(verdict).decode() + "\n")


if __name__ == "__main__":
    programs.in_temporary_folder(main)
