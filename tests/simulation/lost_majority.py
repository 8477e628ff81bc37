"""The loss of a majority of disks, after the world has converged.

The remaining servers cannot know what the lost disks had acknowledged, so they must not decide
anything: no leader, no write, and every server knows which disks are lost. Then an operator brings
back just enough of the disks, and nothing is missing; the others get their votes by rule D3
(docs/DISKS.md, "Repair").
"""

from raykeeper.zab.effects import Role
from raykeeper.zab.ids import Millis
from tests.harness.schedule import Schedule
from tests.simulation.checks import Checks
from tests.simulation.client import SimClient
from tests.simulation.node import Node

STILL_MS = 5_000
"""How long they are watched from then on."""


class LostMajority:
    """Loses disks, checks that no server decides meanwhile, and brings disks back."""

    def __init__(
        self,
        schedule: Schedule,
        nodes: list[Node],
        clients: list[SimClient],
        checks: Checks,
        told_ms: Millis,
    ) -> None:
        """`told_ms`: every server must know within this time which disks are lost."""
        self._schedule = schedule
        self._nodes = nodes
        self._clients = clients
        self._checks = checks
        self._told_ms = told_ms
        self._random = schedule.stream("majority")
        voters = [node for node in nodes if node.votes]
        quorum = len(voters) // 2 + 1
        self._lost = self._random.sample(
            voters, self._random.randint(len(voters) - quorum + 1, len(voters))
        )
        self._needed = quorum - (len(voters) - len(self._lost))
        self._committed = len(checks.order)

    @property
    def is_possible(self) -> bool:
        """Return whether every disk has its vote and knows all it acknowledged."""
        disks = [node.disk for node in self._nodes if node.votes]
        return not any(disk.is_lost or disk.is_uncertain for disk in disks)

    def lose(self) -> None:
        """Empty the folders; some of the other servers restart, too."""
        self._checks.counts["majority_lost"] += 1
        self._schedule.say(f"fault: the disks of {self._names()} are lost")
        for node in self._nodes:
            is_lost = node in self._lost
            if node.is_up and (is_lost or self._random.random() < 0.5):
                node.crash()
            if is_lost:
                node.disk.repair()
            self._schedule.after(self._random.randint(0, 500), node.start)

    def nobody_decides(self) -> None:
        """Let clients try to write, and watch all servers for a while.

        Raises:
            AssertionError: a server does not learn of the loss, or leads, or commits a write.
        """
        for client in self._clients:
            client.write_once()
        bound_ms = self._told_ms
        told = self._schedule.run_until(Millis(self._schedule.now + bound_ms), self._is_told)
        assert told, f"LostDisks: not all know within {bound_ms} ms that {self._names()} are lost"
        self._schedule.run_until(Millis(self._schedule.now + STILL_MS))
        is_still = self._is_told() and len(self._checks.order) == self._committed
        assert is_still, f"LostDisks: {self._names()} are lost, and somebody decided"

    def bring_back(self) -> None:
        """Bring back as many disks as a majority needs."""
        for node in self._random.sample(self._lost, self._needed):
            self._schedule.say(f"the disk of server {node.server_id} is back")
            if node.is_up:
                node.crash()
            node.disk.put_back()
            node.start()

    def _is_told(self) -> bool:
        lost = sorted(node.server_id for node in self._lost)
        return all(
            node.server is not None
            and node.server.peer.role is Role.LOOKING
            and node.server.stats().voters_lost == lost
            for node in self._nodes
        )

    def _names(self) -> str:
        return ", ".join(str(node.server_id) for node in self._lost)
