"""The properties of Zab, under the names of Zab.tla and of the paper (section III).

One list says what was delivered by anybody, in order; every delivery of every server is compared
with it. What was broadcast is known from the logs: the first to append a transaction is the
primary of its epoch.
"""

from bisect import bisect_right
from collections.abc import Sequence

from raykeeper.zab.ids import ZERO, DiskId, Epoch, ServerId, Zxid, counter_of, epoch_of, format_zxid

Process = tuple[ServerId, int]
"""A server, and which of its processes."""
Entry = tuple[Zxid, bytes]


class Zab:
    """What all servers have broadcast and delivered so far."""

    def __init__(self) -> None:
        self.order: list[Zxid] = []
        self.committed: dict[Zxid, bytes] = {}
        self._broadcast: dict[Zxid, bytes] = {}
        self._newest: dict[Epoch, Zxid] = {}
        self._primaries: dict[Epoch, Process] = {}  # established
        self._leaders: dict[Epoch, Process] = {}  # or about to be, with a quorum of promises
        self._initial: dict[Epoch, Zxid] = {}  # what a primary had delivered when it began
        self._digests: dict[Zxid, int] = {}

    @property
    def last(self) -> Zxid:
        """The newest transaction that anybody has delivered."""
        return self.order[-1] if self.order else ZERO

    @property
    def newest_primary(self) -> Process | None:
        """The leader that was established last."""
        return self._primaries[max(self._primaries)] if self._primaries else None

    def leadership(self, epoch: Epoch, process: Process, delivered: Zxid) -> None:
        """Leadership: an epoch has at most one established leader.

        PrimaryIntegrity, first half: it has delivered all that anybody delivered of earlier epochs.
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
        """Leadership: a quorum promises an epoch to one leader only, which makes it NEWLEADER."""
        known = self._leaders.setdefault(epoch, process)
        assert known == process, f"Leadership: {known} and {process} lead epoch {epoch}"

    def is_news(self, first: Zxid, txns: Sequence[bytes]) -> bool:
        """Whether nobody had the end of a run in its log before."""
        return Zxid(first + len(txns) - 1) not in self._broadcast

    def broadcast(self, process: Process, first: Zxid, txns: Sequence[bytes]) -> None:
        """A server appends a run to its log; what is new in it, it broadcasts."""
        if not self.is_news(first, txns):
            return  # that of another, compared when it is delivered
        for place, txn in enumerate(txns):
            zxid = Zxid(first + place)
            if zxid not in self._broadcast:
                self._primary_broadcasts(process, zxid)
                self._local_primary_order(zxid)
                self._broadcast[zxid] = txn

    def _primary_broadcasts(self, process: Process, zxid: Zxid) -> None:
        """Only the established leader of an epoch broadcasts in it."""
        primary = self._primaries.get(epoch_of(zxid))
        assert primary == process, (
            f"Leadership: {process} broadcasts {format_zxid(zxid)}, the leader is {primary}"
        )

    def _local_primary_order(self, zxid: Zxid) -> None:
        """LocalPrimaryOrder, the primary's side: it broadcasts in the order of its zxids."""
        epoch = epoch_of(zxid)
        newest = self._newest.get(epoch)
        expected = 1 if newest is None else counter_of(newest) + 1
        assert counter_of(zxid) == expected, (
            f"LocalPrimaryOrder: {format_zxid(zxid)} is broadcast, {expected} is next"
        )
        self._newest[epoch] = zxid

    def deliver(self, server: ServerId, entries: list[Entry]) -> list[Entry]:
        """A server has delivered `entries`, in order. Returns those that are new to all."""
        if not entries:
            return []
        order, first = self.order, entries[0][0]
        place = bisect_right(order, first) - 1
        if place < 0 or order[place] != first:
            place += 1  # all of it is new
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
        """What everybody delivers after `after`, up to `upto`."""
        zxids = self.order[bisect_right(self.order, after) : bisect_right(self.order, upto)]
        return [(zxid, self.committed[zxid]) for zxid in zxids]

    def no_gap(self, server: ServerId, before: Zxid, first: Zxid) -> None:
        """PrefixConsistency: a server delivers after `before` what comes next for everybody."""
        place = bisect_right(self.order, before)
        expected = self.order[place] if place < len(self.order) else first
        assert first == expected, (
            f"PrefixConsistency: {server} delivers {format_zxid(first)} after "
            f"{format_zxid(before)}, "
            f"next is {format_zxid(expected)}"
        )

    def known(self, server: ServerId, zxid: Zxid) -> None:
        """Integrity: whatever a server says it has delivered is a transaction of the order."""
        assert not zxid or zxid in self.committed, (
            f"Integrity: {server} has delivered {format_zxid(zxid)}"
        )

    def _total_order(self, server: ServerId, zxid: Zxid, expected: Zxid) -> None:
        """TotalOrder: what two servers deliver they deliver in the same order."""
        assert zxid == expected, (
            f"TotalOrder: {server} delivers {format_zxid(zxid)} in the place of "
            f"{format_zxid(expected)}"
        )

    def _agreement(self, server: ServerId, zxid: Zxid, txn: bytes) -> None:
        """Agreement: what one server delivers all deliver."""
        assert self.committed[zxid] == txn, (
            f"Agreement: {server} delivers another transaction as {format_zxid(zxid)}"
        )

    def _integrity(self, server: ServerId, zxid: Zxid, txn: bytes) -> None:
        """Integrity: what is delivered was broadcast."""
        assert self._broadcast.get(zxid) == txn, (
            f"Integrity: {server} delivers {format_zxid(zxid)}, which was never broadcast"
        )

    def _global_primary_order(self, zxid: Zxid) -> None:
        """GlobalPrimaryOrder: nothing of an earlier primary comes after something of a later one.

        LocalPrimaryOrder: what comes from one primary comes in its order, without gaps.
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
        """PrimaryIntegrity, second half: no later primary began without it."""
        for epoch, initial in self._initial.items():
            assert epoch <= epoch_of(zxid) or zxid <= initial, (
                f"PrimaryIntegrity: epoch {epoch} began at {format_zxid(initial)}, "
                f"without {format_zxid(zxid)}"
            )

    def digests_are_equal(self, server: ServerId, zxid: Zxid, digest: int) -> None:
        """Replicas at the same zxid are identical."""
        known = self._digests.setdefault(zxid, digest)
        assert known == digest, f"Digests: {server} differs at {format_zxid(zxid)}"


class Promises:
    """The epochs that each disk holds. A replaced disk is another one, without promises."""

    def __init__(self) -> None:
        self._epochs: dict[tuple[ServerId, DiskId], tuple[Epoch, Epoch]] = {}

    def epochs_only_grow(
        self, server: ServerId, disk: DiskId, accepted: Epoch, current: Epoch
    ) -> None:
        """Accepted and current epoch of a disk never go back, nor does the second pass the first.

        What a server has in memory was on its disk before.
        """
        before = self._epochs.get((server, disk), (Epoch(0), Epoch(0)))
        assert before[0] <= accepted and before[1] <= current <= accepted, (
            f"EpochsGrow: {server} goes from {before} to {(accepted, current)}"
        )
        self._epochs[server, disk] = accepted, current


def memory_follows_the_disk(memory: tuple[Epoch, Epoch], disk: tuple[Epoch, Epoch]) -> None:
    """A server goes by no epoch that its disk does not hold."""
    assert memory <= disk, f"EpochsSaved: {memory} in memory, {disk} on disk"


def cursors_go_on(server: ServerId, before: Zxid, upto: Zxid, entries: list[Entry]) -> None:
    """A server delivers forward, and what is in its log."""
    assert before < upto and entries and entries[-1][0] == upto, (
        f"Cursors: {server} goes from {format_zxid(before)} to {format_zxid(upto)} "
        f"by {entries[-1:]}"
    )


def differences_are_found(server: ServerId, is_flipped: bool) -> None:
    """In the end no server goes on with a tree that no transactions made."""
    assert not is_flipped, f"Digests: nobody saw that the tree of {server} differs"
