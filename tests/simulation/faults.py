"""Injects the faults of a plan, ends lasting ones, and counts the injected ones.

A fault is skipped if its target is missing, or if it would exceed what any ensemble can survive.
"""

from collections import Counter
from collections.abc import Callable

from raykeeper.zab.ids import ServerId
from tests.harness.schedule import Schedule
from tests.simulation.client import SimClient
from tests.simulation.damage import Damage
from tests.simulation.network import End, Network
from tests.simulation.node import Node
from tests.simulation.plan import Fault, FaultKind
from tests.simulation.reactions import Reactions
from tests.simulation.second_process import second_process
from tests.simulation.temporary_faults import TemporaryFaults, ends_of
from tests.simulation.triggered_faults import TriggeredFaults

PATIENCE_MS = 500
"""How long a drained server waits for a client of ZooKeeper that is never quiet."""


class Faults:
    """The faults of one run."""

    def __init__(
        self,
        schedule: Schedule,
        network: Network,
        nodes: list[Node],
        clients: list[SimClient],
        damage: Damage,
    ) -> None:
        self.injected: Counter[str] = Counter()
        self._schedule = schedule
        self._network = network
        self._nodes = {int(node.server_id): node for node in nodes}
        self._clients = {client.number: client for client in clients}
        self._temporary = spans = TemporaryFaults(schedule, network)
        self._damage = damage
        self._triggered = triggered = TriggeredFaults(schedule, nodes)
        self._reactions = Reactions(schedule, network, nodes, clients, spans, damage, triggered)
        for node in nodes:
            node.disk.may_be_uncertain = lambda node=node: damage.may_be_uncertain(node)
        self._handlers: dict[FaultKind, Callable[[Fault], bool]] = {
            FaultKind.CRASH: self._crash,
            FaultKind.BLACKOUT: self._blackout,
            FaultKind.FREEZE: self._freeze,
            FaultKind.TRANSFER: self._transfer,
            FaultKind.DRAIN: self._drain,
            FaultKind.CUT: self._cut,
            FaultKind.CUT_ONE_WAY: self._cut_one_way,
            FaultKind.ISOLATE: self._isolate,
            FaultKind.SPLIT: self._split,
            FaultKind.HUB: self._hub,
            FaultKind.PART: self._part_ensemble,
            FaultKind.BREAK: self._break,
            FaultKind.BREAK_CLIENT: self._break_client,
            FaultKind.CUT_CLIENT: self._cut_client,
            FaultKind.SLOW_LINK: self._slow_link,
            FaultKind.SLOW_SERVER: self._slow_server,
            FaultKind.SLOW_DISK: self._slow_disk,
            FaultKind.FAILED_WRITE: self._failed_write,
            FaultKind.FAILED_READ: self._failed_read,
            FaultKind.FULL_DISK: self._full_disk,
            FaultKind.FLIP_OLD: self._flip_old,
            FaultKind.FLIP_LAST: self._flip_last,
            FaultKind.LOSE_FOLDER: self._lose_folder,
            FaultKind.OLD_DISK: self._old_disk,
            FaultKind.FLIP_MEMORY: self._flip_memory,
            FaultKind.TRACKER_LOST: self._tracker_lost,
            FaultKind.TRACKER_SLOW: self._tracker_slow,
            FaultKind.TRACKER_REPEATS: self._tracker_repeats,
            FaultKind.SNAPSHOTTER_LOST: self._snapshotter_lost,
            FaultKind.SNAPSHOTTER_SLOW: self._snapshotter_slow,
            FaultKind.WALL_JUMP: self._wall_jump,
            FaultKind.CLIENT_DIES: self._client_dies,
            FaultKind.CLIENT_KILLED: self._client_killed,
            FaultKind.CLIENT_FREEZES: self._client_freezes,
            FaultKind.CLIENT_WAKES: self._client_wakes,
            FaultKind.CLIENT_RETURNS: self._client_returns,
            FaultKind.SECOND_PROCESS: self._second_process,
            FaultKind.SECOND_DISK: self._second_disk,
            FaultKind.TRIGGERED: self._triggered_fault,
        }

    def inject(self, fault: Fault) -> None:
        """Inject a fault, if it is possible now."""
        handler = self._handlers.get(fault.kind)
        if handler is not None and handler(fault):
            self.injected[fault.kind.value] += 1
            if self._schedule.trace is not None:
                self._schedule.say(f"fault: {_in_words(fault)}")

    def end(self) -> None:
        """End all lasting faults, and start every server."""
        self._temporary.is_over = True
        self._triggered.disarm()
        self._network.heal()
        for node in self._nodes.values():
            node.thaw()
            node.end_drain()
            node.tracker.slow_ms = node.snapshotter.slow_ms = 0
            node.tracker.repeats = False
            disk = node.disk
            disk.slow_ms = 0
            disk.fails_write = disk.fails_read = disk.log_space.is_full = False
            node.start()
        for client in self._clients.values():
            client.thaw()

    # Processes of servers.

    def _crash(self, fault: Fault) -> bool:
        node = self._nodes.get(fault.target)
        if node is None or not node.is_up:
            return False
        node.crash()
        self._temporary.later(fault.lasts_ms, node.start)
        return True

    def _blackout(self, fault: Fault) -> bool:
        nodes = [node for node in self._others(fault) if node.is_up]
        for place, node in enumerate(nodes, 1):
            node.crash()
            self._schedule.after(fault.lasts_ms * place // len(nodes), node.start)
        return bool(nodes)

    def _freeze(self, fault: Fault) -> bool:
        node = self._nodes.get(fault.target)
        return node is not None and self._temporary.freeze(node, fault.lasts_ms)

    def _second_process(self, fault: Fault) -> bool:
        node = self._nodes.get(fault.target)
        if node is None or not self._temporary.freeze(node, fault.lasts_ms):
            return False
        second_process(node, node.disk, self._schedule)
        return True

    def _second_disk(self, fault: Fault) -> bool:
        node = self._nodes.get(fault.target)
        if node is None or not node.is_up or not self._damage.may_lose(node):
            return False
        node.crash()
        self._schedule.after(10, node.start)
        node.disk.repair()
        old = node.disk.take_old()
        if old is not None:
            second = second_process(node, old, self._schedule)
            second.freeze()
            self._schedule.after(fault.lasts_ms, second.thaw)
        return True

    def _transfer(self, fault: Fault) -> bool:
        leader = self._triggered.leader()
        if leader is None or not leader.is_answering:
            return False
        leader.transfer(ServerId(fault.target) if fault.target else None, fault.lasts_ms)
        return True

    def _drain(self, fault: Fault) -> bool:
        node = self._nodes.get(fault.target)
        if node is None or not node.is_answering:
            return False
        node.drain(fault.amount, PATIENCE_MS)
        self._temporary.later(fault.lasts_ms, node.end_drain)
        return True

    def _triggered_fault(self, fault: Fault) -> bool:
        self._triggered.arm(fault, self._react)
        return False  # counted when it is injected

    def _react(self, fault: Fault, source: Node, peer: Node | None) -> None:
        if self._temporary.is_over:
            return
        self.injected[fault.kind.value] += 1
        if self._schedule.trace is not None:
            what = f"{fault.trigger} of server {source.server_id}, {fault.reaction}"
            self._schedule.say(f"fault: triggered at {what} for {fault.lasts_ms} ms")
        self._reactions.react(fault, source, peer)

    # Links.

    def _cut(self, fault: Fault) -> bool:
        node = self._nodes.get(fault.target)
        return node is not None and self._temporary.separate(
            fault.lasts_ms, [node.end], ends_of(self._others(fault))
        )

    def _cut_one_way(self, fault: Fault) -> bool:
        node = self._nodes.get(fault.target)
        ends = ends_of(self._others(fault))
        return node is not None and self._temporary.drop_frames(
            fault.lasts_ms, [(node.end, end) for end in ends]
        )

    def _isolate(self, fault: Fault) -> bool:
        node = self._nodes.get(fault.target)
        ends = ends_of(self._nodes.values()) + [client.end for client in self._clients.values()]
        return node is not None and self._temporary.separate(fault.lasts_ms, [node.end], ends)

    def _split(self, fault: Fault) -> bool:
        one = ends_of(self._others(fault))
        return self._temporary.separate(
            fault.lasts_ms, one, [e for e in ends_of(self._nodes.values()) if e not in one]
        )

    def _hub(self, fault: Fault) -> bool:
        ends = [node.end for node in self._nodes.values() if node.server_id != fault.target]
        return fault.target in self._nodes and self._temporary.separate(fault.lasts_ms, ends, ends)

    def _part_ensemble(self, fault: Fault) -> bool:
        clients = self._clients.values()
        leader = self._triggered.leader()
        nodes = self._others(fault) or ([leader] if leader is not None else [])
        one = ends_of(nodes)
        self._temporary.delay_notice(fault.lasts_ms, one)
        one += ends_of(client for client in clients if fault.amount >> (client.number - 1) & 1)
        every = [*ends_of(self._nodes.values()), *ends_of(clients)]
        return self._temporary.separate(
            fault.lasts_ms, one, [end for end in every if end not in one]
        )

    def _break(self, fault: Fault) -> bool:
        node = self._nodes.get(fault.target)
        if node is None:
            return False
        ends = set(ends_of(self._others(fault)))
        links = [x for x in self._network.open_links(node.end) if ends & set(x.ends) - {node.end}]
        for link in links:
            link.break_up()
        return bool(links)

    def _break_client(self, fault: Fault) -> bool:
        client = self._clients.get(fault.target)
        links = self._network.open_links(client.end) if client is not None else []
        for link in links:
            link.break_up()
        return bool(links)

    def _cut_client(self, fault: Fault) -> bool:
        client = self._clients.get(fault.target)
        if client is None:
            return False
        directions: list[tuple[End, End]] = []
        for end in ends_of(self._others(fault)):
            if fault.amount != 1:
                directions.append((client.end, end))
            if fault.amount != 2:
                directions.append((end, client.end))
        return self._temporary.drop_frames(fault.lasts_ms, directions)

    def _slow_link(self, fault: Fault) -> bool:
        node = self._nodes.get(fault.target)
        others = self._others(fault)
        if node is None or not others or others[0] is node:
            return False
        return self._temporary.slow(fault.lasts_ms, (node.end, others[0].end), fault.amount)

    def _slow_server(self, fault: Fault) -> bool:
        node = self._nodes.get(fault.target)
        return node is not None and self._temporary.slow(
            fault.lasts_ms, (node.end, None), fault.amount
        )

    # Disks.

    def _slow_disk(self, fault: Fault) -> bool:
        node = self._nodes.get(fault.target)
        if node is None:
            return False
        disk = node.disk
        disk.slow_ms = fault.amount
        self._temporary.later(fault.lasts_ms, lambda: setattr(disk, "slow_ms", 0))
        return True

    def _failed_write(self, fault: Fault) -> bool:
        node = self._nodes.get(fault.target)
        if node is None or not node.is_up:
            return False
        node.disk.fails_write = True
        return True

    def _failed_read(self, fault: Fault) -> bool:
        node = self._nodes.get(fault.target)
        if node is None:
            return False
        node.disk.fails_read = True
        return True

    def _full_disk(self, fault: Fault) -> bool:
        node = self._nodes.get(fault.target)
        if node is None:
            return False
        room = node.disk.log_space
        room.is_full = True
        self._temporary.later(fault.lasts_ms, lambda: setattr(room, "is_full", False))
        return True

    def _flip_old(self, fault: Fault) -> bool:
        node = self._nodes.get(fault.target)
        if node is None or not self._damage.may_lose(node):
            return False
        return node.disk.flip_old(fault.amount / 1_000)

    def _flip_last(self, fault: Fault) -> bool:
        node = self._nodes.get(fault.target)
        if node is None or not node.is_up or not self._damage.may_forget(node):
            return False
        node.crash()
        self._temporary.later(fault.lasts_ms, node.start)
        return self._damage.may_forget(node) and node.disk.flip_last()

    def _lose_folder(self, fault: Fault) -> bool:
        node = self._nodes.get(fault.target)
        if node is None or not self._damage.may_lose(node):
            return False
        if node.is_up:
            node.crash()
            self._temporary.later(fault.lasts_ms, node.start)
        node.disk.repair()
        return True

    def _old_disk(self, fault: Fault) -> bool:
        old = [node for node in self._nodes.values() if node.disk.has_old]
        node = old[fault.target % len(old)] if old else None
        if node is None or not self._damage.may_lose(node):
            return False
        if node.is_up:
            node.crash()
            self._temporary.later(fault.lasts_ms, node.start)
        return node.disk.bring_back()

    def _flip_memory(self, fault: Fault) -> bool:
        node = self._nodes.get(fault.target)
        if node is None or not node.is_up or node.is_flipped or not self._damage.may_lose(node):
            return False
        node.flip_memory()
        return True

    # The actors beside a server.

    def _at(self, fault: Fault) -> Node | None:
        """Return the target, which may be the present leader."""
        return self._nodes.get(fault.target) if fault.target else self._triggered.leader()

    def _tracker_lost(self, fault: Fault) -> bool:
        node = self._at(fault)
        if node is not None:
            node.tracker.lose()
        return node is not None

    def _tracker_slow(self, fault: Fault) -> bool:
        node = self._at(fault)
        if node is not None:
            self._temporary.slow_tracker(node, fault.lasts_ms, fault.amount)
        return node is not None

    def _tracker_repeats(self, fault: Fault) -> bool:
        node = self._at(fault)
        if node is None:
            return False
        tracker = node.tracker
        tracker.repeats = True
        self._temporary.later(fault.lasts_ms, lambda: setattr(tracker, "repeats", False))
        return True

    def _snapshotter_lost(self, fault: Fault) -> bool:
        node = self._nodes.get(fault.target)
        if node is not None:
            node.snapshotter.lose()
        return node is not None

    def _snapshotter_slow(self, fault: Fault) -> bool:
        node = self._nodes.get(fault.target)
        if node is None:
            return False
        snapshotter = node.snapshotter
        snapshotter.slow_ms = fault.amount
        self._temporary.later(fault.lasts_ms, lambda: setattr(snapshotter, "slow_ms", 0))
        return True

    # Clocks and clients.

    def _wall_jump(self, fault: Fault) -> bool:
        node = self._nodes.get(fault.target)
        if node is not None:
            node.clock.wall_offset_ms += fault.amount
        return node is not None

    def _client_dies(self, fault: Fault) -> bool:
        client = self._clients.get(fault.target)
        if client is None or client.core is None:
            return False
        client.die()
        return True

    def _client_killed(self, fault: Fault) -> bool:
        client = self._clients.get(fault.target)
        if client is None or client.core is None:
            return False
        process, random = client.process, self._schedule.stream(f"killed.{fault.target}")
        client.die(random.randint(0, fault.lasts_ms))
        for node in self._nodes.values():
            for _ in range(random.choice([1, 1, 2])):
                delay = random.randint(0, fault.amount)
                self._schedule.after(delay, lambda node=node: node.process_gone(process))
        return True

    def _client_freezes(self, fault: Fault) -> bool:
        client = self._clients.get(fault.target)
        if client is None or client.core is None or client.is_frozen:
            return False
        client.freeze()
        self._temporary.later(fault.lasts_ms, client.thaw)
        return True

    def _client_wakes(self, fault: Fault) -> bool:
        client = self._clients.get(fault.target)
        if client is None or client.core is None:
            return False

        def asks() -> None:
            end_ms = client.until_end_ms(fault.amount)
            if end_ms is not None and not client.is_frozen and not self._temporary.is_over:
                self._client_freezes(Fault(0, fault.kind, fault.target, lasts_ms=end_ms))

        client.after_next_request = asks
        return True

    def _client_returns(self, fault: Fault) -> bool:
        client = self._clients.get(fault.target)
        end_ms = client.until_end_ms(fault.amount) if client is not None else None
        if client is None or end_ms is None:
            return False
        every = ends_of(self._nodes.values())
        return self._temporary.separate(end_ms, [client.end], every)

    def _others(self, fault: Fault) -> list[Node]:
        return [self._nodes[each] for each in fault.others if each in self._nodes]


def _in_words(fault: Fault) -> str:
    parts = [fault.kind.value.replace("_", " "), str(fault.target)]
    if fault.others:
        parts.append("with " + ", ".join(map(str, fault.others)))
    if fault.amount:
        parts.append(f"by {fault.amount}")
    return " ".join(parts) + f" for {fault.lasts_ms} ms"
