"""One server, for scenarios that are kept as data: each command is an event of its peer."""

from collections.abc import Callable
from typing import Any, TypeVar

from msgspec import Struct

from raykeeper.zab.effects import (
    Effect,
    InstallSnapshot,
    LogRun,
    SaveEpochs,
    Send,
    TraceEvent,
    Truncate,
)
from raykeeper.zab.follower_recovery import FollowerRecovery
from raykeeper.zab.ids import (
    FOUNDING_DISK,
    ZERO,
    DiskId,
    Epoch,
    Millis,
    ServerId,
    Zxid,
    format_zxid,
)
from raykeeper.zab.leader_broadcast import LeaderBroadcast
from raykeeper.zab.leader_recovery import LeaderRecovery
from raykeeper.zab.member_list import MemberList
from raykeeper.zab.messages import (
    AckEpoch,
    AckNewLeader,
    FollowerInfo,
    LeaderInfo,
    Notification,
    PeerState,
    Vote,
    ZabMessage,
)
from raykeeper.zab.peer import Peer
from raykeeper.zab.settings import RecentLogLimits
from tests.harness.struct_text import (
    format_struct,
    format_value,
    parse_fields,
    parse_struct,
    parse_value,
)
from tests.unit.zab.histories import T0, THREE, Bench

AnyEffect = TypeVar("AnyEffect", bound=Struct)


def reader(kind: Any) -> Callable[[str], Any]:
    return lambda word: parse_value(word, kind)


ANY = ServerId(0)
READERS = {kind: reader(kind) for kind in (Epoch, ServerId, Zxid, DiskId, bool, bytes)}


class Recovered(Struct):
    """A server as it starts: both its epochs are `epoch` unless told."""

    server: ServerId
    epoch: Epoch = Epoch(0)
    log: list[LogRun] = []
    accepted: Epoch | None = None
    delivered: Zxid | None = None
    base: Zxid = ZERO
    voters: tuple[ServerId, ...] = THREE
    disk: DiskId = FOUNDING_DISK
    has_disk_space: bool = True
    is_uncertain: bool = False
    window: RecentLogLimits = RecentLogLimits()


class Told(Struct):
    """A vote in an election of servers with empty logs."""

    sender: ServerId
    leader: ServerId
    state: PeerState = PeerState.LOOKING
    round: int = 1
    epoch: Epoch = Epoch(0)
    zxid: Zxid = ZERO
    is_willing: bool = True
    has_vote: bool = True
    disk: DiskId = FOUNDING_DISK


class PeerStage:
    """A server whose effects are printed; `start` makes a new one.

    `elect`, `promise`, `follow`, `observe`, `propose_epoch`, `lead` and `join` stand for all events
    up to there between servers with the same log. These, `start` and `link` print nothing.
    """

    def start(self, rest: str) -> None:
        told = parse_fields(rest, Recovered)
        self._bench = Bench(
            told.server,
            *told.log,
            voters=told.voters,
            disk=told.disk,
            accepted=told.epoch if told.accepted is None else told.accepted,
            current=told.epoch,
            delivered=told.delivered,
            base=told.base,
            window=told.window,
            has_room=told.has_disk_space,
            is_uncertain=told.is_uncertain,
        )
        self._peer = self._bench.peer
        self._on_disk: list[Effect] = []
        self._version = ZERO  # of member lists, which need only differ
        self._logged: list[Zxid] = []
        self._role = ""
        self._take()

    # What others did before.

    def link(self, *peers: ServerId) -> None:
        self._bench.link(*peers)
        self._skip()

    def elect(self, leader: ServerId, *voters: ServerId) -> None:
        self._bench.elect(leader, *(voters or (leader,)))
        self._skip()

    def promise(self, leader: ServerId) -> None:
        """Accept the next epoch of `leader`, to which this is the first attempt."""
        self._bench.hear(leader, LeaderInfo(Epoch(self._peer.epoch + 1), 1))
        self._bench.save_epochs()
        self._skip()

    def follow(self, leader: ServerId) -> None:
        self._bench.follow(leader, self._peer.epoch + 1)
        self._skip()

    def observe(self, leader: ServerId, other: ServerId) -> None:
        self._bench.observe(leader, other, self._peer.epoch + 1)
        self._skip()

    def propose_epoch(self, *followers: ServerId) -> None:
        """Hear the followers, which have promised as much, until LEADERINFO has left to them."""
        for follower in followers:
            info = FollowerInfo(self._peer.history.accepted, 1, FOUNDING_DISK)
            self._bench.hear(follower, info)
        self._bench.save_epochs()
        self._skip()

    def voter_logged(self, server: ServerId, disk: DiskId) -> None:
        """The log has a transaction that puts the vote on another disk."""
        self._logged.append(self._next_version())
        self._peer.settings.members.disk_logged(server, disk, self._logged[-1])

    def lead(self, *followers: ServerId) -> None:
        self._bench.lead(*followers)
        self._skip()

    def join(self, learner: ServerId, disk: DiskId = FOUNDING_DISK) -> None:
        bench, last = self._bench, self._bench.history.logged
        bench.link(learner)
        info = FollowerInfo(Epoch(0), 1, disk)
        bench.hear(learner, info, AckEpoch(Epoch(0), last, False), AckNewLeader(self._peer.epoch))
        self._skip()

    # Events.

    def link_up(self, *peers: ServerId) -> str:
        self._bench.link(*peers)
        return self._take()

    def link_down(self, peer: ServerId) -> str:
        self._peer.link_down(peer, self._bench.now)
        return self._take()

    def receive(self, sender: ServerId, rest: str) -> str:
        message = parse_struct(rest, ZabMessage)
        self._bench.hear(sender, message)  # type: ignore[arg-type]
        return self._take()

    def vote(self, rest: str) -> str:
        told = parse_fields(rest, Told)
        vote = Vote(told.epoch, told.zxid, told.leader, told.is_willing)
        own = vote if told.sender == told.leader else Vote(Epoch(0), ZERO, told.sender)
        message = Notification(told.round, vote, told.state, told.has_vote, own, told.disk)
        self._bench.hear(told.sender, message)
        return self._take()

    def synced(self, upto: Zxid) -> str:
        self._peer.log_synced(upto, self._bench.now)
        return self._take()

    def saved(self) -> str:
        done = self._disk_done(SaveEpochs)
        self._peer.epochs_saved(done.accepted, done.current, self._bench.now)
        return self._take()

    def truncated(self) -> str:
        self._peer.log_truncated(self._disk_done(Truncate).upto, self._bench.now)
        return self._take()

    def installed(self) -> str:
        self._peer.snapshot_installed(self._disk_done(InstallSnapshot).zxid, self._bench.now)
        return self._take()

    def log_read(self, learner: ServerId, after: Zxid, rest: str) -> str:
        self._peer.log_read(learner, after, parse_value(rest, list[LogRun]), self._bench.now)
        return self._take()

    def disk_space(self, has_disk_space: bool) -> str:
        self._peer.disk_space_changed(has_disk_space, self._bench.now)
        return self._take()

    def members(self, rest: str) -> None:
        """Adopt the member list that came with a snapshot."""
        members = self._peer.settings.members
        moved = parse_value(rest, dict[ServerId, DiskId])
        members.adopt(MemberList(self._next_version(), {**members.founding.voters, **moved}))

    def voter_replaced(self, server: ServerId, disk: DiskId) -> str:
        """Deliver it: the first one of `voter_logged` that is left, or one that was not told."""
        version = self._logged.pop(0) if self._logged else self._next_version()
        self._peer.voter_replaced(server, disk, version, self._bench.now)
        return self._take()

    def list_logged(self, rest: str) -> str:
        """This leader is about to propose a member list."""
        self._peer.list_logged(parse_value(rest, MemberList))
        return self._take()

    def list_delivered(self, rest: str) -> str:
        self._peer.list_delivered(parse_value(rest, MemberList), self._bench.now)
        return self._take()

    def _next_version(self) -> Zxid:
        self._version = Zxid(self._version + 1)
        return self._version

    def wait(self, span: int) -> str:
        self._bench.later(span)
        return self._take()

    def busy(self, span: int) -> None:
        """Let time pass without a wake."""
        self._bench.now = Millis(self._bench.now + span)

    def propose(self, *txns: bytes) -> str:
        self._peer.propose(list(txns), self._bench.now)
        return self._take()

    def read_index(self, *tokens: int) -> str:
        assert self._peer.broadcasting is not None
        for token in tokens:
            self._peer.broadcasting.read_index(token)
        return self._take()

    def step_down(self, reason: str) -> str:
        self._peer.step_down(reason, self._bench.now)
        return self._take()

    def transfer(self, to: ServerId = ANY, within: int = 1_000, lag_max: int = 2) -> str:
        """Have the leader transfer the lead, to any server if none is named; print a refusal."""
        until = Millis(self._bench.now + within)
        found = self._peer.transfer_leadership(None if to == ANY else to, until, lag_max)
        printed = self._take()
        return printed if not isinstance(found, str) else f"refused: {found}"

    def abandon(self, reason: str) -> str:
        self._peer.abandon_transfer(reason)
        return self._take()

    def snapshot_begin(self, learner: ServerId, zxid: Zxid) -> str:
        self._peer.snapshot_begin(learner, zxid)
        return self._take()

    def snapshot_chunk(self, learner: ServerId, data: bytes) -> str:
        self._peer.snapshot_chunk(learner, data)
        return self._take()

    def snapshot_end(self, learner: ServerId, consistent_at: Zxid) -> str:
        self._peer.snapshot_end(learner, consistent_at)
        return self._take()

    # Questions.

    def show(self, *names: str) -> str:
        """Print properties of the peer or of its history, by their names."""
        owners = (self._peer, self._peer.history, self._peer.settings)
        values = (next(getattr(x, name) for x in owners if hasattr(x, name)) for name in names)
        return " ".join(f"{n}={format_value(v)}" for n, v in zip(names, values, strict=True))

    def log(self) -> str:
        """Print the log in memory."""
        recent_log = self._peer.history.recent_log
        return f"log={format_value(recent_log.between(recent_log.base, recent_log.last))}"

    def links(self) -> str:
        """Print the servers that are linked."""
        return f"links={format_value(list(self._peer.links))}"

    def last_quorum_contact(self) -> str:
        """Print the time of the last contact, from the start on."""
        found = self._peer.last_quorum_contact(self._bench.now)
        return f"last_quorum_contact={'none' if found is None else found - T0}"

    def deadline(self) -> str:
        """Print the time of the next wake, from the start on."""
        found = self._peer.deadline()
        return f"deadline={'none' if found is None else found - T0}"

    def learners(self) -> str:
        """Print what a leader knows of its learners."""
        role = self._peer._role
        assert isinstance(role, LeaderRecovery | LeaderBroadcast)
        return "\n".join(
            f"{x.server_id} {x.stage.name} sent={format_zxid(x.sent)} acked={format_zxid(x.acked)} "
            f"has_vote={format_value(x.has_vote)} is_logging={format_value(x.is_logging)}"
            for x in role.learners
        )

    def _disk_done(self, kind: type[AnyEffect]) -> AnyEffect:
        """Return the oldest effect of this kind that the disk has not carried out."""
        found = next(effect for effect in self._on_disk if isinstance(effect, kind))
        self._on_disk.remove(found)
        return found

    def _skip(self) -> None:
        """Take what the commands for a beginning emitted; the disk has done it."""
        self._bench.take()
        self._role = role_of(self._peer)

    def _take(self) -> str:
        found = self._bench.take()
        self._on_disk += found
        lines = [line_of(effect) for effect in found]
        if (role := role_of(self._peer)) != self._role:
            lines.append(f"role {role}")
            self._role = role
        return "\n".join(lines)


def role_of(peer: Peer) -> str:
    """Return the name of the role, with the phase of a recovering follower."""
    role = peer._role
    phase = f" {role.phase.value}" if isinstance(role, FollowerRecovery) else ""
    return f"{type(role).__name__}{phase}"


def line_of(effect: Effect) -> str:
    if isinstance(effect, Send):
        return f"to {effect.peer} {format_struct(effect.message)}"
    if isinstance(effect, TraceEvent):
        return f"trace {effect.name} {format_value(effect.detail)}"
    return format_struct(effect)
