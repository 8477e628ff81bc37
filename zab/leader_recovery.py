"""A prospective leader: propose an epoch, learn the histories, bring a quorum to this one.

Paper: Zab, phases 1 (discovery) and 2 (synchronization), the leader's side.
Spec:  Zab.tla, LeaderProcessCEPOCH, LeaderProcessACKEPOCH, LeaderProcessACKLD.
ZooKeeper: `Leader.lead` up to `waitForNewLeaderAck`.

The accepted epoch is on disk before LEADERINFO leaves. The current epoch is saved after a quorum
promised, and is on disk before this server counts as having acknowledged NEWLEADER.
"""

from typing import assert_never

from raykeeper.zab import trace_events
from raykeeper.zab.effects import Outbox, TraceEvent
from raykeeper.zab.history import History
from raykeeper.zab.ids import EPOCH_MAX, Epoch, Millis, ServerId, format_zxid
from raykeeper.zab.learners import Learner, Learners, Stage
from raykeeper.zab.members import Seat
from raykeeper.zab.messages import AckEpoch, AckNewLeader, FollowerInfo, SnapshotCredit
from raykeeper.zab.settings import Settings
from raykeeper.zab.transitions import Established, StepDown, Transition

LeaderRecoveryMessage = FollowerInfo | AckEpoch | AckNewLeader | SnapshotCredit


class LeaderRecovery:
    """An elected server that does not lead yet; it delivers, but its log does not change."""

    def __init__(self, settings: Settings, history: History, out: Outbox, now: Millis) -> None:
        assert history.is_disk_idle
        self.transition: Transition | None = None
        self.learners = Learners(settings, history, out)
        self._settings = settings
        self._history = history
        self._out = out
        self._proposed: Epoch | None = None  # under way to our disk
        self._highest_accepted = history.accepted
        self._step_down_at = Millis(now + settings.timing.sync_ms)
        self._check()

    @property
    def has_quorum(self) -> bool:
        """Whether a quorum has come to follow this server."""
        return self._has_quorum_at(Stage.FOLLOWER_INFO_RECEIVED)

    def receive(self, sender: ServerId, message: LeaderRecoveryMessage, now: Millis) -> None:
        """Handle one message of a learner.

        Raises:
            PeerProtocolError: the message does not fit the learner's stage; nothing has changed.
        """
        if isinstance(message, FollowerInfo):
            self._on_follower_info(sender, message, now)
        else:
            self._on_learner_message(sender, message, now)
        self._step_down_at = min(self._step_down_at, self._timeout_at(now))
        if self.has_quorum:
            self._step_down_at = self._timeout_at(now)
        self._check()

    def epochs_saved(self) -> None:
        """Go on after one of this server's own promises is on disk."""
        if self._proposed is not None and self._history.accepted == self._proposed:
            proposed, self._proposed = self._proposed, None
            if self._highest_accepted < proposed:
                self.learners.epoch = proposed
                for learner in self.learners:
                    self.learners.send_leader_info(learner)
        self._check()

    def members_changed(self) -> None:
        """Count every learner under the disk that the member list names now (rule D3)."""
        if not self._settings.has_vote:
            self.transition = StepDown("the member list has no vote of this server on this disk")
            return
        self.learners.members_changed()
        self._check()

    def lost(self, peer: ServerId, reason: str, now: Millis) -> None:
        """Drop a learner whose link broke, or which has left this leader."""
        self.learners.drop(peer, reason)
        self._step_down_at = min(self._step_down_at, self._timeout_at(now))

    def wake(self, now: Millis) -> None:
        """Step down if the deadline has passed."""
        if now >= self._step_down_at:
            self.transition = StepDown("no quorum synchronized in time")

    def deadline(self) -> Millis:
        """Return when to call `wake`."""
        return self._step_down_at

    def _timeout_at(self, now: Millis) -> Millis:
        # A long synchronization is not cut short while it makes progress. Without a quorum of
        # followers our claim to lead keeps others from electing a leader (ZOOKEEPER-3109).
        timing = self._settings.timing
        return Millis(
            now
            + (
                timing.init_ms
                if self._has_quorum_at(Stage.FOLLOWER_INFO_RECEIVED)
                else timing.sync_ms
            )
        )

    def _on_learner_message(
        self, sender: ServerId, message: AckEpoch | AckNewLeader | SnapshotCredit, now: Millis
    ) -> None:
        learner = self.learners.get(sender)
        assert learner is not None, "the table of `phases` ignores these of others"
        learner.last_received_at = now
        match message:
            case AckEpoch():
                self._on_ack_epoch(learner, message)
            case AckNewLeader():
                self.learners.on_ack_new_leader(learner, message, now)
            case SnapshotCredit():
                self.learners.on_snapshot_credit(learner)
            case _:
                assert_never(message)

    def _on_follower_info(self, sender: ServerId, info: FollowerInfo, now: Millis) -> None:
        if self.learners.epoch and info.accepted_epoch > self.learners.epoch:
            # It promised a later epoch to a server that never led; only a later one can unite us.
            self._out.append(
                TraceEvent(trace_events.HIGHER_EPOCH_PROMISED, (sender, info.accepted_epoch))
            )
            self.transition = StepDown("a learner has promised a later epoch")
            return
        self._highest_accepted = max(self._highest_accepted, info.accepted_epoch)
        self.learners.on_follower_info(sender, info, now)

    def _on_ack_epoch(self, learner: Learner, ack: AckEpoch) -> None:
        ours = (self._history.rank_epoch, self._history.logged)
        is_newer = (ack.current_epoch, ack.last_zxid) > ours
        if is_newer and self._settings.members.is_counted(learner.seat):
            detail = (learner.server_id, ack.current_epoch, format_zxid(ack.last_zxid))
            self._out.append(TraceEvent(trace_events.NEWER_HISTORY_FOUND, detail))
        if is_newer and learner.has_vote:
            # The election missed it. The server with the newest history must lead: servers 2 and 3
            # committed 1:5, 3 is away, and led by server 1, which lacks 1:5, 2 would cut it.
            self.transition = StepDown("a follower has a newer history")
            return
        # Of one log they differ in the epoch alone: it has acknowledged nothing that we lack. Nor
        # has a newcomer that lacks the step acknowledged anything for a list that has it.
        lacks_step = ack.last_zxid < self._settings.members.joins_by(learner.seat)
        is_same = ack.last_zxid == self._history.logged
        learner.is_ahead = is_newer and not is_same and not lacks_step
        if self._history.recent_log.has(ack.committed):
            # It may give a learner its vote, without which no quorum would ever be here.
            self._history.deliver(ack.committed)
        self.learners.on_ack_epoch(learner, ack)

    def _check(self) -> None:
        """Take the next step as soon as a quorum allows it."""
        if self.transition is not None:
            return
        if not self.learners.epoch:
            self._check_epoch()
        elif not self.learners.is_synchronizing:
            self._check_promises()
        elif self._history.current == self.learners.epoch:
            self._check_acks()

    def _check_epoch(self) -> None:
        # An epoch on its way to the disk is not changed; if a learner has promised as much
        # meanwhile, `epochs_saved` leads back here.
        if self._proposed is not None or not self._has_quorum_at(Stage.FOLLOWER_INFO_RECEIVED):
            return
        # No epoch is left, if only because a peer says so. Stepping down now could end in being
        # elected again at once, for ever; the timeout ends this role by itself.
        if self._highest_accepted == EPOCH_MAX:
            return
        self._proposed = Epoch(self._highest_accepted + 1)
        self._out.append(TraceEvent(trace_events.EPOCH_PROPOSED, self._proposed))
        self._history.promise(self._proposed, self._settings.server_id)

    def _check_promises(self) -> None:
        members = self._settings.members
        healthy, uncertain = self._promised()
        is_promised = members.is_quorum(healthy + uncertain)
        if not is_promised or not self._has_all_acked(healthy, uncertain):
            if self._is_epoch_spent():
                self.transition = StepDown("the epoch was promised to another leader")
            elif is_promised and uncertain:
                self._out.append(
                    TraceEvent(trace_events.LOG_UNCERTAIN, sorted(s for s, _ in uncertain))
                )
            return
        self.learners.is_synchronizing = True
        self._history.save_epochs(self.learners.epoch, self.learners.epoch)
        for learner in self.learners:
            if learner.stage is Stage.PROMISED:
                self.learners.synchronize(learner)

    def _has_all_acked(self, healthy: list[Seat], uncertain: list[Seat]) -> bool:
        """Return whether this log has all that any quorum ever acknowledged.

        Counterexample for counting those ahead: 4 takes the place of 3 of three. Leader 2 commits
        the step, and then by the new list 1:5 on 2 and 4, and dies before 4 hears of either. 1 has
        the step in its log; 1 and 3 are a majority of the old list, 1 and 4 of the new one. Led by
        1, 4 would cut 1:5. It cannot lead, for no list that is known to be committed has its seat.
        """
        members = self._settings.members
        ahead = {learner.seat for learner in self.learners if learner.is_ahead}
        sound = [seat for seat in healthy if seat not in ahead]
        unsure = [seat for seat in uncertain if seat not in ahead]
        return members.covers_all_acked(sound, unsure) or members.meet_every_majority(sound)

    def _promised(self) -> tuple[list[Seat], list[Seat]]:
        """Return the seats that promised the epoch, with ours: of whole and of uncertain logs."""
        healthy: list[Seat] = []
        uncertain: list[Seat] = []
        (uncertain if self._history.is_uncertain else healthy).append(self._settings.seat)
        for learner in self.learners:
            if learner.has_promised:
                (uncertain if learner.is_uncertain else healthy).append(learner.seat)
        return healthy, uncertain

    def _is_epoch_spent(self) -> bool:
        """Return whether a quorum has answered and the rest can promise only another epoch."""
        # Also those that only one of two lists has: it may be the one that needs them.
        voters = [x for x in self.learners if self._settings.members.is_counted(x.seat)]
        return (
            self._has_quorum_at(Stage.PROMISED)
            and all(x.stage is Stage.PROMISED for x in voters)
            and not all(x.has_promised for x in voters)
        )

    def _check_acks(self) -> None:
        if self._has_quorum_at(Stage.FOLLOWING):
            self.transition = Established(self.learners.epoch, self.learners)

    def _has_quorum_at(self, stage: Stage) -> bool:
        seats = [x.seat for x in self.learners if x.stage >= stage]
        return self._settings.members.is_quorum([self._settings.seat, *seats])
