"""A simulated Ray cluster: machines with disks, Ray nodes, and one actor for each server.

Ray learns late that a node is gone, calls nodes dead that go on, and gives a machine that returns
another node id. An actor is tied to its node, and dead with it; a pinned one waits for its machine
and holds its name. A raylet that learns that Ray calls its node dead ends with all its processes.

If an actor is started while an older process of its server goes on where Ray does not reach it,
that one becomes a second process (second_process.py): no server may take its links.
"""

from collections.abc import Callable

from raykeeper.actors.disk.identity import DiskIdentity, FolderOwner
from raykeeper.actors.replica_status import ReplicaStatus
from raykeeper.clusters.node_report import FoundFolder, NodeReport
from raykeeper.clusters.voting_disks import newest_incarnation
from raykeeper.zab.ids import FOUNDING_DISK, DiskId, ServerId
from raykeeper.znodes.paths import MEMBER_PLAN_PATH
from tests.harness.schedule import Schedule
from tests.harness.sim_disk import SimDisk
from tests.simulation.checks.truth import Truth
from tests.simulation.node import Node
from tests.simulation.plan import KeeperPlan
from tests.simulation.second_process import second_process

BEGINNING_MS = 1_000_000
"""What every wall clock shows at the start, so that none is before its origin."""
ORPHAN_MS = 1_000
"""How long a raylet needs to end when Ray has called its node dead."""
START_MS = 300
"""How long Ray takes to start a process, at most."""
NAME = "sim"
UUID = "simulated"


class Machine:
    """A machine; it outlives its nodes."""

    def __init__(self, number: int, ahead_s: int) -> None:
        self.number = number
        self.ahead_ms = BEGINNING_MS + 1_000 * ahead_s
        self.disks: dict[ServerId, SimDisk] = {}
        self.stale: list[SimDisk] = []
        self.is_destroyed = False


class RayNode:
    """One life of a machine."""

    def __init__(self, name: str, machine: Machine) -> None:
        self.name = name
        self.machine = machine
        self.is_up = True
        self.is_alive = True
        """What Ray says."""
        self.is_reached = True
        """Whether Ray reaches it."""
        self.dead_since: int | None = None
        """When Ray called it dead."""
        self.twins: list[Node] = []
        """Processes of servers that Ray has started elsewhere."""
        self.mend: Callable[[], None] = lambda: None
        """Ends the cuts of its servers' links."""

    @property
    def works(self) -> bool:
        """Return whether Ray can start something on it."""
        return self.is_up and self.is_alive and self.is_reached


class Actor:
    """What Ray knows under the name of a server."""

    def __init__(self, actor_id: str, server: ServerId, node: RayNode, since: int) -> None:
        self.actor_id = actor_id
        self.server = server
        self.node = node
        self.since = since


class RayCluster:
    """All machines and nodes, and what Ray believes of them."""

    def __init__(
        self, plan: KeeperPlan, schedule: Schedule, slots: list[Node], truth: Truth
    ) -> None:
        self.machines = [Machine(i, ahead) for i, ahead in enumerate(plan.clocks_ahead_s, 1)]
        self.nodes: dict[str, RayNode] = {}
        self.actors: dict[ServerId, Actor] = {}
        self.slots = {slot.server_id: slot for slot in slots}
        self.random = schedule.stream("ray")
        self._plan = plan
        self.silent_share = plan.silent_share
        """How often a server does not answer the keeper."""
        self._schedule = schedule
        self._truth = truth
        self._homes: dict[ServerId, RayNode] = {}
        """Where the present process of each server runs, or would."""
        self._numbers = 0
        for machine in self.machines:
            self.join(machine)
        for slot, machine in zip(slots, self.machines, strict=False):
            slot.disk.ahead_ms = machine.ahead_ms
            machine.disks[slot.server_id] = slot.disk
            slot.may_start = lambda slot=slot: self._may_run(slot.server_id)  # type: ignore[misc]
            self._start_at(slot.server_id, self.node_of(machine))

    # Nodes.

    def join(self, machine: Machine) -> RayNode:
        """Start a node of Ray on a machine that has none."""
        node = RayNode(f"n{self._number():04}", machine)
        self.nodes[node.name] = node
        for server, actor in list(self.actors.items()):
            if self._plan.holds_names and actor.node.machine is machine:
                # Ray starts a pinned actor again.
                self._start_at(server, node, actor)
        self._schedule.say(f"machine {machine.number} joins as {node.name}")
        return node

    def node_of(self, machine: Machine) -> RayNode:
        """Return the newest node of a machine."""
        return [node for node in self.nodes.values() if node.machine is machine][-1]

    def is_there(self, machine: Machine) -> bool:
        """Return whether the machine has a node that runs."""
        return self.node_of(machine).is_up

    def end_node(self, node: RayNode) -> None:
        """End a node with all its processes."""
        if not node.is_up:
            return
        node.is_up = False
        node.mend()
        for twin in node.twins:
            if twin.is_up:
                twin.crash()
        for server, home in self._homes.items():
            if home is node and self.slots[server].is_up:
                self.slots[server].crash()
        self.notice_later(node)

    def notice_later(self, node: RayNode) -> None:
        """Let Ray find out that it does not reach a node."""

        def notice() -> None:
            if node.is_alive and not (node.is_up and node.is_reached):
                self._call_dead(node)

        self._schedule.after(self.random.randint(100, self._plan.notice_ms_max), notice)

    def _call_dead(self, node: RayNode) -> None:
        node.is_alive, node.dead_since = False, self._schedule.now
        self._schedule.say(f"Ray calls {node.name} dead")
        for server, actor in list(self.actors.items()):
            if actor.node is node and not self._plan.holds_names:
                del self.actors[server]
        self.orphan(node)

    def orphan(self, node: RayNode) -> None:
        """End a node that is called dead, once its raylet can learn that."""
        if node.is_up and node.is_reached and not node.is_alive:
            delay = self.random.randint(0, ORPHAN_MS)
            self._schedule.after(delay, lambda: self.end_node(node))

    def reach(self, node: RayNode) -> None:
        """End the cut of a node; what Ray has given up there ends."""
        node.mend()
        node.is_reached = True
        for server, home in self._homes.items():
            if home is node and self.slots[server].is_up and not self._may_run(server):
                self.slots[server].crash()
        self.orphan(node)

    def return_machine(self, machine: Machine) -> None:
        """Let a machine come back."""
        if not machine.is_destroyed and not self.is_there(machine):
            node = self.node_of(machine)
            if node.is_alive:  # Ray has not noticed
                self._call_dead(node)
            self.join(machine)

    # Actors.

    def start(self, server: ServerId, node: RayNode) -> None:
        """Start the actor of a server on a node, unless there is one."""
        if server not in self.actors:
            self._start_at(server, node)

    def servers_at(self, node: RayNode) -> list[Node]:
        """Return the servers whose present process is, or would be, on a node."""
        return [self.slots[server] for server, home in self._homes.items() if home is node]

    def launch(self, *, anywhere: bool = False) -> bool:
        """Start the servers without an actor where their votes rest; return whether any was.

        With `anywhere` also those whose disk is not there, on machines without a server.
        """
        started = False
        for server in self.slots:
            actor = self.actors.get(server)
            if anywhere and actor is not None and not actor.node.is_up:
                self.kill(server)
            machine = self.holder(server)
            nodes = [self.node_of(machine)] if machine is not None else []
            nodes = [node for node in nodes if node.works]
            if not nodes and anywhere:
                taken = [each.node for each in self.actors.values()]
                free = [node for node in self.nodes.values() if node.works and node not in taken]
                nodes = free[:1]
            if nodes and server not in self.actors:
                self.start(server, nodes[0])
                started = True
        return started

    def end_without_votes(self) -> None:
        """End the servers that run on other disks than those with their votes, which are there."""
        for server in self.slots:
            is_misplaced = server in self.actors and not self.runs_with_vote(server)
            if is_misplaced and self.is_disk_there(server):
                self.kill(server)

    def kill(self, server: ServerId) -> None:
        """End the actor of a server for good."""
        actor = self.actors.pop(server)
        node = self._homes.get(server)
        if node is actor.node and node.is_reached and self.slots[server].is_up:
            self.slots[server].crash()

    def _start_at(self, server: ServerId, node: RayNode, actor: Actor | None = None) -> None:
        slot, disk = self.slots[server], self._disk_of(server, node.machine)
        home = self._homes.get(server)
        actor = actor or Actor(f"a{self._number()}", server, node, self._schedule.now)
        actor.node = node
        self.actors[server] = actor
        twins_number = 0
        if slot.is_up:
            assert home is not None
            slot.thaw()
            slot.crash()
            if home is not node and home.is_up:
                home.twins.append(self._twin(slot))
                twins_number = slot.disk.incarnation
        if home is not None:
            home.mend()
        self._homes[server] = node
        answers = {other: self.status(other) for other in self.actors if other != server}
        # The checks know one server of each id, so a twin never has the newer number, not even one
        # that started where the clock is ahead while nobody saw it: others would take it for newer.
        newest = max(newest_incarnation(server, answers), twins_number)
        disk.incarnation = max(disk.incarnation, newest + 1)
        slot.use_disk(disk, node.machine.ahead_ms)
        if home is not None:
            self._schedule.after(self.random.randint(10, START_MS), slot.start)

    def _twin(self, slot: Node) -> Node:
        disk, ahead_ms = slot.disk, slot.disk.ahead_ms
        # To the others it is the process that ran before: it does not begin at the clock anew.
        disk.ahead_ms = -self._schedule.now
        twin = second_process(slot, disk, self._schedule)
        disk.ahead_ms = ahead_ms
        return twin

    def _disk_of(self, server: ServerId, machine: Machine) -> SimDisk:
        disk = machine.disks.get(server)
        if disk is None:
            disk = SimDisk(self._schedule, self._schedule.stream(f"disk.{self._number()}"), 10_000)
            disk.ahead_ms = machine.ahead_ms
            disk.repair()  # it is another disk, without promises
            machine.disks[server] = disk
        disk.may_be_uncertain = lambda: False
        return disk

    def _may_run(self, server: ServerId) -> bool:
        actor = self.actors.get(server)
        return actor is not None and actor.node.is_up and self._homes[server] is actor.node

    # What they answer.

    def status(self, server: ServerId) -> ReplicaStatus | str:
        """Return the answer of a server to the keeper."""
        node, slot = self.actors[server].node, self.slots[server]
        is_reached = node.is_up and node.is_reached
        if is_reached and (slot.is_frozen or self.random.random() < self.silent_share):
            return "no answer"
        return self.answer(server)

    def answer(self, server: ServerId) -> ReplicaStatus | str:
        """Return the answer of a server that comes in time."""
        node, slot = self.actors[server].node, self.slots[server]
        if not (node.is_up and node.is_reached):
            return "its node is gone"
        if slot.server is None:
            return "its process is gone"
        stats, plan = slot.server.stats(), slot.server.state.tree.get(MEMBER_PLAN_PATH)
        others = [each for each in self.slots if each != server]
        return ReplicaStatus(
            server_id=server,
            role=stats.role.value,
            pid=0,
            node_id=node.name,
            is_active=stats.is_active,
            leader=stats.leader,
            epoch=stats.epoch,
            votes=stats.has_vote,
            voters_lost=stats.voters_lost,
            voter_disks=stats.voter_disks,
            incarnation=slot.disk.incarnation,
            incarnations_seen=slot.incarnations_seen(),
            links={other: "linked" if other in stats.linked else "broken" for other in others},
            member_plan=(plan and plan.value) or b"",
        )

    def report(self, node: RayNode) -> NodeReport:
        """Return what a node tells of its disks."""
        if not (node.is_up and node.is_reached):
            return NodeReport(node.name, node.name, {}, [], problem="does not answer")
        machine = node.machine
        return NodeReport(
            node.name,
            node.name,
            {},
            [],
            folders=[
                FoundFolder(
                    server,
                    f"{NAME}/{server}",
                    DiskIdentity(
                        FolderOwner(NAME, UUID, server),
                        disk.disk,
                        disk.disk == FOUNDING_DISK,
                        disk.incarnation,
                    ),
                )
                for server, disk in sorted(machine.disks.items())
            ],
            wall_s=(self._schedule.now + machine.ahead_ms) // 1_000,
        )

    # What is true.

    def voting_disk(self, server: ServerId) -> DiskId:
        """Return the disk with the vote of a server, by all that was committed."""
        return self._truth.voters.get(server, FOUNDING_DISK)

    def holder(self, server: ServerId) -> Machine | None:
        """Return the machine that has the disk with the vote of a server; None if it is lost."""
        named = self.voting_disk(server)
        for machine in self.machines:
            disk = machine.disks.get(server)
            if disk is not None and disk.disk == named and not machine.is_destroyed:
                return machine
        return None

    def runs_with_vote(self, server: ServerId) -> bool:
        """Return whether a server has an actor where the disk with its vote is."""
        actor, holder = self.actors.get(server), self.holder(server)
        return actor is not None and actor.node.machine is holder and actor.node.is_up

    def is_disk_there(self, server: ServerId) -> bool:
        """Return whether the disk with the vote of a server is on a machine whose node runs."""
        holder = self.holder(server)
        return holder is not None and self.is_there(holder)

    def votes(self, server: ServerId) -> bool:
        """Return whether a server runs on the disk with its vote, and follows or leads."""
        slot = self.slots[server]
        if slot.server is None or server not in self.actors:
            return False
        stats = slot.server.stats()
        return stats.is_active and stats.has_vote and slot.disk.disk == self.voting_disk(server)

    def may_destroy(self, machine: Machine) -> bool:
        """Return whether a majority of the disks with votes is settled on other machines."""
        settled = [
            server
            for server, slot in self.slots.items()
            if self.holder(server) not in (None, machine)
            and slot.disk.disk == self.voting_disk(server)
        ]
        return len(settled) > len(self.slots) // 2

    def _number(self) -> int:
        self._numbers += 1
        return self._numbers
