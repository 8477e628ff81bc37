"""The faults of Ray nodes, beside those of servers and clients."""

from tests.harness.schedule import Schedule
from tests.simulation.client import SimClient
from tests.simulation.damage import Damage
from tests.simulation.faults import Faults
from tests.simulation.keepers.ray_cluster import Machine, RayCluster, RayNode
from tests.simulation.network import Network
from tests.simulation.node import Node
from tests.simulation.plan import Fault, FaultKind
from tests.simulation.temporary_faults import ends_of


class NodeFaults(Faults):
    """The faults of one run with Ray nodes."""

    def __init__(
        self,
        schedule: Schedule,
        network: Network,
        nodes: list[Node],
        clients: list[SimClient],
        cluster: RayCluster,
    ) -> None:
        super().__init__(schedule, network, nodes, clients, Damage(nodes))
        self._cluster = cluster
        for node in nodes:
            node.disk.may_be_uncertain = lambda: False
        self._handlers.update(
            {
                FaultKind.NODE_DIES: self._node_dies,
                FaultKind.NODE_FLAPS: self._node_flaps,
                FaultKind.NODE_CUT: self._node_cut,
                FaultKind.LAUNCH: self._launch,
            }
        )

    def _machine(self, fault: Fault) -> Machine | None:
        machines = self._cluster.machines
        machine = machines[fault.target - 1] if fault.target <= len(machines) else None
        if machine is None or machine.is_destroyed or not self._cluster.is_there(machine):
            return None
        return machine

    def _node_dies(self, fault: Fault) -> bool:
        cluster, machine = self._cluster, self._machine(fault)
        if machine is None:
            return False
        if fault.lasts_ms == 0 and cluster.may_destroy(machine):
            machine.is_destroyed = True
        cluster.end_node(cluster.node_of(machine))
        if machine.is_destroyed:
            for disk in machine.disks.values():
                disk.is_replaced = True  # what it had is lost
        else:
            lasts_ms = fault.lasts_ms or 2_000
            self._temporary.later(lasts_ms, lambda: cluster.return_machine(machine))
        return True

    def _node_flaps(self, fault: Fault) -> bool:
        if self._machine(fault) is None:
            return False
        again = Fault(0, FaultKind.NODE_DIES, fault.target, lasts_ms=fault.lasts_ms)
        for turn in range(fault.amount):
            self._temporary.later(2 * turn * fault.lasts_ms, lambda: self.inject(again))
        return True

    def _node_cut(self, fault: Fault) -> bool:
        cluster, machine = self._cluster, self._machine(fault)
        if machine is None:
            return False
        node = cluster.node_of(machine)
        if not node.is_reached:
            return False
        node.is_reached = False
        here = cluster.servers_at(node)
        others = list(self._nodes.values())
        away = ends_of(self._others(fault))
        if fault.amount:
            away = [*ends_of(others), *ends_of(self._clients.values())]
        pairs = [(a.end, b) for a in here for b in away if a.end != b]
        for one, other in pairs:
            self._network.cut(one, other)
            self._network.cut(other, one)
        is_mended = False

        def mend() -> None:
            nonlocal is_mended
            if not is_mended:
                is_mended = True
                for one, other in pairs:
                    self._network.mend(one, other)
                    self._network.mend(other, one)

        node.mend = mend
        cluster.notice_later(node)
        self._temporary.later(fault.lasts_ms, lambda: self._reach(node))
        return True

    def _reach(self, node: RayNode) -> None:
        self._cluster.reach(node)
        if not node.is_alive:
            # Its machine starts Ray again, some time after the orphans have ended.
            machine = node.machine
            self._temporary.later(
                self._cluster.random.randint(1_500, 5_000),
                lambda: self._cluster.return_machine(machine),
            )

    def _launch(self, fault: Fault) -> bool:
        return self._cluster.launch()
