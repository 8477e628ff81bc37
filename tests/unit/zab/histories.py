"""Shorthand for the tests of zab/: zxids, histories, and a peer that was led into a role."""

from raykeeper.zab.effects import Effect, LogRun, SaveEpochs, Send, TraceEvent
from raykeeper.zab.history import History
from raykeeper.zab.ids import FOUNDING_DISK, ZERO, DiskId, Epoch, Millis, ServerId, Zxid, make_zxid
from raykeeper.zab.messages import (
    AckEpoch,
    AckNewLeader,
    Diff,
    FollowerInfo,
    LeaderInfo,
    NewLeader,
    Notification,
    PeerState,
    UpToDate,
    Vote,
    ZabMessage,
)
from raykeeper.zab.peer import Peer
from raykeeper.zab.recent_log import RecentLog
from raykeeper.zab.settings import RecentLogLimits, Settings

S1, S2, S3, S4, S5 = (ServerId(i) for i in range(1, 6))
THREE = (S1, S2, S3)
NEW_DISK = DiskId("new")  # not the one that a vote rests on
T0 = Millis(10_000)


def z(epoch: int, counter: int) -> Zxid:
    return make_zxid(Epoch(epoch), counter)


def run(first: Zxid, *txns: bytes) -> LogRun:
    return LogRun(first, list(txns))


def make_history(
    out: list[Effect],
    *runs: LogRun,
    accepted: int = 0,
    current: int = 0,
    delivered: Zxid | None = None,
    base: Zxid = ZERO,
    limits: RecentLogLimits | None = None,
    is_uncertain: bool = False,
    has_initial: bool = False,
    has_room: bool = True,
) -> History:
    """A recovered history; `delivered` is its base unless told."""
    window = RecentLog(base)
    for each in runs:
        window.extend(each.first, each.txns)
    return History(
        Epoch(accepted),
        Epoch(current),
        window,
        base if delivered is None else delivered,
        out,
        limits or RecentLogLimits(),
        is_uncertain=is_uncertain,
        has_initial_history=has_initial,
        has_disk_space=has_room,
    )


def without_notes(out: list[Effect]) -> list[Effect]:
    return [effect for effect in out if not isinstance(effect, TraceEvent)]


def sent(out: list[Effect], to: ServerId | None = None) -> list[ZabMessage]:
    """The messages in an outbox, or those to one server."""
    return [e.message for e in out if isinstance(e, Send) and to in (None, e.peer)]


def noted(out: list[Effect]) -> list[str]:
    return [effect.name for effect in out if isinstance(effect, TraceEvent)]


def told(
    round_: int,
    vote: Vote,
    state: PeerState = PeerState.LOOKING,
    voting: bool = True,
    own: Vote | None = None,
    disk: DiskId = FOUNDING_DISK,
    moved: dict[ServerId, DiskId] | None = None,
) -> Notification:
    """A notification; the sender votes for itself unless `own` says otherwise."""
    return Notification(round_, vote, state, voting, own or vote, disk, moved or {})


class Bench:
    """One peer, its outbox, and a hand that plays the others and the disk."""

    def __init__(
        self,
        server_id: ServerId,
        *runs: LogRun,
        voters: tuple[ServerId, ...] = THREE,
        disk: DiskId = FOUNDING_DISK,
        accepted: int = 0,
        current: int = 0,
        delivered: Zxid | None = None,
        base: Zxid = ZERO,
        window: RecentLogLimits | None = None,
        has_room: bool = True,
        is_uncertain: bool = False,
    ) -> None:
        self.out: list[Effect] = []
        self.now = T0
        self.settings = Settings(server_id, voters, disk, window=window)
        self.history = make_history(
            self.out,
            *runs,
            accepted=accepted,
            current=current,
            delivered=delivered,
            base=base,
            limits=window,
            has_room=has_room,
            is_uncertain=is_uncertain,
        )
        self.peer = Peer(self.settings, self.history, self.out)
        self.peer.start(self.now)

    def take(self) -> list[Effect]:
        """What was emitted since the last call."""
        found = self.out[:]
        self.out.clear()
        return found

    def link(self, *peers: ServerId) -> None:
        for peer in peers:
            self.peer.link_up(peer, self.now)

    def hear(self, sender: ServerId, *messages: ZabMessage) -> None:
        for message in messages:
            self.peer.receive(sender, message, self.now)

    def later(self, span: int) -> None:
        self.now = Millis(self.now + span)
        self.peer.wake(self.now)

    def save_epochs(self) -> None:
        """The disk has carried out the newest SaveEpochs."""
        saves = [effect for effect in self.out if isinstance(effect, SaveEpochs)]
        self.peer.epochs_saved(saves[-1].accepted, saves[-1].current, self.now)

    def elect(self, leader: ServerId, *voters: ServerId) -> None:
        """Link `voters` and have all of them vote for `leader`, which has the best history."""
        self.link(*voters)
        mine = Vote(self.history.current, self.history.synced, self.settings.server_id)
        best = Vote(self.history.current, self.history.synced, leader)
        for voter in voters:
            own = Vote(Epoch(0), ZERO, voter) if voter != leader else best
            vote = best if leader != self.settings.server_id else mine
            self.hear(voter, told(self.peer._round, vote, own=own))

    def follow(self, leader: ServerId, epoch: int) -> None:
        """From the election to UPTODATE behind `leader`, which has exactly our log."""
        self.elect(leader, leader)
        self.synchronize(leader, epoch)

    def observe(self, leader: ServerId, other: ServerId, epoch: int) -> None:
        """The same without a vote, behind a leader that `other` follows already."""
        self.link(leader, other)
        vote = Vote(self.history.current, self.history.synced, leader)
        self.hear(leader, told(1, vote, PeerState.LEADING))
        own = Vote(self.history.current, self.history.synced, other)
        self.hear(other, told(1, vote, PeerState.FOLLOWING, own=own))
        self.synchronize(leader, epoch)

    def synchronize(self, leader: ServerId, epoch: int) -> None:
        """From LEADERINFO to UPTODATE."""
        self.hear(leader, LeaderInfo(Epoch(epoch), 1))
        self.save_epochs()
        self.hear(leader, Diff(), NewLeader(Epoch(epoch), self.history.logged))
        self.save_epochs()
        self.hear(leader, UpToDate(self.history.logged))

    def lead(self, *followers: ServerId) -> None:
        """From the election to an established leader whose followers have exactly its log."""
        self.elect(self.settings.server_id, *followers)
        for follower in followers:
            self.hear(follower, FollowerInfo(self.history.accepted, 1, FOUNDING_DISK))
        self.save_epochs()
        last = self.history.logged
        for follower in followers:
            self.hear(follower, AckEpoch(Epoch(0), last, True))
        self.save_epochs()
        for follower in followers:
            self.hear(follower, AckNewLeader(self.history.current))
