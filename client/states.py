"""The three states of a handle, named as in kazoo.

    SUSPENDED ──> CONNECTED <──> SUSPENDED ──> LOST

A handle begins SUSPENDED, and LOST is final: one session per handle. What a lock holder must do:
on SUSPENDED doubt, on LOST let go; LOST comes before anybody else can hold its lock.
"""

from enum import StrEnum


class ClientState(StrEnum):
    """What the client knows of its session; each equals its own name as a string."""

    CONNECTED = "CONNECTED"
    """A server serves the session."""
    SUSPENDED = "SUSPENDED"
    """No server at the moment; the session lives, requests wait and will be answered."""
    LOST = "LOST"
    """The session is over, or may be over from this moment on. The handle is finished."""
