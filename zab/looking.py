"""Fast leader election: agree on the server with the newest history that is linked.

ZooKeeper: `FastLeaderElection.lookForLeader`. The election is only an oracle for liveness: who
may really lead is decided by discovery, so a wrong guess costs time, never safety.

Differences: a vote goes to the best of the linked voters, each of which tells its own history;
votes told by others are counted, never adopted. So a vote follows from what is known at first
hand, and two servers cannot hold each other to a candidate that neither can reach. A broken link
takes its peer's notifications with it. Rule Z1: the election ends at once when every linked voter
has sent exactly this vote, and after `finalize_ms` when only a quorum has. A quorum suffices for
the nominee of the leader before: no history is better than its own.
"""

from raykeeper.zab import trace_events
from raykeeper.zab.effects import Outbox, Send, TraceEvent
from raykeeper.zab.errors import PeerProtocolError
from raykeeper.zab.history import History
from raykeeper.zab.ids import ZERO, Epoch, Millis, ServerId
from raykeeper.zab.messages import Notification, PeerState, Vote
from raykeeper.zab.settings import Settings
from raykeeper.zab.transitions import DiskIdle, Elected, Transition


class AwaitDisk:
    """A server between two roles: it takes part in nothing until its disk is idle, however long.

    Rule Z2: a vote speaks of what is synced, so a server that leaves a role first waits for all
    that the role asked of the disk. ZooKeeper lost transactions by not doing so (ZOOKEEPER-4712,
    -4541, -2845).
    """

    def __init__(self, history: History) -> None:
        self.transition: Transition | None = None
        self._history = history
        self.check()

    def check(self) -> None:
        """Handle a completion of the disk."""
        if self._history.is_disk_idle:
            self.transition = DiskIdle()


def is_willing(server_id: ServerId, history: History, nominee: ServerId | None) -> bool:
    """Return whether a server wants to lead: it can log, and no other one was nominated."""
    return history.has_disk_space and nominee in (None, server_id)


class Looking:
    """One election, possibly of several rounds.

    `_received` holds the newest notification of this round of every linked voter;
    `_out_of_election` the newest of every linked voter that follows or leads.
    """

    def __init__(
        self,
        settings: Settings,
        history: History,
        links: dict[ServerId, None],
        round_: int,
        out: Outbox,
        now: Millis,
        nominee: ServerId | None = None,
    ) -> None:
        """Begin the election; `nominee` is the server that the leader before asked to elect."""
        # ZOOKEEPER-2845: a server voted with its memory and lost; its disk caught up afterwards
        # with transactions that no leader knew, and brought them back at the next restart.
        assert history.is_disk_idle, "a vote speaks of what is on disk (Z2)"
        self.transition: Transition | None = None
        self.round = round_
        self._settings = settings
        self._links = links
        self._out = out
        self._history = history
        self._nominee = nominee
        self.vote = self._own_vote()
        self._received: dict[ServerId, Notification] = {}
        self._out_of_election: dict[ServerId, Notification] = {}
        # The other voters that lost their promises with their disks (rule D3).
        self._voters_lost: dict[ServerId, None] = {}
        self._finalize_at: Millis | None = None
        self._resend_ms = settings.timing.resend_min_ms
        self._resend_at = Millis(now + self._resend_ms)
        out.append(TraceEvent(trace_events.ELECTION_STARTED, round_))
        self._broadcast()
        self._check(now)

    def receive(self, sender: ServerId, message: Notification, now: Millis) -> None:
        """Count a notification; a sender without a vote is only answered.

        Raises:
            PeerProtocolError: it puts forward another server than its sender; nothing has changed.
        """
        # By an old list there may be no quorum, and no leader could tell us (M7).
        if self._settings.members.learn_delivered(message.members):
            self._drop_others()
        # On whatever disk: the leader will find out whose member list is right (rule D3).
        if not message.has_vote or not self._settings.members.is_voter(sender):
            self._forget(sender)
            self._take_note_of(sender, message)
            if message.state is PeerState.LOOKING and self._settings.has_vote:
                self._answer(sender)
            self._check(now)
            return
        self._voters_lost.pop(sender, None)
        candidate = _candidate(message)
        if candidate is not None and candidate.leader != sender:
            raise PeerProtocolError(f"a vote for itself that names server {candidate.leader}")
        if message.state is PeerState.LOOKING:
            self._on_vote(sender, message)
        else:
            self._out_of_election[sender] = message
            if message.round == self.round:
                self._received[sender] = message
            else:
                self._received.pop(sender, None)
            self._join_leader(message.vote)
        self._check(now)

    def link_up(self, peer: ServerId, now: Millis) -> None:
        """Tell our vote over a new link; the answer brings the peer's."""
        self._answer(peer)
        self._check(now)

    def link_down(self, peer: ServerId, now: Millis) -> None:
        """Forget the peer's notifications; if it was our candidate, vote for the next best.

        In the same round: others may still reach the peer, and a new round would stop them.
        """
        self._forget(peer)
        self._voters_lost.pop(peer, None)
        self._check(now)

    def disk_space_changed(self, now: Millis) -> None:
        """Vote anew: with our disk full, others with the same history are the better leaders."""
        self._check(now)

    def members_changed(self, now: Millis) -> None:
        """Vote anew: the list may name our disk now (rule D3), and no more some that have voted."""
        self._drop_others()
        self._check(now)

    @property
    def voters_lost(self) -> list[ServerId]:
        """The voters known to have lost their promises, this server too, in order."""
        settings = self._settings
        me = settings.server_id
        is_lost = settings.members.is_voter(me) and not settings.has_vote
        return sorted([*self._voters_lost, me] if is_lost else self._voters_lost)

    def wake(self, now: Millis) -> None:
        """Repeat our notification, or decide, if the deadline has passed."""
        if now >= self._resend_at:
            self._resend_ms = Millis(min(2 * self._resend_ms, self._settings.timing.resend_max_ms))
            self._resend_at = Millis(now + self._resend_ms)
            self._broadcast()
        self._check(now)

    def deadline(self) -> Millis:
        """Return when to call `wake`."""
        if self._finalize_at is None:
            return self._resend_at
        return min(self._resend_at, self._finalize_at)

    def _on_vote(self, sender: ServerId, message: Notification) -> None:
        if message.round < self.round:
            self._out_of_election.pop(sender, None)
            # From a server without a vote the sender learns no round; it would answer for ever.
            if self._settings.has_vote:
                self._answer(sender)
            return
        if message.round > self.round:
            self._start_round(message.round)
        if self._out_of_election.pop(sender, None) is not None:
            self._answer(sender)  # it looks again in this round and has forgotten our vote
        self._received[sender] = message

    def _take_note_of(self, sender: ServerId, message: Notification) -> None:
        """Note a voter that lost its promises; warn when no quorum is left without such voters."""
        members = self._settings.members
        lost = self._voters_lost
        if sender in lost or not members.is_voter(sender) or members.has_vote(sender, message.disk):
            return
        lost[sender] = None
        if not members.are_electors(set(members.voters).difference(self.voters_lost)):
            self._out.append(TraceEvent(trace_events.QUORUM_LOST, self.voters_lost))

    def _drop_others(self) -> None:
        """Forget the servers that the member list names no more."""
        is_voter = self._settings.members.is_voter
        for sender in [*self._received, *self._out_of_election, *self._voters_lost]:
            if not is_voter(sender):
                self._forget(sender)
                self._voters_lost.pop(sender, None)

    def _forget(self, peer: ServerId) -> None:
        self._received.pop(peer, None)
        self._out_of_election.pop(peer, None)

    def _start_round(self, round_: int) -> None:
        self._out.append(TraceEvent(trace_events.ELECTION_ROUND, round_))
        self.round = round_
        self.vote = self._own_vote()
        self._received.clear()
        self._finalize_at = None
        self._broadcast()

    def _check(self, now: Millis) -> None:
        """Vote for the best linked voter, and decide if a quorum votes for it too."""
        if self.transition is not None:
            return
        if not self._settings.has_vote:
            # It may have had one: a deadline that is left would wake this server for ever.
            self.vote, self._finalize_at = self._own_vote(), None
            return
        best = self._best()
        if best != self.vote:
            self.vote = best
            self._finalize_at = None
            self._broadcast()
        same = [self._settings.server_id]
        same += [voter for voter, told in self._received.items() if told.vote == self.vote]
        if not self._settings.members.are_electors(same):
            self._finalize_at = None
            return
        if self._finalize_at is None:
            self._finalize_at = Millis(now + self._settings.timing.finalize_ms)
        if now >= self._finalize_at or self._is_unanimous() or self.vote.leader == self._nominee:
            self._decide(self.vote)

    def _best(self) -> Vote:
        told = [_candidate(message) for message in self._received.values()]
        votes = [self._own_vote(), *(vote for vote in told if vote is not None)]
        return max(votes, key=lambda vote: vote.rank)

    def _is_unanimous(self) -> bool:
        return all(
            voter in self._received and self._received[voter].vote == self.vote
            for voter in self._settings.members.voters
            if voter in self._links
        )

    def _join_leader(self, vote: Vote) -> None:
        """Follow a server that says it leads and has a quorum behind it, ourselves included.

        Counting ourselves spares a leader in discovery that lacks just our voice its timeout.
        """
        leader = vote.leader
        claim = self._out_of_election.get(leader)
        if leader == self._settings.server_id or claim is None:
            return
        if claim.state is not PeerState.LEADING:
            return
        supporters = [s for s, n in self._out_of_election.items() if n.vote.leader == leader]
        if self._settings.has_vote:
            supporters.append(self._settings.server_id)
        if self._settings.members.are_electors(supporters):
            self.round = claim.round  # by a later round the leader tells that it leads no more
            self._decide(claim.vote)

    def _decide(self, vote: Vote) -> None:
        self._out.append(TraceEvent(trace_events.ELECTION_DECIDED, (self.round, vote.leader)))
        self.vote = vote
        self.transition = Elected(self.round, vote)

    def notification(self) -> Notification:
        """Return what this server tells the others now."""
        votes = self._settings.has_vote
        disk = self._settings.disk
        members, own = self._settings.members, self._own_vote()
        moved, told = members.voter_disks, members.to_tell
        nominee = self._nominee or ServerId(0)
        return Notification(
            self.round, self.vote, PeerState.LOOKING, votes, own, disk, moved, told, nominee
        )

    def _own_vote(self) -> Vote:
        # A server without a vote proposes server 0, which is none; it only asks whom to follow. Not
        # cached: a member list that arrives with a snapshot can grant the vote during an election.
        history = self._history
        if not self._settings.has_vote:
            return Vote(Epoch(0), ZERO, ServerId(0))
        me = self._settings.server_id
        return Vote(history.rank_epoch, history.synced, me, is_willing(me, history, self._nominee))

    def _answer(self, peer: ServerId) -> None:
        self._out.append(Send(peer, self.notification()))

    def _broadcast(self) -> None:
        message = self.notification()
        self._out.extend(Send(peer, message) for peer in self._links)


def _candidate(message: Notification) -> Vote | None:
    """Return the vote of a voter for itself, or for the leader that it is; None if it follows."""
    if message.state is PeerState.LOOKING:
        return message.own_vote
    # A leader was the first to decide this round.
    return message.vote if message.state is PeerState.LEADING else None
