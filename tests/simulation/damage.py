"""The limit of disk damage that loses no acknowledged write.

No acknowledged write is lost while a majority of disks is intact. A lost or replaced disk counts
as damaged until it has its vote back (rule D3); a disk that forgot its last forced writes counts
until it has accepted another epoch. Torn writes break no promise, but while too many disks do not
know what they acknowledged no server may decide (rule D4), and the world could not converge.
"""

from collections.abc import Iterable

from tests.simulation.node import Node


class Damage:
    """Decides whether one more of the voters' disks may be damaged."""

    def __init__(self, nodes: Iterable[Node]) -> None:
        self._voters = [node for node in nodes if node.votes]

    def may_lose(self, node: Node) -> bool:
        """Return whether the disk of `node` may be lost now."""
        lost, uncertain, forgotten = self._counts(node)
        return self._is_bearable(lost + node.votes, uncertain, forgotten)

    def may_forget(self, node: Node) -> bool:
        """Return whether the disk of `node` may lose its last forced writes."""
        if _is_lost(node):
            return True
        lost, uncertain, forgotten = self._counts(node)
        return self._is_bearable(lost, uncertain + node.votes, forgotten + node.votes)

    def may_be_uncertain(self, node: Node) -> bool:
        """Return whether the log of `node` may have a torn end."""
        lost, uncertain, forgotten = self._counts(node)
        if _is_lost(node):
            return True
        forgotten += node.votes and node.disk.has_forgotten
        return self._is_bearable(lost, uncertain + node.votes, forgotten)

    def _counts(self, but: Node) -> tuple[int, int, int]:
        """Count the voters except `but`: lost, uncertain, and rightly uncertain ones."""
        others = [node for node in self._voters if node is not but]
        kept = [node.disk for node in others if not _is_lost(node)]
        uncertain = sum(disk.is_uncertain for disk in kept)
        return len(others) - len(kept), uncertain, sum(disk.has_forgotten for disk in kept)

    def _is_bearable(self, lost: int, uncertain: int, forgotten: int) -> bool:
        voters = len(self._voters)
        quorum = voters // 2 + 1
        if lost + forgotten > voters - quorum:
            return False
        healthy = voters - lost - uncertain
        return healthy >= quorum or healthy + uncertain >= max(quorum, 2 * (voters - quorum) + 1)


def _is_lost(node: Node) -> bool:
    # A tree that differs costs its server the disk (rule D4).
    return node.disk.is_lost or node.is_flipped
