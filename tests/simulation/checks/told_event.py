"""An event as a client's watchers are told it."""

from msgspec import Struct

from raykeeper.client.core.public_types import WatchedEvent


class EventTold(Struct):
    """Who is told; and who of them, that more of its transaction follows."""

    event: WatchedEvent
    watchers: list[object]
    are_told_more: list[object]

    def is_of(self, event: WatchedEvent) -> bool:
        """Whether it is this event, or another of the same transaction and path that is like it."""
        mine = self.event
        return (mine.zxid, mine.type, mine.path) == (event.zxid, event.type, event.path)

    def joins(self, watchers: list[object]) -> bool:
        """Whether none of these was told of it."""
        return not any(each in self.watchers for each in watchers)
