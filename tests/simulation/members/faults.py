"""The faults of members that change, beside those of all servers and clients."""

from tests.harness.schedule import Schedule
from tests.simulation.client import SimClient
from tests.simulation.damage import Damage
from tests.simulation.faults import Faults
from tests.simulation.members.moments import Moments
from tests.simulation.members.possible_lists import PossibleLists
from tests.simulation.network import Network
from tests.simulation.node import Node
from tests.simulation.plan import Fault, FaultKind


class MemberFaults(Faults):
    """The faults of one run whose members change."""

    def __init__(
        self,
        schedule: Schedule,
        network: Network,
        nodes: list[Node],
        clients: list[SimClient],
        damage: Damage,
        lists: PossibleLists,
    ) -> None:
        super().__init__(schedule, network, nodes, clients, damage)
        self._joins: list[Fault] = []
        self._lists = lists
        self._triggered.moments = Moments(lists).of
        self._triggered.joining = self._joining
        self._triggered.leaving = self._leaving
        self._handlers[FaultKind.JOIN_DIES] = self._join_dies

    def joins(self, node: Node) -> None:
        """Arm the faults that wait for the next server that joins."""
        waiting, self._joins = self._joins, []
        for fault in waiting:
            self._triggered.arm(fault, self._dies, node)

    def _joining(self) -> list[Node]:
        before, after = self._lists.change
        return [self._nodes[server] for server in after if server not in before]

    def _leaving(self) -> list[Node]:
        before, after = self._lists.change
        return [self._nodes[server] for server in before if server not in after]

    def _join_dies(self, fault: Fault) -> bool:
        self._joins.append(fault)
        return False  # counted when it strikes

    def _dies(self, fault: Fault, source: Node, _peer: Node | None) -> None:
        if source.is_up and not self._temporary.is_over:
            self.injected[fault.kind.value] += 1
            self._schedule.say(f"fault: server {source.server_id} dies as it joins")
            self._temporary.crash(source, fault.lasts_ms)
