"""The reactions of triggered faults (triggers.py describes them)."""

from collections.abc import Callable
from functools import partial

from tests.harness.schedule import Schedule
from tests.simulation.client import SimClient
from tests.simulation.damage import Damage
from tests.simulation.network import Network
from tests.simulation.node import Node
from tests.simulation.plan import Fault
from tests.simulation.temporary_faults import TemporaryFaults, ends_of
from tests.simulation.triggered_faults import TriggeredFaults
from tests.simulation.triggers import Reaction

SLOW = 100
"""The factor by which a reaction slows a link down."""
ALONE_MS = 60
"""How long a leader reaches the newcomer alone, at most."""
TRACKER_LATE_MS = 950
"""How long each way of a call to a late tracker takes, at most."""
BEHIND_MS = 300
"""How long the others write without the minority that is kept behind."""

Handler = Callable[[Fault, Node, Node | None, Node], object]
"""Of the fault, the triggering server, the receiver of its message, and the leader."""


class Reactions:
    """Performs reactions. If no server leads, the triggering one stands for the leader."""

    def __init__(
        self,
        schedule: Schedule,
        network: Network,
        nodes: list[Node],
        clients: list[SimClient],
        spans: TemporaryFaults,
        damage: Damage,
        triggered: TriggeredFaults,
    ) -> None:
        self._schedule = schedule
        self._network = network
        self._nodes = nodes
        self._clients = clients
        self._temporary = spans
        self._damage = damage
        self._triggered = triggered
        self._away: list[Node] = []
        self._random = schedule.stream("reactions")
        self._handlers = {
            **self._make_crashes(),
            **self._make_cuts(),
            Reaction.LATE_TRACKER: lambda f, _trapped, _peer, leader: spans.slow_tracker(
                leader, f.lasts_ms, TRACKER_LATE_MS
            ),
        }

    def _make_crashes(self) -> dict[Reaction, Handler]:
        spans, triggered = self._temporary, self._triggered
        return {
            Reaction.CRASH: lambda f, source, _peer, _leader: spans.crash(source, f.lasts_ms),
            Reaction.CRASH_PEER: lambda f, source, peer, _leader: spans.crash(
                peer or source, f.lasts_ms
            ),
            Reaction.CRASH_LEADER: lambda f, _trapped, _peer, leader: spans.crash(
                leader, f.lasts_ms
            ),
            Reaction.CRASH_OTHERS: self._crash_others,
            Reaction.BLACKOUT: lambda f, source, _peer, _leader: self._blackout(f, source),
            Reaction.BLACKOUT_LEADER: lambda f, _trapped, _peer, leader: self._blackout(f, leader),
            Reaction.FREEZE: lambda f, source, _peer, _leader: spans.freeze(source, f.lasts_ms),
            Reaction.FREEZE_LEADER: lambda f, _trapped, _peer, leader: spans.freeze(
                leader, f.lasts_ms
            ),
            Reaction.STAGGERED_CRASH: self._staggered_crash,
            Reaction.CRASH_JOINING: lambda f, _trapped, _peer, _leader: [
                spans.crash(node, f.lasts_ms) for node in triggered.joining()
            ],
            Reaction.CRASH_LEAVING: lambda f, _trapped, _peer, _leader: [
                spans.crash(node, f.lasts_ms) for node in triggered.leaving()
            ],
            Reaction.FORGET_JOINING: self._forget_joining,
            Reaction.FREEZE_JOINING: lambda f, _trapped, _peer, _leader: [
                spans.freeze(node, f.lasts_ms) for node in triggered.joining()
            ],
            Reaction.FORGET: partial(self._crash_and_damage, Reaction.FORGET),
            Reaction.CORRUPT: partial(self._crash_and_damage, Reaction.CORRUPT),
        }

    def _make_cuts(self) -> dict[Reaction, Handler]:
        return {
            Reaction.ISOLATE: lambda f, source, _peer, _leader: self._isolate(f, source),
            Reaction.ISOLATE_LEADER: lambda f, _trapped, _peer, leader: self._isolate(f, leader),
            Reaction.PARTITION_LEADER: self._partition_leader,
            Reaction.CUT_FROM_SERVERS: lambda f, source, _peer, _leader: self._cut_from_servers(
                f, source
            ),
            Reaction.LEAVE_LEADER: self._leave_leader,
            Reaction.HOLD_THEN_LEAVE: self._hold_then_leave,
            Reaction.SWITCH_MINORITY: self._switch_minority,
            Reaction.CUT_LEADER: lambda f, _trapped, _peer, leader: self._cut_from_servers(
                f, leader
            ),
            Reaction.FORGET_WITH_MINORITY: partial(self._isolate_with_minority, self._forget),
            Reaction.OLD_DISK_WITH_MINORITY: partial(
                self._isolate_with_minority, self._restore_old_disk
            ),
        }

    def react(self, fault: Fault, source: Node, peer: Node | None) -> None:
        """Perform the reaction of a triggered fault."""
        leader = self._triggered.leader() or source
        self._handlers[Reaction(fault.reaction)](fault, source, peer, leader)

    def _crash_others(self, fault: Fault, source: Node, _peer: Node | None, _leader: Node) -> None:
        for node in self._nodes:
            if node is not source:
                self._temporary.crash(node, fault.lasts_ms)

    def _blackout(self, fault: Fault, last: Node) -> None:
        for node in self._nodes:
            self._temporary.crash(node, fault.lasts_ms if node is last else 10)

    def _crash_and_damage(
        self, reaction: Reaction, fault: Fault, source: Node, _peer: Node | None, leader: Node
    ) -> None:
        for node in self._nodes:
            is_last = node is leader and node is not source
            self._temporary.crash(node, fault.lasts_ms if is_last else 10)
        if source.is_up:
            return
        if reaction is Reaction.FORGET:
            self._forget(source)
        elif reaction is Reaction.CORRUPT and self._damage.may_lose(source):
            source.disk.flip_old(0.999)

    def _forget_joining(
        self, fault: Fault, _trapped: Node, peer: Node | None, leader: Node
    ) -> None:
        """Have the leader commit something by the newcomer's ack alone, which forgets it."""
        joining = self._triggered.joining()
        for node in self._nodes:
            if node is not leader and node not in joining:
                self._temporary.hold(ALONE_MS, leader.end, node.end)
        for node in joining:
            self._temporary.later(
                self._random.randint(ALONE_MS // 4, ALONE_MS),
                partial(self._crash_and_damage, Reaction.FORGET, fault, node, peer, leader),
            )

    def _isolate(self, fault: Fault, node: Node) -> None:
        every = ends_of([*self._nodes, *self._clients])
        self._temporary.separate(fault.lasts_ms, [node.end], every)

    def _cut_from_servers(self, fault: Fault, node: Node) -> None:
        self._temporary.separate(fault.lasts_ms, [node.end], ends_of(self._nodes))

    def _partition_leader(
        self, fault: Fault, _trapped: Node, _peer: Node | None, leader: Node
    ) -> None:
        """Separate the leader, and of five servers one more, from the others, not from clients."""
        others = [node for node in self._nodes if node is not leader]
        voters = 1 + sum(node.votes for node in others)
        few = [leader, *others[: max(0, (voters - 1) // 2 - 1)]]
        rest = [node for node in others if node not in few]
        self._temporary.separate(fault.lasts_ms, ends_of(few), ends_of(rest))
        self._temporary.delay_notice(fault.lasts_ms, ends_of(few))

    def _leave_leader(self, fault: Fault, _trapped: Node, _peer: Node | None, leader: Node) -> None:
        self._temporary.slow(fault.lasts_ms, (leader.end, None), SLOW)
        self._leave(leader, fault.lasts_ms, 100)

    def _hold_then_leave(
        self, fault: Fault, _trapped: Node, _peer: Node | None, leader: Node
    ) -> None:
        hold_ms = self._random.randint(100, 700)
        for node in self._nodes:
            self._temporary.hold(hold_ms, node.end, leader.end)
        self._leave(leader, fault.lasts_ms, self._random.choice([5, 10, 30]))

    def _leave(self, leader: Node, lasts_ms: int, until_ms: int) -> None:
        """Separate the others from the leader, after they have sent something for a while."""
        end = leader.end
        self._temporary.delay_notice(lasts_ms, [end])
        self._temporary.refuse_links(lasts_ms, end)
        for link in self._network.open_links(end):
            if link.ends[0][0] == link.ends[1][0]:
                self._schedule.after(until_ms, link.break_up)

    def _staggered_crash(
        self, fault: Fault, _trapped: Node, _peer: Node | None, _leader: Node
    ) -> None:
        for node in self._nodes:
            self._temporary.crash(node, self._random.randint(0, fault.lasts_ms))

    def _isolate_with_minority(
        self,
        damage: Callable[[Node], object],
        fault: Fault,
        source: Node,
        _peer: Node | None,
        leader: Node,
    ) -> None:
        """Form a quorum of servers that lack the last writes and one that forgot them."""
        voters = [node for node in self._nodes if node.votes]
        behind = [node for node in voters if node is not source and node is not leader]
        behind = behind[: (len(voters) - 1) // 2]
        ahead = [node for node in self._nodes if node not in behind]
        self._temporary.separate(BEHIND_MS, ends_of(behind), ends_of(ahead))

        def meet() -> None:
            self._temporary.crash(source, 10)
            if not source.is_up:
                damage(source)
            rest = [node for node in ahead if node is not source]
            self._temporary.separate(fault.lasts_ms, ends_of([*behind, source]), ends_of(rest))

        self._temporary.later(BEHIND_MS, meet)

    def _forget(self, node: Node) -> None:
        if self._damage.may_forget(node):
            node.disk.flip_last()

    def _restore_old_disk(self, node: Node) -> None:
        if self._damage.may_lose(node):
            node.disk.bring_back()

    def _switch_minority(self, fault: Fault, source: Node, peer: Node | None, leader: Node) -> None:
        """Bring the absent server back, take the leader away, and restart the recovering follower:
        the knowledge of the old quorum must reach the next one through a single server.
        """
        follower = peer if source is leader else source
        every = ends_of(self._nodes)
        for end in ends_of(self._away):
            for other in every:
                self._network.mend(end, other)
                self._network.mend(other, end)
        staying = [node for node in self._nodes if node not in (leader, follower, *self._away)]
        voters = sum(node.votes for node in self._nodes)
        self._away = [leader, *staying[: max(0, (voters - 1) // 2 - 1)]]
        for end in ends_of(self._away):
            self._temporary.separate(fault.lasts_ms, [end], every)
        if follower is not None and follower is not leader:
            self._temporary.crash(follower, 10)
