"""Majority quorums over the voters of one member list, of odd or even number.

Invariant: any two quorums have a voter in common. Others than `voters` never count
(ZOOKEEPER-2959). A voter is a server's id, or its seat: `members.py` says which lists count.
"""

from collections.abc import Hashable, Iterable
from typing import Generic, TypeVar

Voter = TypeVar("Voter", bound=Hashable)


class Quorum(Generic[Voter]):
    """The voters and what makes a majority of them."""

    __slots__ = ("size", "voters")

    def __init__(self, voters: Iterable[Voter]) -> None:
        self.voters = frozenset(voters)
        assert self.voters, "an ensemble has at least one voter"
        self.size = len(self.voters) // 2 + 1
        # Of four voters two are no quorum: the other two could elect a leader of the same epoch.
        assert 2 * self.size > len(self.voters), self.voters

    def is_quorum(self, voters: Iterable[Voter]) -> bool:
        """Return whether `voters`, each counted once and only if it is one, are a majority."""
        return len(self.voters.intersection(voters)) >= self.size

    def covers_all_acked(self, healthy: Iterable[Voter], uncertain: Iterable[Voter]) -> bool:
        """Return whether these voters together know all that any quorum ever acknowledged.

        An uncertain voter may have lost its last acknowledged transactions (rule D4), or nothing.
        A quorum of healthy voters knows everything. So does a larger set: one whose part in any
        quorum is larger than the number of disks that can be bad while a majority is intact. Of
        three voters that is all three; a single voter has no other to ask and counts as it is.
        """
        sound = self.voters.intersection(healthy)
        told = sound.union(self.voters.intersection(uncertain))
        enough = max(self.size, 2 * (len(self.voters) - self.size) + 1)
        return len(sound) >= self.size or len(told) >= enough

    def meets_every_majority(self, voters: Iterable[Voter]) -> bool:
        """Return whether each majority has one of `voters`."""
        return len(self.voters.intersection(voters)) > len(self.voters) - self.size

    def quorum_value(self, cursors: Iterable[tuple[Voter, int]]) -> int:
        """Return the highest value that a quorum has reached, given each voter's cursor.

        0 when fewer than a quorum are given; cursors are never negative.
        """
        voters = self.voters
        ordered = sorted([cursor for voter, cursor in cursors if voter in voters], reverse=True)
        return ordered[self.size - 1] if len(ordered) >= self.size else 0
