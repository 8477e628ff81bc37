"""The properties of Zab, under the names of Zab.tla and of the paper (section III).

One list has all delivered transactions in order; every delivery of every server is compared with
it. Broadcasts are known from the logs: the first server to append a transaction is the primary of
its epoch.
"""

from bisect import bisect_right
from collections.abc import Sequence

from raykeeper.zab.ids import ZERO, DiskId, Epoch, ServerId, Zxid, counter_of, epoch_of, format_zxid

Process = tuple[ServerId, int]
"""A server, and which of its processes."""
Entry = tuple[Zxid, bytes]


class Zab:
    """The broadcasts and deliveries of all servers so far."""

    def __init__(self) -> None:
        self.order: list[Zxid] = []
        self.committed: dict[Zxid, bytes] = {}
        self._broadcast: dict[Zxid, bytes] = {}
        self._newest: dict[Epoch, Zxid] = {}
        self._primaries: dict[Epoch, Process] = {}  # established
        self._leaders: dict[Epoch, Process] = {}  # or about to be, with a quorum of promises
        self._initial: dict[Epoch, Zxid] = {}  # what each primary had delivered when it began
        self._digests: dict[Zxid, int] = {}

    @property
    def last(self) -> Zxid:
        """Return the zxid of the newest delivered transaction."""
        return self.order[-1] if self.order else ZERO

    @property
    def newest_primary(self) -> Process | None:
        """Return the leader that was established last."""
        return self._primaries[max(self._primaries)] if self._primaries else None

    def leadership(self, epoch: Epoch, process: Process, delivered: Zxid) -> None:
        """Check Leadership: an epoch has at most one established leader.

        PrimaryIntegrity, first half: it has delivered every delivery of earlier epochs.
        """
        self.synchronizes(epoch, process)
        self._primaries.setdefault(epoch, process)
        if epoch not in self._initial:
            self._initial[epoch] = delivered
            place = bisect_right(self.order, delivered)
            missed = [zxid for zxid in self.order[place:] if epoch_of(zxid) < epoch]
            assert not missed, (
                f"PrimaryIntegrity: {process} leads epoch {epoch} without {format_zxid(missed[0])}"
            )

    def synchronizes(self, epoch: Epoch, process: Process) -> None:
        """Check Leadership: a quorum promises an epoch to one leader, which sends NEWLEADER."""
        known = self._leaders.setdefault(epoch, process)
        assert known == process, f"Leadership: {known} and {process} lead epoch {epoch}"

    def is_news(self, first: Zxid, txns: Sequence[bytes]) -> bool:
        """Return whether no server had the end of a run in its log before."""
        return Zxid(first + len(txns) - 1) not in self._broadcast

    def broadcast(self, process: Process, first: Zxid, txns: Sequence[bytes]) -> None:
        """Record that a server appends a run to its log; new transactions are its broadcasts."""
        if not self.is_news(first, txns):
            return  # another primary's broadcast, compared when it is delivered
        for place, txn in enumerate(txns):
            zxid = Zxid(first + place)
            if zxid not in self._broadcast:
                self._primary_broadcasts(process, zxid)
                self._local_primary_order(zxid)
                self._broadcast[zxid] = txn

    def _primary_broadcasts(self, process: Process, zxid: Zxid) -> None:
        """Check that only the established leader of an epoch broadcasts in it."""
        primary = self._primaries.get(epoch_of(zxid))
        assert primary == process, (
            f"Leadership: {process} broadcasts {format_zxid(zxid)}, the leader is {primary}"
        )

    def _local_primary_order(self, zxid: Zxid) -> None:
        """Check LocalPrimaryOrder, the primary's side: it broadcasts in the order of its zxids."""
        epoch = epoch_of(zxid)
        newest = self._newest.get(epoch)
        expected = 1 if newest is None else counter_of(newest) + 1
        assert counter_of(zxid) == expected, (
            f"LocalPrimaryOrder: {format_zxid(zxid)} is broadcast, {expected} is next"
        )
        self._newest[epoch] = zxid

    def deliver(self, server: ServerId, entries: list[Entry]) -> list[Entry]:
        """Check that a server delivers `entries`, in order. Return those that are new to all."""
        if not entries:
            return []
        order, first = self.order, entries[0][0]
        place = bisect_right(order, first) - 1
        if place < 0 or order[place] != first:
            place += 1  # the whole transaction is new
        known = len(order) - place
        for (zxid, txn), expected in zip(entries, order[place:], strict=False):
            self._total_order(server, zxid, expected)
            self._agreement(server, zxid, txn)
        fresh = entries[known:]
        for zxid, txn in fresh:
            self._integrity(server, zxid, txn)
            self._global_primary_order(zxid)
            self._primary_integrity(zxid)
            self.order.append(zxid)
            self.committed[zxid] = txn
        return fresh

    def between(self, after: Zxid, upto: Zxid) -> list[Entry]:
        """Return the transactions that all servers deliver after `after`, up to `upto`."""
        zxids = self.order[bisect_right(self.order, after) : bisect_right(self.order, upto)]
        return [(zxid, self.committed[zxid]) for zxid in zxids]

    def no_gap(self, server: ServerId, before: Zxid, first: Zxid) -> None:
        """Check PrefixConsistency: a server delivers next what comes after `before` for all."""
        place = bisect_right(self.order, before)
        expected = self.order[place] if place < len(self.order) else first
        assert first == expected, (
            f"PrefixConsistency: {server} delivers {format_zxid(first)} after "
            f"{format_zxid(before)}, "
            f"next is {format_zxid(expected)}"
        )

    def known(self, server: ServerId, zxid: Zxid) -> None:
        """Check Integrity: a zxid that a server says it has delivered is that of a transaction."""
        assert not zxid or zxid in self.committed, (
            f"Integrity: {server} has delivered {format_zxid(zxid)}"
        )

    def _total_order(self, server: ServerId, zxid: Zxid, expected: Zxid) -> None:
        """Check TotalOrder: two servers deliver their common transactions in the same order."""
        assert zxid == expected, (
            f"TotalOrder: {server} delivers {format_zxid(zxid)} in the place of "
            f"{format_zxid(expected)}"
        )

    def _agreement(self, server: ServerId, zxid: Zxid, txn: bytes) -> None:
        """Check Agreement: a transaction that one server delivers is delivered by all."""
        assert self.committed[zxid] == txn, (
            f"Agreement: {server} delivers another transaction as {format_zxid(zxid)}"
        )

    def _integrity(self, server: ServerId, zxid: Zxid, txn: bytes) -> None:
        """Check Integrity: a delivered transaction was broadcast."""
        assert self._broadcast.get(zxid) == txn, (
            f"Integrity: {server} delivers {format_zxid(zxid)}, which was never broadcast"
        )

    def _global_primary_order(self, zxid: Zxid) -> None:
        """Check GlobalPrimaryOrder: nothing of an earlier primary follows something of a later one.

        LocalPrimaryOrder: the transactions of one primary come in its order, without gaps.
        """
        last = self.last
        assert epoch_of(zxid) >= epoch_of(last), (
            f"GlobalPrimaryOrder: {format_zxid(zxid)} after {format_zxid(last)}"
        )
        expected = counter_of(last) + 1 if epoch_of(zxid) == epoch_of(last) else 1
        assert counter_of(zxid) == expected, (
            f"LocalPrimaryOrder: {format_zxid(zxid)} after {format_zxid(last)}"
        )

    def _primary_integrity(self, zxid: Zxid) -> None:
        """Check PrimaryIntegrity, second half: no later primary began without the transaction."""
        for epoch, initial in self._initial.items():
            assert epoch <= epoch_of(zxid) or zxid <= initial, (
                f"PrimaryIntegrity: epoch {epoch} began at {format_zxid(initial)}, "
                f"without {format_zxid(zxid)}"
            )

    def digests_are_equal(self, server: ServerId, zxid: Zxid, digest: int) -> None:
        """Check that replicas at the same zxid are identical."""
        known = self._digests.setdefault(zxid, digest)
        assert known == digest, f"Digests: {server} differs at {format_zxid(zxid)}"


class Promises:
    """The epochs that each disk holds. A replaced disk counts as another one, without promises."""

    def __init__(self) -> None:
        self._epochs: dict[tuple[ServerId, DiskId], tuple[Epoch, Epoch]] = {}

    def epochs_only_grow(
        self, server: ServerId, disk: DiskId, accepted: Epoch, current: Epoch
    ) -> None:
        """Check that both epochs of a disk only grow, the current one up to the accepted one.

        The epochs in a server's memory were on its disk before.
        """
        before = self._epochs.get((server, disk), (Epoch(0), Epoch(0)))
        assert before[0] <= accepted and before[1] <= current <= accepted, (
            f"EpochsGrow: {server} goes from {before} to {(accepted, current)}"
        )
        self._epochs[server, disk] = accepted, current


def memory_follows_the_disk(memory: tuple[Epoch, Epoch], disk: tuple[Epoch, Epoch]) -> None:
    """Check that a server uses no epoch that its disk does not hold."""
    assert memory <= disk, f"EpochsSaved: {memory} in memory, {disk} on disk"


def cursors_go_on(server: ServerId, before: Zxid, upto: Zxid, entries: list[Entry]) -> None:
    """Check that a server delivers forward, from its log."""
    assert before < upto and entries and entries[-1][0] == upto, (
        f"Cursors: {server} goes from {format_zxid(before)} to {format_zxid(upto)} "
        f"by {entries[-1:]}"
    )


def differences_are_found(server: ServerId, is_flipped: bool) -> None:
    """Check that in the end no server continues with a tree that no transactions made."""
    assert not is_flipped, f"Digests: nobody saw that the tree of {server} differs"
