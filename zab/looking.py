"""Fast leader election: agree on the server with the newest history that is linked.

ZooKeeper: `FastLeaderElection.lookForLeader`. The election is only an oracle for liveness: who
may really lead is decided by discovery, so a wrong guess costs time, never safety.

Differences: a candidate must be linked to be voted for; a broken link takes its peer's
notifications with it; and rule Z1: the election ends at once when every linked voter has sent
exactly this vote, and after `finalize_ms` when only a quorum has.
"""

from raykeeper.zab import notes
from raykeeper.zab.effects import Note, Outbox, Send
from raykeeper.zab.history import History
from raykeeper.zab.ids import ZERO, Epoch, Millis, ServerId
from raykeeper.zab.messages import Notification, PeerState, Vote
from raykeeper.zab.settings import Settings
from raykeeper.zab.transitions import Elected, Outcome


class Looking:
    """One election, possibly of several rounds.

    `received` holds the newest vote of this round of every linked voter and of this server;
    `settled` the newest notification of every linked voter that follows or leads.
    """

    def __init__(
        self,
        settings: Settings,
        history: History,
        links: dict[ServerId, None],
        round_: int,
        out: Outbox,
        now: Millis,
    ) -> None:
        assert history.is_settled, "a vote speaks of what is on disk (Z2)"
        self.outcome: Outcome | None = None
        self.round = round_
        self._settings = settings
        self._links = links
        self._out = out
        me = settings.server_id
        # A server without a vote proposes nobody; it only asks whom to follow.
        self._own = (
            Vote(history.current, history.synced, me)
            if settings.votes
            else Vote(Epoch(0), ZERO, ServerId(0))
        )
        self.vote = self._own
        self._received: dict[ServerId, Vote] = {}
        self._settled: dict[ServerId, Notification] = {}
        self._finalize_at: Millis | None = None
        self._resend_ms = settings.timing.resend_min_ms
        self._resend_at = Millis(now + self._resend_ms)
        out.append(Note(notes.ELECTION_STARTED, round_))
        self._broadcast()
        self._check(now)

    def receive(self, sender: ServerId, message: Notification, now: Millis) -> None:
        """Take a notification into account; a sender without a vote is only answered."""
        if not message.voting or sender not in self._settings.quorum.voters:
            if message.state is PeerState.LOOKING and self._settings.votes:
                self._answer(sender)
            return
        if message.state is PeerState.LOOKING:
            self._settled.pop(sender, None)
            self._on_vote(sender, message)
        else:
            self._settled[sender] = message
            if message.round == self.round:
                self._received[sender] = message.vote
            else:
                self._received.pop(sender, None)
            self._join_settled(message.vote)
        self._check(now)

    def link_up(self, peer: ServerId, now: Millis) -> None:
        """A new link: tell our vote; the answer brings the peer's."""
        self._answer(peer)
        self._check(now)

    def link_down(self, peer: ServerId, now: Millis) -> None:
        """Forget what the peer said; if it was our candidate, start a new round without it."""
        self._received.pop(peer, None)
        self._settled.pop(peer, None)
        if self.vote.leader == peer:
            self._start_round(self.round + 1)
        self._check(now)

    def wake(self, now: Millis) -> None:
        """The deadline has passed."""
        if now >= self._resend_at:
            self._resend_ms = Millis(min(2 * self._resend_ms, self._settings.timing.resend_max_ms))
            self._resend_at = Millis(now + self._resend_ms)
            self._broadcast()
        self._check(now)

    def deadline(self) -> Millis:
        """When to call `wake`."""
        if self._finalize_at is None:
            return self._resend_at
        return min(self._resend_at, self._finalize_at)

    def _on_vote(self, sender: ServerId, message: Notification) -> None:
        if message.round < self.round:
            self._answer(sender)
            return
        if message.round > self.round:
            self._start_round(message.round)
        self._received[sender] = message.vote

    def _start_round(self, round_: int) -> None:
        self._out.append(Note(notes.ELECTION_ROUND, round_))
        self.round = round_
        self.vote = self._own
        self._received.clear()
        self._finalize_at = None
        self._broadcast()

    def _check(self, now: Millis) -> None:
        """Adopt the best vote known, and decide if a quorum sent it."""
        if self.outcome is not None or not self._settings.votes:
            return
        best = self._best()
        if best != self.vote:
            self.vote = best
            self._broadcast()
        same = [self._settings.server_id]
        same += [voter for voter, vote in self._received.items() if vote == self.vote]
        if not self._settings.quorum.holds(same):
            self._finalize_at = None
            return
        if self._finalize_at is None:
            self._finalize_at = Millis(now + self._settings.timing.finalize_ms)
        if now >= self._finalize_at or self._is_unanimous():
            self._decide(self.vote)

    def _best(self) -> Vote:
        me = self._settings.server_id
        votes = [self._own]
        votes += [v for v in self._received.values() if v.leader == me or v.leader in self._links]
        voters = self._settings.quorum.voters
        return max(vote for vote in votes if vote.leader in voters)

    def _is_unanimous(self) -> bool:
        return all(
            self._received.get(voter) == self.vote
            for voter in self._settings.quorum.voters
            if voter in self._links
        )

    def _join_settled(self, vote: Vote) -> None:
        """Follow a leader that says it leads and that a quorum, with us at most, stands by.

        Counting ourselves spares a leader in discovery that lacks just our voice its timeout.
        """
        leader = vote.leader
        claim = self._settled.get(leader)
        if leader == self._settings.server_id or claim is None:
            return
        if claim.state is not PeerState.LEADING:
            return
        supporters = [s for s, n in self._settled.items() if n.vote.leader == leader]
        if self._settings.votes:
            supporters.append(self._settings.server_id)
        if self._settings.quorum.holds(supporters):
            self.round = max(self.round, claim.round)
            self._decide(claim.vote)

    def _decide(self, vote: Vote) -> None:
        self._out.append(Note(notes.ELECTION_DECIDED, (self.round, vote.leader)))
        self.vote = vote
        self.outcome = Elected(self.round, vote)

    def _notification(self) -> Notification:
        return Notification(self.round, self.vote, PeerState.LOOKING, self._settings.votes)

    def _answer(self, peer: ServerId) -> None:
        self._out.append(Send(peer, self._notification()))

    def _broadcast(self) -> None:
        message = self._notification()
        self._out.extend(Send(peer, message) for peer in self._links)
