"""ClientCore: watches, their order, and setting them again."""

import pytest

from raykeeper.client.core.effects import (
    CallWatchers,
    CloseLink,
    Complete,
)
from raykeeper.client.core.outstanding import Query
from raykeeper.client.core.public_types import ClientState, WatchedEvent
from raykeeper.znodes.errors import (
    Code,
)
from raykeeper.znodes.replies import (
    EmptyReply,
    ErrorReply,
    EventType,
    GetChildrenReply,
    GetDataReply,
    WatcherEvent,
)
from raykeeper.znodes.requests import (
    ClientFrame,
    Exists,
    GetChildren,
    GetData,
    SetWatches,
)
from tests.unit.client.wire import SET, STAT, Wire, Z, done, write


@pytest.mark.parametrize(
    ("kind", "told"),
    [
        (EventType.CHANGED, ["data", "there", "all"]),
        (EventType.CREATED, ["data", "there", "all"]),
        (EventType.CHILD, ["children", "all"]),
        (EventType.DELETED, ["data", "there", "all", "children"]),
    ],
)
def test_an_event_reaches_each_watcher_once(kind: EventType, told: list[str]) -> None:
    wire = Wire().serving()
    wire.watching(
        Query(GetData, "/a", "data"),
        Query(Exists, "/a", "there"),
        Query(GetChildren, "/a", "children"),
        Query(GetChildren, "/a", "all"),
        Query(GetData, "/a", "all"),
        Query(GetData, "/b", "other"),
    )
    event = WatchedEvent(kind, ClientState.CONNECTED, "/a", Z[3])
    assert wire.items(WatcherEvent(kind, "/a", Z[3])) == [CallWatchers(told, event)]
    # They are gone with it.
    assert wire.items(WatcherEvent(kind, "/a", Z[4])) == []


def test_an_exist_watch_waits_for_the_creation() -> None:
    wire = Wire().serving()
    wire.watching(Query(Exists, "/none", "w"))
    (fired,) = wire.items(WatcherEvent(EventType.CREATED, "/none", Z[3]))
    assert fired.watchers == ["w"]


def test_a_failed_read_sets_no_watch() -> None:
    wire = Wire().serving()
    wire.submit(Query(GetData, "/none", "w"))
    wire.items(ErrorReply(1, Z[2], Code.NO_NODE))
    assert wire.reconnected() == []


def test_an_event_comes_before_the_reply_behind_it() -> None:
    wire = Wire().serving()
    wire.watching(Query(GetData, "/a", "w"))
    read = Query(GetData, "/a")
    wire.submit(read)
    fired, completed = wire.items(
        WatcherEvent(EventType.CHANGED, "/a", Z[3]), GetDataReply(2, Z[3], b"new", STAT)
    )
    assert isinstance(fired, CallWatchers)
    assert isinstance(completed, Complete)


def test_watches_are_set_again_before_the_requests() -> None:
    wire = Wire().serving()
    wire.watching(
        Query(GetData, "/d", "w"),
        Query(Exists, "/none", "w"),
        Query(GetChildren, "/c", "w"),
    )
    wire.items(zxid=Z[7])
    wire.submit(SET)
    assert wire.reconnected(zxid=Z[9]) == [
        ClientFrame(3, [SetWatches(4, Z[7], ["/d"], ["/none"], ["/c"])]),
        ClientFrame(4, [write(1)]),
    ]
    assert wire.items(EmptyReply(4, Z[9]), done(1)) == [Complete(SET, done(1))]


def test_set_watches_shows_the_zxid_up_to_which_events_were_received() -> None:
    wire = Wire().serving()
    wire.watching(Query(GetData, "/d", "w"))
    wire.items(zxid=Z[7])
    wire.reconnected(zxid=Z[9])
    # 1. The server has applied Z9 and tells so. 2. The link breaks before it has set the watch
    # again. An event between Z7 and Z9 must not be skipped by showing Z9 to the next server.
    wire.items(zxid=Z[9])
    (again,) = wire.reconnected(zxid=Z[9])
    assert again.requests == [SetWatches(3, Z[7], ["/d"], [], [])]
    wire.items(EmptyReply(3, Z[9]), zxid=Z[9])
    (again,) = wire.reconnected(zxid=Z[9])
    assert again.requests == [SetWatches(4, Z[9], ["/d"], [], [])]


def test_a_large_set_watches_is_split() -> None:
    wire = Wire(set_watches_bytes_max=40).serving()
    paths = [f"/a-path-{n}" for n in range(7)]
    wire.watching(*(Query(GetData, path, "w") for path in paths))
    frames = wire.reconnected()
    assert [frame.requests[0].data for frame in frames] == [
        paths[:2],
        paths[2:4],
        paths[4:6],
        paths[6:],
    ]
    # Each has its own answer, in order.
    wire.items(EmptyReply(8, Z[2]), EmptyReply(9, Z[2]))
    assert isinstance(wire.items(EmptyReply(11, Z[2]))[0], CloseLink)


def test_a_list_sets_its_watch_with_its_last_page() -> None:
    """The connection may break between two pages, and then nobody watches."""
    wire = Wire().serving()
    read = Query(GetChildren, "/a", "w")
    wire.submit(read)
    assert wire.items(GetChildrenReply(1, Z[2], ["b"], STAT, more=True)) == []
    (again,) = wire.reconnected()
    assert [type(request) for request in again.requests] == [GetChildren]
    assert wire.items(WatcherEvent(EventType.CHILD, "/a", Z[3])) == []
    wire.items(
        GetChildrenReply(1, Z[4], ["b"], STAT, more=True), GetChildrenReply(1, Z[4], ["c"], STAT)
    )
    (fired,) = wire.items(WatcherEvent(EventType.CHILD, "/a", Z[5]))
    assert fired.watchers == ["w"]
