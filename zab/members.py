"""The member list: which disk the vote of each voter rests on.

Rule D3: what a voter has promised and acknowledged is on its disk, so a leader counts a voter only
under the disk that the list names. The list is part of the replicated state and changes by
committed transactions alone; a voter on another disk (its folder was emptied, its disk lost or
repaired) is a learner until one names that disk. ZooKeeper counts it under its number and so can
lose what it had acknowledged (ZOOKEEPER-261).

Two quorums of the same voters have a voter in common, but not always a disk. So

    a new disk counts once its transaction is *delivered*: one that was only logged may be lost, and
    the old disk may then count with servers that never heard of it;
    the old disk counts until then only where the transaction is not *logged*: it may be committed,
    and the new disk may then count with servers that know it.

In between neither counts. A transaction is committed by voters other than the one it concerns, so
whoever leads with the old disk either has it in its log or is refused by somebody who has.
"""

from collections.abc import Iterable, Mapping

from raykeeper.zab.ids import FOUNDING, DiskId, ServerId


class Members:
    """The voters and their disks, as of the last delivered transaction."""

    __slots__ = ("_changing", "_disks")

    def __init__(self, voters: Iterable[ServerId]) -> None:
        """The list of a new ensemble: every voter on its founding disk."""
        self._disks = dict.fromkeys(voters, FOUNDING)
        self._changing: dict[ServerId, int] = {}  # changes logged and not delivered

    def counts(self, server: ServerId, disk: DiskId) -> bool:
        """Whether `server` has a vote when it speaks from `disk`."""
        return self._disks.get(server) == disk and server not in self._changing

    def is_voter(self, server: ServerId) -> bool:
        """Whether `server` has a vote, on whatever disk."""
        return server in self._disks

    def changing(self, server: ServerId, disk: DiskId) -> None:
        """On a leader: its log has a transaction that puts the vote of `server` on `disk`."""
        if server in self._changing or self._disks[server] != disk:
            self._changing[server] = self._changing.get(server, 0) + 1

    def forget_changes(self) -> None:
        """A new role begins: what its log holds undelivered is told again."""
        self._changing.clear()

    def replace(self, server: ServerId, disk: DiskId) -> bool:
        """Delivered: the vote of `server` rests on `disk`. Whether that is a change."""
        left = self._changing.pop(server, 1) - 1
        if left:
            self._changing[server] = left
        was, self._disks[server] = self._disks[server], disk
        return was != disk

    def adopt(self, replaced: Mapping[ServerId, DiskId]) -> None:
        """Take over the list of a received state: `replaced`, all others on founding disks."""
        for server in self._disks:
            self._disks[server] = replaced.get(server, FOUNDING)
