"""No acknowledged write is lost: what anybody delivered is on the disks of a quorum, and stays.

Disks that the world has destroyed, or made to forget, count as if they held it: the promise is for
a majority of intact disks.
"""

from bisect import bisect_left
from collections.abc import Iterable, Mapping, Sequence
from typing import Protocol

from raykeeper.zab.ids import Zxid, format_zxid


class Snapshot(Protocol):
    """A stored snapshot."""

    @property
    def zxid(self) -> Zxid:
        """Its name."""
        ...

    @property
    def consistent_at(self) -> Zxid:
        """What it is a state as of, once the log up to there is applied."""
        ...


class Stored(Protocol):
    """What is looked at of a disk: only what is forced."""

    log: list[tuple[Zxid, bytes]]

    @property
    def snapshots(self) -> Sequence[Snapshot]:
        """Oldest first."""
        ...

    @property
    def is_lost(self) -> bool:
        """Whether it was replaced, or will be when it is read."""
        ...

    @property
    def has_forgotten(self) -> bool:
        """Whether something forced last is gone."""
        ...


def holds(disk: Stored, zxid: Zxid, txn: bytes) -> bool:
    """Whether a disk can bring `zxid` back, in its log or in its newest snapshot."""
    if disk.snapshots and disk.snapshots[-1].zxid >= zxid:
        return True
    place = bisect_left(disk.log, (zxid,))
    return place < len(disk.log) and disk.log[place] == (zxid, txn)


def acked_writes_survive(disks: Iterable[Stored], quorum: int, zxid: Zxid, txn: bytes) -> None:
    """What was delivered is on a quorum of the voters' disks, those that were destroyed apart."""
    kept = sum(disk.is_lost or disk.has_forgotten or holds(disk, zxid, txn) for disk in disks)
    assert kept >= quorum, (
        f"Durability: {format_zxid(zxid)} is on {kept} disks, {quorum} is a quorum"
    )


def logs_agree(disk: Stored, committed: Mapping[Zxid, bytes], upto: Zxid) -> None:
    """A log holds what was committed and nothing else, as far as its server has delivered it."""
    for zxid, txn in disk.log:
        if zxid > upto:
            break
        assert committed.get(zxid) == txn, f"PrefixConsistency: {format_zxid(zxid)} in a log"
