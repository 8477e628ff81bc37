"""Watching: persistent watches over the life of a session, and their removal."""

import pytest

from raykeeper.client.core.chroot import Chroot
from raykeeper.client.core.effects import CallWatchers, Complete, Fail
from raykeeper.client.core.outstanding import Query, WatchAddition, WatchRemoval
from raykeeper.client.core.public_types import ClientState, WatchedEvent
from raykeeper.zab.ids import Zxid
from raykeeper.znodes.errors import BadArgumentsError, Code, NoWatcherError
from raykeeper.znodes.replies import Content, EmptyReply, ErrorReply, EventType, WatcherEvent
from raykeeper.znodes.requests import (
    AddWatch,
    ClientFrame,
    GetChildren,
    GetData,
    PersistentWatch,
    RemoveWatches,
    SetWatches,
    WatchKind,
    WatchMode,
)
from tests.unit.client.wire import SET, STAT, Wire, Z, done, write

PERSISTENT, RECURSIVE = WatchMode.PERSISTENT, WatchMode.RECURSIVE
CREATED, CHANGED, CHILD = EventType.CREATED, EventType.CHANGED, EventType.CHILD
DELETED, RESYNC = EventType.DELETED, EventType.RESYNC
REMOVED = EventType.PERSISTENT_WATCH_REMOVED


def watch(
    watcher: str, path: str = "/a", mode: WatchMode = PERSISTENT, *, values: bool = False
) -> WatchAddition:
    return WatchAddition(path, mode, values, watcher)


def unwatch(watcher: str | None, path: str = "/a", kind: WatchKind = WatchKind.ANY) -> WatchRemoval:
    return WatchRemoval(path, kind, watcher)


def watching(*asks: WatchAddition) -> Wire:
    """These are set."""
    wire = Wire().serving()
    for n, ask in enumerate(asks):
        assert wire.submit(ask) == [
            ClientFrame(n + 1, [AddWatch(n + 1, ask.path, ask.mode, ask.with_values)])
        ]
        assert wire.items(EmptyReply(n + 1, Z[2])) == [Complete(ask, EmptyReply(n + 1, Z[2]))]
    return wire


def called(wire: Wire, kind: EventType, path: str, zxid: Zxid = Z[3]) -> list[str]:
    """Who is told of an event."""
    fired = wire.items(WatcherEvent(kind, path, zxid))
    assert all(isinstance(effect, CallWatchers) for effect in fired)
    return [watcher for effect in fired for watcher in effect.watchers]


def code_of(effects: list[object]) -> type:
    (failed,) = effects
    assert isinstance(failed, Fail)
    return type(failed.error)


@pytest.mark.parametrize(
    ("kind", "path", "told"),
    [
        (CREATED, "/a", ["p", "r", "top"]),
        (CHANGED, "/a", ["p", "r", "top"]),
        (DELETED, "/a", ["p", "r", "top"]),
        (CHILD, "/a", ["p"]),
        (CREATED, "/a/b/c", ["r", "top"]),
        (CHILD, "/a/b", []),
        (CHANGED, "/b", ["top"]),
        (CHANGED, "/ab", ["top"]),
        # It comes for each path that is watched.
        (RESYNC, "/a", ["p", "r"]),
        (RESYNC, "/", ["top"]),
    ],
)
def test_each_event_calls_the_watchers_of_its_path(
    kind: EventType, path: str, told: list[str]
) -> None:
    wire = watching(watch("p"), watch("r", mode=RECURSIVE), watch("top", "/", RECURSIVE))
    for n in (3, 4):
        assert called(wire, kind, path, Z[n]) == told


def test_a_watcher_with_several_watches_is_called_once() -> None:
    wire = watching(watch("w"), watch("w", mode=RECURSIVE), watch("w", "/", RECURSIVE), watch("w"))
    wire.submit(Query(GetData, "/a", "w"))
    assert called(wire, CHANGED, "/a") == ["w"]


def test_an_event_found_in_the_state_calls_one_shot_watches_only() -> None:
    """It comes before RESYNC, perhaps as one of several changes, or of another kind than those."""
    wire = watching(watch("p"), watch("r", "/", RECURSIVE))
    wire.watching(Query(GetData, "/a", "d"))
    (fired,) = wire.items(WatcherEvent(DELETED, "/a", Z[9], once=True))
    assert fired.watchers == ["d"]
    assert wire.items(WatcherEvent(DELETED, "/a", Z[9], once=True)) == []
    assert called(wire, RESYNC, "/a", Z[9]) == ["p"]


def test_an_event_has_the_fields_that_the_server_sent() -> None:
    wire = watching(watch("w", values=True))
    old, new = Content(b"1", STAT), Content(None, STAT)
    (fired,) = wire.items(WatcherEvent(CHANGED, "/a", Z[3], False, old, new))
    event = WatchedEvent(CHANGED, ClientState.CONNECTED, "/a", Z[3], False, old, new)
    assert fired == CallWatchers(["w"], event)


def test_each_watcher_learns_its_last_event_of_a_transaction() -> None:
    wire = watching(watch("a"), watch("both"), watch("both", "/b"))
    wire.watching(Query(GetData, "/c", "gone"))
    wire.submit(unwatch("gone", "/c"))
    wire.items(EmptyReply(5, Z[3]))
    fired = wire.items(
        WatcherEvent(CHANGED, "/a", Z[4], more=True),
        WatcherEvent(CHANGED, "/b", Z[4], more=True),
        WatcherEvent(CHANGED, "/c", Z[4]),  # which nobody waits for any more
    )
    told = [(effect.watchers, effect.event.path, effect.event.more) for effect in fired]
    assert told == [(["both"], "/a", True), (["a"], "/a", False), (["both"], "/b", False)]


def test_a_part_of_a_transaction_is_reported_again_with_the_rest() -> None:
    wire = watching(watch("w"))
    assert wire.items(WatcherEvent(CHANGED, "/a", Z[4], more=True)) == []
    wire.reconnected()
    assert called(wire, CHANGED, "/a", Z[4]) == ["w"]


def test_a_refused_watch_is_not_called() -> None:
    wire = Wire().serving()
    ask = watch("w")
    wire.submit(ask)
    assert called(wire, CHANGED, "/a") == []
    assert code_of(wire.items(ErrorReply(1, Z[3], Code.BAD_ARGUMENTS))) is BadArgumentsError
    assert called(wire, CHANGED, "/a") == []
    assert wire.reconnected() == []


def test_a_watch_whose_request_timed_out_is_not_set() -> None:
    wire = Wire(request_timeout_ms=2000).serving()
    wire.submit(watch("w"))
    wire.at(3001).wake()
    assert wire.items(EmptyReply(1, Z[2])) == []
    assert called(wire, CHANGED, "/a") == []
    # Nobody else is there, so the watch of the next one is the last one.
    wire.submit(watch("x"))
    wire.items(EmptyReply(2, Z[2]))
    (frame,) = wire.submit(unwatch("x", kind=WatchKind.PERSISTENT))
    assert frame.requests == [RemoveWatches(3, "/a", [WatchKind.PERSISTENT])]


def test_watches_are_set_again_from_the_last_event() -> None:
    wire = watching(watch("p"), watch("v", values=True), watch("r", "/b", RECURSIVE))
    wire.watching(Query(GetData, "/d", "w"))
    wire.items(WatcherEvent(CHANGED, "/a", Z[5]), zxid=Z[5])
    wire.submit(SET)
    lasting = [PersistentWatch("/a", PERSISTENT, True), PersistentWatch("/b", RECURSIVE)]
    sent = wire.reconnected(zxid=Z[9])
    assert sent == [
        ClientFrame(6, [SetWatches(5, Z[5], ["/d"], [], [], lasting)]),
        ClientFrame(7, [write(1)]),
    ]
    first, second, resync, completed = wire.items(
        WatcherEvent(CHANGED, "/a", Z[6]),
        WatcherEvent(CREATED, "/b/c", Z[7]),
        WatcherEvent(RESYNC, "/a", Z[8]),
        EmptyReply(5, Z[9]),
        done(1),
    )
    assert [each.watchers for each in (first, second, resync)] == [["p", "v"], ["r"], ["p", "v"]]
    assert isinstance(completed, Complete)


def test_all_requests_but_the_last_say_that_more_follow() -> None:
    wire = Wire(set_watches_bytes_max=20).serving()
    for n in range(3):
        wire.submit(watch("w", f"/a-long-path-{n}"))
        wire.items(EmptyReply(n + 1, Z[2]))
    (first, *_), (second, *_), (third, *_) = [frame.requests for frame in wire.reconnected()]
    assert [first.more, second.more, third.more] == [True, True, False]
    assert first.persistent == [PersistentWatch("/a-long-path-0", PERSISTENT)]


# Removal.


def test_a_removed_watcher_is_called_before_the_reply() -> None:
    wire = watching(watch("w"))
    ask = unwatch("w")
    (frame,) = wire.submit(ask)
    assert frame.requests == [RemoveWatches(2, "/a", [WatchKind.PERSISTENT])]
    event = WatchedEvent(REMOVED, ClientState.CONNECTED, "/a", Z[4])
    assert wire.items(EmptyReply(2, Z[4])) == [
        CallWatchers(["w"], event),
        Complete(ask, EmptyReply(2, Z[4])),
    ]
    assert called(wire, CHANGED, "/a") == []
    assert wire.reconnected() == []


def test_all_watches_of_a_path_are_removed_each_with_its_kind() -> None:
    wire = watching(watch("p"), watch("q"), watch("r", mode=RECURSIVE), watch("other", "/b"))
    wire.watching(Query(GetData, "/a", "d"), Query(GetChildren, "/a", "c"))
    (frame,) = wire.submit(unwatch(None))
    kinds = [WatchKind.DATA, WatchKind.CHILD, WatchKind.PERSISTENT, WatchKind.RECURSIVE]
    assert frame.requests == [RemoveWatches(7, "/a", kinds)]
    *told, _ = wire.items(EmptyReply(7, Z[4]))
    assert [(each.event.type, each.watchers) for each in told] == [
        (EventType.DATA_WATCH_REMOVED, ["d"]),
        (EventType.CHILD_WATCH_REMOVED, ["c"]),
        (REMOVED, ["p", "q", "r"]),
    ]
    assert called(wire, CHANGED, "/a") == []
    assert called(wire, CHANGED, "/b") == ["other"]


def test_the_server_keeps_a_watch_with_another_watcher() -> None:
    wire = watching(watch("w"), watch("x"))
    (frame,) = wire.submit(unwatch("w"))
    assert frame.requests == [RemoveWatches(3, "/a", [])]
    wire.items(EmptyReply(3, Z[3]))
    assert called(wire, CHANGED, "/a") == ["x"]
    (frame,) = wire.submit(unwatch("x"))
    assert frame.requests == [RemoveWatches(4, "/a", [WatchKind.PERSISTENT])]


def test_the_server_keeps_a_one_shot_watch_without_a_watcher() -> None:
    wire = Wire().serving()
    wire.watching(Query(GetData, "/a", "d"), Query(GetData, "/a", "e"))
    ask = unwatch("d", kind=WatchKind.DATA)
    (frame,) = wire.submit(ask)
    assert frame.requests == [RemoveWatches(3, "/a", [])]
    fired, _ = wire.items(EmptyReply(3, Z[3]))
    assert (fired.watchers, fired.event.type) == (["d"], EventType.DATA_WATCH_REMOVED)
    assert called(wire, CHANGED, "/a") == ["e"]


def test_outstanding_requests_count() -> None:
    """Each request leaves before the one before it is answered."""
    wire = Wire().serving()
    requests = [
        request
        for ask in (watch("w"), watch("x"), unwatch("w"), unwatch("x"), watch("w"), unwatch("w"))
        for request in wire.submit(ask)[0].requests
    ]
    kinds = [request.kinds for request in requests if isinstance(request, RemoveWatches)]
    assert kinds == [[], [WatchKind.PERSISTENT], [WatchKind.PERSISTENT]]
    told = wire.items(*(EmptyReply(n, Z[2]) for n in range(1, 7)))
    assert [each.watchers for each in told if isinstance(each, CallWatchers)] == [
        ["w"],
        ["x"],
        ["w"],
    ]
    assert called(wire, CHANGED, "/a") == []


@pytest.mark.parametrize("kind", [WatchKind.RECURSIVE, WatchKind.DATA, WatchKind.ANY])
def test_a_callable_without_a_watch_cannot_be_removed(kind: WatchKind) -> None:
    wire = watching(watch("w"))
    (frame,) = wire.submit(unwatch("x", kind=kind))
    assert frame.requests == [RemoveWatches(2, "/a", [])]
    assert code_of(wire.items(EmptyReply(2, Z[3]))) is NoWatcherError
    wire.submit(unwatch(None, "/b", kind))
    assert code_of(wire.items(ErrorReply(3, Z[3], Code.NO_WATCHER))) is NoWatcherError
    assert called(wire, CHANGED, "/a") == ["w"]


def test_a_late_removal_removes_the_watch() -> None:
    wire = Wire(request_timeout_ms=2000).serving()
    wire.submit(watch("w"))
    wire.items(EmptyReply(1, Z[2]))
    wire.submit(unwatch("w"))
    wire.at(3001).wake()
    (fired,) = wire.items(EmptyReply(2, Z[2]))
    assert (fired.watchers, fired.event.type) == (["w"], REMOVED)
    assert called(wire, CHANGED, "/a") == []


def test_a_removal_survives_a_reconnect() -> None:
    wire = watching(watch("w"))
    wire.submit(unwatch("w"))
    again, removal = wire.reconnected()
    assert again.requests == [SetWatches(3, Z[2], [], [], [], [PersistentWatch("/a", PERSISTENT)])]
    assert removal.requests == [RemoveWatches(2, "/a", [WatchKind.PERSISTENT])]
    fired, completed = wire.items(EmptyReply(3, Z[2]), EmptyReply(2, Z[2]))
    assert (fired.event.type, type(completed)) == (REMOVED, Complete)


def test_watchers_below_a_chroot_see_the_users_paths() -> None:
    wire = Wire(chroot=Chroot("/app")).serving()
    (frame,) = wire.submit(watch("w", "/", RECURSIVE))
    assert frame.requests == [AddWatch(1, "/app", RECURSIVE)]
    wire.items(EmptyReply(1, Z[2]))
    (fired,) = wire.items(WatcherEvent(CHANGED, "/app/a", Z[3]))
    assert fired.event.path == "/a"
    (frame,) = wire.submit(unwatch("w", "/"))
    assert frame.requests == [RemoveWatches(2, "/app", [WatchKind.RECURSIVE])]
    fired, _ = wire.items(EmptyReply(2, Z[3]))
    assert (fired.event.path, fired.event.type) == ("/", REMOVED)


def test_the_end_of_the_session_calls_persistent_watchers() -> None:
    wire = watching(watch("w"), watch("w", mode=RECURSIVE))
    wire.close()
    ends = [effect for effect in wire.items(done(1)) if isinstance(effect, CallWatchers)]
    assert [(end.watchers, end.event.type) for end in ends] == [(["w"], EventType.NONE)]
