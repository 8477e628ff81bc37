"""The event that a watch callback receives.

ZooKeeper: `WatchedEvent`, with the zxid that 3.9 added.
"""

from typing import NamedTuple

from raykeeper.client.core.states import ClientState
from raykeeper.zab.ids import Zxid
from raykeeper.znodes.replies import Content, EventType

__all__ = ["Content", "EventType", "WatchedEvent"]


class WatchedEvent(NamedTuple):
    """One event of one path. It has values only if the watch asked for them; else read again."""

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
