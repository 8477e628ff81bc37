"""The member list: which disk the vote of each voter rests on.

Rule D3: what a voter has promised and acknowledged is on its disk, so a leader counts a voter only
under the disk that the list names. The list is part of the replicated state and changes by
committed transactions alone; a voter on another disk (its folder was emptied, its disk lost or
repaired) is a learner until one names that disk. ZooKeeper counts it under its number and so can
lose what it had acknowledged (ZOOKEEPER-261).

Two quorums of the same voters have a voter in common, but not always a disk. So

    a new disk counts once its transaction is *delivered*: one that was only logged may be lost, and
    the old disk may then count together with servers that never heard of the new one;
    the old disk counts until then only where the transaction is not *logged*: it may be committed,
    and the new disk may then count together with servers that know of it.

In between neither counts. A transaction is committed by voters other than the one it concerns, so
a leader that counts the old disk either has it in its log or is refused by a voter that has.
"""

from collections.abc import Iterable, Mapping

from raykeeper.zab.ids import FOUNDING_DISK, DiskId, ServerId


class Members:
    """The voters and their disks, as of the last delivered transaction."""

    __slots__ = ("_delivered_elsewhere", "_disks", "_logged_changes")

    def __init__(self, voters: Iterable[ServerId]) -> None:
        """Make the list of a new ensemble: every voter on its founding disk."""
        self._disks = dict.fromkeys(voters, FOUNDING_DISK)
        self._logged_changes: dict[ServerId, int] = {}  # changes logged and not delivered
        self._delivered_elsewhere: dict[
            ServerId, DiskId
        ] = {}  # delivered elsewhere, and not yet here

    def has_vote(self, server: ServerId, disk: DiskId) -> bool:
        """Return whether `server` is counted when it speaks from `disk`."""
        named = self._delivered_elsewhere.get(server) or self._disks.get(server)
        return named == disk and server not in self._logged_changes

    @property
    def voter_disks(self) -> dict[ServerId, DiskId]:
        """The votes that delivered transactions put on other than founding disks."""
        return {server: disk for server, disk in self._disks.items() if disk != FOUNDING_DISK}

    @property
    def counted_disks(self) -> dict[ServerId, DiskId]:
        """The disk under which each voter is counted now; without voters whose disk is changing."""
        return {s: disk for s, disk in self._disks.items() if self.has_vote(s, disk)}

    def learn_delivered(self, server: ServerId, disk: DiskId) -> None:
        """Note that another server has delivered that the vote of `server` rests on `disk`."""
        self._delivered_elsewhere[server] = disk

    def is_voter(self, server: ServerId) -> bool:
        """Return whether `server` is in the list, on whatever disk its vote rests."""
        return server in self._disks

    def change_logged(self, server: ServerId, disk: DiskId) -> None:
        """Note, on a leader, a logged transaction that puts the vote of `server` on `disk`."""
        if server in self._logged_changes or self._disks[server] != disk:
            self._logged_changes[server] = self._logged_changes.get(server, 0) + 1

    def forget_logged_changes(self) -> None:
        """Forget logged changes: a new role is told again what its log holds undelivered."""
        self._logged_changes.clear()

    def change_delivered(self, server: ServerId, disk: DiskId) -> bool:
        """Put the vote of `server` on `disk`, as delivered. Return whether that is a change."""
        left = self._logged_changes.pop(server, 1) - 1
        if left:
            self._logged_changes[server] = left
        self._delivered_elsewhere.pop(server, None)
        was, self._disks[server] = self._disks[server], disk
        return was != disk

    def adopt(self, voter_disks: Mapping[ServerId, DiskId]) -> None:
        """Take over the list of a received state: `voter_disks`, all others on founding disks."""
        self._delivered_elsewhere.clear()
        for server in self._disks:
            self._disks[server] = voter_disks.get(server, FOUNDING_DISK)
