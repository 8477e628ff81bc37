"""The limit of disk damage that loses no acknowledged write.

No acknowledged write is lost while a majority of disks is intact. A lost or replaced disk counts
as damaged until it has its vote back (rule D3); a disk that forgot its last forced writes counts
until it has accepted another epoch. Torn writes break no promise, but while too many disks do not
know what they acknowledged no server may decide (rule D4), and the world could not converge.
"""

from collections.abc import Iterable, Mapping

from tests.simulation.node import Node


class VoterDisks:
    """The voters of one member list, and whose disk is lost for it."""

    def __init__(self, is_lost: Mapping[Node, bool]) -> None:
        self._is_lost = is_lost

    def bear(
        self, node: Node | None = None, *, lost: int = 0, uncertain: int = 0, forgotten: int = 0
    ) -> bool:
        """Return whether no acknowledged write is lost if `node` has this damage, too."""
        is_lost = self._is_lost
        if node is not None and node not in is_lost:
            return True
        if node is not None and is_lost[node] and not lost:
            return True
        others = [each for each in is_lost if each is not node]
        kept = [each.disk for each in others if not is_lost[each]]
        return self._is_bearable(
            lost + len(others) - len(kept),
            uncertain + sum(disk.is_uncertain for disk in kept),
            forgotten + sum(disk.has_forgotten for disk in kept),
        )

    def _is_bearable(self, lost: int, uncertain: int, forgotten: int) -> bool:
        voters = len(self._is_lost)
        quorum = voters // 2 + 1
        if lost + forgotten > voters - quorum:
            return False
        healthy = voters - lost - uncertain
        return healthy >= quorum or healthy + uncertain >= max(quorum, 2 * (voters - quorum) + 1)


class Damage:
    """Decides whether one more of the voters' disks may be damaged."""

    def __init__(self, nodes: Iterable[Node]) -> None:
        self._voters = [node for node in nodes if node.votes]

    def may_lose(self, node: Node) -> bool:
        """Return whether the disk of `node` may be lost now."""
        return all(each.bear(node, lost=1) for each in self._lists())

    def may_forget(self, node: Node) -> bool:
        """Return whether the disk of `node` may lose its last forced writes."""
        return all(each.bear(node, uncertain=1, forgotten=1) for each in self._lists())

    def may_be_uncertain(self, node: Node) -> bool:
        """Return whether the log of `node` may have a torn end."""
        forgotten = int(node.disk.has_forgotten)
        return all(each.bear(node, uncertain=1, forgotten=forgotten) for each in self._lists())

    def _lists(self) -> list[VoterDisks]:
        """Return every member list that may count."""
        return [VoterDisks({node: _is_lost(node) for node in self._voters})]


def _is_lost(node: Node) -> bool:
    # A tree that differs costs its server the disk (rule D4).
    return node.disk.is_lost or node.is_flipped
