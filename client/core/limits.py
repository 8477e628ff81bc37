"""Limits and times of a client. A name ends with its unit."""

from typing import Final

from msgspec import Struct

from raykeeper.links.limits import QUEUE_BYTES_MAX
from raykeeper.zab.ids import Millis
from raykeeper.znodes.limits import REPLY_CACHE_MAX, VALUE_BYTES_CEILING

OUTSTANDING_MAX: Final = REPLY_CACHE_MAX
OUTSTANDING_BYTES_MAX: Final = 32 << 20
FRAME_BYTES: Final = 256 << 10
SET_WATCHES_BYTES_MAX: Final = 128 << 10
CONNECT_TIMEOUT_MS_MIN: Final = 200
BACKOFF_MS_MIN: Final = 50
BACKOFF_MS_MAX: Final = 1000
RETURN_PAUSE_DIVISOR: Final = 8
"""The part of the time that a session has left which its client waits at most when it has lost its
server among many other clients."""
EXPIRY_MARGIN_MS_MIN: Final = 50
EXPIRY_MARGIN_DIVISOR: Final = 20
HEARTBEAT_GRID_DIVISOR: Final = 200
"""Heartbeats leave at multiples of this part of the session timeout. Of 7 000 clients of a server
with the default timeout, 100 come together, which keeps the server from others for 5 ms."""

# The last request taken may go over the bound by a value of the largest size.
assert OUTSTANDING_BYTES_MAX + VALUE_BYTES_CEILING < QUEUE_BYTES_MAX, "a full pipeline must fit"
assert FRAME_BYTES < OUTSTANDING_BYTES_MAX
assert BACKOFF_MS_MIN < BACKOFF_MS_MAX


class ClientLimits(Struct, frozen=True):
    """The limits of one handle: outstanding requests, and times."""

    request_timeout_ms: Millis = Millis(30_000)
    """A request without a reply fails after this time."""
    open_timeout_ms: Millis | None = None
    """The opening of the session fails after this time; None: as a request does."""
    outstanding_max: int = OUTSTANDING_MAX
    """Requests on the wire; further ones wait in the client, in order. A server with many clients
    allows fewer, see `ServerFrame.window`."""
    outstanding_bytes_max: int = OUTSTANDING_BYTES_MAX
    """Bytes on the wire, less in proportion to the window; the last request taken may exceed it."""
    frame_bytes: int = FRAME_BYTES
    """A frame that holds this many bytes takes no further request."""
    set_watches_bytes_max: int = SET_WATCHES_BYTES_MAX
    """Bytes of paths in one SetWatches."""
