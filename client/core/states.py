"""The states of a handle, named as in kazoo.

    SUSPENDED ──> CONNECTED <──> SUSPENDED ──> LOST
        ^                ^
        └─> CONNECTED_READ_ONLY ──> LOST

A handle begins SUSPENDED, and LOST is final: one session per handle. What a lock holder must do:
on SUSPENDED and CONNECTED_READ_ONLY doubt, on LOST let go; LOST comes before anybody else can hold
its lock.
"""

from enum import StrEnum


class ClientState(StrEnum):
    """What the client knows of its session; each equals its own name as a string."""

    CONNECTED = "CONNECTED"
    """A server serves the session."""
    CONNECTED_READ_ONLY = "CONNECTED_READ_ONLY"
    """Only a server without a leader, which shows what it knows and takes no write. Only for a
    handle that asked for it. A session that was open before is not kept alive by this."""
    SUSPENDED = "SUSPENDED"
    """No server at the moment; the session lives, requests wait and will be answered."""
    LOST = "LOST"
    """The session is over, or may be over from this moment on. The handle is finished."""
