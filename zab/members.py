"""The member list: which disk the vote of each voter rests on.

Rule D3: what a voter has promised and acknowledged is on its disk, so quorums of any kind count a
voter only under the disk that the list names. The list is part of the replicated state and
changes by committed transactions alone; a voter on another disk (its folder was emptied, its disk
lost or repaired) is a learner until one names that disk. ZooKeeper counts it under its number and
so can lose what it had acknowledged (ZOOKEEPER-261).

Invariant: the voters themselves never change, so any two quorums have a voter in common; a list
and the one that replaced it differ by a disk whose promises are lost or fenced.
"""

from collections.abc import Iterable, Mapping

from raykeeper.zab.ids import FOUNDING, DiskId, ServerId


class Members:
    """The voters and their disks, as of the last delivered transaction."""

    __slots__ = ("_disks",)

    def __init__(self, voters: Iterable[ServerId]) -> None:
        """The list of a new ensemble: every voter on its founding disk."""
        self._disks = dict.fromkeys(voters, FOUNDING)

    def counts(self, server: ServerId, disk: DiskId) -> bool:
        """Whether `server` has a vote when it speaks from `disk`."""
        return self._disks.get(server) == disk

    def is_voter(self, server: ServerId) -> bool:
        """Whether `server` has a vote, on whatever disk."""
        return server in self._disks

    def replace(self, server: ServerId, disk: DiskId) -> bool:
        """The vote of `server` rests on `disk` from now on; whether that is a change."""
        assert server in self._disks, server
        was, self._disks[server] = self._disks[server], disk
        return was != disk

    def adopt(self, replaced: Mapping[ServerId, DiskId]) -> None:
        """Take over the list of a received state: `replaced`, all others on founding disks."""
        for server in self._disks:
            self._disks[server] = replaced.get(server, FOUNDING)
