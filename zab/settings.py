"""The identity, timeouts and limits of a server: the constants of one run of the protocol."""

from msgspec import Struct

from raykeeper.zab.feature_levels import FeatureLevels
from raykeeper.zab.ids import FOUNDING_DISK, SERVER_ID_MAX, DiskId, Millis, ServerId
from raykeeper.zab.member_list import MemberList
from raykeeper.zab.members import Members, Seat


class Timing(Struct, frozen=True):
    """Spans of the protocol. ZooKeeper: tickTime, initLimit, syncLimit, FastLeaderElection."""

    tick_ms: Millis = Millis(500)
    init_limit: int = 20
    """Ticks without progress that discovery and synchronization may take."""
    sync_limit: int = 4
    """Ticks of silence after which a leader or a learner counts as dead."""
    finalize_ms: Millis = Millis(200)
    """How long a decided vote waits for linked voters that have not sent it (rule Z1)."""
    resend_min_ms: Millis = Millis(200)
    resend_max_ms: Millis = Millis(3200)

    @property
    def init_ms(self) -> Millis:
        """The timeout of discovery and synchronization."""
        return Millis(self.tick_ms * self.init_limit)

    @property
    def sync_ms(self) -> Millis:
        """The timeout of broadcast."""
        return Millis(self.tick_ms * self.sync_limit)

    @property
    def ping_ms(self) -> Millis:
        """Interval of the leader's pings: twice a tick, as ZooKeeper."""
        return Millis(max(1, self.tick_ms // 2))


class RecentLogLimits(Struct, frozen=True):
    """How much of the recent log stays in memory for DIFF (ZooKeeper: commitLogCount)."""

    txns_max: int = 8_192
    bytes_max: int = 32 << 20
    read_log_bytes_max: int = 8 << 20
    """More than this is not read back from the disk; the learner gets a snapshot instead.

    The leader appends nothing while it reads, and sends in one step what it has read.
    """
    message_bytes_max: int = 1 << 20
    """Transactions in one PROPOSAL packet, unless a single one is larger."""


class Settings:
    """The identity of a server in its ensemble, and the members as it knows them."""

    __slots__ = ("disk", "levels", "members", "server_id", "timing", "window")

    def __init__(
        self,
        server_id: ServerId,
        voters: tuple[ServerId, ...],
        disk: DiskId = FOUNDING_DISK,
        timing: Timing | None = None,
        window: RecentLogLimits | None = None,
        levels: FeatureLevels | None = None,
        observers: tuple[ServerId, ...] = (),
        known: MemberList | None = None,
    ) -> None:
        """Set up the identity; `disk` is the one that holds this server's promises.

        `voters` and `observers` are those with which the ensemble was founded; `known` is the
        newest list that some server has delivered, as far as whoever starts this one knows (M7).
        Without `levels` the server is one of the oldest feature level, and stays there.
        """
        assert 0 < server_id <= SERVER_ID_MAX, server_id
        self.server_id = server_id
        self.members = Members(voters, observers)
        self.members.learn_delivered(known)
        self.disk = disk
        self.timing = timing or Timing()
        self.window = window or RecentLogLimits()
        self.levels = levels or FeatureLevels()

    @property
    def seat(self) -> Seat:
        """This server and its disk, by which a leader counts it."""
        return self.server_id, self.disk

    @property
    def has_vote(self) -> bool:
        """Whether this server has a vote: not an observer, and not without its promises (D3)."""
        return self.members.has_vote(self.server_id, self.disk)
