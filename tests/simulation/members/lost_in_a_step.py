"""The loss of a majority of disks while a step of the member list is open.

As `lost_majority.py`: nobody may decide anything, neither by the list before nor by the new one.
Then just enough disks for a majority of each list come back, and nothing is missing.
"""

from typing import TYPE_CHECKING

from raykeeper.zab.ids import Millis, ServerId
from raykeeper.zab.quorum import Quorum
from tests.simulation.members.damage import is_lost_as
from tests.simulation.members.possible_lists import Voters

if TYPE_CHECKING:
    from tests.simulation.members.world import MembersWorld

STILL_MS = 5_000
LOGGED_MS = 500
"""How long a step may take to be logged."""
TRIES = 8
"""Steps that are asked for; a newcomer may not have kept up for long enough."""
EVENTS_MAX = 40
"""So many events after it was logged the disks are lost, at most."""


class LostInAStep:
    """Has a step begun, loses disks, checks that no server decides, and brings disks back."""

    def __init__(self, world: "MembersWorld") -> None:
        self._world = world
        self._random = world.schedule.stream("majority")
        self._lists: list[Voters] = []
        self._lost: list[ServerId] = []
        self._committed = 0

    def begins(self) -> bool:
        """Ask for steps until a server has logged one, and run a little longer."""
        world = self._world
        schedule, disks = world.schedule, [node.disk for node in world.nodes if node.votes]
        if any(disk.is_lost or disk.is_uncertain for disk in disks):
            return False
        before = world.lists.newest
        for _ in range(TRIES):
            client, op = world.operator(), world.possible_step()
            if client is None or op is None:
                return False
            world.ask(client, op)
            until = Millis(schedule.now + LOGGED_MS)
            if schedule.run_until(until, lambda: world.lists.newest is not before):
                self._go_on(self._random.randint(0, EVENTS_MAX))
                return True
        return False  # all were refused

    def _go_on(self, events: int) -> None:
        schedule = self._world.schedule
        last = schedule.steps + events
        schedule.run_until(Millis(schedule.now + LOGGED_MS), lambda: schedule.steps >= last)

    def lose(self) -> None:
        """Empty folders until no list has a majority; all servers lose power."""
        world, random = self._world, self._random
        self._lists = world.lists.logged()
        world.checks.counts["majority_lost"] += 1
        world.checks.counts["majority_lost_in_a_step"] += len(self._lists) > 1
        order = sorted({server for voters in self._lists for server in voters})
        random.shuffle(order)
        while any(self._has_majority(voters) for voters in self._lists):
            self._lost.append(order.pop())
        world.schedule.say(f"fault: the disks of {self._lost} are lost")
        for node in world.nodes_of(self._lost):
            if node.is_up:
                node.crash()
            node.disk.repair()
        for node in world.nodes:
            if node.is_up:
                node.crash()
            world.schedule.after(random.randint(0, 500), node.start)
        self._committed = len(world.checks.order)

    def nobody_decides(self) -> None:
        """Let clients try to write, and watch all servers for a while."""
        world = self._world
        for client in world.clients:
            client.write_once()
        world.schedule.run_until(Millis(world.schedule.now + STILL_MS))
        leaders = [n for n in world.nodes if n.server and n.server.peer.broadcasting]
        is_still = not leaders and len(world.checks.order) == self._committed
        assert is_still, f"LostDisks: {self._lost} are lost, and somebody decided"

    def bring_back(self) -> None:
        """Bring back as many disks as majorities of all lists need; perhaps all.

        A server whose last force was torn as it lost power does not know what it has acknowledged,
        so it speaks for no other that is away (docs/DISKS.md).
        """
        world = self._world
        while self._lost and not all(self._has_majority(voters) for voters in self._lists):
            (node,) = world.nodes_of([self._lost.pop()])
            world.schedule.say(f"the disk of server {node.server_id} is back")
            if node.is_up:
                node.crash()
            node.disk.put_back()
            node.start()

    def _has_majority(self, voters: Voters) -> bool:
        """Return whether a majority of this list has disks that are not lost."""
        nodes = {node.server_id: node for node in self._world.nodes}
        intact = [
            server
            for server, disk in voters.items()
            if server not in self._lost
            and not is_lost_as(nodes[server], disk)
            and not nodes[server].disk.is_uncertain
        ]
        return Quorum(voters).is_quorum(intact)
