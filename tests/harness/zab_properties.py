"""The properties of Zab, checked from outside while `zab_world` runs.

Paper: Zab, section III; Spec: Zab.tla, whose invariants give the names. One list, `committed`, is
the sequence of transactions that servers delivered; every delivery is compared with it.
"""

from raykeeper.zab.ids import ZERO, Epoch, ServerId, Zxid, counter_of, epoch_of, format_zxid
from raykeeper.zab.quorum import Quorum
from tests.harness.log_entries import Entry
from tests.harness.zab_disk import ZabDisk


class Properties:
    """What the servers have done so far, seen from outside."""

    def __init__(self, quorum: Quorum[ServerId]) -> None:
        self.committed: list[Entry] = []
        self._quorum = quorum
        self._broadcast: dict[Zxid, bytes] = {}
        self._before: dict[Zxid, Zxid] = {}  # the zxid before each txn in its primary's log
        self._leaders: dict[Epoch, tuple[ServerId, int]] = {}
        self._initial: dict[Epoch, int] = {}  # entries delivered by each primary at its start

    @property
    def last(self) -> Zxid:
        """Return the zxid of the newest transaction that any server delivered."""
        return self.committed[-1][0] if self.committed else ZERO

    def establish(self, epoch: Epoch, leader: ServerId, incarnation: int, delivered: int) -> None:
        """Record a leader. Leadership: at most one established leader per epoch."""
        assert self._leaders.setdefault(epoch, (leader, incarnation)) == (leader, incarnation)
        self._initial[epoch] = delivered
        # PrimaryIntegrity, first half: it begins with all deliveries of earlier epochs.
        missed = [zxid for zxid, _ in self.committed[delivered:] if epoch_of(zxid) < epoch]
        assert not missed, f"leader {leader} of epoch {epoch} misses {format_zxid(missed[0])}"

    def broadcast(self, leader: ServerId, first: Zxid, txns: list[bytes], last: Zxid) -> None:
        """Record that a primary broadcasts a run after `last`, the end of its log."""
        assert self._leaders[epoch_of(first)][0] == leader
        for i, txn in enumerate(txns):
            zxid = Zxid(first + i)
            assert zxid not in self._broadcast, f"{format_zxid(zxid)} was broadcast twice"
            self._broadcast[zxid] = txn
            self._before[zxid] = Zxid(zxid - 1) if i else last

    def deliver(self, place: int, entry: Entry) -> None:
        """Check that a server may deliver `entry` after `place` others."""
        zxid, txn = entry
        # Integrity: servers deliver only what a primary has broadcast.
        assert self._broadcast.get(zxid) == txn, f"nobody broadcast {format_zxid(zxid)}"
        if place < len(self.committed):
            # PrefixConsistency, Agreement, TotalOrder: all servers deliver one sequence.
            known = self.committed[place]
            assert known == entry, (
                f"{format_zxid(zxid)} where {format_zxid(known[0])} was delivered"
            )
            return
        assert place == len(self.committed)
        last = self.last
        # GlobalPrimaryOrder: no transaction of an earlier primary after one of a later.
        assert epoch_of(zxid) >= epoch_of(last)
        # LocalPrimaryOrder: the transactions of one primary in its order, without gaps.
        if epoch_of(zxid) == epoch_of(last):
            assert zxid == last + 1
        else:
            assert counter_of(zxid) == 1
        # PrimaryIntegrity, second half: a later primary had delivered it when it began.
        for epoch, initial in self._initial.items():
            assert epoch <= epoch_of(zxid) or place < initial, f"{epoch} began without it"
        self.committed.append(entry)

    def extend_log(self, last: Zxid, entry: Entry) -> None:
        """Check for holes: a transaction follows the same one in every log as in its primary's."""
        zxid, txn = entry
        assert self._broadcast.get(zxid) == txn
        assert self._before[zxid] == last, f"{format_zxid(zxid)} after {format_zxid(last)}"

    def survives(self, disks: list[ZabDisk], lost: int) -> None:
        """Check that a quorum of disks, `lost` wiped ones included, has all deliveries."""
        place = len(self.committed)
        if place:
            held = sum(
                len(disk.entries) >= place and disk.entries[place - 1] == self.committed[-1]
                for disk in disks
            )
            assert held >= self._quorum.size - lost, f"{format_zxid(self.last)} is on {held} disks"
