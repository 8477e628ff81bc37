"""No acknowledged write is lost: each delivered transaction is, and stays, on a quorum of disks.

A disk that the world has destroyed, or made to forget, counts as if it held the transaction: the
promise is for a majority of intact disks.
"""

from bisect import bisect_left
from collections.abc import Iterable, Mapping, Sequence
from typing import Protocol

from raykeeper.zab.ids import Zxid, format_zxid


class Snapshot(Protocol):
    """A stored snapshot."""

    @property
    def zxid(self) -> Zxid:
        """Its name: the newest zxid when it began."""
        ...

    @property
    def consistent_at(self) -> Zxid:
        """The zxid as of which its state is consistent, once the log up to there is applied."""
        ...


class Stored(Protocol):
    """The forced content of a disk, which is all that the checks look at."""

    log: list[tuple[Zxid, bytes]]

    @property
    def snapshots(self) -> Sequence[Snapshot]:
        """The snapshots, oldest first."""
        ...

    @property
    def is_lost(self) -> bool:
        """Return whether the disk was replaced, or will be when it is read."""
        ...

    @property
    def has_forgotten(self) -> bool:
        """Return whether recently forced writes are gone."""
        ...


def holds(disk: Stored, zxid: Zxid, txn: bytes) -> bool:
    """Return whether a disk can recover `zxid`, from its log or from its newest snapshot."""
    if disk.snapshots and disk.snapshots[-1].zxid >= zxid:
        return True
    place = bisect_left(disk.log, (zxid,))
    return place < len(disk.log) and disk.log[place] == (zxid, txn)


def acked_writes_survive(disks: Iterable[Stored], quorum: int, zxid: Zxid, txn: bytes) -> None:
    """Check that a quorum of disks has a delivered transaction; destroyed disks count."""
    kept = sum(disk.is_lost or disk.has_forgotten or holds(disk, zxid, txn) for disk in disks)
    assert kept >= quorum, (
        f"Durability: {format_zxid(zxid)} is on {kept} disks, {quorum} is a quorum"
    )


def logs_agree(disk: Stored, committed: Mapping[Zxid, bytes], upto: Zxid) -> None:
    """Check that a log, as far as its server has delivered it, is what was committed."""
    for zxid, txn in disk.log:
        if zxid > upto:
            break
        assert committed.get(zxid) == txn, f"PrefixConsistency: {format_zxid(zxid)} in a log"
