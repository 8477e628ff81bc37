"""Containers and TTL znodes: the leader deletes them when they are due, and not before.

A container is due once it has had a child and has had none for the grace of the leader. A TTL
znode is due when its time has passed since its value was set, and it has no children; if it had
any, when the grace or its TTL has passed, too, since the last one was deleted. Within one leader's
epoch that is true time, up to the drift of clocks; for a value's time before the epoch the times of
transactions count. A grace begins with the epoch at the earliest. In a quiet world these znodes end
on time.
"""

from collections.abc import Iterator
from typing import Final

from raykeeper.zab.ids import ZERO, Epoch, Millis, Zxid, epoch_of, format_zxid
from raykeeper.znodes.txns import CloseSessionTxn, CreateTxn, DeleteTxn, SetDataTxn, TxnBody
from tests.simulation.checks.full_timeouts import FASTEST, ROUNDING_MS
from tests.simulation.checks.multi_execution import changes_of
from tests.simulation.checks.truth import TrueZnode, Truth, parent

CONTAINER = -1
"""As a time to live."""
LATE_MS: Final = 1_000
"""How late a znode may end, when nothing is in its way but the slowest disks and links."""


class ExpiringZnodes:
    """The true time since which each expiring znode has its value."""

    def __init__(self, truth: Truth) -> None:
        self._truth = truth
        self.calm_since: int | None = None
        """From when on nothing is in the way of those that are due."""
        self._set_at: dict[str, int] = {}
        self._left_at: dict[str, int] = {}  # when the last child of each was deleted
        self._established: dict[Epoch, int] = {}
        self._graces: dict[Epoch, int] = {}
        self._epoch = epoch_of(ZERO)
        self._before_ms = Millis(0)  # the time of the last transaction before this epoch

    def established(self, epoch: Epoch, now: int, grace_ms: int) -> None:
        """Record that a leader leads, and its grace; may be called repeatedly."""
        self._established.setdefault(epoch, now)
        self._graces.setdefault(epoch, grace_ms)

    def begins(self, zxid: Zxid) -> None:
        """Record that a transaction is about to be applied to the truth."""
        if epoch_of(zxid) != self._epoch:
            self._epoch = epoch_of(zxid)
            self._before_ms = self._truth.time_ms

    def applied(self, change: TxnBody, now: int) -> None:
        """Record that a transaction was applied to the truth."""
        for each in changes_of(change):
            if isinstance(each, DeleteTxn):
                self._left_at[parent(each.path)] = now
            elif isinstance(each, CloseSessionTxn):
                self._left_at.update((parent(path), now) for path in each.ephemerals)
            elif isinstance(each, CreateTxn | SetDataTxn):
                znode = self._truth.znodes.get(each.path)
                if znode is not None and znode.ttl_ms:
                    self._set_at[each.path] = now

    def only_what_is_due_ends(self, zxid: Zxid, change: DeleteTxn, now: int) -> None:
        """Check a deletion by the leader that no client requested: the znode must be due."""
        path, znode = change.path, self._truth.znodes.get(change.path)
        text = f"Endings: {path} is ended in {format_zxid(zxid)}"
        assert znode is not None, f"{text}, and is not there"
        assert znode.ttl_ms, f"{text}, and lives for ever"
        assert not znode.children, f"{text}, and has children"
        epoch = epoch_of(zxid)
        grace_end = self._grace_ends(text, path, znode, epoch, now)
        if znode.ttl_ms == CONTAINER:
            assert znode.creates, f"{text}, and never had a child"
            self._on_time(text, path, epoch, grace_end, now)
            return
        if epoch_of(znode.mzxid) == epoch:
            passed_ms = now - self._set_at[path]
        else:
            passed_ms = self._before_ms - znode.mtime + now - self._established[epoch]
        assert passed_ms + ROUNDING_MS >= znode.ttl_ms * FASTEST, (
            f"{text}, {passed_ms} of {znode.ttl_ms} ms after it was set"
        )
        ttl_end = now - passed_ms + int(znode.ttl_ms / FASTEST)
        self._on_time(text, path, epoch, max(ttl_end, grace_end), now)

    def _grace_ends(self, text: str, path: str, znode: TrueZnode, epoch: Epoch, now: int) -> int:
        """Check that the grace of a znode is over, and return when it was at the latest."""
        grace_ms = self._graces.get(epoch, 0)
        if znode.ttl_ms != CONTAINER:
            grace_ms = min(grace_ms, znode.ttl_ms)
        if not znode.creates or not grace_ms:
            return 0
        since = max(self._left_at[path], self._established[epoch])
        assert now - since + ROUNDING_MS >= grace_ms * FASTEST, (
            f"{text}, {now - since} of {grace_ms} ms after its last child"
        )
        return since + int(grace_ms / FASTEST)

    def _on_time(self, text: str, path: str, epoch: Epoch, due: int, now: int) -> None:
        if self.calm_since is not None:
            left_at = self._left_at.get(path, 0)
            due = max(due, self.calm_since, self._established[epoch], left_at)
            assert now <= due + LATE_MS, f"{text}, {now - due} ms too late"

    def are_all_gone(self) -> bool:
        """Return whether no znode is left that must end some day."""
        return not any(_must_end(znode) for znode in self._expiring_paths())

    def _expiring_paths(self) -> Iterator[TrueZnode]:
        for path in self._set_at:
            if (znode := self._truth.znodes.get(path)) is not None and znode.ttl_ms:
                yield znode


def _must_end(znode: TrueZnode) -> bool:
    if znode.children:
        return False
    return znode.ttl_ms != CONTAINER or znode.creates > 0
