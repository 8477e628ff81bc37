"""Triggered faults: the n-th message or disk operation of a kind triggers them.

Most bugs of such protocols need a crash within a few milliseconds (reference: the bugs of
ZooKeeper's Zab), which a fault at a random time hardly ever hits. A triggered fault is drawn up
front like every fault: its trigger, after how many occurrences and with what delay it is injected,
and the reaction. A repeated one keeps an ensemble in the same trouble, because most harm needs two
faults in a row. In a campaign one fault is armed at a time, in turn.
"""

from collections import deque
from collections.abc import Callable, Iterable

from raykeeper.server.effects import SendPeer
from raykeeper.zab.effects import Role, TraceEvent
from raykeeper.zab.ids import ServerId
from tests.harness.schedule import Schedule
from tests.simulation.node import Node
from tests.simulation.plan import Fault
from tests.simulation.triggers import ANY

InjectFault = Callable[[Fault, Node, Node | None], None]


class _ArmedFault:
    """A triggered fault, and how often its trigger has occurred."""

    def __init__(self, fault: Fault, inject: InjectFault, source: Node | None = None) -> None:
        self.fault = fault
        self.inject = inject
        self.source = source  # whose triggers alone count
        self.seen = 0
        self.since = 0  # earlier triggers do not count


class TriggeredFaults:
    """The armed faults."""

    def __init__(self, schedule: Schedule, nodes: Iterable[Node]) -> None:
        self._schedule = schedule
        self._nodes = list(nodes)
        self._waiting: list[_ArmedFault] = []
        self._campaigns: dict[int, deque[_ArmedFault]] = {}  # the armed one comes first
        self.moments: Callable[[Node, list[object]], Iterable[str]] = lambda _node, _effects: ()
        """Names more triggers that the effects of a step are."""
        self.joining: Callable[[], list[Node]] = list
        self.leaving: Callable[[], list[Node]] = list
        """The servers that the newest member list has more than the one before, or no more."""

    def arm(self, fault: Fault, inject: InjectFault, source: Node | None = None) -> None:
        """Wait for the n-th occurrence of the trigger from now on, then call `inject`.

        Of `source` alone, if it is not None.
        """
        waiting = _ArmedFault(fault, inject, source)
        campaign = self._campaigns.setdefault(fault.campaign, deque()) if fault.campaign else None
        if campaign is not None:
            campaign.append(waiting)
        if campaign is None or campaign[0] is waiting:
            self._waiting.append(waiting)
        for node in self._nodes:
            node.watcher = self._watch

    def disarm(self) -> None:
        """Drop all armed faults."""
        self._waiting, self._campaigns = [], {}
        for node in self._nodes:
            node.watcher = None

    def leader(self) -> Node | None:
        """Return the newest server that believes it leads, established leaders first."""
        found = None
        for node in self._nodes:
            server = node.server
            if server is None or server.peer.role is not Role.LEADER:
                continue
            rank = (server.peer.is_active, server.peer.epoch)
            if found is None or rank > found[0]:
                found = (rank, node)
        return found[1] if found is not None else None

    def _watch(self, node: Node, effects: list[object]) -> None:
        for effect in effects:
            is_message = isinstance(effect, SendPeer)
            name = type(effect.message if is_message else effect).__name__  # type: ignore[attr-defined]
            if isinstance(effect, TraceEvent):
                name = effect.name
            self._occurs(name, node, effect.peer if is_message else None)  # type: ignore[attr-defined]
        for name in self.moments(node, effects):
            self._occurs(name, node, None)

    def _occurs(self, name: str, node: Node, receiver: ServerId | None) -> None:
        for waiting in list(self._waiting):
            fault = waiting.fault
            is_other = waiting.source is not None and waiting.source is not node
            is_meant = fault.trigger == name or (fault.trigger == ANY and waiting.source is node)
            if is_other or not is_meant or self._schedule.now < waiting.since:
                continue
            waiting.seen += 1
            if waiting.seen == fault.amount:
                peer = next((n for n in self._nodes if n.server_id == receiver), None)
                self._fire(waiting, node, peer)

    def _fire(self, waiting: _ArmedFault, node: Node, peer: Node | None) -> None:
        """Schedule the reaction of a fault that was triggered."""
        fault = waiting.fault
        self._schedule.after(fault.delay_ms, lambda: waiting.inject(fault, node, peer))
        campaign = self._campaigns.get(fault.campaign)
        if campaign or not fault.again_ms:
            self._waiting.remove(waiting)
        if campaign:
            campaign.rotate(-1)
            self._waiting.append(campaign[0])
        following = campaign[0] if campaign else waiting
        following.seen = 0
        following.since = self._schedule.now + fault.delay_ms + fault.again_ms
