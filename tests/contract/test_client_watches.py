"""Persistent watches through both clients: set, told over a lost connection, removed."""

from collections.abc import Callable
from queue import SimpleQueue
from typing import Any

import pytest

from raykeeper.client import EventType, WatchedEvent, WatchKind
from raykeeper.client.errors import BadArgumentsError, NoWatcherError
from tests.contract.client_handles import Open, Room, open_awaited, open_blocking
from tests.contract.test_clients import client, connect, top

__all__ = ["client", "connect", "top"]


@pytest.fixture
def room() -> Room:
    """Servers whose links a test can cut."""
    return Room()


@pytest.fixture(params=[open_blocking, open_awaited])
def opener(request: pytest.FixtureRequest, room: Room) -> Open:
    """What opens a client of either kind."""
    opener: Open = request.param(room)
    return opener


class Told:
    """A watcher, and what it was told."""

    def __init__(self) -> None:
        self._events: SimpleQueue[WatchedEvent] = SimpleQueue()

    def __call__(self, event: WatchedEvent) -> None:
        self._events.put(event)

    def next(self, count: int) -> list[WatchedEvent]:
        """So many more events."""
        return [self._events.get(timeout=10) for _ in range(count)]

    def kinds(self, count: int) -> list[tuple[EventType, str]]:
        return [(event.type, event.path) for event in self.next(count)]


def test_a_persistent_watch_stays(connect: Open, client: Any, top: str) -> None:
    other, told = connect(), Told()
    client.add_watch(top, told)
    other.set(top, b"1")
    other.create(f"{top}/a")
    other.delete(f"{top}/a")
    other.set(top, b"2")
    assert told.kinds(4) == [
        (EventType.CHANGED, top),
        (EventType.CHILD, top),
        (EventType.CHILD, top),
        (EventType.CHANGED, top),
    ]


def test_a_recursive_watch_carries_values(connect: Open, client: Any, top: str) -> None:
    other, told = connect(), Told()
    client.add_watch(top, told, recursive=True, with_values=True)
    with other.transaction() as transaction:
        transaction.create(f"{top}/a", b"1")
        transaction.set(top, b"2")
    other.set(f"{top}/a", b"3")
    made, changed, again = told.next(3)
    assert (made.type, made.path, made.more) == (EventType.CREATED, f"{top}/a", True)
    assert made.old is None and made.new.value == b"1"
    assert (changed.path, changed.more, changed.zxid) == (top, False, made.zxid)
    assert (again.old.value, again.new.value) == (b"1", b"3")
    assert (again.old.stat.version, again.new.stat.version) == (0, 1)
    assert again.new.stat == client.exists(f"{top}/a")


def test_nothing_is_missed_without_a_connection(
    connect: Open, client: Any, top: str, room: Room
) -> None:
    other, persistent, once = connect(), Told(), Told()
    client.add_watch(top, persistent, recursive=True)
    client.exists(f"{top}/a", once)
    room.cut_while(client.session_id, lambda: change(other, top))
    assert persistent.kinds(4) == [
        (EventType.CREATED, f"{top}/a"),
        (EventType.CHANGED, f"{top}/a"),
        (EventType.DELETED, f"{top}/a"),
        (EventType.CHANGED, top),
    ]
    assert once.kinds(1) == [(EventType.CREATED, f"{top}/a")]


def change(other: Any, top: str) -> None:
    other.create(f"{top}/a")
    other.set(f"{top}/a", b"1")
    other.delete(f"{top}/a")
    other.set(top, b"2")


def test_a_watch_is_removed(client: Any, top: str) -> None:
    mine, others, once = Told(), Told(), Told()
    client.add_watch(top, mine)
    client.add_watch(top, others)
    client.add_watch(top, others, recursive=True)
    client.get(top, once)
    client.remove_watches(top, mine)
    client.set(top, b"1")
    assert mine.kinds(1) == [(EventType.PERSISTENT_WATCH_REMOVED, top)]
    assert once.kinds(1) == [(EventType.CHANGED, top)]
    client.get(top, once)
    client.remove_watches(top, kind=WatchKind.PERSISTENT)
    client.remove_watches(top)
    assert others.kinds(3) == [
        (EventType.CHANGED, top),
        (EventType.PERSISTENT_WATCH_REMOVED, top),
        (EventType.PERSISTENT_WATCH_REMOVED, top),
    ]
    assert once.kinds(1) == [(EventType.DATA_WATCH_REMOVED, top)]
    for watch in (None, mine):
        with pytest.raises(NoWatcherError):
            client.remove_watches(top, watch)


@pytest.mark.parametrize(
    ("call", "text"),
    [
        (lambda c: c.add_watch("a", print), 'a path must start with "/"'),
        (lambda c: c.add_watch("/a", None), "watch must be callable, not NoneType"),
        (lambda c: c.remove_watches("a"), 'a path must start with "/"'),
        (lambda c: c.remove_watches("/a", "f"), "watch must be callable, not str"),
        (lambda c: c.remove_watches("/a", kind=3), "kind must be a WatchKind, not 3"),
    ],
)
def test_a_senseless_watch_is_refused(
    client: Any, call: Callable[[Any], object], text: str
) -> None:
    with pytest.raises(BadArgumentsError, match=text):
        call(client)
