"""One client's link to a server, and what waits on it.

ZooKeeper: `ServerCnxn`. What happens on it is in `client_requests.py`.
"""

from collections import deque

from msgspec import Struct

from raykeeper.zab.ids import ZERO, Millis, Zxid
from raykeeper.znodes.pages import PagedReply
from raykeeper.znodes.replies import ErrorReply, Item, WriteReply
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


class PendingSync:
    """A sync, or a linearizable read, that waits for a confirmed read point (rule Z4)."""

    __slots__ = ("connection", "read_index", "request", "xid")

    def __init__(self, request: Sync | Read, connection: "Connection") -> None:
        self.xid = request.xid
        self.request = request
        self.connection = connection
        self.read_index: Zxid | None = None


class RejectedRequest(Struct, frozen=True):
    """What a read-only client may not ask, in its place in the order: `reply` is the refusal."""

    reply: WriteReply | ErrorReply


LocalRequest = Read | AuxRead | WatchRequest | RejectedRequest
"""What a server answers by itself."""
QueuedRequest = Write | PendingSync | LocalRequest


class QueuedFrame(Struct):
    """A frame that waits until the client has taken what came before."""

    zxid: Zxid
    items: list[Item]
    bytes: int


class Connection:
    """One client's link; it has a session once the CreateSessionTxn transaction was applied.

    Or a local one, see read_only_mode.py.
    """

    __slots__ = (
        "confirmed_heartbeat",
        "connect",
        "frame_bytes",
        "frame_items",
        "heartbeat_seq",
        "host",
        "is_dirty",
        "is_full",
        "is_holding",
        "is_ready",
        "is_touched",
        "last_forwarded",
        "local_session",
        "number",
        "owner_zxid",
        "partial_set_watches",
        "queued_bytes",
        "queued_frames",
        "queued_items",
        "requests",
        "session_id",
        "unsent_bytes",
    )

    def __init__(self, number: int, connect: Connect, host: str = "") -> None:
        self.number = number
        self.connect = connect
        self.host = host
        self.session_id = SessionId(0)
        self.local_session: Session | None = None  # of a client that is served read-only
        self.owner_zxid = ZERO
        self.heartbeat_seq = 0
        self.confirmed_heartbeat = 0
        self.is_touched = False
        self.is_dirty = False
        self.last_forwarded = 0  # the newest write that went to the leader
        self.is_holding = False  # writes wait for a sync, or for a read, that came before them
        self.requests: deque[tuple[QueuedRequest, Millis]] = deque()  # with the time of arrival
        self.frame_items: list[Item] = []
        self.frame_bytes = 0
        self.partial_set_watches: list[SetWatches] = []  # of which more are to come
        # Of `ClientSendQueues`: what has not left, and what is behind that.
        self.unsent_bytes = 0
        self.is_full = False
        self.is_ready = False
        self.queued_frames: deque[QueuedFrame | PagedReply] | None = (
            None  # an empty one is larger than the rest
        )
        self.queued_items = 0
        self.queued_bytes = 0
