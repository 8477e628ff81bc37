"""A small world of Ray nodes, disks and servers, and what happens in it by chance.

It does what Ray, the disks and the ensemble would do, in a few lines: an actor has one name, a
folder one disk and one process, and a vote rests on one disk (rule D3).
"""

from random import Random

from msgspec import Struct

from raykeeper.clusters.healing.vocabulary import (
    Cause,
    Entry,
    NodeSurvey,
    ServerLocation,
    Survey,
    View,
)
from raykeeper.zab.ids import DiskId, Millis, ServerId

HOUR = 3_600_000
VOTERS = tuple(ServerId(i) for i in range(1, 4))


class Node(Struct):
    """A Ray node: one life of a machine."""

    machine: int
    is_up: bool = True
    is_alive: bool = True
    """What Ray says."""


class Process(Struct, eq=False):
    """A server that runs, on a node and its disk."""

    server: ServerId
    node: str
    disk: DiskId
    actor: str = ""
    incarnation: int = 0
    is_cut_off: bool = False


class World:
    """Everything outside of the keepers."""

    def __init__(self, random: Random) -> None:
        self.random = random
        self.now = 10**9
        self.nodes: dict[str, Node] = {}
        self.disks: dict[int, dict[ServerId, DiskId]] = {}
        self.actors: dict[ServerId, Process | None] = {}
        """Ray's names; None while Ray starts the server again."""
        self.actor_ids: dict[ServerId, str] = {}
        self.opened: dict[DiskId, int] = {}
        """The last incarnation that was started from each disk."""
        self.pinned: dict[ServerId, str] = {}
        """The node to which Ray ties each actor."""
        self.processes: list[Process] = []
        self.named: dict[ServerId, DiskId] = {}
        self.drained: set[str] = set()
        self.is_electing = False
        self.clock_ahead = 0
        self.begun_at: dict[int, int] = {}
        """When moves were begun, by the number of the entry, in the world's time."""
        self.last_time = 0
        self.entries: list[Entry] = []
        self.locations: dict[ServerId, ServerLocation] = {}
        self.holder = 0
        """The leadership that the tree accepts; 0 if nobody has one."""
        self.numbers = 0
        for server in VOTERS:
            node = self.add_machine()
            self.start(server, node)
            self.named[server] = self.disks[self.nodes[node].machine][server]
            self.locations[server] = ServerLocation(node, node)
        self.add_machine()

    def number(self) -> int:
        self.numbers += 1
        return self.numbers

    def time(self) -> Millis:
        self.last_time = max(self.last_time, self.now + self.clock_ahead)
        return Millis(self.last_time)

    def add_machine(self) -> str:
        machine = self.number()
        self.disks[machine] = {}
        return self.add_node(machine)

    def add_node(self, machine: int) -> str:
        node = f"n{self.number():05}"
        self.nodes[node] = Node(machine)
        return node

    def alive(self) -> list[str]:
        return [name for name, node in self.nodes.items() if node.is_alive]

    def start(self, server: ServerId, node: str) -> None:
        """Ray starts an actor of that name, unless there is one."""
        if server in self.actors:
            return
        assert self.nodes[node].is_alive
        self.pinned[server] = node
        self.actor_ids[server] = f"a{self.number()}"
        self.actors[server] = None
        if self.nodes[node].is_up:
            self.run(server, node)

    def run(self, server: ServerId, node: str) -> None:
        folder = self.disks[self.nodes[node].machine]
        disk = folder.setdefault(server, DiskId(f"d{self.number()}"))
        if any(each.disk == disk for each in self.processes):
            return  # the folder is locked by an older process
        self.opened[disk] = self.number()
        self.actors[server] = Process(server, node, disk, self.actor_ids[server], self.opened[disk])
        self.processes.append(self.actors[server])  # type: ignore[arg-type]

    def end(self, server: ServerId, actor: str) -> None:
        """`ray.kill(no_restart=True)`; the name may belong to another actor by now."""
        if server not in self.actors or self.actor_ids[server] != actor:
            return
        process = self.actors.pop(server)
        if process is not None:
            self.processes.remove(process)

    def heard(self) -> list[ServerId]:
        """The servers that the leader hears: those of the majority, without those cut off."""
        return sorted({each.server for each in self.processes if not each.is_cut_off})

    def voting(self) -> list[ServerId]:
        return sorted(
            {
                each.server
                for each in self.processes
                if not each.is_cut_off and self.named[each.server] == each.disk
            }
        )

    def has_majority(self) -> bool:
        return not self.is_electing and len(self.voting()) > len(VOTERS) // 2

    def promote(self) -> None:
        """The leader moves the votes of servers on new disks (rule D3)."""
        for each in self.processes:
            if self.has_majority() and not each.is_cut_off and each.server not in self.voting():
                self.named[each.server] = each.disk

    def answers(self) -> dict[ServerId, Process]:
        return {s: p for s, p in self.actors.items() if p is not None and not p.is_cut_off}

    def view(self) -> View:
        has_majority = self.has_majority()
        voting = self.voting()
        waiting = [server for server in self.heard() if server not in voting]
        alive = self.alive()
        return View(
            voters=VOTERS,
            nodes={name: node.is_alive for name, node in self.nodes.items()},
            leaving={node: Cause.DRAINED for node in sorted(self.drained) if node in alive},
            running={s: ServerLocation(p.node, p.node) for s, p in self.answers().items()},
            actors={server: self.actor_ids[server] for server in self.actors},
            doubt="" if has_majority else "no leader",
            linked=tuple(self.heard()) if has_majority else (),
            voting=tuple(voting) if has_majority else (),
            open_change=f"server {waiting[0]} waits for its vote" if waiting else "",
        )

    def survey(self) -> Survey:
        nodes, unread = [], {}
        for name in self.alive():
            node = self.nodes[name]
            if node.is_up:
                found = dict(self.disks[node.machine])
                opened = {server: self.opened.get(disk, 0) for server, disk in found.items()}
                nodes.append(
                    NodeSurvey(
                        node_id=name,
                        name=name,
                        disks=found,
                        incarnations=opened,
                        fits=VOTERS,
                        wall_s=1,
                    )
                )
            else:
                unread[name] = f"{name} does not answer"
        named = dict(self.named) if self.has_majority() else {}
        return Survey(time_ms=self.time(), nodes=tuple(nodes), unread=unread, voting_disks=named)


def node_dies(world: World) -> None:
    up = [name for name, node in world.nodes.items() if node.is_up]
    if len(up) > 2:
        name = world.random.choice(up)
        world.nodes[name].is_up = False
        for each in [each for each in world.processes if each.node == name]:
            world.processes.remove(each)
            if world.actors.get(each.server) is each:
                world.actors[each.server] = None


def ray_notices(world: World) -> None:
    """Ray calls the dead nodes dead, and drops the actors that are tied to them."""
    for name, node in world.nodes.items():
        if not node.is_up and node.is_alive:
            call_dead(world, name)


def call_dead(world: World, name: str) -> None:
    world.nodes[name].is_alive = False
    for server in [s for s, node in world.pinned.items() if node == name]:
        world.actors.pop(server, None)


def ray_errs(world: World) -> None:
    """Ray calls a node dead whose processes go on for a while."""
    alive = world.alive()
    if len(alive) > 3:
        call_dead(world, world.random.choice(alive))


def twins_end(world: World) -> None:
    for each in [each for each in world.processes if not world.nodes[each.node].is_alive]:
        world.processes.remove(each)
    for node in world.nodes.values():
        node.is_up = node.is_up and node.is_alive


def node_returns(world: World) -> None:
    lives = {node.machine for node in world.nodes.values() if node.is_alive or node.is_up}
    machines = sorted(set(world.disks) - lives)
    if machines:
        world.add_node(world.random.choice(machines))


def node_comes(world: World) -> None:
    if len(world.alive()) < 6:
        world.add_machine()


def is_cut_off(world: World) -> None:
    if world.processes:
        world.random.choice(world.processes).is_cut_off = True


def is_joined(world: World) -> None:
    for each in world.processes:
        each.is_cut_off = False


def process_dies(world: World) -> None:
    if world.processes:
        each = world.random.choice(world.processes)
        world.processes.remove(each)
        if world.actors.get(each.server) is each:
            world.actors[each.server] = None


def ray_restarts(world: World) -> None:
    for server, process in list(world.actors.items()):
        node = world.nodes[world.pinned[server]]
        if process is None and node.is_up and node.is_alive:
            world.run(server, world.pinned[server])


def leader_changes(world: World) -> None:
    world.is_electing = not world.is_electing


def clock_jumps(world: World) -> None:
    world.clock_ahead += world.random.choice((-HOUR, -60_000, 60_000, HOUR, 3 * HOUR))


def session_ends(world: World) -> None:
    world.holder = 0


def node_is_drained(world: World) -> None:
    if world.drained:
        world.drained.clear()
    else:
        world.drained = {world.random.choice(world.alive() or [""])}


EVENTS = (
    *(node_dies, ray_notices, ray_notices, ray_errs, twins_end, node_returns, node_comes),
    *(is_cut_off, is_joined, is_joined, process_dies, ray_restarts, ray_restarts, ray_restarts),
    *(leader_changes, leader_changes, clock_jumps, session_ends, node_is_drained),
    *(World.promote, World.promote, World.promote),
)


def bring_peace(world: World) -> None:
    """Faults end; there is a majority of the disks with votes, and a node for each server."""
    world.is_electing = False
    world.drained.clear()
    ray_notices(world)
    twins_end(world)
    is_joined(world)
    ray_restarts(world)
    world.promote()
    for server in VOTERS:
        # What a launch would do for a majority that is lost: its disks are there again.
        if not world.has_majority() and server not in world.voting():
            machine = next(
                m for m, d in world.disks.items() if d.get(server) == world.named[server]
            )
            lives = [n for n in world.alive() if world.nodes[n].machine == machine]
            world.end(server, world.actor_ids[server])
            world.start(server, lives[0] if lives else world.add_node(machine))
    for _ in VOTERS:
        world.add_machine()
