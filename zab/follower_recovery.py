"""A learner until it may serve: promise the epoch, take over the leader's history.

Paper: Zab, phases 1 and 2, the follower's side.
Spec:  Zab.tla, FollowerProcessNEWEPOCH, FollowerProcessNEWLEADER, FollowerProcessCOMMITLD.
ZooKeeper: `Learner.registerWithLeader`, `Learner.syncWithLeader`.

The order on disk, fixed by ZOOKEEPER-4643, -4646 and -4785: accepted epoch, then ACKEPOCH; the
whole log or snapshot, then the current epoch, then the ack of NEWLEADER. A received snapshot
stays apart until NEWLEADER and replaces everything at once (rule Z7).
"""

from collections.abc import Callable
from typing import Any

from raykeeper.zab import trace_events
from raykeeper.zab.effects import (
    CheckSnapshot,
    DiscardSnapshot,
    LogRun,
    Outbox,
    ReceiveChunk,
    ReceiveSnapshot,
    Send,
    TraceEvent,
)
from raykeeper.zab.errors import PeerProtocolError
from raykeeper.zab.feature_levels import level_problem
from raykeeper.zab.history import History
from raykeeper.zab.ids import Millis, ServerId, Zxid, epoch_of, format_zxid
from raykeeper.zab.messages import (
    AckEpoch,
    AckNewLeader,
    Diff,
    FollowerInfo,
    LeaderInfo,
    LeaderMessage,
    NewLeader,
    Proposals,
    Snapshot,
    SnapshotChunk,
    SnapshotCredit,
    SnapshotEnd,
    Trunc,
    UpToDate,
)
from raykeeper.zab.phases import FollowerPhase
from raykeeper.zab.recent_log import follows, within_epoch
from raykeeper.zab.settings import Settings
from raykeeper.zab.transitions import StepDown, Synchronized, Transition


class _Incoming:
    """An incoming snapshot and the transactions that came after it."""

    __slots__ = ("consistent_at", "last", "tail", "zxid")

    def __init__(self, zxid: Zxid) -> None:
        self.zxid = zxid
        self.last = zxid
        self.consistent_at: Zxid | None = None  # once complete
        self.tail: list[LogRun] = []


class FollowerRecovery:
    """A learner in discovery and synchronization; it serves no client yet."""

    def __init__(
        self,
        settings: Settings,
        history: History,
        leader: ServerId,
        follow_attempt: int,
        out: Outbox,
        now: Millis,
    ) -> None:
        assert history.is_disk_idle
        self.transition: Transition | None = None
        self.leader = leader
        self.phase = FollowerPhase.DISCOVERY
        self.last_received_at = now
        self._settings = settings
        self._history = history
        self._follow_attempt = follow_attempt
        self._out = out
        self._incoming: _Incoming | None = None
        self._new_leader: NewLeader | None = None
        self._handlers: dict[type, Callable[[Any], None]] = {
            LeaderInfo: self._on_leader_info,
            Diff: self._on_diff,
            Trunc: self._on_trunc,
            Snapshot: self._on_snapshot,
            SnapshotChunk: self._on_snapshot_chunk,
            SnapshotEnd: self._on_snapshot_end,
            Proposals: self._on_proposals,
            NewLeader: self._on_new_leader,
            UpToDate: self._on_up_to_date,
        }
        self.send_follower_info()

    def send_follower_info(self) -> None:
        """Send FOLLOWERINFO, once more when the leader says that it leads now."""
        if self.phase is FollowerPhase.DISCOVERY:
            settings = self._settings
            info = FollowerInfo(
                *(self._history.accepted, self._follow_attempt),
                *(settings.disk, settings.levels.newest),
            )
            self._out.append(Send(self.leader, info))

    def receive(self, message: LeaderMessage, now: Millis) -> None:
        """Handle a message of the leader that `phases` allows in this phase.

        Raises:
            PeerProtocolError: the message contradicts our log or the phase; nothing has changed.
        """
        self._handlers[type(message)](message)
        self.last_received_at = now

    def epochs_saved(self) -> None:
        """Acknowledge the promise that is on disk now."""
        history = self._history
        if self.phase is FollowerPhase.PROMISING:
            self.phase = FollowerPhase.PROMISED
            self._send_ack_epoch(promised=True)
        elif self.phase is FollowerPhase.CONFIRMING:
            assert self._new_leader is not None
            # ZOOKEEPER-4643: the epoch was saved first. Killed in between, the server won the next
            # election by its epoch, with the shorter log, and cut what was committed.
            assert history.synced >= self._new_leader.last, "the log comes before the epoch"
            self.phase = FollowerPhase.CONFIRMED
            self._out.append(Send(self.leader, AckNewLeader(history.current)))

    def log_changed(self) -> None:
        """Acknowledge NEWLEADER if the log or snapshot on disk allows it now."""
        self._confirm()

    def discard_snapshot(self) -> None:
        """Drop a half-received snapshot at the end of the role: the next role cannot use it."""
        if self._incoming is not None:
            self._out.append(DiscardSnapshot())
            self._out.append(
                TraceEvent(trace_events.SNAPSHOT_DISCARDED, format_zxid(self._incoming.zxid))
            )

    def wake(self, now: Millis) -> None:
        """Step down if the deadline has passed."""
        if now >= self.deadline():
            self.transition = StepDown("the leader did not synchronize us in time")

    def deadline(self) -> Millis:
        """Return when to call `wake`."""
        return Millis(self.last_received_at + self._settings.timing.init_ms)

    def _on_leader_info(self, message: LeaderInfo) -> None:
        history = self._history
        if problem := level_problem(message.level, self._settings.levels.newest):
            # Its log could not be read here. A leader that knows of levels would have refused us.
            self.transition = StepDown(f"the log of the leader requires {problem}")
        elif message.epoch < history.accepted:
            self.transition = StepDown("the leader proposes an epoch below our promise")
        elif message.epoch == history.accepted:
            # Promised before. A promise to this very leader counts: it proposes an epoch only once
            # and may have missed our answer. One to another leader, or from before a restart, does
            # not: servers 1 and 3 would both lead this epoch with our help.
            self.phase = FollowerPhase.PROMISED
            self._send_ack_epoch(promised=history.promised_to == self.leader)
        else:
            self.phase = FollowerPhase.PROMISING
            history.promise(message.epoch, self.leader)

    def _send_ack_epoch(self, promised: bool) -> None:
        history = self._history
        ack = AckEpoch(
            history.rank_epoch, history.synced, promised, history.is_uncertain, history.committed
        )
        self._out.append(Send(self.leader, ack))

    def _on_diff(self, _message: Diff) -> None:
        self.phase = FollowerPhase.SYNCHRONIZING

    def _on_trunc(self, message: Trunc) -> None:
        self._history.truncate(message.upto)
        self.phase = FollowerPhase.SYNCHRONIZING

    def _on_snapshot(self, message: Snapshot) -> None:
        self._check_epoch_of(message.zxid)
        self._incoming = _Incoming(message.zxid)
        self._out.append(ReceiveSnapshot(message.zxid))
        self.phase = FollowerPhase.RECEIVING

    def _on_snapshot_chunk(self, message: SnapshotChunk) -> None:
        if not message.data:
            raise PeerProtocolError("an empty chunk of a snapshot")
        self._out.append(ReceiveChunk(message.data))
        self._out.append(Send(self.leader, SnapshotCredit()))

    def _on_snapshot_end(self, message: SnapshotEnd) -> None:
        assert self._incoming is not None
        if message.consistent_at < self._incoming.zxid:
            raise PeerProtocolError("a snapshot ends before it begins")
        self._incoming.consistent_at = message.consistent_at
        self._out.append(CheckSnapshot(self._incoming.zxid, message.consistent_at))
        self.phase = FollowerPhase.SYNCHRONIZING

    def _on_proposals(self, message: Proposals) -> None:
        self._check_epoch_of(message.first)
        self._history.learn_committed(message.committed)
        if self._incoming is None:
            first, fresh = self._history.skip_logged(message.first, message.txns)
            if fresh:
                self._history.append(first, fresh)
            else:
                self._out.append(TraceEvent(trace_events.PROPOSAL_DUPLICATE, message.first))
            return
        is_run = message.txns and within_epoch(message.first, len(message.txns))
        if not is_run or not follows(message.first, self._incoming.last):
            raise PeerProtocolError(
                f"proposal {format_zxid(message.first)} after {format_zxid(self._incoming.last)}"
            )
        self._incoming.tail.append(LogRun(message.first, message.txns))
        self._incoming.last = Zxid(message.first + len(message.txns) - 1)

    def _check_epoch_of(self, zxid: Zxid) -> None:
        # Only a later leader, whom we have promised nothing, can have proposed it.
        if epoch_of(zxid) > self._history.accepted:
            raise PeerProtocolError(
                f"{format_zxid(zxid)} above the promised epoch {self._history.accepted}"
            )

    def _on_new_leader(self, message: NewLeader) -> None:
        incoming = self._incoming
        last = self._history.logged if incoming is None else incoming.last
        if message.epoch != self._history.accepted or message.last != last:
            raise PeerProtocolError(
                f"NEWLEADER {message.epoch} at {format_zxid(message.last)}, "
                f"but promised {self._history.accepted} and logged {format_zxid(last)}"
            )
        if incoming is not None:
            if incoming.consistent_at is None or incoming.consistent_at > incoming.last:
                raise PeerProtocolError("NEWLEADER before the snapshot is consistent")
            self._history.install(incoming.zxid, incoming.consistent_at, incoming.tail)
            self._incoming = None
        self._new_leader = message
        self.phase = FollowerPhase.LOGGING
        self._confirm()

    def _confirm(self) -> None:
        """Save the epoch once the log is on disk up to NEWLEADER."""
        if self.phase is not FollowerPhase.LOGGING:
            return
        history = self._history
        assert self._new_leader is not None
        if not history.is_synced_to(self._new_leader.last):
            return
        self.phase = FollowerPhase.CONFIRMING
        history.save_epochs(history.accepted, self._new_leader.epoch)

    def _on_up_to_date(self, message: UpToDate) -> None:
        history = self._history
        if message.commit > history.delivered and not history.recent_log.has(message.commit):
            raise PeerProtocolError(
                f"UPTODATE {format_zxid(message.commit)}, "
                f"but logged up to {format_zxid(history.logged)}"
            )
        if message.commit < history.max_delivered:
            # Every leader has all that was ever committed. From this one our clients would see
            # less than before: the snapshot replaced what they have read.
            raise PeerProtocolError(
                f"UPTODATE {format_zxid(message.commit)} after {format_zxid(history.max_delivered)}"
            )
        assert self._new_leader is not None
        history.deliver(message.commit)
        self.transition = Synchronized(self.leader, self._new_leader.last)
