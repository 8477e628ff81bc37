"""The follower of one znode, or of several together: each state from now on.

Guarantees for one path:

-   The states arrive in the order in which they were. The newest one is never left out. Of one
    transaction only the last state arrives.
-   A state costs no request: the event brings it. The follower reads the znode only where an event
    does not bring the value: it was too long, the event was missed without a connection, or
    somebody removed all watches of the path. States in between may then be passed over.

Guarantees for several paths:

-   Each state is that of all the paths at one moment. The newest one is never left out.
-   Each change costs one request, which reads all of the paths; states in between may be passed
    over. Events alone would not do: a znode that the client may not read sends none, so the others
    would be shown beside an old value of it.

There is no gap between the first read and the events: the watch is set before the read, and a
server sends an event before every answer that could show its effect, so whatever event arrives
before an answer is contained in the answer.
"""

from collections.abc import Callable, Iterable
from functools import partial
from typing import Any

from raykeeper.client.core.compound_operations import read_many
from raykeeper.client.core.flows import (
    Cancelled,
    Event,
    Flow,
    Gather,
    Spawn,
    Wait,
    raise_unexpected,
)
from raykeeper.client.core.outstanding import WatchAddition
from raykeeper.client.core.public_types import EventType, WatchedEvent
from raykeeper.client.errors import KeeperError, NoNodeError
from raykeeper.client.recipes.compare_and_set import (
    MISSING,
    ObservedValue,
    checkpoint,
    read_current,
)
from raykeeper.client.recipes.live import Live
from raykeeper.client.recipes.primitives import best_effort_cleanup
from raykeeper.zab.ids import ZERO
from raykeeper.znodes.requests import ReadData, WatchMode

_WITH_VALUE = (EventType.CREATED, EventType.CHANGED)

State = dict[str, ObservedValue]
"""The values of the znodes at one moment, by path."""
Deliver = Callable[[State], Flow[State]]


class ZnodeFollower:
    """The znodes at some paths, which need not exist, from `open` to `close`."""

    def __init__(self, *paths: str) -> None:
        self.is_closed = False
        self._paths = paths
        self._has_values = len(paths) == 1
        self._changed = Event()

    def open(self) -> Flow[State]:
        """Set the watches; return the present state.

        Raises:
            KeeperError: what a request failed with; nothing is watched.
        """
        try:
            state = yield from self._read(is_watched=False)
            yield from checkpoint()
            return state
        except (Cancelled, KeeperError):
            yield from self.close()
            raise

    def next_states(self) -> Flow[list[State]]:
        """Wait for a change; return the states since the last call, in order. None once closed.

        Raises:
            KeeperError: the session is over, or a znode may not be read any more.
        """
        states: list[State] = []
        zxid, is_whole = ZERO, True
        while not self.is_closed and not (states and is_whole):
            yield Wait((self._changed,))
            events = self._changed.drain()
            for event in events:
                is_whole = not event.more
                if event.type is EventType.CHILD:
                    continue
                state = self._state_after(event)
                if state is None:
                    if not self.is_closed:
                        is_watched = _is_still_watched(events)
                        states.append((yield from self._read(is_watched=is_watched)))
                        is_whole = True
                    break  # the answer contains the other events
                if states and event.zxid == zxid:
                    states.pop()
                zxid = event.zxid
                states.append(state)
        return [] if self.is_closed else states

    def close(self) -> Flow[None]:
        """Remove the watches, once. A waiting `next_states` returns no state."""
        if not self.is_closed:
            self.is_closed = True
            self._changed.set()
            watches = [(path, self._changed) for path in self._paths]
            yield from best_effort_cleanup([], watches)

    def _read(self, *, is_watched: bool) -> Flow[State]:
        while True:
            if not is_watched:
                yield from self._watch()
            state = yield from self._read_once()
            is_watched = _is_still_watched(self._changed.drain())  # the answer contains them
            if is_watched:
                return state
            yield from checkpoint()

    def _watch(self) -> Flow[None]:
        additions = [
            WatchAddition(path, WatchMode.PERSISTENT, self._has_values, self._changed)
            for path in self._paths
        ]
        raise_unexpected((yield Gather(list(additions))))

    def _read_once(self) -> Flow[State]:
        if self._has_values:
            (path,) = self._paths
            return {path: (yield from read_current(path))}
        return (yield from read_together(self._paths))

    def _state_after(self, event: WatchedEvent) -> State | None:
        """Return the state that an event tells; None if the event does not tell it.

        Events of several paths never do, though another watch of the client may ask for values.
        """
        if not self._has_values:
            return None
        if event.type is EventType.DELETED:
            return {event.path: MISSING}
        if event.type in _WITH_VALUE and event.new is not None and event.new.value is not None:
            return {event.path: ObservedValue(event.new.value, event.new.stat)}
        return None


def read_together(paths: Iterable[str]) -> Flow[State]:
    """Read several znodes at one moment."""
    paths = list(paths)
    found = yield from read_many(ReadData(path) for path in paths)
    raise_unexpected(found, NoNodeError)
    return {
        path: MISSING if isinstance(each, NoNodeError) else ObservedValue(*each)
        for path, each in zip(paths, found, strict=True)
    }


def start_following(
    live: Live[Any, Any], follower: ZnodeFollower, deliver: Deliver | None = None
) -> Flow[None]:
    """Give the present state to `live`, and each later one in a flow beside the caller's.

    Without `deliver`, `live` gets each state once, and None for a state in which a znode is
    missing. A `deliver` of a recipe gets only the newest state, and returns the one that it has
    given to `live`, which may be newer still.

    Raises:
        KeeperError: what a request failed with; nothing is watched.
    """
    gives_all = deliver is None
    deliver = deliver or partial(_deliver, live)
    last = yield from follower.open()
    try:
        last = yield from deliver(last)
    except (Cancelled, KeeperError):
        yield from follower.close()
        raise
    yield Spawn(_deliver_later(live, follower, deliver, last, gives_all=gives_all))


def _deliver_later(
    live: Live[Any, Any], follower: ZnodeFollower, deliver: Deliver, last: State, *, gives_all: bool
) -> Flow[None]:
    try:
        while states := (yield from follower.next_states()):
            for state in states if gives_all else states[-1:]:
                # A second read may find the values that were delivered.
                if any(state[path].differs_from(last[path]) for path in state):
                    last = yield from deliver(state)
    except KeeperError as error:
        yield from follower.close()
        yield from live._on_failure(error)


def _deliver(live: Live[Any, Any], state: State) -> Flow[State]:
    yield from live._on_state(None if MISSING in state.values() else state)
    return state


def _is_still_watched(events: list[WatchedEvent]) -> bool:
    """Return whether nobody of this client has removed all watches of a path."""
    return all(event.type is not EventType.PERSISTENT_WATCH_REMOVED for event in events)
