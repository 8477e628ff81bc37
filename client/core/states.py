"""The states of a handle, named as in kazoo.

    SUSPENDED ──> CONNECTED <──> SUSPENDED ──> LOST
        ^                ^
        └─> CONNECTED_READ_ONLY ──> LOST

A handle begins SUSPENDED, and LOST is final: one session per handle. A lock holder must doubt its
lock on SUSPENDED and CONNECTED_READ_ONLY, and let go on LOST; LOST comes before another client can
hold the lock.
"""

from enum import StrEnum


class ClientState(StrEnum):
    """The state of a session as its client knows it; each equals its own name as a string."""

    CONNECTED = "CONNECTED"
    """A server with a leader serves the session."""
    CONNECTED_READ_ONLY = "CONNECTED_READ_ONLY"
    """A server without a leader serves the client: it shows what it knows and takes no write.
    Only for a handle with `read_only`. Nothing keeps a session alive that was open before."""
    SUSPENDED = "SUSPENDED"
    """No server serves the client; the session lives, and requests wait for a server."""
    LOST = "LOST"
    """The session is over, or may be from now on. The handle is finished."""
