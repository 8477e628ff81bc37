"""Second processes of a server: Ray gave up one that stood still, started another, and it woke up.

Rule D1. On the same disk the lock keeps the second out as long as the first one is there. On
another disk, since the server lost its own or was started where that is not, both run, and each
says that it is that server: the newer incarnation must win, and stay. Who has the vote is a matter
of disks, not of processes (rule D3).
"""

from raykeeper.server.peer_messages import TouchSessions, TouchSessionsReply
from raykeeper.zab.effects import Append, TraceEvent
from raykeeper.zab.ids import ServerId
from tests.simulation.checks import Checks
from tests.simulation.disk import SimDisk
from tests.simulation.node import Node
from tests.simulation.schedule import Schedule


class Unwatched(Checks):
    """What a second process makes of its own state is of no interest; the harm it does is."""

    def started(self, node: Node) -> None:
        """Not looked at, like all below."""

    def stopped(self, node: Node) -> None:
        """It is no server's end."""

    def note(self, node: Node, note: TraceEvent) -> None:
        """Not counted."""

    def stepped(self, node: Node) -> None:
        """Its server is another one to the checks."""

    def appends(self, effect: Append) -> None:
        """On a disk that does not count."""

    def touched(self, node: Node, sender: ServerId, message: TouchSessions) -> None:
        """It leads nobody."""

    def confirms(self, node: Node, peer: ServerId, message: TouchSessionsReply) -> None:
        """It leads nobody."""


def second_process(node: Node, disk: SimDisk, schedule: Schedule) -> Node:
    """Start another process of the server of `node` on `disk`, its own or one of before."""
    second = node.beside(disk, Unwatched(schedule))
    second.start()
    return second
