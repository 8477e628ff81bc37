"""What the parts of a server share: the replicated state, the peer, the watches, the outbox."""

from msgspec import Struct

from raykeeper.server.effects import Effect
from raykeeper.server.events import SENT_REPORT_BYTES
from raykeeper.zab.ids import Millis, Now
from raykeeper.zab.peer import Peer
from raykeeper.znodes.change_log import ChangeLog
from raykeeper.znodes.limits import REPLY_CACHE_MAX, Limits
from raykeeper.znodes.pages import PAGE_NAMES
from raykeeper.znodes.state import State
from raykeeper.znodes.watches import WatchTable


class ServerOptions(Struct, frozen=True):
    """Settings of one server that clients do not see."""

    snapshot_every_txns: int = 100_000
    """Transactions between two snapshots (ZooKeeper: snapCount)."""
    session_report_ms: Millis = Millis(250)
    """How often heard sessions are reported to the leader, and by it to its tracker."""
    slow_request_ms: Millis = Millis(1_000)
    """A write or sync that takes longer leaves a note that says at which stage."""
    read_only_after_ms: Millis = Millis(2_000)
    """Without a leader for so long, a server serves those who want it read-only."""
    disk_space_check_ms: Millis = Millis(1_000)
    """How often a full disk is looked at again (rule D6)."""
    chunk_bytes: int = 64 << 10
    """What is walked of the tree in one step, for a snapshot or a learner."""
    queued_requests_max: int = 8_192
    """Requests of one connection that may wait; beyond it the connection is closed."""
    change_log_count_max: int = 50_000
    change_log_bytes_max: int = 32 << 20
    """Of past changes of znodes, for the watches of clients that were away for a while."""
    outstanding_requests_max: int = REPLY_CACHE_MAX
    """Unanswered requests of all clients: each may have its share, and at least one."""
    page_names: int = PAGE_NAMES
    """Names of one page of a listing."""
    unsent_bytes_max: int = 4 << 20
    """What may be on its way to a client before its reads wait until it has taken some."""
    queued_items_max: int = 10_000
    """Events and outcomes that may wait for a client that does not take what it was sent; beyond
    it the connection is closed."""
    queued_bytes_max: int = 64 << 20
    """Values that may wait with them."""
    ensemble: str = ""
    """The uuid of the ensemble, for clients to know."""


assert ServerOptions().unsent_bytes_max >= SENT_REPORT_BYTES, "a client may take so much untold"


class ServerContext:
    """`now` is the time of the step under way; `state` is replaced when a snapshot is adopted."""

    __slots__ = ("change_log", "limits", "now", "options", "out", "peer", "state", "watches")

    def __init__(self, state: State, peer: Peer, limits: Limits, options: ServerOptions) -> None:
        self.state = state
        self.peer = peer
        self.limits = limits
        self.options = options
        self.watches = WatchTable(limits.watches_max)
        # Up to `consistent_at` a replay is told of what is newer than it already.
        self.change_log = ChangeLog(
            max(state.zxid, state.consistent_at),
            options.change_log_count_max,
            options.change_log_bytes_max,
        )
        self.observe_tree(state)
        self.out: list[Effect] = []
        self.now = Now(Millis(0), Millis(0))

    def observe_tree(self, state: State) -> None:
        """Have the tree tell what happens to it from now on."""
        state.tree.changes = self.change_log.pending
        state.tree.value_watches = self.watches.value_watches
