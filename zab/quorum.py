"""Majority quorums over the voters of an ensemble, of odd or even number.

Invariant: any two quorums have a voter in common. Servers outside `voters` never count
(ZOOKEEPER-2959).
"""

from collections.abc import Iterable

from raykeeper.zab.ids import ServerId


class Quorum:
    """The voters and what makes a majority of them."""

    __slots__ = ("size", "voters")

    def __init__(self, voters: Iterable[ServerId]) -> None:
        self.voters = tuple(sorted(set(voters)))
        assert self.voters, "an ensemble has at least one voter"
        self.size = len(self.voters) // 2 + 1
        # Of four voters two are no quorum: the other two could elect a leader of the same epoch.
        assert 2 * self.size > len(self.voters), self.voters

    def is_quorum(self, servers: Iterable[ServerId]) -> bool:
        """Return whether `servers`, each counted once and only if a voter, are a majority."""
        return len(set(servers).intersection(self.voters)) >= self.size

    def covers_all_acked(self, healthy: Iterable[ServerId], uncertain: Iterable[ServerId]) -> bool:
        """Return whether these voters together know all that any quorum ever acknowledged.

        An uncertain voter may have lost its last acknowledged transactions (rule D4), or nothing.
        A quorum of healthy voters knows everything. So does a larger set: one whose part in any
        quorum is larger than the number of disks that can be bad while a majority is intact. Of
        three voters that is all three; a single voter has no other to ask and counts as it is.
        """
        counted = set(self.voters)
        sound = counted.intersection(healthy)
        told = sound.union(counted.intersection(uncertain))
        enough = max(self.size, 2 * (len(self.voters) - self.size) + 1)
        return len(sound) >= self.size or len(told) >= enough

    def quorum_value(self, cursors: Iterable[int]) -> int:
        """Return the highest value that a quorum has reached, given every counted voter's cursor.

        0 when fewer than a quorum are given; cursors are never negative.
        """
        ordered = sorted(cursors, reverse=True)
        return ordered[self.size - 1] if len(ordered) >= self.size else 0
