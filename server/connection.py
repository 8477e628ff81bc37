"""One client's link to a server, and what waits on it.

ZooKeeper: `ServerCnxn`. What happens on it is in `connections.py`.
"""

from collections import deque

from msgspec import Struct

from raykeeper.zab.ids import ZERO, Millis, Zxid
from raykeeper.znodes.pages import Lengthy
from raykeeper.znodes.replies import Item, ReadFailed, Written
from raykeeper.znodes.requests import (
    Connect,
    Inquiry,
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

    __slots__ = ("connection", "point", "request", "xid")

    def __init__(self, request: Sync | Read, connection: "Connection") -> None:
        self.xid = request.xid
        self.request = request
        self.connection = connection
        self.point: Zxid | None = None


class Denied(Struct, frozen=True):
    """What a read-only client may not ask, in its place in the order: `item` is the refusal."""

    item: Written | ReadFailed


Local = Read | Inquiry | WatchRequest | Denied
"""What a server answers by itself."""
Waiting = Write | PendingSync | Local


class Held(Struct):
    """A frame that waits until the client has taken what came before."""

    zxid: Zxid
    items: list[Item]
    bytes: int


class Connection:
    """One client's link; it has a session once the SessionOpened transaction was applied.

    Or a local one, see read_only.py.
    """

    __slots__ = (
        "beat",
        "bytes",
        "confirmed",
        "connect",
        "forwarded",
        "host",
        "is_dirty",
        "is_full",
        "is_holding",
        "is_ready",
        "is_touched",
        "items",
        "local",
        "number",
        "owner",
        "queue",
        "session_id",
        "setting",
        "unsent",
        "waiting",
        "waiting_bytes",
        "waiting_items",
    )

    def __init__(self, number: int, connect: Connect, host: str = "") -> None:
        self.number = number
        self.connect = connect
        self.host = host
        self.session_id = SessionId(0)
        self.local: Session | None = None  # of a client that is served read-only
        self.owner = ZERO
        self.beat = 0
        self.confirmed = 0
        self.is_touched = False
        self.is_dirty = False
        self.forwarded = 0  # the newest write that went to the leader
        self.is_holding = False  # writes wait for a sync, or for a read, that came before them
        self.queue: deque[tuple[Waiting, Millis]] = deque()  # with the time of arrival
        self.items: list[Item] = []
        self.bytes = 0
        self.setting: list[SetWatches] = []  # of which more are to come
        # Of `Outgoing`: what has not left, and what is behind that.
        self.unsent = 0
        self.is_full = False
        self.is_ready = False
        self.waiting: deque[Held | Lengthy] | None = None  # an empty one is larger than the rest
        self.waiting_items = 0
        self.waiting_bytes = 0
