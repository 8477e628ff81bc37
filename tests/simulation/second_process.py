"""Second processes of a server: Ray gave a frozen process up, started another one, and it woke up.

Rule D1. On the same disk the lock keeps the second process out while the first one exists. On
another disk, because the server lost its own or started elsewhere, both run under the same server
id: the newer incarnation must win, and stay. The vote belongs to a disk, not to a process
(rule D3).
"""

from raykeeper.server.peer_messages import TouchSessions, TouchSessionsReply
from raykeeper.zab.effects import Append, TraceEvent
from raykeeper.zab.ids import ServerId
from tests.harness.schedule import Schedule
from tests.harness.sim_disk import SimDisk
from tests.simulation.checks import Checks
from tests.simulation.node import Node


class Unwatched(Checks):
    """Replaces the checks for a second process: only the harm that it does to others counts."""

    def started(self, node: Node) -> None:
        """Ignore the process, like all methods below."""

    def stopped(self, node: Node) -> None:
        """The end of this process is not the end of its server."""

    def note(self, node: Node, note: TraceEvent) -> None:
        """Trace events of this process are not counted."""

    def stepped(self, node: Node) -> None:
        """For the checks, its server is the other process."""

    def appends(self, effect: Append) -> None:
        """Its disk does not count."""

    def touched(self, node: Node, sender: ServerId, message: TouchSessions) -> None:
        """It leads no server."""

    def confirms(self, node: Node, peer: ServerId, message: TouchSessionsReply) -> None:
        """It leads no server."""


def second_process(node: Node, disk: SimDisk, schedule: Schedule) -> Node:
    """Start another process of the server of `node` on `disk`, its own or an earlier one."""
    second = node.beside(disk, Unwatched(schedule))
    second.start()
    return second
