"""One server's part in Zab: the role it plays, and the only place where roles change.

Paper: Zab, section IV. ZooKeeper: `QuorumPeer.run`.

The peer is a state machine without clock or I/O. Its surroundings call one method per event and
carry out what was appended to the outbox, in order. Times are monotonic milliseconds.

The file is long because it has each event for all roles, beside the changes of role that follow.
"""

from raykeeper.zab import trace_events
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
from raykeeper.zab.ids import FOUNDING_DISK, DiskId, Epoch, Millis, ServerId, Zxid
from raykeeper.zab.leader_broadcast import LeaderBroadcast
from raykeeper.zab.leader_recovery import LeaderRecovery
from raykeeper.zab.learners import Learner, Stage
from raykeeper.zab.looking import AwaitDisk, Looking, is_willing
from raykeeper.zab.member_list import MemberList
from raykeeper.zab.messages import (
    LeaderInfo,
    Notification,
    PeerState,
    Vote,
    ZabMessage,
)
from raykeeper.zab.phases import (
    ANSWER,
    FOLLOWER_BROADCAST,
    FOLLOWER_RECOVERY,
    HANDLE,
    LEADER_BROADCAST,
    LEADER_RECOVERY,
    NOT_A_LEARNER,
    STALE,
    UNRELATED,
    FollowerPhase,
    Row,
)
from raykeeper.zab.settings import Settings
from raykeeper.zab.transitions import DiskIdle, Elected, StepDown, Synchronized, Transition
from raykeeper.zab.wire_types import ROUND_MAX

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
        self._nominee: ServerId | None = None  # whom the leader before asked to elect
        self._vote = self._own_vote()
        self._role: _Role = AwaitDisk(history)

    # Questions of the surroundings.

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
            voters = self.settings.members.delivered.voters
            return sorted(
                x.server_id for x in role.learners if voters.get(x.server_id, x.disk) != x.disk
            )
        me = self.settings.server_id
        is_lost = self.settings.members.is_voter(me) and not self.settings.has_vote
        return [me] if is_lost else []

    @property
    def broadcasting(self) -> LeaderBroadcast | None:
        """This server as established leader, to propose and to read; None if it is not one."""
        return self._role if isinstance(self._role, LeaderBroadcast) else None

    @property
    def is_active(self) -> bool:
        """Whether this server takes part in broadcast, as leader or learner."""
        return isinstance(self._role, LeaderBroadcast | FollowerBroadcast)

    def last_quorum_contact(self, now: Millis) -> Millis | None:
        """Return when this server was last sure to be in a working ensemble; None if it is not."""
        if isinstance(self._role, LeaderBroadcast):
            return self._role.last_quorum_contact(now)
        if isinstance(self._role, FollowerBroadcast):
            return self._role.last_received_at
        return None

    def deadline(self) -> Millis | None:
        """Return when to call `wake`; None while only events can move this server."""
        return None if isinstance(self._role, AwaitDisk) else self._role.deadline()

    # Events.

    def start(self, now: Millis) -> None:
        """Look for a leader."""
        self._advance(now)

    def wake(self, now: Millis) -> None:
        """Handle the passing of the deadline."""
        if not isinstance(self._role, AwaitDisk):
            self._role.wake(now)
            self._advance(now)

    def link_up(self, peer: ServerId, now: Millis) -> None:
        """Handle a new link to `peer`; anything under way on an older link is lost."""
        if peer in self.links:
            self.link_down(peer, now)
        self.links[peer] = None
        if isinstance(self._role, Looking):
            self._role.link_up(peer, now)
        self._advance(now)

    def link_down(self, peer: ServerId, now: Millis) -> None:
        """Handle the loss of the link to `peer`; ignore a link that was not up."""
        if peer not in self.links:
            return
        del self.links[peer]
        role = self._role
        if isinstance(role, Looking):
            role.link_down(peer, now)
        elif isinstance(role, LeaderRecovery | LeaderBroadcast):
            role.lost(peer, "link broken", now)
        elif isinstance(role, FollowerRecovery | FollowerBroadcast) and role.leader == peer:
            role.transition = StepDown("the link to the leader is broken")
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
        """Handle the completion of Append."""
        self.history.log_synced(upto)
        role = self._role
        if isinstance(role, FollowerBroadcast | LeaderBroadcast):
            role.log_synced()
        self._disk_completed(now)

    def epochs_saved(self, accepted: Epoch, current: Epoch, now: Millis) -> None:
        """Handle the completion of SaveEpochs."""
        self.history.epochs_saved(accepted, current)
        if isinstance(self._role, FollowerRecovery | LeaderRecovery):
            self._role.epochs_saved()
        self._disk_completed(now)

    def log_truncated(self, upto: Zxid, now: Millis) -> None:
        """Handle the completion of Truncate."""
        self.history.truncated(upto)
        self._disk_completed(now)

    def snapshot_installed(self, zxid: Zxid, now: Millis) -> None:
        """Handle the completion of InstallSnapshot."""
        self.history.installed(zxid)
        self._disk_completed(now)

    def log_read(self, learner: ServerId, after: Zxid, runs: list[LogRun], now: Millis) -> None:
        """Handle the completion of ReadLog; ignore a learner that has gone meanwhile."""
        known = self._learner(learner)
        if known is not None and isinstance(self._role, LeaderRecovery | LeaderBroadcast):
            self._role.learners.log_read(known, after, runs)
        self._advance(now)

    def propose(self, txns: list[bytes], now: Millis) -> None:
        """Propose transactions; only while `broadcasting`, and at most its `counter_left`."""
        assert isinstance(self._role, LeaderBroadcast), self.role
        self._role.propose(txns, now)
        self._advance(now)

    def disk_space_changed(self, has_disk_space: bool, now: Millis) -> None:
        """Handle that the disk is full, or has space again (rule D6)."""
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

    def voter_replaced(self, server: ServerId, disk: DiskId, zxid: Zxid, now: Millis) -> bool:
        """Count a voter by `disk`, as transaction `zxid` says. Return whether that is new.

        Before `start`, from the log that was recovered, no role begins by it.
        """
        is_new = self.settings.members.disk_delivered(server, disk, zxid)
        if is_new:
            self._out.append(TraceEvent(trace_events.VOTE_REPLACED, (server, disk)))
        self._members_delivered(is_about_us=server == self.settings.server_id, is_new=is_new)
        self._recount(now)
        return is_new

    def list_logged(self, members: MemberList) -> None:
        """Note a list that this leader is about to propose; it counts beside the one before."""
        self.settings.members.list_logged(members)
        self._leader_role().learners.members_changed()

    def list_delivered(self, members: MemberList, now: Millis) -> bool:
        """Count by a list, as a delivered transaction says. Return whether that is new."""
        settings = self.settings
        is_new = settings.members.list_delivered(members)
        if is_new:
            detail = sorted(members.voters), members.observers
            self._out.append(TraceEvent(trace_events.MEMBERS_CHANGED, detail))
        is_about_us = settings.disk != FOUNDING_DISK
        self._members_delivered(is_about_us=is_about_us, is_new=is_new)
        self._recount(now)
        return is_new

    def _members_delivered(self, *, is_about_us: bool, is_new: bool) -> None:
        if is_about_us and not is_new and self.settings.has_vote:
            # The second such transaction: a quorum has it on disk that the first was committed, so
            # the vote stays on this disk even if all servers restart.
            self._out.append(VoteGranted())

    def _recount(self, now: Millis) -> None:
        if isinstance(self._role, LeaderRecovery | LeaderBroadcast):
            # Also for a repeated transaction: until now it was a change that was only logged.
            self._role.members_changed()
            self._advance(now)
        elif isinstance(self._role, Looking):
            self._role.members_changed(now)
            self._advance(now)

    def transfer_leadership(
        self, to: ServerId | None, until: Millis, lag_max: int
    ) -> ServerId | str:
        """Begin to hand the lead over; return the nominee, or why nobody can take over.

        Only while `broadcasting`.
        """
        assert isinstance(self._role, LeaderBroadcast), self.role
        return self._role.transfer_leadership(to, until, lag_max)

    def abandon_transfer(self, reason: str) -> None:
        """Go on leading; only while a transfer is under way."""
        assert isinstance(self._role, LeaderBroadcast), self.role
        self._role.abandon_transfer(reason)

    def step_down(self, reason: str, now: Millis) -> None:
        """Leave the role and look for a leader, for an exhausted counter."""
        if not isinstance(self._role, AwaitDisk | Looking):
            self._role.transition = StepDown(reason)
        self._advance(now)

    def snapshot_begin(self, learner: ServerId, zxid: Zxid) -> None:
        """Begin the snapshot that StreamSnapshot asked for, with the tree as of `zxid`."""
        if (known := self._streaming(learner)) is not None:
            self._leader_role().learners.snapshot_begin(known, zxid)

    def snapshot_chunk(self, learner: ServerId, data: bytes) -> None:
        """Send one chunk of the tree to `learner`."""
        if (known := self._streaming(learner)) is not None:
            self._leader_role().learners.snapshot_chunk(known, data)

    def snapshot_end(self, learner: ServerId, consistent_at: Zxid) -> None:
        """End the snapshot for `learner`: the tree is complete."""
        if (known := self._streaming(learner)) is not None:
            self._leader_role().learners.snapshot_end(known, consistent_at)

    # Within.

    def _dispatch(self, sender: ServerId, message: ZabMessage, now: Millis) -> None:
        """Give the message the fate that the table of `phases` has for it.

        Raises:
            PeerProtocolError: the table has none; nothing has changed.
        """
        role, kind = self._role, type(message)
        row = self._row(sender)
        fate = row.fates.get(kind)
        if (
            isinstance(role, FollowerRecovery)
            and isinstance(message, LeaderInfo)
            and message.follow_attempt != self._follow_attempt
        ):
            fate = STALE
        if fate is None:
            raise PeerProtocolError(f"{kind.__name__} while {row.situation}")
        if fate is HANDLE:
            if isinstance(role, FollowerRecovery | FollowerBroadcast):
                role.receive(message, now)  # type: ignore[arg-type]
            else:
                assert isinstance(role, LeaderRecovery | LeaderBroadcast), row
                role.receive(sender, message, now)  # type: ignore[arg-type]
            return
        if fate is ANSWER:
            self._out.append(Send(sender, self._notification()))
        self._stale(sender, kind)

    def _row(self, sender: ServerId) -> Row:
        """Return the row of the table that says how this server stands towards `sender`."""
        role = self._role
        if isinstance(role, FollowerBroadcast) and sender == role.leader:
            return FOLLOWER_BROADCAST
        if isinstance(role, FollowerRecovery) and sender == role.leader:
            return FOLLOWER_RECOVERY[role.phase]
        if not isinstance(role, LeaderRecovery | LeaderBroadcast):
            return UNRELATED
        if role.learners.get(sender) is None:
            return NOT_A_LEARNER
        return LEADER_BROADCAST if isinstance(role, LeaderBroadcast) else LEADER_RECOVERY

    def _stale(self, sender: ServerId, kind: type) -> None:
        self._out.append(TraceEvent(trace_events.MESSAGE_STALE, (sender, kind.__name__)))

    def _on_notification(self, sender: ServerId, message: Notification, now: Millis) -> None:
        role = self._role
        if isinstance(role, Looking):
            role.receive(sender, message, now)
            return
        members = self.settings.members
        if isinstance(role, LeaderRecovery) and members.learn_delivered(message.members):
            # Promises and acks of our epoch must not be counted by a list of a later one: they may
            # be older than it. As a looking server we may count by it (M7).
            role.transition = StepDown("the members are others by now")
        if message.state is PeerState.LOOKING and not isinstance(role, AwaitDisk):
            if isinstance(role, LeaderRecovery | LeaderBroadcast):
                role.lost(sender, "looks for a leader", now)
            self._out.append(Send(sender, self._notification()))
        if isinstance(role, FollowerRecovery | FollowerBroadcast) and sender == role.leader:
            self._on_leaders_notification(role, message)
        elif isinstance(role, LeaderRecovery) and message.has_vote and not role.has_quorum:
            self._yield_to_better(role, sender, message)

    def _yield_to_better(
        self, role: LeaderRecovery, sender: ServerId, message: Notification
    ) -> None:
        if message.state is PeerState.FOLLOWING and self._nominee == self.settings.server_id:
            # It followed the leader that nominated us, and was willing while it had not heard of it
            # (seed 4 of the simulator's transfers).
            return
        # No quorum has come, and the sender would be the better leader: as long as each of the two
        # waits for followers, a third server that reaches both follows neither (ZOOKEEPER-3109).
        if message.own_vote.rank > self._own_vote().rank:
            role.transition = StepDown(f"server {sender} is the better leader")

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
            role.transition = StepDown("the leader no longer leads", message.nominee or None)

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
        disk, members = self.settings.disk, self.settings.members
        moved, told = members.voter_disks, members.to_tell
        nominee = self._nominee or ServerId(0)
        return Notification(self._round, self._vote, state, votes, own, disk, moved, told, nominee)

    def _own_vote(self) -> Vote:
        history = self.history
        me = self.settings.server_id
        willing = is_willing(me, history, self._nominee)
        return Vote(history.rank_epoch, history.synced, me, willing)

    def _disk_completed(self, now: Millis) -> None:
        if isinstance(self._role, FollowerRecovery):
            self._role.log_changed()
        elif isinstance(self._role, AwaitDisk):
            self._role.check()
        self._advance(now)

    def _advance(self, now: Millis) -> None:
        while (transition := self._role.transition) is not None:
            self._become(transition, now)

    def _become(self, transition: Transition, now: Millis) -> None:
        """Change the role. No other code does."""
        if isinstance(transition, StepDown):
            self._leave(transition)
        elif isinstance(transition, DiskIdle):
            self.history.deliver(self.history.committed)  # it may give us our vote
            self._role = Looking(
                *(self.settings, self.history, self.links, self._round, self._out, now),
                self._nominee,
            )
        elif isinstance(transition, Elected):
            self._on_elected(transition, now)
        elif isinstance(transition, Synchronized):
            self._nominee = None
            self._role = FollowerBroadcast(
                self.settings, self.history, transition.leader, transition.position, self._out, now
            )
        else:
            self._nominee = None
            self._role = LeaderBroadcast(
                self.settings, self.history, transition.learners, self._out, now
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
        # A vote goes to a linked server only: behind a leader that it cannot reach, a server would
        # wait for the whole timeout, and elect the same one again.
        assert leader in self.links, "a vote for a server that is not linked"
        self._follow_attempt += 1
        role = Role.FOLLOWER if self.settings.has_vote else Role.OBSERVER
        self._out.append(RoleChanged(role, leader))
        self._role = FollowerRecovery(
            self.settings, self.history, leader, self._follow_attempt, self._out, now
        )
        self._announce()

    def _announce(self) -> None:
        # A server that waits for us to lead must learn that we follow, and one that looks for a
        # leader counts us as a supporter of ours.
        message = self._notification()
        self._out.extend(Send(peer, message) for peer in self.links)

    def _leave(self, left: StepDown) -> None:
        role = self._role
        self._nominee = left.nominee
        self._out.append(TraceEvent(trace_events.ROLE_LEFT, (self.role.value, left.reason)))
        if isinstance(role, LeaderRecovery | LeaderBroadcast):
            role.learners.clear()
        elif isinstance(role, FollowerRecovery):
            role.discard_snapshot()
        # After a wrong guess of the leader the election goes on in the same round. A new round
        # restarts it everywhere, and one server without the leader in reach would do so for ever.
        if not (isinstance(role, FollowerRecovery) and role.phase is FollowerPhase.DISCOVERY):
            self._round = min(self._round + 1, ROUND_MAX)  # or no peer would decode it
        self._out.append(RoleChanged(Role.LOOKING, None))
        self._role = AwaitDisk(self.history)
        if isinstance(role, LeaderRecovery | LeaderBroadcast) and self._role.transition is None:
            self._announce()  # the learners need not wait for our disk

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
