"""The member list: which disk the vote of each voter rests on, and by which lists a leader counts.

Rule D3: what a voter has promised and acknowledged is on its disk, so a leader counts a voter only
under the disk that the list names. The list is part of the replicated state and changes by
committed transactions alone; a voter on another disk (its folder was emptied, its disk lost or
repaired) is a learner until one names that disk. ZooKeeper counts it under its number and so can
lose what it had acknowledged (ZOOKEEPER-261).

docs/MEMBERS.md has the argument. A *seat* is a server on a disk. Any two quorums must have a seat
in common, also those of lists that follow each other. So (M2)

    the newest list that is known to be committed counts: it was *delivered* here, or by another
    server that said so (M7);
    every newer list in the log of a leader counts beside it until it is delivered: it may be
    committed, or may be lost.

Each of them must have its majority. A seat that one of them lacks is of no use to that one: while
a disk is being replaced, neither the old one nor the new one completes a quorum.
"""

from collections.abc import Iterable

from raykeeper.zab.ids import FOUNDING_DISK, ZERO, DiskId, ServerId, Zxid
from raykeeper.zab.member_list import MemberList
from raykeeper.zab.quorum import Quorum

Seat = tuple[ServerId, DiskId]


class Members:
    """The member lists that count on this server."""

    __slots__ = (
        *("_committed", "_delivered", "_electors", "_heard", "_in_force", "_logged"),
        *("founding", "revision"),
    )

    def __init__(self, voters: Iterable[ServerId], observers: Iterable[ServerId] = ()) -> None:
        """Make the list of a new ensemble: every voter on its founding disk."""
        seats = dict.fromkeys(sorted(set(voters)), FOUNDING_DISK)
        self.founding = self._delivered = MemberList(ZERO, seats, tuple(observers))
        self._heard = self._delivered
        self._logged: list[MemberList] = []  # newer than delivered, in the order of the log
        self.revision = 0
        """Goes up with everything that is told of a list."""
        self._update()

    # What counts.

    @property
    def delivered(self) -> MemberList:
        """The list as of the last delivered transaction."""
        return self._delivered

    @property
    def newest(self) -> MemberList:
        """The newest list known to be committed: delivered here or elsewhere (M7)."""
        return self._committed

    @property
    def to_tell(self) -> MemberList | None:
        """The list to tell others: the newest one, None for that of the founding."""
        return self._committed if self._committed.version else None

    @property
    def known_servers(self) -> tuple[ServerId, ...]:
        """The servers of every list that counts here or was delivered, in order."""
        lists = (self._committed, self._delivered, *self._logged)
        return tuple(sorted({server for each in lists for server in each.servers}))

    @property
    def voters(self) -> tuple[ServerId, ...]:
        """The voters of the newest list, in order."""
        return tuple(sorted(self._committed.voters))

    @property
    def voter_disks(self) -> dict[ServerId, DiskId]:
        """The votes that delivered transactions put on other than founding disks."""
        return self._delivered.moved

    @property
    def counted_disks(self) -> dict[ServerId, DiskId]:
        """The disk under which each voter is counted now; without voters whose disk is changing."""
        return {s: disk for s, disk in self._delivered.voters.items() if self.has_vote(s, disk)}

    @property
    def is_changing(self) -> bool:
        """Whether a logged list waits for its delivery; told on a leader only."""
        return len(self._in_force) > 1

    def is_voter(self, server: ServerId) -> bool:
        """Return whether `server` is a voter of the newest list, on whatever disk."""
        return server in self._committed.voters

    def has_vote(self, server: ServerId, disk: DiskId) -> bool:
        """Return whether every list that counts has `server` on `disk`."""
        seat = (server, disk)
        return all(seat in quorum.voters for quorum in self._in_force)

    def is_counted(self, seat: Seat) -> bool:
        """Return whether a list that counts has this seat."""
        return any(seat in quorum.voters for quorum in self._in_force)

    def is_quorum(self, seats: Iterable[Seat]) -> bool:
        """Return whether `seats` are a majority of every list that counts."""
        given = set(seats)
        return all(quorum.is_quorum(given) for quorum in self._in_force)

    def joins_by(self, seat: Seat) -> Zxid:
        """Return the version of the logged list that gives this seat its first vote, else 0."""
        newest = self._committed
        if newest.voters.get(seat[0]) == seat[1]:
            return ZERO
        newer = (each for each in self._logged if each.version > newest.version)
        return next((each.version for each in newer if each.voters.get(seat[0]) == seat[1]), ZERO)

    def covers_all_acked(self, healthy: Iterable[Seat], uncertain: Iterable[Seat]) -> bool:
        """Return whether these seats together know all that was ever acknowledged by any list."""
        sound, unsure = set(healthy), set(uncertain)
        return all(quorum.covers_all_acked(sound, unsure) for quorum in self._in_force)

    def meet_every_majority(self, seats: Iterable[Seat]) -> bool:
        """Return whether each majority of each list that counts has one of `seats`."""
        given = set(seats)
        return all(quorum.meets_every_majority(given) for quorum in self._in_force)

    def quorum_value(self, cursors: list[tuple[Seat, int]]) -> int:
        """Return the highest value that a majority of every list has reached."""
        return min([quorum.quorum_value(cursors) for quorum in self._in_force])

    def are_electors(self, servers: Iterable[ServerId]) -> bool:
        """Return whether `servers`, on whatever disks, are a majority of the newest list.

        For elections: a looking server may not know on which disks the others' votes rest, and an
        election is only an oracle.
        """
        return self._electors.is_quorum(servers)

    # What changes it.

    def list_logged(self, members: MemberList) -> None:
        """Note, on a leader, a list that a logged transaction makes."""
        if not self._is_same(self._newest_logged, members):
            self._logged.append(members)
            self._update()

    def disk_logged(self, server: ServerId, disk: DiskId, version: Zxid) -> None:
        """Note, on a leader, a logged transaction that puts the vote of `server` on `disk`."""
        self.list_logged(self._newest_logged.with_disk(server, disk, version))

    def forget_logged_lists(self) -> None:
        """Forget logged lists: a new role is told again what its log holds undelivered."""
        self._logged.clear()
        self._update()

    def list_delivered(self, members: MemberList) -> bool:
        """Count by a list that was delivered. Return whether it has other voters or disks."""
        is_new = not self._is_same(self._delivered, members)
        if is_new:
            self._delivered = members
        self._logged = [each for each in self._logged if each.version > members.version]
        self._update()
        return is_new

    def disk_delivered(self, server: ServerId, disk: DiskId, version: Zxid) -> bool:
        """Put the vote of `server` on `disk`, as delivered. Return whether that is a change."""
        return self.list_delivered(self._delivered.with_disk(server, disk, version))

    def learn_delivered(self, members: MemberList | None) -> bool:
        """Note the list that another server has told, as `to_tell`. Return whether it is news."""
        if members is None or members.version <= self._committed.version:
            return False
        self._heard = members
        self._update()
        return True

    def adopt(self, members: MemberList) -> None:
        """Take over the list of a received state, which may be older than what was known here."""
        self._heard = self._committed
        self._delivered = members
        self._logged.clear()
        self._update()

    @property
    def _newest_logged(self) -> MemberList:
        return self._logged[-1] if self._logged else self._delivered

    def _update(self) -> None:
        self.revision += 1
        newest = max(self._delivered, self._heard, key=lambda each: each.version)
        self._committed = newest
        self._electors = Quorum(newest.voters)
        logged = [each for each in self._logged if each.version > newest.version]
        self._in_force = tuple(Quorum(each.voters.items()) for each in (newest, *logged))

    def _is_same(self, one: MemberList, other: MemberList) -> bool:
        return one.voters == other.voters and one.observers == other.observers
