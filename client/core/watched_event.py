"""What a watch callback is told.

ZooKeeper: `WatchedEvent`, with the zxid that 3.9 added.
"""

from typing import NamedTuple

from raykeeper.client.core.states import ClientState
from raykeeper.zab.ids import Zxid
from raykeeper.znodes.replies import Content, EventType

__all__ = ["Content", "EventType", "WatchedEvent"]


class WatchedEvent(NamedTuple):
    """One event of one path. Unless the watch was to have values, read the znode again."""

    type: EventType
    """NONE for the end of the session, which every watch that has not fired is told once."""
    state: ClientState
    """CONNECTED (or CONNECTED_READ_ONLY), or LOST with type NONE."""
    path: str
    zxid: Zxid
    """The transaction that triggered it; 0 with type NONE."""
    more: bool = False
    """Whether the next event of the same watcher is of the same transaction."""
    old: Content | None = None
    """With values: what the znode was. None if there was none, and of an event that was missed
    while there was no connection. Values together above 1 MiB in a transaction are left out."""
    new: Content | None = None
    """With values: what the znode is. None if there is none, and of an event that was missed if
    the znode has changed since."""
