"""Faults that wait for their moment: the n-th message or disk operation of a kind brings them.

Most bugs of such protocols need a crash in one window of a few milliseconds (reference: the bugs
of ZooKeeper's Zab), which a fault at a random time hardly ever meets. An ambush is drawn up front
like every fault: what it waits for, how often, how much later it strikes, and how. One that is laid
again and again keeps an ensemble in the same trouble: most harm needs two faults in a row.
"""

from collections.abc import Callable, Iterable

from raykeeper.actors.effects import SendPeer
from raykeeper.zab.effects import Role
from tests.simulation.node import Node
from tests.simulation.plan import Fault
from tests.simulation.schedule import Schedule


class Ambushes:
    """Those that wait."""

    def __init__(self, schedule: Schedule, nodes: Iterable[Node]) -> None:
        self._schedule = schedule
        self._nodes = list(nodes)
        self._waiting: list[tuple[Fault, Callable[[Fault, Node, Node | None], None]]] = []
        self._seen: list[int] = []
        self._from: list[int] = []  # from when on each of them counts

    def lay(self, fault: Fault, strike: Callable[[Fault, Node, Node | None], None]) -> None:
        """Wait for the n-th occurrence from now on, then call `strike`."""
        self._waiting.append((fault, strike))
        self._seen.append(0)
        self._from.append(0)
        for node in self._nodes:
            node.watcher = self._watch

    def lift(self) -> None:
        """The faults are over."""
        self._waiting, self._seen, self._from = [], [], []
        for node in self._nodes:
            node.watcher = None

    def leader(self) -> Node | None:
        """The newest leader that is established, as it sees itself, or who is about to lead."""
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
            for place, (fault, strike) in enumerate(self._waiting):
                if fault.trigger != name:
                    continue
                if self._schedule.now < self._from[place]:
                    continue
                self._seen[place] += 1
                if self._seen[place] == fault.amount:
                    if fault.again_ms:
                        self._seen[place] = 0
                        self._from[place] = self._schedule.now + fault.delay_ms + fault.again_ms
                    peer = None
                    if is_message:
                        peer = next(n for n in self._nodes if n.server_id == effect.peer)  # type: ignore[attr-defined]
                    self._schedule.after(
                        fault.delay_ms,
                        lambda fault=fault, strike=strike, peer=peer: strike(fault, node, peer),
                    )
