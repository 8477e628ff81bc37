"""One server's part in Zab: the role it plays, and the only place where roles change.

Paper: Zab, section IV. ZooKeeper: `QuorumPeer.run`.

The peer is a state machine without clock or I/O. Its surroundings call one method per event and
carry out what was appended to the outbox, in order. Times are monotonic milliseconds.
"""

from raykeeper.zab import trace_events
from raykeeper.zab.await_disk import AwaitDisk
from raykeeper.zab.effects import (
    BreakLink,
    LogRun,
    Outbox,
    Role,
    RoleChanged,
    Send,
    TraceEvent,
    VoteGranted,
)
from raykeeper.zab.errors import PeerProtocolError
from raykeeper.zab.follower_broadcast import FollowerBroadcast
from raykeeper.zab.follower_recovery import FollowerRecovery
from raykeeper.zab.history import History
from raykeeper.zab.ids import DiskId, Epoch, Millis, ServerId, Zxid
from raykeeper.zab.leader_broadcast import LeaderBroadcast
from raykeeper.zab.leader_recovery import LeaderRecovery
from raykeeper.zab.learners import Learner, Stage
from raykeeper.zab.looking import Looking
from raykeeper.zab.messages import (
    ROUND_MAX,
    FollowerInfo,
    Notification,
    PeerState,
    Vote,
    ZabMessage,
)
from raykeeper.zab.phases import (
    FOLLOWER_BROADCAST,
    FOLLOWER_RECOVERY,
    LEADER_BROADCAST,
    LEADER_MESSAGES,
    LEADER_RECOVERY,
    LEARNER_MESSAGES,
    FollowerPhase,
)
from raykeeper.zab.settings import Settings
from raykeeper.zab.transitions import DiskIdle, Elected, StepDown, Synchronized, Transition

_Role = (
    AwaitDisk | Looking | FollowerRecovery | FollowerBroadcast | LeaderRecovery | LeaderBroadcast
)


class Peer:
    """A server of the ensemble. Call `start` once, before anything else."""

    def __init__(self, settings: Settings, history: History, out: Outbox) -> None:
        self.settings = settings
        self.history = history
        self.links: dict[ServerId, None] = {}  # linked servers, in the order they came
        self._out = out
        self._round = 1
        self._follow_attempt = 0
        self._vote = self._own_vote()
        self._role: _Role = AwaitDisk(history)

    # What the surroundings may ask.

    @property
    def role(self) -> Role:
        """The role, whether or not it is activated yet."""
        if isinstance(self._role, LeaderRecovery | LeaderBroadcast):
            return Role.LEADER
        if isinstance(self._role, FollowerRecovery | FollowerBroadcast):
            return Role.FOLLOWER if self.settings.has_vote else Role.OBSERVER
        return Role.LOOKING

    @property
    def leader(self) -> ServerId | None:
        """The leader this server follows or is; None while it looks for one."""
        if isinstance(self._role, LeaderRecovery | LeaderBroadcast):
            return self.settings.server_id
        if isinstance(self._role, FollowerRecovery | FollowerBroadcast):
            return self._role.leader
        return None

    @property
    def epoch(self) -> Epoch:
        """The current epoch: of the last history this server took over."""
        return self.history.current

    @property
    def voters_lost(self) -> list[ServerId]:
        """The linked voters known to have lost their promises, this server too (rule D3)."""
        role = self._role
        if isinstance(role, Looking):
            return role.voters_lost
        if isinstance(role, LeaderRecovery | LeaderBroadcast):
            is_voter = self.settings.members.is_voter
            lost = [x.server_id for x in role.learners if not x.has_vote and is_voter(x.server_id)]
            return sorted(lost)
        me = self.settings.server_id
        is_lost = self.settings.members.is_voter(me) and not self.settings.has_vote
        return [me] if is_lost else []

    @property
    def broadcasting(self) -> LeaderBroadcast | None:
        """The established leader that this server is, if it is: to propose and to read."""
        return self._role if isinstance(self._role, LeaderBroadcast) else None

    @property
    def is_active(self) -> bool:
        """Whether this server takes part in broadcast, as leader or learner."""
        return isinstance(self._role, LeaderBroadcast | FollowerBroadcast)

    def last_quorum_contact(self, now: Millis) -> Millis | None:
        """When this server last knew that it is part of a working ensemble; None if it is not."""
        if isinstance(self._role, LeaderBroadcast):
            return self._role.last_quorum_contact(now)
        if isinstance(self._role, FollowerBroadcast):
            return self._role.last_received_at
        return None

    def deadline(self) -> Millis | None:
        """When to call `wake`; None while only events can move this server."""
        return None if isinstance(self._role, AwaitDisk) else self._role.deadline()

    # Events.

    def start(self, now: Millis) -> None:
        """Look for a leader."""
        self._advance(now)

    def wake(self, now: Millis) -> None:
        """The deadline has passed."""
        if not isinstance(self._role, AwaitDisk):
            self._role.wake(now)
            self._advance(now)

    def link_up(self, peer: ServerId, now: Millis) -> None:
        """A new link to `peer`; what was under way on an older one is lost."""
        if peer in self.links:
            self.link_down(peer, now)
        self.links[peer] = None
        if isinstance(self._role, Looking):
            self._role.link_up(peer, now)
        self._advance(now)

    def link_down(self, peer: ServerId, now: Millis) -> None:
        """The link to `peer` is gone; one that was not up is ignored."""
        if peer not in self.links:
            return
        del self.links[peer]
        role = self._role
        if isinstance(role, Looking):
            role.link_down(peer, now)
        elif isinstance(role, LeaderRecovery | LeaderBroadcast):
            role.lost(peer, "link broken", now)
        elif isinstance(role, FollowerRecovery | FollowerBroadcast) and role.leader == peer:
            role.outcome = StepDown("the link to the leader is broken")
        self._advance(now)

    def receive(self, sender: ServerId, message: ZabMessage, now: Millis) -> None:
        """Handle one message; a sender that breaks the protocol loses its link."""
        if sender not in self.links:
            self._out.append(
                TraceEvent(trace_events.MESSAGE_STALE, (sender, type(message).__name__))
            )
            return
        try:
            if isinstance(message, Notification):
                self._on_notification(sender, message, now)
            else:
                self._dispatch(sender, message, now)
        except PeerProtocolError as error:
            self.reject(sender, str(error), now)
        self._advance(now)

    def reject(self, peer: ServerId, reason: str, now: Millis) -> None:
        """Break the link to a server that broke the protocol."""
        self._out.append(TraceEvent(trace_events.MESSAGE_ILLEGAL, (peer, reason)))
        self._out.append(BreakLink(peer, reason))
        self.link_down(peer, now)

    def log_synced(self, upto: Zxid, now: Millis) -> None:
        """Completion of Append."""
        self.history.log_synced(upto)
        role = self._role
        if isinstance(role, FollowerBroadcast | LeaderBroadcast):
            role.log_synced()
        self._disk_completed(now)

    def epochs_saved(self, accepted: Epoch, current: Epoch, now: Millis) -> None:
        """Completion of SaveEpochs."""
        self.history.epochs_saved(accepted, current)
        if isinstance(self._role, FollowerRecovery | LeaderRecovery):
            self._role.epochs_saved()
        self._disk_completed(now)

    def log_truncated(self, upto: Zxid, now: Millis) -> None:
        """Completion of Truncate."""
        self.history.truncated(upto)
        self._disk_completed(now)

    def snapshot_installed(self, zxid: Zxid, now: Millis) -> None:
        """Completion of InstallSnapshot."""
        self.history.installed(zxid)
        self._disk_completed(now)

    def log_read(self, learner: ServerId, after: Zxid, runs: list[LogRun], now: Millis) -> None:
        """Completion of ReadLog; a learner that has gone meanwhile is ignored."""
        known = self._learner(learner)
        if known is not None and isinstance(self._role, LeaderRecovery | LeaderBroadcast):
            self._role.learners.log_read(known, after, runs)
        self._advance(now)

    def propose(self, txns: list[bytes], now: Millis) -> None:
        """Propose transactions; only while `broadcasting`, and at most its `room`."""
        assert isinstance(self._role, LeaderBroadcast), self.role
        self._role.propose(txns, now)
        self._advance(now)

    def disk_space_changed(self, has_disk_space: bool, now: Millis) -> None:
        """The disk is full, or has room again (rule D6)."""
        role = self._role
        if has_disk_space != self.history.has_disk_space:
            self.history.has_disk_space = has_disk_space
            if isinstance(role, Looking):
                role.disk_space_changed(now)
            elif isinstance(role, LeaderBroadcast):
                role.disk_space_changed()
            elif isinstance(role, FollowerBroadcast) and not has_disk_space:
                role.pause()
        self._advance(now)

    def voter_replaced(self, server: ServerId, disk: DiskId, now: Millis) -> bool:
        """A delivered transaction put `disk` into the member list; whether it was another one.

        Before `start`, from the log that was recovered, no role begins by it.
        """
        settings = self.settings
        is_new = settings.members.change_delivered(server, disk)
        if is_new:
            self._out.append(TraceEvent(trace_events.VOTE_REPLACED, (server, disk)))
        elif server == settings.server_id and settings.has_vote:
            # Said once more, so a quorum has it on disk that the first time was committed: the
            # vote is here to stay, even if all were to begin anew.
            self._out.append(VoteGranted())
        if isinstance(self._role, LeaderRecovery | LeaderBroadcast):
            # Also when it is said once more: until now it was a change that is only logged.
            self._role.members_changed()
            self._advance(now)
        elif isinstance(self._role, Looking):
            self._role.members_changed(now)
            self._advance(now)
        return is_new

    def step_down(self, reason: str, now: Millis) -> None:
        """Leave the role and look for a leader: the counter is exhausted, or a hand-over."""
        if not isinstance(self._role, AwaitDisk | Looking):
            self._role.outcome = StepDown(reason)
        self._advance(now)

    def snapshot_begin(self, learner: ServerId, zxid: Zxid) -> None:
        """StreamSnapshot is taken up, with the tree as of `zxid`."""
        if (known := self._streaming(learner)) is not None:
            self._leader_role().learners.snapshot_begin(known, zxid)

    def snapshot_chunk(self, learner: ServerId, data: bytes) -> None:
        """One chunk of the tree for `learner`."""
        if (known := self._streaming(learner)) is not None:
            self._leader_role().learners.snapshot_chunk(known, data)

    def snapshot_end(self, learner: ServerId, consistent_at: Zxid) -> None:
        """The tree for `learner` is complete."""
        if (known := self._streaming(learner)) is not None:
            self._leader_role().learners.snapshot_end(known, consistent_at)

    # Within.

    def _dispatch(self, sender: ServerId, message: ZabMessage, now: Millis) -> None:
        kind = type(message)
        role = self._role
        if isinstance(role, FollowerBroadcast) and sender == role.leader:
            if kind in FOLLOWER_BROADCAST:
                role.receive(message, now)  # type: ignore[arg-type]
                return
        elif isinstance(role, LeaderBroadcast) and kind in LEADER_BROADCAST:
            role.receive(sender, message, now)  # type: ignore[arg-type]
            return
        elif isinstance(role, LeaderRecovery) and kind in LEARNER_MESSAGES:
            if kind in LEADER_RECOVERY:
                role.receive(sender, message, now)  # type: ignore[arg-type]
            elif self._learner(sender) is None:
                self._stale(sender, kind)
            else:
                raise PeerProtocolError(f"{kind.__name__} in a leader's recovery")
            return
        elif (
            isinstance(role, FollowerRecovery) and sender == role.leader and kind in LEADER_MESSAGES
        ):
            self._dispatch_recovery(role, message, now)
            return
        if kind is FollowerInfo:
            # The sender takes us for a leader: say what we are.
            self._out.append(Send(sender, self._notification()))
        elif isinstance(role, FollowerBroadcast) and sender == role.leader:
            raise PeerProtocolError(f"{kind.__name__} in a follower's broadcast")
        self._stale(sender, kind)

    def _dispatch_recovery(self, role: FollowerRecovery, message: ZabMessage, now: Millis) -> None:
        if role.is_stale(message):
            self._stale(role.leader, type(message))
        elif type(message) in FOLLOWER_RECOVERY[role.phase]:
            role.receive(message, now)  # type: ignore[arg-type]
        else:
            raise PeerProtocolError(f"{type(message).__name__} while {role.phase.value}")

    def _stale(self, sender: ServerId, kind: type) -> None:
        self._out.append(TraceEvent(trace_events.MESSAGE_STALE, (sender, kind.__name__)))

    def _on_notification(self, sender: ServerId, message: Notification, now: Millis) -> None:
        role = self._role
        if isinstance(role, Looking):
            settings = self.settings
            if (
                message.voter_disks.get(settings.server_id) == settings.disk
                and not settings.has_vote
            ):
                # Without our vote there may be no quorum, and nobody else can tell us (rule D3).
                settings.members.learn_delivered(settings.server_id, settings.disk)
            role.receive(sender, message, now)
            return
        if message.state is PeerState.LOOKING and not isinstance(role, AwaitDisk):
            if isinstance(role, LeaderRecovery | LeaderBroadcast):
                role.lost(sender, "looks for a leader", now)
            self._out.append(Send(sender, self._notification()))
        if isinstance(role, FollowerRecovery | FollowerBroadcast) and sender == role.leader:
            self._on_leaders_notification(role, message)
        elif isinstance(role, LeaderRecovery) and message.has_vote and not role.has_quorum:
            self._yield_to_better(role, sender, message.own_vote)

    def _yield_to_better(self, role: LeaderRecovery, sender: ServerId, own: Vote) -> None:
        # No quorum has come, and here is somebody who would be the better leader: as long as each
        # waits for followers, a third who reaches both follows neither (ZOOKEEPER-3109).
        if own.rank > self._own_vote().rank:
            role.outcome = StepDown(f"server {sender} is the better leader")

    def _on_leaders_notification(
        self, role: FollowerRecovery | FollowerBroadcast, message: Notification
    ) -> None:
        if message.state is PeerState.LEADING:
            if isinstance(role, FollowerRecovery):
                role.send_follower_info()
            return
        is_about_to_lead = (
            isinstance(role, FollowerRecovery)
            and role.phase is FollowerPhase.DISCOVERY
            and message.state is PeerState.LOOKING
            and message.vote.leader == role.leader
            and message.round <= self._round  # a later round is a new election, for us too
        )
        if not is_about_to_lead:
            role.outcome = StepDown("the leader no longer leads")

    def _notification(self) -> Notification:
        role = self._role
        if isinstance(role, Looking):
            return role.notification()
        votes = self.settings.has_vote
        if isinstance(role, LeaderRecovery | LeaderBroadcast):
            state = PeerState.LEADING
        elif isinstance(role, AwaitDisk):
            state, votes = PeerState.LOOKING, False  # not yet
        else:
            state = PeerState.FOLLOWING if votes else PeerState.OBSERVING
        own = self._own_vote()
        disk, moved = self.settings.disk, self.settings.members.voter_disks
        return Notification(self._round, self._vote, state, votes, own, disk, moved)

    def _own_vote(self) -> Vote:
        history = self.history
        me = self.settings.server_id
        return Vote(history.rank_epoch, history.synced, me, history.has_disk_space)

    def _disk_completed(self, now: Millis) -> None:
        if isinstance(self._role, FollowerRecovery):
            self._role.log_changed()
        elif isinstance(self._role, AwaitDisk):
            self._role.check()
        self._advance(now)

    def _advance(self, now: Millis) -> None:
        while (outcome := self._role.outcome) is not None:
            self._become(outcome, now)

    def _become(self, outcome: Transition, now: Millis) -> None:
        """The only role change."""
        if isinstance(outcome, StepDown):
            self._leave(outcome.reason)
        elif isinstance(outcome, DiskIdle):
            self.history.deliver(self.history.committed)  # perhaps it gives us our vote
            self._role = Looking(
                self.settings, self.history, self.links, self._round, self._out, now
            )
        elif isinstance(outcome, Elected):
            self._on_elected(outcome, now)
        elif isinstance(outcome, Synchronized):
            self._role = FollowerBroadcast(
                self.settings, self.history, outcome.leader, outcome.position, self._out, now
            )
        else:
            self._role = LeaderBroadcast(
                self.settings, self.history, outcome.learners, self._out, now
            )

    def _on_elected(self, elected: Elected, now: Millis) -> None:
        self._round = elected.round
        self._vote = elected.vote
        leader = elected.vote.leader
        if leader == self.settings.server_id:
            self._out.append(RoleChanged(Role.LEADER, leader))
            self._role = LeaderRecovery(self.settings, self.history, self._out, now)
            self._announce()
            return
        assert leader in self.links, "nobody votes for a server that is not linked"
        self._follow_attempt += 1
        role = Role.FOLLOWER if self.settings.has_vote else Role.OBSERVER
        self._out.append(RoleChanged(role, leader))
        self._role = FollowerRecovery(
            self.settings, self.history, leader, self._follow_attempt, self._out, now
        )
        self._announce()

    def _announce(self) -> None:
        # Who waits for us to lead must learn that we follow, and who looks for a leader counts us.
        message = self._notification()
        self._out.extend(Send(peer, message) for peer in self.links)

    def _leave(self, reason: str) -> None:
        role = self._role
        self._out.append(TraceEvent(trace_events.ROLE_LEFT, (self.role.value, reason)))
        if isinstance(role, LeaderRecovery | LeaderBroadcast):
            role.learners.clear()
        elif isinstance(role, FollowerRecovery):
            role.discard_snapshot()
        # Who was wrong about the leader looks on in the same round. A new round stops everybody's
        # election, and one server that cannot reach the right leader would stop it for ever.
        if not (isinstance(role, FollowerRecovery) and role.phase is FollowerPhase.DISCOVERY):
            self._round = min(self._round + 1, ROUND_MAX)  # or no peer would decode it
        self._out.append(RoleChanged(Role.LOOKING, None))
        self._role = AwaitDisk(self.history)
        if isinstance(role, LeaderRecovery | LeaderBroadcast) and self._role.outcome is None:
            self._announce()  # nobody shall wait for our disk

    def _leader_role(self) -> LeaderRecovery | LeaderBroadcast:
        assert isinstance(self._role, LeaderRecovery | LeaderBroadcast), self.role
        return self._role

    def _learner(self, server_id: ServerId) -> Learner | None:
        if isinstance(self._role, LeaderRecovery | LeaderBroadcast):
            return self._role.learners.get(server_id)
        return None

    def _streaming(self, server_id: ServerId) -> Learner | None:
        learner = self._learner(server_id)
        return learner if learner is not None and learner.stage is Stage.STREAMING else None
