"""A prospective leader: propose an epoch, learn the histories, bring a quorum to this one.

Paper: Zab, phases 1 (discovery) and 2 (synchronization), the leader's side.
Spec:  Zab.tla, LeaderProcessCEPOCH, LeaderProcessACKEPOCH, LeaderProcessACKLD.
ZooKeeper: `Leader.lead` up to `waitForNewLeaderAck`.

What is persisted when: the accepted epoch before LEADERINFO leaves, the current epoch after a
quorum promised and before this server counts as having acknowledged NEWLEADER.
"""

from raykeeper.zab import notes
from raykeeper.zab.effects import Note, Outbox
from raykeeper.zab.history import History
from raykeeper.zab.ids import EPOCH_MAX, Epoch, Millis, ServerId, show_zxid
from raykeeper.zab.learners import Learner, Learners, Stage
from raykeeper.zab.messages import AckEpoch, AckNewLeader, FollowerInfo, SnapshotCredit
from raykeeper.zab.settings import Settings
from raykeeper.zab.transitions import Established, GiveUp, Outcome

LeaderRecoveryMessage = FollowerInfo | AckEpoch | AckNewLeader | SnapshotCredit


class LeaderRecovery:
    """Leads nothing yet. Its log does not change; what others know to be committed is delivered."""

    def __init__(self, settings: Settings, history: History, out: Outbox, now: Millis) -> None:
        assert history.is_settled
        self.outcome: Outcome | None = None
        self.learners = Learners(settings, history, out)
        self._settings = settings
        self._history = history
        self._out = out
        self._proposed: Epoch | None = None  # under way to our disk
        self._heard_max = history.accepted
        self._give_up_at = Millis(now + settings.timing.sync_ms)
        self._check()

    @property
    def has_quorum(self) -> bool:
        """Whether a quorum has come to follow this server."""
        return self._holds(Stage.GREETED)

    def receive(self, sender: ServerId, message: LeaderRecoveryMessage, now: Millis) -> None:
        """Handle one message of a learner.

        Raises:
            PeerProtocolError: the message does not fit the learner's stage; nothing has changed.
        """
        if isinstance(message, FollowerInfo):
            self._on_follower_info(sender, message, now)
        else:
            learner = self.learners.get(sender)
            if learner is None:
                self._out.append(Note(notes.MESSAGE_STALE, (sender, type(message).__name__)))
                return
            learner.heard_at = now
            if isinstance(message, AckEpoch):
                self._on_ack_epoch(learner, message)
            elif isinstance(message, AckNewLeader):
                self.learners.follow(learner, message, now)
            else:
                self.learners.credit(learner)
        end = self._patience_ends(now)
        self._give_up_at = end if self._holds(Stage.GREETED) else min(self._give_up_at, end)
        self._check()

    def epochs_saved(self) -> None:
        """One of our own promises is on disk."""
        if self._proposed is not None and self._history.accepted == self._proposed:
            proposed, self._proposed = self._proposed, None
            if self._heard_max < proposed:
                self.learners.epoch = proposed
                for learner in self.learners:
                    self.learners.invite(learner)
        self._check()

    def members_changed(self) -> None:
        """Count every learner under the disk that the member list names now (rule D3)."""
        if not self._settings.votes:
            self.outcome = GiveUp("the vote of this server rests on another disk")
            return
        self.learners.members_changed()
        self._check()

    def lost(self, peer: ServerId, reason: str, now: Millis) -> None:
        """The link to a learner broke, or it has left us."""
        self.learners.drop(peer, reason)
        self._give_up_at = min(self._give_up_at, self._patience_ends(now))

    def wake(self, now: Millis) -> None:
        """The deadline has passed."""
        if now >= self._give_up_at:
            self.outcome = GiveUp("no quorum synchronized in time")

    def deadline(self) -> Millis:
        """When to call `wake`."""
        return self._give_up_at

    def _patience_ends(self, now: Millis) -> Millis:
        # A long synchronization is not cut short while it makes progress. Without a quorum of
        # followers our claim to lead keeps others from electing somebody (ZOOKEEPER-3109).
        timing = self._settings.timing
        return Millis(now + (timing.init_ms if self._holds(Stage.GREETED) else timing.sync_ms))

    def _on_follower_info(self, sender: ServerId, info: FollowerInfo, now: Millis) -> None:
        if self.learners.epoch and info.accepted_epoch > self.learners.epoch:
            # It promised a later epoch to somebody who never led; only a later one can unite us.
            self._out.append(Note(notes.EPOCH_OUTRUN, (sender, info.accepted_epoch)))
            self.outcome = GiveUp("a learner has promised a later epoch")
            return
        self._heard_max = max(self._heard_max, info.accepted_epoch)
        self.learners.greet(sender, info, now)

    def _on_ack_epoch(self, learner: Learner, ack: AckEpoch) -> None:
        ours = (self._history.rank_epoch, self._history.logged)
        if learner.votes and (ack.current_epoch, ack.last_zxid) > ours:
            # The election missed it. Who has the newest history must lead, or it would be cut.
            detail = (learner.server_id, ack.current_epoch, show_zxid(ack.last_zxid))
            self._out.append(Note(notes.HISTORY_BETTER, detail))
            self.outcome = GiveUp("a follower has a newer history")
            return
        if self._history.window.has(ack.committed):
            # Perhaps it gives a learner its vote, without which no quorum would ever be here.
            self._history.deliver(ack.committed)
        self.learners.promise(learner, ack)

    def _check(self) -> None:
        """Take the next step as soon as a quorum allows it."""
        if self.outcome is not None:
            return
        if not self.learners.epoch:
            self._check_epoch()
        elif not self.learners.is_synchronizing:
            self._check_promises()
        elif self._history.current == self.learners.epoch:
            self._check_acks()

    def _check_epoch(self) -> None:
        # An epoch already under way to the disk is not changed; if a caller has promised as much
        # meanwhile, `epochs_saved` leads back here.
        if self._proposed is not None or not self._holds(Stage.GREETED):
            return
        # None is left, if only because a peer says so. Who gave up now might be elected again at
        # once, for ever; patience ends by itself.
        if self._heard_max == EPOCH_MAX:
            return
        self._proposed = Epoch(self._heard_max + 1)
        self._out.append(Note(notes.EPOCH_PROPOSED, self._proposed))
        self._history.promise(self._proposed, self._settings.server_id)

    def _check_promises(self) -> None:
        quorum = self._settings.quorum
        healthy, uncertain = self._promised()
        is_promised = quorum.holds(healthy + uncertain)
        if not is_promised or not quorum.recalls(healthy, uncertain):
            if self._is_epoch_spent():
                self.outcome = GiveUp("the epoch was promised to another leader")
            elif is_promised:
                self._out.append(Note(notes.LOG_UNCERTAIN, sorted(uncertain)))
            return
        self.learners.is_synchronizing = True
        self._history.save_epochs(self.learners.epoch, self.learners.epoch)
        for learner in self.learners:
            if learner.stage is Stage.PROMISED:
                self.learners.synchronize(learner)

    def _promised(self) -> tuple[list[ServerId], list[ServerId]]:
        """Who promised the epoch, this server too: with a log that is surely whole, and others."""
        healthy: list[ServerId] = []
        uncertain: list[ServerId] = []
        (uncertain if self._history.is_uncertain else healthy).extend(self._myself())
        for learner in self.learners:
            if learner.votes and learner.promised:
                (uncertain if learner.is_uncertain else healthy).append(learner.server_id)
        return healthy, uncertain

    def _is_epoch_spent(self) -> bool:
        """Whether a quorum has answered, and more can promise only another epoch."""
        voters = [x for x in self.learners if x.votes]
        return (
            self._holds(Stage.PROMISED)
            and all(x.stage is Stage.PROMISED for x in voters)
            and not all(x.promised for x in voters)
        )

    def _check_acks(self) -> None:
        if self._holds(Stage.FOLLOWING):
            self.outcome = Established(self.learners.epoch, self.learners)

    def _holds(self, stage: Stage) -> bool:
        voters = [x.server_id for x in self.learners if x.votes and x.stage >= stage]
        return self._settings.quorum.holds([*self._myself(), *voters])

    def _myself(self) -> list[ServerId]:
        # Nobody, if our own log may have taken our vote away with this disk (rule D3).
        return [self._settings.server_id] if self._settings.votes else []
