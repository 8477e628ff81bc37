"""An event as a client's watchers receive it."""

from msgspec import Struct

from raykeeper.client.core.public_types import WatchedEvent


class EventTold(Struct):
    """The watchers that receive an event, and which of them get more of its transaction."""

    event: WatchedEvent
    watchers: list[object]
    are_told_more: list[object]

    def is_of(self, event: WatchedEvent) -> bool:
        """Return whether it is this event, or a similar one of the same transaction and path."""
        mine = self.event
        return (mine.zxid, mine.type, mine.path) == (event.zxid, event.type, event.path)

    def joins(self, watchers: list[object]) -> bool:
        """Return whether none of these watchers has received it."""
        return not any(each in self.watchers for each in watchers)
