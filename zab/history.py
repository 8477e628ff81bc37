"""The promises and the log of a server: all its state that outlives a role.

Paper: Zab, section IV: f.p (accepted epoch), f.a (current epoch), h_f (history).
ZooKeeper: acceptedEpoch, currentEpoch, the transaction log, committedLog, lastProcessedZxid.

Invariants: `accepted` and `current` only grow, `current <= accepted`;
delivered <= logged, synced <= logged; nothing delivered is ever cut.
"""

from raykeeper.zab.effects import (
    AdoptSnapshot,
    Append,
    Deliver,
    InstallSnapshot,
    LogRun,
    Outbox,
    SaveEpochs,
    Truncate,
)
from raykeeper.zab.errors import PeerProtocolError
from raykeeper.zab.ids import ZERO, Epoch, ServerId, Zxid, epoch_of, format_zxid
from raykeeper.zab.recent_log import RecentLog, follows, within_epoch
from raykeeper.zab.settings import RecentLogLimits


class History:
    """Epochs, recent log and cursors of one server, and the work under way on its disk."""

    def __init__(
        self,
        accepted: Epoch,
        current: Epoch,
        recent_log: RecentLog,
        delivered: Zxid,
        out: Outbox,
        limits: RecentLogLimits,
        *,
        is_uncertain: bool = False,
        has_initial_history: bool = False,
        has_disk_space: bool = True,
    ) -> None:
        """Take the state recovered from the disk: `recent_log` and both epochs, all of it synced.

        `is_uncertain`: what was acknowledged last in the current epoch may be lost (rule D4).
        `has_initial_history`: the log surely has all of the initial history of the current epoch.
        `has_disk_space`: whether the disk has room for more than was accepted (rule D6).
        """
        assert current <= accepted, (current, accepted)
        assert recent_log.base <= delivered <= recent_log.last, (
            recent_log.base,
            delivered,
            recent_log.last,
        )
        self.accepted = accepted
        self.current = current
        self.recent_log = recent_log
        self.synced = recent_log.last
        self.delivered = delivered
        self.max_delivered = (
            delivered  # what clients may have seen before a snapshot took its place
        )
        self.is_uncertain = is_uncertain
        self.has_initial_history = has_initial_history
        self.has_disk_space = has_disk_space
        self.is_paused = False
        self.promised_to: ServerId | None = None  # whose epoch `accepted` is; unknown on start
        self._out = out
        self._limits = limits
        self._saving: tuple[Epoch, Epoch] | None = None
        self._truncating = False
        self._installing: InstallSnapshot | None = None
        self._known_committed = (
            ZERO  # what a leader said to be committed, though it may not be here yet
        )
        self._pins: dict[ServerId, Zxid] = {}

    @property
    def logged(self) -> Zxid:
        """The end of the log, on disk or on its way there."""
        return self.recent_log.last

    @property
    def is_disk_idle(self) -> bool:
        """Whether nothing is under way on the disk (rule Z2 waits for this)."""
        return (
            self.synced == self.recent_log.last
            and self._saving is None
            and not self._truncating
            and self._installing is None
        )

    @property
    def rank_epoch(self) -> Epoch:
        """The epoch whose history this is, to compare it with others.

        An uncertain log that may lack what came with the current epoch is as good as its last
        transaction says and no better: a newer one of an earlier epoch may have been committed by
        that epoch's initial history (rule D4).
        """
        is_whole = self.has_initial_history or not self.is_uncertain
        return self.current if is_whole else epoch_of(self.synced)

    def is_synced_to(self, zxid: Zxid) -> bool:
        """Return whether the log, cuts and snapshots included, is on disk up to `zxid`."""
        return self.synced >= zxid and not self._truncating and self._installing is None

    @property
    def committed(self) -> Zxid:
        """The known end of the committed part of the log; it may not be delivered yet."""
        known = min(self._known_committed, self.recent_log.last)
        return known if known > self.delivered and self.recent_log.has(known) else self.delivered

    def learn_committed(self, upto: Zxid) -> None:
        """Note that a leader whose history includes ours has delivered everything up to `upto`."""
        self._known_committed = max(self._known_committed, upto)

    def append(self, first: Zxid, txns: list[bytes]) -> None:
        """Log a run after the end of the log; while paused, keep it in memory only."""
        self.recent_log.extend(first, txns)
        if self.is_paused:
            return
        self._out.append(Append(first, txns, self.committed))

    def pause(self) -> None:
        """Keep new transactions in memory only, until the process restarts: the disk is full.

        Other servers commit what is delivered from there on. `synced` stays where it is, so this
        server promises nothing more. Its disk is never idle again, so it takes up no other role.
        """
        self.is_paused = True

    def skip_logged(self, first: Zxid, txns: list[bytes]) -> tuple[Zxid, list[bytes]]:
        """Return the part of a run that is not logged yet; an empty list when all of it is.

        A leader may send a transaction twice while it synchronizes a learner, as part of the
        DIFF and as an outstanding proposal (ZooKeeper's protocol-spec, issue 2).

        Raises:
            PeerProtocolError: a zxid was skipped, or the run leaves its epoch; nothing has changed.
        """
        if not within_epoch(first, len(txns)):
            raise PeerProtocolError(
                f"{len(txns)} proposals from {format_zxid(first)} leave the epoch"
            )
        last = self.recent_log.last
        if follows(first, last):
            return first, txns
        if first > last:
            raise PeerProtocolError(f"proposal {format_zxid(first)} after {format_zxid(last)}")
        known = last + 1 - first
        return Zxid(last + 1), txns[known:] if known < len(txns) else []

    def log_synced(self, upto: Zxid) -> None:
        """Handle the completion of Append."""
        assert self.synced <= upto <= self.recent_log.last, (
            self.synced,
            upto,
            self.recent_log.last,
        )
        self.synced = upto

    def promise(self, epoch: Epoch, leader: ServerId) -> None:
        """Accept the epoch that `leader` proposes, and no other leader's of this number."""
        assert epoch > self.accepted, (epoch, self.accepted)
        self.promised_to = leader
        self.save_epochs(epoch, self.current)

    def save_epochs(self, accepted: Epoch, current: Epoch) -> None:
        """Save both epochs; they count from `epochs_saved` on."""
        assert self._saving is None, self._saving
        assert accepted >= self.accepted and current >= self.current, (accepted, current)
        assert current <= accepted, (current, accepted)
        self._saving = (accepted, current)
        self._out.append(SaveEpochs(accepted, current))

    def epochs_saved(self, accepted: Epoch, current: Epoch) -> None:
        """Handle the completion of SaveEpochs: file first, memory second (ZOOKEEPER-2307)."""
        assert self._saving == (accepted, current), (self._saving, accepted, current)
        self._saving = None
        if current == accepted:
            # The leader of that epoch has sent all that was ever acknowledged, anew if need be.
            self.is_uncertain = False
        self.accepted = accepted
        self.current = current

    def truncate(self, upto: Zxid) -> None:
        """Cut the log after `upto`.

        Raises:
            PeerProtocolError: the log has no such position, or it would cut what was delivered;
                nothing has changed.
        """
        if not self.recent_log.has(upto) or upto < self.delivered:
            raise PeerProtocolError(
                f"cannot cut the log {format_zxid(self.recent_log.base)}.."
                f"{format_zxid(self.recent_log.last)}, "
                f"delivered to {format_zxid(self.delivered)}, at {format_zxid(upto)}"
            )
        assert self.synced == self.recent_log.last, "a log is cut only when it is settled"
        self.recent_log.truncate(upto)
        self.synced = upto
        self._truncating = True
        self._out.append(Truncate(upto))

    def truncated(self, upto: Zxid) -> None:
        """Handle the completion of Truncate."""
        assert self._truncating, upto
        self._truncating = False

    def install(self, zxid: Zxid, consistent_at: Zxid, tail: list[LogRun]) -> None:
        """Replace the log by a received snapshot and the transactions that came with it."""
        assert self._installing is None
        window = RecentLog(zxid)
        for run in tail:
            window.extend(run.first, run.txns)
        assert consistent_at <= window.last, (consistent_at, window.last)
        known = min(self._known_committed, window.last)
        if known > consistent_at and window.has(known):
            consistent_at = known
        self._installing = InstallSnapshot(zxid, consistent_at, tail)
        self._out.append(self._installing)
        self.recent_log = window
        self.synced = zxid

    def installed(self, zxid: Zxid) -> None:
        """Handle the completion of InstallSnapshot: replace the tree, bring it to a real state."""
        done = self._installing
        assert done is not None and done.zxid == zxid, zxid
        self._installing = None
        tail_end = Zxid(done.tail[-1].first + len(done.tail[-1].txns) - 1) if done.tail else zxid
        self.synced = tail_end
        self.max_delivered = max(self.max_delivered, self.delivered)
        self.delivered = zxid
        self._out.append(AdoptSnapshot(zxid, done.consistent_at))
        # The leader had applied all of this, so it is committed.
        self.deliver(done.consistent_at)

    def deliver(self, upto: Zxid) -> None:
        """Deliver everything up to `upto` that is not delivered yet."""
        assert upto <= self.recent_log.last, (upto, self.recent_log.last)
        if upto <= self.delivered:
            return
        for run in self.recent_log.between(self.delivered, upto):
            self._out.append(Deliver(run.first, run.txns))
        self.delivered = upto
        self._trim()

    def pin(self, learner: ServerId, zxid: Zxid) -> None:
        """Keep the recent log back to `zxid` until `unpin`: `learner` will need what follows."""
        self._pins[learner] = zxid

    def unpin(self, learner: ServerId) -> None:
        """Undo `pin`; without a pin, do nothing."""
        self._pins.pop(learner, None)

    def _trim(self) -> None:
        # Trim at twice the limit, down to the limit, so that many commits share the cost.
        window, limits = self.recent_log, self._limits
        if window.count <= 2 * limits.txns_max and window.bytes <= 2 * limits.bytes_max:
            return
        surplus = max(
            window.count - limits.txns_max,
            window.count * (window.bytes - limits.bytes_max) // max(window.bytes, 1),
        )
        upto = min([window.position_after(surplus), self.delivered, *self._pins.values()])
        if upto > window.base:
            window.trim(upto)
