"""One client's link to a server: its lifecycle, and what waits on it.

ZooKeeper: `ServerCnxn`. The reactions are in `client_requests.py` and, for `READ_ONLY`, in
`read_only_mode.py`. The lifecycle:

| event | CONNECTING | CONNECTED | READ_ONLY |
|---|---|---|---|
| frame with requests | malformed: closed | queued, forwarded, answered | answered; writes refused |
| a second Connect | malformed: closed | malformed: closed | malformed: closed |
| its session is created | CONNECTED, ConnectReply | new owner zxid, forwarded again | closed |
| its session is refused | refusal, closed | nothing: sent twice, refused once | closed |
| its session ends or moves | - | CloseFrame, closed | - |
| read-only mode starts | READ_ONLY if it may | closed if it may read there | - |
| a leader is elected | - | - | closed |
| this server is activated | Connect forwarded | all unanswered forwarded again | - |
| the link breaks | closed | closed | closed |

CLOSED is final. A connection object can outlive it in lists of the same step, or of a request under
way to the leader; nothing is done for it there.
"""

from collections import deque
from enum import Enum
from typing import Final, Protocol

from msgspec import Struct

from raykeeper.server.jute_lists import JuteChildren
from raykeeper.server.response_counters import ResponseCounters
from raykeeper.zab.ids import ZERO, Millis, Zxid
from raykeeper.znodes.pages import PagedReply
from raykeeper.znodes.replies import (
    CloseFrame,
    ConnectReply,
    EmptyReply,
    ErrorReply,
    Item,
    ServerFrame,
    WriteReply,
)
from raykeeper.znodes.requests import (
    AuxRead,
    Connect,
    Read,
    SessionId,
    SetWatches,
    Sync,
    WatchRequest,
    Write,
)
from raykeeper.znodes.sessions import Session


class Phase(Enum):
    """Where a connection is in its lifecycle."""

    CONNECTING = "connecting"
    """Its Connect was read; its session is being created, or waits for a leader."""
    CONNECTED = "connected"
    """It has a session of the ensemble, which this server serves."""
    READ_ONLY = "read-only"
    """It has a local session, which only this server knows."""
    CLOSED = "closed"


TRANSITIONS: Final = {
    Phase.CONNECTING: {Phase.CONNECTED, Phase.READ_ONLY, Phase.CLOSED},
    Phase.CONNECTED: {Phase.CONNECTED, Phase.CLOSED},
    Phase.READ_ONLY: {Phase.CLOSED},
    Phase.CLOSED: set[Phase](),
}
"""The phases that may follow each phase."""


class SendState(Enum):
    """Whether frames may leave for a client; see `ClientSendQueues`."""

    OPEN = "open"
    """Frames leave at once."""
    BLOCKED = "blocked"
    """Too much is on its way: frames wait, and so do reads."""
    SENDABLE = "sendable"
    """Frames wait, but the next of them may leave; the connection is in the line for that."""


class Translator(Protocol):
    """The protocol of a client that speaks another one than ours."""

    port: int
    """From which the client speaks."""
    is_reading_paused: bool
    responses: ResponseCounters

    def encode(self, frame: ConnectReply | ServerFrame | CloseFrame) -> bytes:
        """Return the bytes for the client, empty if it is sent nothing."""

    def may_send(self) -> bool:
        """Return whether the client may be sent anything now."""

    def is_quiet(self, for_ms: Millis) -> bool:
        """Return whether the client waits for nothing, and has sent nothing for so long."""

    def note_kept(self) -> None:
        """Note what the connection makes the server keep now."""

    def note_list(self, size: int) -> None:
        """Note how many bytes the next list has so far; the connection of a longer one ends."""


class PendingSync:
    """A sync, or a linearizable read, that waits for a confirmed read index (rule Z4)."""

    __slots__ = ("connection", "read_index", "request", "xid")

    def __init__(self, request: Sync | Read, connection: "Connection") -> None:
        self.xid = request.xid
        self.request = request
        self.connection = connection
        self.read_index: Zxid | None = None


class RejectedRequest(Struct, frozen=True):
    """A request that is not executed; `reply` stands in its place in the order.

    A read-only client may not make it, or it does nothing at this server.
    """

    reply: WriteReply | ErrorReply | EmptyReply


class CheckWatches(Struct, frozen=True):
    """Whether this connection has a watch of `kind` (WatchKind) on a path: opcode 17."""

    xid: int
    path: str
    kind: int


LongReply = PagedReply | JuteChildren
"""A reply of which a step sends a page, and no more for any client."""

LocalRequest = Read | AuxRead | WatchRequest | CheckWatches | RejectedRequest
"""A request that a server answers by itself."""
QueuedRequest = Write | PendingSync | LocalRequest


class QueuedFrame(Struct):
    """A frame that waits until the client has taken what came before."""

    zxid: Zxid
    items: list[Item]
    bytes: int


class Connection:
    """One client's link. It has a session once its CreateSessionTxn was applied."""

    __slots__ = (
        "are_writes_held",
        "confirmed_heartbeat",
        "connect",
        "frame_bytes",
        "frame_items",
        "heartbeat_seq",
        "host",
        "last_forwarded",
        "local_session",
        "members_version",
        "number",
        "opened_at",
        "owner_zxid",
        "packets_received",
        "packets_sent",
        "partial_set_watches",
        "phase",
        "queued_bytes",
        "queued_frames",
        "queued_items",
        "requests",
        "send_state",
        "session_id",
        "translator",
        "unsent_bytes",
    )

    def __init__(self, number: int, connect: Connect, host: str = "") -> None:
        self.number = number
        self.connect = connect
        self.host = host
        self.translator: Translator | None = None  # of a client of ZooKeeper
        self.phase = Phase.CONNECTING
        self.session_id = SessionId(0)
        self.local_session: Session | None = None  # in READ_ONLY
        self.owner_zxid = ZERO
        self.heartbeat_seq = 0
        self.confirmed_heartbeat = 0
        self.last_forwarded = 0  # number of the newest write that went to the leader
        self.are_writes_held = False  # by a sync or a read that came before them
        self.requests: deque[tuple[QueuedRequest, Millis]] = deque()  # with the time of arrival
        self.frame_items: list[Item] = []
        self.frame_bytes = 0
        self.partial_set_watches: list[SetWatches] = []  # of a SetWatches whose rest is to come
        self.opened_at = Millis(0)  # by the wall clock
        self.packets_received = 1  # its Connect
        self.packets_sent = 0
        # The rest belongs to `ClientSendQueues`.
        self.members_version = ZERO  # of the newest list that the client was told
        self.send_state = SendState.OPEN
        self.unsent_bytes = 0
        # None until the first frame waits: an empty deque takes more memory than all the rest.
        self.queued_frames: deque[QueuedFrame | LongReply] | None = None
        self.queued_items = 0
        self.queued_bytes = 0

    def enter(self, phase: Phase) -> None:
        """Change the phase, as `TRANSITIONS` allows."""
        assert phase in TRANSITIONS[self.phase], (self.number, self.phase, phase)
        self.phase = phase
