"""The shared parts of a server: the replicated state, the peer, the watches, the outboxes."""

from typing import Any, Final

from msgspec import Struct

from raykeeper.server.counters import Counters
from raykeeper.server.effects import Effect
from raykeeper.server.events import SENT_REPORT_BYTES
from raykeeper.server.jute_buffers import JuteBuffers
from raykeeper.server.jute_lists import JuteLists
from raykeeper.server.leader_outbox import LeaderOutbox
from raykeeper.zab.effects import TraceEvent, VoteGranted
from raykeeper.zab.ids import FOUNDING_DISK, Millis, Now
from raykeeper.zab.peer import Peer
from raykeeper.znodes.change_log import ChangeLog
from raykeeper.znodes.limits import REPLY_CACHE_MAX, Limits
from raykeeper.znodes.pages import PAGE_NAMES
from raykeeper.znodes.state import State
from raykeeper.znodes.watches import WatchTable

ALLOWED_WORDS: Final = (
    *("ruok", "isro", "srvr", "stat", "envi", "mntr", "conf", "cons", "dirs", "wchs", "gtmk"),
)
"""The words that cost little and change nothing."""


class ZooKeeperOptions(Struct, frozen=True):
    """Settings for clients of ZooKeeper's protocol.

    The ports are the shell's. The server only says what it knows of them, in a four-letter word.
    """

    words: tuple[str, ...] = ALLOWED_WORDS
    """The four-letter words that are answered, beside those that always are; `*` is all."""
    port: int = 0
    tls_port: int = 0
    """0: there is no such port."""
    per_address_max: int = 0
    backlog: int = 0
    data_dir: str = ""
    list_bytes_max: int = 64 << 20
    """The names of one list, which the protocol sends in one frame; a longer one closes its
    connection. Also all the lists that are kept for the next clients (`jute_lists.py`)."""
    address: str = ""
    """Where they find this server, "host:port"; "" if it takes none."""
    buffer_bytes_max: int = 512 << 20
    """What all these connections may make the server keep; beyond it the largest are closed."""


class ServerOptions(Struct, frozen=True):
    """Settings of one server that clients do not see."""

    snapshot_every_txns: int = 100_000
    """Transactions between two snapshots (ZooKeeper: snapCount)."""
    session_report_ms: Millis = Millis(250)
    """How often heard sessions are reported to the leader, and by it to its tracker."""
    slow_request_ms: Millis = Millis(1_000)
    """A write or sync that takes longer is traced, with the stage that it waited in."""
    read_only_after_ms: Millis = Millis(2_000)
    """A server without a leader for so long serves clients that accept it in read-only mode."""
    disk_space_check_ms: Millis = Millis(1_000)
    """How often the space of a full disk is checked again (rule D6)."""
    chunk_bytes: int = 64 << 10
    """Bytes of the tree that one step walks, for a snapshot or a learner."""
    queued_requests_max: int = 8_192
    """Requests of one connection that may wait; beyond it the connection is closed."""
    change_log_count_max: int = 50_000
    """Past changes of znodes that are kept, for the watches of clients that were disconnected."""
    change_log_bytes_max: int = 32 << 20
    """Bytes that these changes may take."""
    outstanding_requests_max: int = REPLY_CACHE_MAX
    """Unanswered requests of all clients. Each client may have an equal share, and at least one."""
    page_names: int = PAGE_NAMES
    """Names in one page of a listing."""
    unsent_bytes_max: int = 4 << 20
    """Bytes that may be on their way to a client; beyond it the reads of this client wait."""
    queued_items_max: int = 10_000
    """Events and replies that may wait for a client that stops reading; beyond it the connection
    is closed."""
    queued_bytes_max: int = 64 << 20
    """Bytes of values that may wait with them."""
    zookeeper: ZooKeeperOptions = ZooKeeperOptions()
    container_grace_ms: Millis = Millis(60_000)
    """How long a container stays after its last child was deleted, and a znode with a TTL that is
    over, this no longer than its TTL. ZooKeeper looks once a minute (`checkIntervalMs`)."""
    promotion_lag_max: int = 1_000
    """Transactions that an observer may lack when it gets a vote (docs/MEMBERS.md, M5)."""
    promotion_wait_ms: Millis = Millis(2_000)
    """How long it must have lacked no more."""
    transfer_held_bytes_max: int = 256 << 20
    """Bytes of writes that may wait while the lead is transferred; beyond it this server goes on
    to lead."""
    ensemble: str = ""
    """The uuid that the ensemble was founded with. Clients are told it, and salt their keys with it
    unless the state names another salt."""


assert ServerOptions().unsent_bytes_max >= SENT_REPORT_BYTES, "the shell may hold back so much"


class ServerContext:
    """The shared parts of one server.

    `now` is the time of the current step, `started_at` of the server's start. `out` collects the
    effects of the step, in order, and `leader_outbox` the requests to the leader. A received
    snapshot replaces `state`.
    """

    def __init__(self, state: State, peer: Peer, limits: Limits, options: ServerOptions) -> None:
        self.state = state
        self.peer = peer
        self.limits = limits
        self.options = options
        self.watches = WatchTable(limits.watches_max)
        # A snapshot may hold changes up to `consistent_at` already, so the log begins there.
        self.change_log = ChangeLog(
            max(state.zxid, state.consistent_at),
            options.change_log_count_max,
            options.change_log_bytes_max,
        )
        self.observe_tree(state)
        self.out: list[Effect] = []
        self.leader_outbox = LeaderOutbox()
        self.jute_buffers = JuteBuffers(options.zookeeper.buffer_bytes_max)
        self.jute_lists = JuteLists(options.zookeeper.list_bytes_max)
        self.counters = Counters()
        self.now = Now(Millis(0), Millis(0))
        self.started_at = Millis(0)

    def observe_tree(self, state: State) -> None:
        """Record the changes of `state`'s tree from now on."""
        state.tree.changes = self.change_log.pending
        state.tree.value_watches = self.watches.value_watches

    def trace(self, name: str, detail: Any = None) -> None:
        """Emit a TraceEvent; `name` is a constant of one of the modules of trace events."""
        self.out.append(TraceEvent(name, detail))

    def repeat_vote_granted(self) -> None:
        """Emit VoteGranted if this server votes with a disk that replaced another one.

        It may be a repeat. The process may have died before the first one was carried out, and a
        received state may already hold the second transaction that names this disk.
        """
        settings = self.peer.settings
        if settings.has_vote and settings.disk != FOUNDING_DISK:
            self.out.append(VoteGranted())
