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
from tests.harness.schedule import Schedule
from tests.simulation.node import Node
from tests.simulation.plan import Fault

InjectFault = Callable[[Fault, Node, Node | None], None]


class _ArmedFault:
    """A triggered fault, and how often its trigger has occurred."""

    def __init__(self, fault: Fault, inject: InjectFault) -> None:
        self.fault = fault
        self.inject = inject
        self.seen = 0
        self.since = 0  # earlier triggers do not count


class TriggeredFaults:
    """The armed faults."""

    def __init__(self, schedule: Schedule, nodes: Iterable[Node]) -> None:
        self._schedule = schedule
        self._nodes = list(nodes)
        self._waiting: list[_ArmedFault] = []
        self._campaigns: dict[int, deque[_ArmedFault]] = {}  # the armed one comes first

    def arm(self, fault: Fault, inject: InjectFault) -> None:
        """Wait for the n-th occurrence of the trigger from now on, then call `inject`."""
        waiting = _ArmedFault(fault, inject)
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
            for waiting in list(self._waiting):
                if waiting.fault.trigger != name or self._schedule.now < waiting.since:
                    continue
                waiting.seen += 1
                if waiting.seen == waiting.fault.amount:
                    peer = None
                    if is_message:
                        peer = next(n for n in self._nodes if n.server_id == effect.peer)  # type: ignore[attr-defined]
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
