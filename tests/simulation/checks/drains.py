"""Drained servers take no clients; in calm they move all, and no session ends by it."""

from collections.abc import Iterable
from typing import TYPE_CHECKING

from raykeeper.server.events import DrainEnded, DrainRequested, Event

if TYPE_CHECKING:
    from tests.simulation.node import Node


class Drains:
    """The drain of one process, if it has one."""

    def __init__(self) -> None:
        self._is_draining = False
        self._there: set[int] | None = None  # connections that were there when it began

    def takes(self, events: Iterable[Event]) -> None:
        """Note that the process takes the events of a step."""
        for event in events:
            if isinstance(event, DrainRequested | DrainEnded):
                self._is_draining = isinstance(event, DrainRequested)
                self._there = None  # others may have come in the same step, before the event

    def stepped(self, node: "Node") -> None:
        """Check after a step that no client came."""
        if not self._is_draining:
            return
        there = connections_of(node)
        if self._there is not None:
            new = sorted(there - self._there)
            assert not new, f"Drain: server {node.server_id} takes connections {new}"
        self._there = there


def connections_of(node: "Node") -> set[int]:
    """Return the numbers of the connections that a server has."""
    return set() if node.server is None else set(node.server._clients._by_number)
