"""The types of the core that users see: the state of a handle, its id, and watch events."""

from enum import StrEnum
from typing import NamedTuple

from raykeeper.zab.ids import Zxid
from raykeeper.znodes.replies import Content, EventType
from raykeeper.znodes.requests import SessionId

__all__ = ["ClientId", "ClientState", "Content", "EventType", "WatchedEvent"]


class ClientState(StrEnum):
    """The state of a session as its client knows it; each equals its own name as a string.

        SUSPENDED ──> CONNECTED <──> SUSPENDED ──> LOST
            ^                ^
            └─> CONNECTED_READ_ONLY ──> LOST

    A handle begins SUSPENDED, and LOST is final: one session per handle. A lock holder must doubt
    its lock on SUSPENDED and CONNECTED_READ_ONLY, and let go on LOST; LOST comes before another
    client can hold the lock.

    kazoo: `KazooState`.
    """

    CONNECTED = "CONNECTED"
    """A server with a leader serves the session."""
    CONNECTED_READ_ONLY = "CONNECTED_READ_ONLY"
    """A server without a leader serves the client: it shows what it knows and takes no write.
    Only for a handle with `read_only`. Nothing keeps a session alive that was open before."""
    SUSPENDED = "SUSPENDED"
    """No server serves the client; the session lives, and requests wait for a server."""
    LOST = "LOST"
    """The session is over, or may be from now on. The handle is finished."""


class ClientId(NamedTuple):
    """Id and password of a session. They let their holder become this client: keep them secret.

    They are valid until a client takes the session over, which gets a `client_id` of its own.

    ZooKeeper: the session id and password of the constructor of `ZooKeeper`; kazoo: `client_id`.
    """

    session_id: SessionId
    password: bytes

    def __repr__(self) -> str:
        return f"ClientId(session_id={self.session_id}, password=...)"  # logs are no secret


class WatchedEvent(NamedTuple):
    """One event of one path. It has values only if the watch has `with_values`; else read again.

    ZooKeeper: `WatchedEvent`, with the zxid that 3.9 added.
    """

    type: EventType
    """NONE for the end of the session, which every remaining watcher receives once."""
    state: ClientState
    """CONNECTED (or CONNECTED_READ_ONLY), or LOST with type NONE."""
    path: str
    zxid: Zxid
    """The transaction that triggered the event; 0 with type NONE."""
    more: bool = False
    """Whether the watcher's next event is of the same transaction."""
    old: Content | None = None
    """With values: the znode before. None if there was none, and for an event that was missed
    while there was no connection. A transaction's values above 1 MiB together are left out."""
    new: Content | None = None
    """With values: the znode after. None if there is none, and for a missed event if the znode
    has changed since."""
