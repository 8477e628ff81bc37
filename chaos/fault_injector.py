"""Finds the processes of one ensemble and of its clients, and sends them signals.

A server tells its pid in its status, the other actors tell theirs when asked. psutil remembers
when a process was created, so a signal never reaches a later process with the same pid. Every
process that is frozen here is thawed here.
"""

import signal
import threading
import time
from collections.abc import Callable, Sequence
from typing import Any, TypeVar

import psutil
import ray

from raykeeper.chaos.client_pool import ClientPool
from raykeeper.chaos.fault_plan import Fault, FaultAction, FaultKind, Target
from raykeeper.clusters.ensemble import Ensemble
from raykeeper.links.ray_names import NAMESPACE, snapshotter_name, tracker_name
from raykeeper.zab.ids import ServerId

T = TypeVar("T")
ASK_TIMEOUT_S = 2.0
LONE_LEADER_S = 1.0
"""Shorter than the time after which a leader gives its followers up."""


class FaultInjector:
    """Finds the target processes of faults that are signals; kills, freezes and thaws them."""

    def __init__(
        self,
        ensemble: Ensemble,
        clients: ClientPool,
        operators: Callable[[], Sequence[int]] = tuple,
    ) -> None:
        """`operators` returns the process ids of those who carry out orderly faults."""
        self._ensemble = ensemble
        self._clients = clients
        self._operators = operators
        self._frozen: list[psutil.Process] = []
        self._lock = threading.Lock()

    def find_processes(self, fault: Fault) -> list[psutil.Process]:
        """Return the processes that `fault` targets now; there may be none at the moment."""
        assert isinstance(fault.kind, FaultKind), fault
        found = []
        for pid in self._pids(fault.kind.target, fault.pick):
            try:
                found.append(psutil.Process(pid))
            except psutil.NoSuchProcess:
                continue  # it died after it told its pid
        return found

    def kill(self, processes: Sequence[psutil.Process]) -> None:
        """Send SIGKILL to all of them."""
        self._signal(processes, signal.SIGKILL)

    def freeze_lone_leader(self, processes: Sequence[psutil.Process]) -> list[psutil.Process]:
        """Freeze the followers for a while, then freeze the leader and thaw them.

        The leader comes first in `processes`. Returns the leader, which stays frozen.
        """
        leader, *followers = processes
        self.freeze(followers)
        time.sleep(LONE_LEADER_S)
        self.freeze([leader])
        self.thaw(followers)
        return [leader]

    def freeze(self, processes: Sequence[psutil.Process]) -> None:
        """Send SIGSTOP. The processes must be thawed before the ensemble is shut down."""
        with self._lock:
            self._frozen += processes
            self._signal(processes, signal.SIGSTOP)

    def thaw(self, processes: Sequence[psutil.Process]) -> None:
        """Send SIGCONT to these processes."""
        with self._lock:
            self._frozen = [process for process in self._frozen if process not in processes]
            self._signal(processes, signal.SIGCONT)

    def thaw_after(self, processes: Sequence[psutil.Process], span_s: float) -> None:
        """Send SIGCONT to these processes after `span_s`, from a thread of its own."""
        timer = threading.Timer(span_s, self.thaw, [processes])
        timer.daemon = True
        timer.start()

    def thaw_all(self) -> None:
        """Send SIGCONT to all frozen processes."""
        self.thaw(tuple(self._frozen))

    def inject(self, fault: Fault) -> list[psutil.Process]:
        """Inject `fault` now and return the processes it hit; frozen ones wait for `thaw`.

        A process that is frozen already is left out: it would be thawed too early.
        """
        assert isinstance(fault.kind, FaultKind), fault
        processes = [
            process for process in self.find_processes(fault) if process not in self._frozen
        ]
        if not processes:
            return []
        if fault.kind.target is Target.LONE_LEADER:
            return self.freeze_lone_leader(processes)
        if fault.kind.action is FaultAction.KILL:
            self.kill(processes)
        else:
            self.freeze(processes)
        return processes

    def _pids(self, target: Target, pick: int) -> list[int]:
        if target is Target.CLIENT:
            return _choose(self._clients.client_pids(), pick)
        if target is Target.OPERATOR:
            return _choose(self._operators(), pick)
        report = self._ensemble.status()
        servers = [server for server in report.servers if server.pid]
        if target is Target.SERVERS:
            return [server.pid for server in servers]
        if report.leader is None:
            return []
        leaders = [server.pid for server in servers if server.server_id == report.leader]
        followers = [server.pid for server in servers if server.role == "follower"]
        match target:
            case Target.LEADER:
                return leaders
            case Target.FOLLOWER:
                return _choose(followers, pick)
            case Target.FOLLOWERS:
                return followers
            case Target.LONE_LEADER:
                return [*leaders, *followers] if leaders else []
            case Target.TRACKER:
                return _actor_pid(tracker_name(self._ensemble.name, report.leader))
            case Target.SNAPSHOTTER:  # of any server, leader or follower
                (server,) = _choose([server.server_id for server in servers], pick)
                return _actor_pid(snapshotter_name(self._ensemble.name, server))

    @staticmethod
    def _signal(processes: Sequence[psutil.Process], number: signal.Signals) -> None:
        for process in processes:
            try:
                process.send_signal(number)
            except psutil.NoSuchProcess:
                continue


def _choose(candidates: Sequence[T], pick: int) -> list[T]:
    """Return one of the candidates, if there is any."""
    return [candidates[pick % len(candidates)]] if candidates else []


def _actor_pid(name: str) -> list[int]:
    """Return the pid of an actor that a server starts when it first needs it; may be empty."""
    try:
        handle: Any = ray.get_actor(name, namespace=NAMESPACE)
        return [ray.get(handle.pid.remote(), timeout=ASK_TIMEOUT_S)]
    except (ValueError, ray.exceptions.RayError):
        return []  # not started yet, or just restarting


def server_pid(ensemble: Ensemble, server: ServerId) -> int:
    """Return the pid of a server; 0 when it is down."""
    return next(s.pid for s in ensemble.status().servers if s.server_id == server)
