"""What a watch callback is told.

ZooKeeper: `WatchedEvent`, with the zxid that 3.9 added.
"""

from typing import NamedTuple

from raykeeper.client.states import ClientState
from raykeeper.zab.ids import Zxid
from raykeeper.znodes.replies import EventType

__all__ = ["EventType", "WatchedEvent"]


class WatchedEvent(NamedTuple):
    """One event of one path. It holds no value: read the znode again, with a new watch."""

    type: EventType
    """NONE for the end of the session, which every watch that has not fired is told once."""
    state: ClientState
    """CONNECTED, or LOST with type NONE."""
    path: str
    zxid: Zxid
    """The transaction that triggered it; 0 with type NONE."""
