"""A learner in broadcast: log every proposal, deliver every commit, in zxid order.

Paper: Zab (Junqueira, Reed, Serafini, DSN 2011), phase 3, the follower's side.
Spec:  Zab.tla, FollowerProcessPROPOSE and FollowerProcessCOMMIT; acks and commits are cumulative.
"""

from typing import assert_never

from raykeeper.zab import trace_events
from raykeeper.zab.effects import Activated, Outbox, Role, Send, TraceEvent
from raykeeper.zab.errors import PeerProtocolError
from raykeeper.zab.history import History
from raykeeper.zab.ids import Millis, ServerId, Zxid, epoch_of, format_zxid
from raykeeper.zab.messages import Ack, Commit, LogPaused, Ping, Pong, Proposals
from raykeeper.zab.settings import Settings
from raykeeper.zab.transitions import StepDown, Transition

FollowerBroadcastMessage = Proposals | Commit | Ping


class FollowerBroadcast:
    """A learner from UPTODATE on; an observer when it has no vote.

    `acked` never passes what is synced: an ack promises no more than our disk holds. Delivery may
    pass it: then a quorum holds the transaction and only our own disk is late.
    """

    def __init__(
        self,
        settings: Settings,
        history: History,
        leader: ServerId,
        position: Zxid,
        out: Outbox,
        now: Millis,
    ) -> None:
        """Begin from `position`, which the ack of NEWLEADER covered."""
        self.transition: Transition | None = None
        self.leader = leader
        self.last_received_at = now
        self._settings = settings
        self._history = history
        self._acked = position
        self._out = out
        out.append(
            TraceEvent(trace_events.LEARNER_ACTIVATED, (leader, format_zxid(history.delivered)))
        )
        role = Role.FOLLOWER if settings.has_vote else Role.OBSERVER
        out.append(Activated(role, leader, history.current))
        self.log_synced()
        if not history.has_disk_space:
            self.pause()

    def pause(self) -> None:
        """Follow and serve on, but log no more: the disk is full (rule D6)."""
        if self._history.is_paused:
            return
        self._history.pause()
        self._out.append(TraceEvent(trace_events.LOG_PAUSED, format_zxid(self._history.logged)))
        self._out.append(Send(self.leader, LogPaused()))

    def receive(self, message: FollowerBroadcastMessage, now: Millis) -> None:
        """Handle one message of the leader. The link is FIFO, so a gap is the leader's fault.

        Raises:
            PeerProtocolError: a zxid was skipped, or a commit covers what we were never sent;
                nothing has changed.
        """
        match message:
            case Proposals():
                self._on_proposals(message)
            case Commit():
                self._on_commit(message)
            case Ping():
                self._out.append(Send(self.leader, Pong(message.number)))
            case _:
                assert_never(message)
        self.last_received_at = now

    def log_synced(self) -> None:
        """Acknowledge what the disk has; one ack covers all of it."""
        synced = self._history.synced
        if synced > self._acked:
            self._acked = synced
            self._out.append(Send(self.leader, Ack(synced)))

    def wake(self, now: Millis) -> None:
        """Step down if the deadline has passed."""
        if now >= self.deadline():
            self.transition = StepDown("the leader is silent")

    def deadline(self) -> Millis:
        """Return when to call `wake`."""
        return Millis(self.last_received_at + self._settings.timing.sync_ms)

    def _on_proposals(self, batch: Proposals) -> None:
        history = self._history
        first, fresh = history.skip_logged(batch.first, batch.txns)
        if not fresh:
            self._out.append(TraceEvent(trace_events.PROPOSAL_DUPLICATE, batch.first))
            return
        if epoch_of(first) != history.current:
            raise PeerProtocolError(f"proposal {format_zxid(first)} in epoch {history.current}")
        history.append(first, fresh)

    def _on_commit(self, commit: Commit) -> None:
        history = self._history
        if commit.upto <= history.delivered:
            self._out.append(TraceEvent(trace_events.COMMIT_DUPLICATE, commit.upto))
            return
        if not history.recent_log.has(commit.upto):
            raise PeerProtocolError(
                f"commit {format_zxid(commit.upto)}, but logged up to {format_zxid(history.logged)}"
            )
        history.deliver(commit.upto)
