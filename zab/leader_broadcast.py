"""An established leader: propose transactions, commit what a quorum has on disk.

Paper: Zab, phase 3, the leader's side; ZooKeeper paper, section 4.4 for `sync`.
Spec:  Zab.tla, LeaderBroadcastPROPOSE, LeaderProcessACK.
ZooKeeper: `Leader.propose`, `Leader.processAck`, `Leader.tryToCommit`.

Invariant: delivered <= the newest zxid that a quorum of voters has on disk. This server counts
itself by its own synced cursor only (rule Z3).
"""

from collections import deque
from collections.abc import Callable
from typing import assert_never

from raykeeper.zab import trace_events
from raykeeper.zab.effects import (
    Activated,
    BreakLink,
    HandOverBegun,
    Outbox,
    ReadIndex,
    Role,
    Send,
    TraceEvent,
    TransferAbandoned,
)
from raykeeper.zab.errors import PeerProtocolError
from raykeeper.zab.history import History
from raykeeper.zab.ids import (
    COUNTER_MAX,
    Epoch,
    Millis,
    ServerId,
    Zxid,
    counter_of,
    epoch_of,
    format_zxid,
    make_zxid,
)
from raykeeper.zab.leadership_transfer import (
    Transfer,
    choose_successor,
    lag_of,
    obstacle_to_succession,
)
from raykeeper.zab.learners import Learner, Learners, Stage
from raykeeper.zab.members import Seat
from raykeeper.zab.messages import (
    Ack,
    AckEpoch,
    AckNewLeader,
    Commit,
    FollowerInfo,
    LogPaused,
    Ping,
    Pong,
    Proposals,
    SnapshotCredit,
    UpToDate,
)
from raykeeper.zab.settings import Settings
from raykeeper.zab.transitions import StepDown, Transition

LeaderBroadcastMessage = (
    Ack | Pong | FollowerInfo | AckEpoch | AckNewLeader | SnapshotCredit | LogPaused
)


class LeaderBroadcast:
    """The established leader of `epoch`, until it loses its quorum or exhausts its counter."""

    def __init__(
        self,
        settings: Settings,
        history: History,
        learners: Learners,
        out: Outbox,
        now: Millis,
    ) -> None:
        # Server 3 establishes itself, with server 1, by a log that is not on its disk yet. Power
        # fails, 2 and 3 elect a leader, and what 3 just delivered is gone (rule Z2).
        assert history.current == history.accepted == learners.epoch
        assert history.is_disk_idle
        self.transition: Transition | None = None
        self.epoch: Epoch = learners.epoch
        self.learners = learners
        self._settings = settings
        self._history = history
        self._out = out
        self._established_at = now
        self._ping_number = 0
        self._ping_at = Millis(now + settings.timing.ping_ms)
        self._probes: deque[tuple[int, int, Zxid]] = deque()  # (ping number needed, token, zxid)
        self._transfer: Transfer | None = None
        # The initial history is committed as a whole: a quorum acknowledged NEWLEADER.
        history.deliver(history.logged)
        out.append(
            TraceEvent(trace_events.LEADER_ESTABLISHED, (self.epoch, format_zxid(history.logged)))
        )
        out.append(Activated(Role.LEADER, settings.server_id, self.epoch))
        for learner in learners:
            if learner.stage is Stage.FOLLOWING:
                learner.acked_at = now
                self._send_up_to_date(learner)

    @property
    def counter_left(self) -> int:
        """How many more transactions this epoch can hold (rule Z6)."""
        last = self._history.logged
        return COUNTER_MAX - (counter_of(last) if epoch_of(last) == self.epoch else 0)

    @property
    def read_indexes_pending(self) -> int:
        """How many read indexes wait for a quorum's confirmation."""
        return len(self._probes)

    def next_zxid(self) -> Zxid:
        """Return the zxid that the next proposed transaction gets."""
        last = self._history.logged
        return Zxid(last + 1) if epoch_of(last) == self.epoch else make_zxid(self.epoch, 1)

    def propose(self, txns: list[bytes], now: Millis) -> None:
        """Log a run of transactions and send it to every synchronized learner.

        At most `counter_left` of them; the caller sees to it.
        """
        assert 0 < len(txns) <= self.counter_left, (len(txns), self.counter_left)
        first = self.next_zxid()
        self._history.append(first, txns)
        last = self._history.logged
        message = Proposals(first, txns, self._history.delivered)
        for learner in self.learners:
            if learner.stage >= Stage.SYNCING:
                if learner.acked == learner.sent:
                    learner.acked_at = now  # its time to ack starts with the first open proposal
                learner.sent = last
                self._out.append(Send(learner.server_id, message))

    @property
    def is_handing_over(self) -> bool:
        """Whether nothing more may be prepared, because a nominee is to have everything."""
        return self._transfer is not None and self._transfer.is_handing_over

    @property
    def is_transferring(self) -> bool:
        """Whether a transfer is under way, be it handing over yet or not."""
        return self._transfer is not None

    def transfer_leadership(
        self, to: ServerId | None, until: Millis, lag_max: int
    ) -> ServerId | str:
        """Begin to hand the lead to `to`, or to the follower that is nearest to this log.

        First the nominee and a quorum must answer a ping, while writes go on. Then nothing more is
        prepared until the nominee has all of the log, and this leader steps down. What does not
        come about before `until` is abandoned.

        Args:
            to: A voter other than this server; None lets the leader choose.
            until: When it is abandoned.
            lag_max: How many transactions the nominee may lack at first.

        Returns:
            The nominee, or a text that says why nobody can take over.
        """
        if self._transfer is not None:
            return f"the lead is being transferred to server {self._transfer.nominee} already"
        found = choose_successor(self._settings, self._history, self.learners, to, lag_max)
        if isinstance(found, str):
            return found
        self._ping()
        self._transfer = Transfer(found.server_id, until, self._ping_number)
        lag = lag_of(found, self._history)
        self._out.append(TraceEvent(trace_events.TRANSFER_BEGUN, (found.server_id, lag)))
        return found.server_id

    def abandon_transfer(self, reason: str) -> None:
        """Go on leading; only while a transfer is under way."""
        assert self._transfer is not None, reason
        nominee, self._transfer = self._transfer.nominee, None
        self._out.append(TraceEvent(trace_events.TRANSFER_ABANDONED, (nominee, reason)))
        self._out.append(TransferAbandoned(reason))

    def read_index(self, token: int) -> None:
        """Confirm that this leader leads; ReadIndex is the answer (rule Z4).

        One probe serves all that wait: a request that finds one under way joins the next.
        """
        in_flight = bool(self._probes)
        self._probes.append((self._ping_number + 1, token, self._history.delivered))
        if not in_flight:
            self._ping()
        self._answer_probes()

    def log_synced(self) -> None:
        """Count this server for what its own disk has now."""
        self._commit()
        self._advance_transfer()

    def disk_space_changed(self) -> None:
        """Hand the lead over when the disk is full; step down when it has space again.

        Writes that came in between were left lying; in a new reign everybody sends them again.
        """
        if self._history.has_disk_space:
            self.transition = StepDown("the disk has space again")
        else:
            self._leave_full_disk()

    def members_changed(self) -> None:
        """Count every learner under the disk that the member list names now (rule D3)."""
        if not self._settings.has_vote:
            self.transition = StepDown("the member list has no vote of this server on this disk")
            return
        self.learners.members_changed()
        self._commit()
        self._advance_transfer()

    def receive(self, sender: ServerId, message: LeaderBroadcastMessage, now: Millis) -> None:
        """Handle one message of a learner.

        Raises:
            PeerProtocolError: the message does not fit what the learner was sent; nothing has
                changed.
        """
        if isinstance(message, FollowerInfo):
            self._on_follower_info(sender, message, now)
            self._advance_transfer()  # its nominee may begin anew
            return
        learner = self.learners.get(sender)
        assert learner is not None, "the table of `phases` ignores these of others"
        learner.last_received_at = now
        match message:
            case Ack():
                self._on_ack(learner, message, now)
            case Pong():
                self._on_pong(learner, message)
            case AckNewLeader():
                self.learners.on_ack_new_leader(learner, message, now)
                self._send_up_to_date(learner)
                self._commit()
            case AckEpoch():
                self.learners.on_ack_epoch(learner, message)
            case SnapshotCredit():
                self.learners.on_snapshot_credit(learner)
            case LogPaused():
                self._on_log_paused(learner)
            case _:
                assert_never(message)
        self._advance_transfer()

    def lost(self, peer: ServerId, reason: str, _now: Millis) -> None:
        """Drop a learner whose link broke, or which has left this leader."""
        self.learners.drop(peer, reason)
        self._advance_transfer()

    def wake(self, now: Millis) -> None:
        """Drop silent learners, check that a quorum is left, ping the others; twice a tick."""
        transfer = self._transfer
        if transfer is not None and now >= transfer.until:
            self.abandon_transfer(self._why_late(transfer))
        if now < self._ping_at:
            return
        timing = self._settings.timing
        self._ping_at = Millis(now + timing.ping_ms)
        for learner in list(self.learners):
            timeout = timing.sync_ms if learner.stage is Stage.FOLLOWING else timing.init_ms
            reason = None
            if now - max(learner.last_received_at, self._established_at) > timeout:
                reason = "silent"
            elif self._owes_ack(learner) and now - learner.acked_at > timing.init_ms:
                reason = "does not acknowledge"
            elif learner.stage in (Stage.READING, Stage.STREAMING) and self._is_backlog_too_large():
                reason = "cannot be synchronized as fast as is written"
            if reason is not None:
                self.learners.drop(learner.server_id, reason)
                self._out.append(BreakLink(learner.server_id, reason))
        if not self._settings.members.is_quorum([self._settings.seat, *self._followers()]):
            self.transition = StepDown("no quorum of followers")
            return
        if not self._history.has_disk_space:
            self._leave_full_disk()
        self._advance_transfer()  # its nominee may be among the silent ones
        self._ping()
        self._answer_probes()

    def deadline(self) -> Millis:
        """Return when to call `wake`."""
        return self._ping_at if self._transfer is None else min(self._ping_at, self._transfer.until)

    def last_quorum_contact(self, now: Millis) -> Millis:
        """Return the latest time at which a quorum, this server included, was in touch."""
        return Millis(self._quorum_value(now, lambda x: x.last_received_at))

    def _on_follower_info(self, sender: ServerId, info: FollowerInfo, now: Millis) -> None:
        if info.accepted_epoch > self.epoch:
            # It has promised an epoch that no server leads, and can never join this one.
            self._out.append(
                TraceEvent(trace_events.HIGHER_EPOCH_PROMISED, (sender, info.accepted_epoch))
            )
            self.transition = StepDown("a learner has promised a later epoch")
            return
        self.learners.on_follower_info(sender, info, now)

    def _on_ack(self, learner: Learner, ack: Ack, now: Millis) -> None:
        if learner.stage is not Stage.FOLLOWING or ack.upto > learner.sent:
            raise PeerProtocolError(
                f"ACK {format_zxid(ack.upto)} at stage {learner.stage.name}, "
                f"sent up to {format_zxid(learner.sent)}"
            )
        if ack.upto <= learner.acked:
            self._out.append(TraceEvent(trace_events.ACK_DUPLICATE, ack.upto))
            return
        if ack.upto > self._history.delivered and not self._history.recent_log.has(ack.upto):
            # Between two epochs: it would become the commit point, and no transaction is there.
            raise PeerProtocolError(f"ACK {format_zxid(ack.upto)}, which was never proposed")
        learner.acked = ack.upto
        learner.acked_at = now
        self._commit()
        if not self._history.has_disk_space:
            self._leave_full_disk()

    def _on_pong(self, learner: Learner, pong: Pong) -> None:
        if pong.number > self._ping_number:
            # It would count as the answer to later pings: a leader that was replaced meanwhile
            # would confirm reads of old values with it (rule Z4).
            raise PeerProtocolError(f"PONG {pong.number} after PING {self._ping_number}")
        learner.last_pong = max(learner.last_pong, pong.number)
        self._answer_probes()

    def _on_log_paused(self, learner: Learner) -> None:
        if learner.stage is not Stage.FOLLOWING:
            raise PeerProtocolError(f"log paused at stage {learner.stage.name}")
        learner.is_logging = False

    def _send_up_to_date(self, learner: Learner) -> None:
        # The commit point, clipped to what this learner was sent (Z3): it came while proposals are
        # on their way to it, and would refuse a commit above its log.
        commit = min(self._history.delivered, learner.sent)
        self._out.append(Send(learner.server_id, UpToDate(commit)))
        self._out.append(
            TraceEvent(trace_events.LEARNER_JOINED, (learner.server_id, learner.has_vote))
        )

    def _commit(self) -> None:
        history = self._history
        commit = Zxid(self._quorum_value(history.synced, lambda x: x.acked))
        if commit <= history.delivered:
            return
        history.deliver(commit)
        for learner in self.learners:
            if learner.stage is Stage.FOLLOWING:
                self._out.append(Send(learner.server_id, Commit(min(commit, learner.sent))))

    def _owes_ack(self, learner: Learner) -> bool:
        return learner.is_logging and learner.acked < learner.sent

    def _advance_transfer(self) -> None:
        """Take the next step of the transfer under way, as soon as it can be taken."""
        transfer, history = self._transfer, self._history
        if transfer is None or self.transition is not None:
            return
        nominee = self.learners.get(transfer.nominee)
        obstacle = obstacle_to_succession(transfer.nominee, nominee, history)
        if obstacle or nominee is None:
            self.abandon_transfer(obstacle)
            return
        if not transfer.is_handing_over:
            # A server that has all of the log may be frozen: writes would wait for it in vain.
            if min(nominee.last_pong, self._quorum_pong()) < transfer.ping_number:
                return
            if self._settings.members.is_changing:
                return  # what was prepared behind the step is still to be proposed
            transfer.is_handing_over = True
            self._out.append(HandOverBegun(transfer.nominee))
        if self._has_handed_over(nominee):
            detail = (transfer.nominee, format_zxid(history.logged))
            self._out.append(TraceEvent(trace_events.TRANSFER_HANDED_OVER, detail))
            self.transition = StepDown(
                f"server {transfer.nominee} is to take over", transfer.nominee
            )

    def _has_handed_over(self, nominee: Learner) -> bool:
        # What the nominee lacks it would never get, and a nominee with a shorter log than another
        # voter is not elected. The own disk must be idle, or the others would wait for this vote.
        history = self._history
        return nominee.acked == history.logged == history.delivered and history.is_disk_idle

    def _why_late(self, transfer: Transfer) -> str:
        nominee = self.learners.get(transfer.nominee)
        assert nominee is not None, "a nominee that is gone ends the transfer at once"
        if not transfer.is_handing_over:
            is_answered = min(nominee.last_pong, self._quorum_pong()) >= transfer.ping_number
            if is_answered and self._settings.members.is_changing:
                return "a step of the member list was not delivered in time"
            return f"server {transfer.nominee}, or a quorum, did not answer in time"
        lag = lag_of(nominee, self._history)
        return f"not all was on disk in time: server {transfer.nominee} lacks {lag} transactions"

    def _leave_full_disk(self) -> None:
        """Leave the lead to a follower that has disk space and all of this log (rule D6)."""
        last = self._history.logged
        for learner in self.learners:
            is_able = learner.has_vote and learner.is_logging and learner.stage is Stage.FOLLOWING
            if is_able and learner.acked == last:
                self.transition = StepDown(f"disk full; server {learner.server_id} can take over")
                return

    def _is_backlog_too_large(self) -> bool:
        # The recent log is pinned for synchronizing learners; this is its bound.
        return self._history.recent_log.bytes > 8 * self._settings.window.bytes_max

    def _followers(self) -> list[Seat]:
        return [x.seat for x in self.learners if x.stage is Stage.FOLLOWING]

    def _quorum_value(self, own: int, cursor_of: Callable[[Learner], int]) -> int:
        """Return the highest value that quorums of followers and this server have reached."""
        settings = self._settings
        cursors = [(x.seat, cursor_of(x)) for x in self.learners if x.stage is Stage.FOLLOWING]
        cursors.append((settings.seat, own))
        return settings.members.quorum_value(cursors)

    def _ping(self) -> None:
        self._ping_number += 1
        message = Ping(self._ping_number)
        for learner in self.learners:
            if learner.stage is Stage.FOLLOWING:
                self._out.append(Send(learner.server_id, message))

    def _quorum_pong(self) -> int:
        """Return the newest ping that a quorum, this server included, has answered."""
        return self._quorum_value(self._ping_number, lambda x: x.last_pong)

    def _answer_probes(self) -> None:
        confirmed = self._quorum_pong()
        while self._probes and self._probes[0][0] <= confirmed:
            _, token, zxid = self._probes.popleft()
            self._out.append(ReadIndex(token, zxid))
        if self._probes and confirmed == self._ping_number:
            self._ping()  # the requests that came while the last probe was under way
