"""One znode in sight for good: each of its states from now on, by one lasting watch with values.

The watch is set before the znode is read, so there is no gap between the two; and since an event
comes before every answer that could show its effect, whatever came before the answer is in it.
The invariant of this file: states come in the order in which they were, the newest is never left
out, and of one transaction only the last one shows. What is not told with its value (too long, or
missed while there was no connection) is read again, and states in between may be passed over then.
"""

from raykeeper.client.core.outstanding import WatchAddition
from raykeeper.client.core.watched_event import EventType, WatchedEvent
from raykeeper.client.errors import KeeperError
from raykeeper.client.flows import Cancelled, Event, Flow, Wait
from raykeeper.client.recipes.compare_and_set import (
    MISSING,
    ObservedValue,
    checkpoint,
    read_current,
)
from raykeeper.client.recipes.primitives import best_effort_cleanup
from raykeeper.zab.ids import ZERO
from raykeeper.znodes.requests import WatchKind, WatchMode

_WITH_VALUE = (EventType.CREATED, EventType.CHANGED)


class ZnodeFollower:
    """What a recipe keeps in sight."""

    def __init__(self, path: str) -> None:
        self.path = path
        self.is_closed = False
        self._changed = Event()

    def open(self) -> Flow[ObservedValue]:
        """Begin; what is there now.

        Raises:
            KeeperError: what a request failed with; nothing is watched.
        """
        try:
            seen = yield from self._read(is_watched=False)
            yield from checkpoint()
            return seen
        except (Cancelled, KeeperError):
            yield from best_effort_cleanup([], [(self.path, WatchKind.PERSISTENT, self._changed)])
            raise

    def next_states(self) -> Flow[list[ObservedValue]]:
        """Wait for a change; the states since the last call, in order. None once it is closed.

        Raises:
            KeeperError: the session is over, or the znode may not be read any more.
        """
        states: list[ObservedValue] = []
        zxid, is_whole = ZERO, True
        while not self.is_closed and not (states and is_whole):
            yield Wait((self._changed,))
            events = self._changed.drain()
            for event in events:
                is_whole = not event.more
                if event.type is EventType.CHILD:
                    continue
                state = _state_after(event)
                if state is None:
                    if self.is_closed:
                        break
                    states.append((yield from self._read(is_watched=_is_still_watched(events))))
                    is_whole = True
                    break
                if states and event.zxid == zxid:
                    states.pop()
                zxid = event.zxid
                states.append(state)
        return [] if self.is_closed else states

    def close(self) -> Flow[None]:
        """End it. Whoever waits for states gets none."""
        if not self.is_closed:
            self.is_closed = True
            self._changed.set()
            yield from best_effort_cleanup([], [(self.path, WatchKind.PERSISTENT, self._changed)])

    def _read(self, *, is_watched: bool) -> Flow[ObservedValue]:
        while True:
            if not is_watched:
                yield WatchAddition(self.path, WatchMode.PERSISTENT, True, self._changed)
            seen = yield from read_current(self.path)
            is_watched = _is_still_watched(self._changed.drain())  # the answer shows all before it
            if is_watched:
                return seen
            yield from checkpoint()


def _is_still_watched(events: list[WatchedEvent]) -> bool:
    """Whether nobody of this client has removed all watches of the path."""
    return all(event.type is not EventType.PERSISTENT_WATCH_REMOVED for event in events)


def _state_after(event: WatchedEvent) -> ObservedValue | None:
    """The state that an event tells; None if it does not tell it."""
    if event.type is EventType.DELETED:
        return MISSING
    if event.type in _WITH_VALUE and event.new is not None and event.new.value is not None:
        return ObservedValue(event.new.value, event.new.stat)
    return None
