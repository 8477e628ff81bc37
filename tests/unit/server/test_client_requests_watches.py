"""Persistent watches of a connection: set, removed, bounded, set again after an absence."""

import pytest

from raykeeper.server import server_trace_events
from raykeeper.server.client_requests import FRAME_BYTES_MAX
from raykeeper.server.context import ServerOptions
from raykeeper.zab.ids import Zxid
from raykeeper.znodes.acl import Acl, Permission, digest_id
from raykeeper.znodes.errors import Code
from raykeeper.znodes.limits import Limits
from raykeeper.znodes.replies import (
    EmptyReply,
    ErrorReply,
    EventType,
    GetDataReply,
    Item,
    WatcherEvent,
    WriteReply,
)
from raykeeper.znodes.requests import (
    AddAuth,
    AddWatch,
    Create,
    Multi,
    PersistentWatch,
    RemoveWatches,
    SetData,
    SetWatches,
    WatchKind,
    WatchMode,
)
from tests.harness.pure_servers import Caller, PureServer, PureServers, zxid_of

PERSISTENT, RECURSIVE = WatchMode.PERSISTENT, WatchMode.RECURSIVE
CREATED, CHANGED, CHILD = EventType.CREATED, EventType.CHANGED, EventType.CHILD
RESYNC = EventType.RESYNC


def add(caller: Caller, path: str, mode: int = PERSISTENT, *, values: bool = False) -> AddWatch:
    return AddWatch(caller.next_xid(), path, mode, values)


def remove(caller: Caller, path: str, *kinds: int) -> RemoveWatches:
    return RemoveWatches(caller.next_xid(), path, list(kinds))


def again(
    caller: Caller, since: Zxid, *lasting: PersistentWatch, more: bool = False, **paths: list[str]
) -> SetWatches:
    lists = [paths.get(kind, []) for kind in ("data", "exist", "child")]
    return SetWatches(caller.next_xid(), since, *lists, list(lasting), more)


def events(items: list[Item]) -> list[tuple[EventType, str]]:
    return [(item.kind, item.path) for item in items if isinstance(item, WatcherEvent)]


def code(items: list[Item]) -> int:
    (item,) = items
    return item.code if isinstance(item, ErrorReply) else 0


def test_a_persistent_watch_stays_until_it_is_removed() -> None:
    host = PureServer()
    caller = host.caller()
    assert code(caller.ask(add(caller, "/a"))) == 0
    for _ in range(2):
        assert events(caller.ask(caller.create("/a"), caller.delete("/a")))[0] == (CREATED, "/a")
    assert code(caller.ask(remove(caller, "/a", WatchKind.DATA))) == Code.NO_WATCHER
    assert code(caller.ask(remove(caller, "/a", WatchKind.PERSISTENT))) == 0
    assert code(caller.ask(remove(caller, "/a", WatchKind.ANY))) == Code.NO_WATCHER
    assert events(caller.ask(caller.create("/a"))) == []


def test_several_kinds_are_removed_together_and_a_missing_watch_is_no_error() -> None:
    host = PureServer()
    caller = host.caller()
    assert code(caller.ask(remove(caller, "/a"))) == 0
    caller.ask(caller.exists("/a", watch=True), add(caller, "/a"), add(caller, "/a", RECURSIVE))
    assert code(caller.ask(remove(caller, "/a", WatchKind.CHILD, WatchKind.RECURSIVE))) == 0
    assert host.server.stats().watches == 2
    assert code(caller.ask(remove(caller, "/a", WatchKind.ANY))) == 0
    assert host.server.stats().watches == 0


def test_bad_arguments_set_and_remove_nothing() -> None:
    host = PureServer()
    caller = host.caller()
    for request in (
        add(caller, "a"), add(caller, "/a/"), add(caller, "/a", 2), add(caller, "/a", -1),
        remove(caller, "a"), remove(caller, "/a", 2, 6), remove(caller, "/a", 0),
    ):  # fmt: skip
        assert code(caller.ask(request)) == Code.BAD_ARGUMENTS
    assert host.server.stats().watches == 0
    assert caller.ended is None


def test_watches_are_bounded_and_an_existing_one_may_be_set_again() -> None:
    host = PureServer(limits=Limits(watches_max=2))
    caller = host.caller()
    assert code(caller.ask(add(caller, "/a"))) == 0
    assert code(caller.ask(add(caller, "/a", RECURSIVE))) == 0
    assert code(caller.ask(add(caller, "/b"))) == Code.BAD_ARGUMENTS
    assert code(caller.ask(add(caller, "/a"))) == 0
    assert host.server.stats().watches == 2
    assert host.notes(server_trace_events.WATCHES_FULL) == [caller.session_id]


def test_events_of_one_transaction_come_together_before_the_read_that_shows_it() -> None:
    host = PureServer()
    caller = host.caller()
    caller.ask(caller.create("/a"), add(caller, "/", RECURSIVE))
    ops = [SetData("/a", b"1", -1), Create("/b", b"", 0), Create("/c", b"", 0)]
    items = caller.ask(caller.write(Multi([], list(ops), [])), caller.get("/a"))
    assert [type(item) for item in items] == [WatcherEvent] * 3 + [WriteReply, GetDataReply]
    assert [item.more for item in items[:3] if isinstance(item, WatcherEvent)] == [
        True,
        True,
        False,
    ]
    assert len({item.zxid for item in items[:3] if isinstance(item, WatcherEvent)}) == 1


def test_events_carry_values_and_a_large_frame_leaves_between_transactions() -> None:
    host = PureServer()
    watcher, writer = host.caller(1), host.caller(2)
    watcher.ask(add(watcher, "/", RECURSIVE, values=True))
    half = bytes(FRAME_BYTES_MAX // 2)
    host.is_disk_held = True
    host.step(writer.frame(writer.create("/a", half), writer.set("/a", half), writer.create("/b")))
    before = len(watcher.answers)
    host.release_disk()
    host.run()
    told = [frame.items for frame in watcher.answers[before:] if frame.items]
    assert [events(items) for items in told] == [
        [(CREATED, "/a"), (CHANGED, "/a")],
        [(CREATED, "/b")],
    ]
    changed = told[0][1]
    assert isinstance(changed, WatcherEvent) and changed.old and changed.new
    assert (changed.old.value, changed.old.stat.version, changed.new.stat.version) == (half, 0, 1)


def test_another_server_reports_each_missed_event_once_in_order() -> None:
    servers = PureServers(3)
    mine, other = servers[1].caller(1), servers[3].caller(2)
    mine.ask(add(mine, "/", RECURSIVE), add(mine, "/"), mine.exists("/b", watch=True))
    other.ask(other.create("/a"))
    assert events(mine.new()) == [(CREATED, "/a"), (CHILD, "/")]
    since = zxid_of(servers[1])
    other.ask(other.set("/a", b"1"), other.create("/b"), other.delete("/b"), other.set("/a", b"2"))
    moved = Caller(servers[2], 9)
    moved.take_up(mine)
    lasting = [PersistentWatch("/", RECURSIVE), PersistentWatch("/", PERSISTENT)]
    moved.ask(again(moved, since, *lasting, exist=["/b"]))
    (frame,) = [answer.items for answer in moved.answers if answer.items]
    assert events(frame[:-1]) == [
        (CHANGED, "/a"),
        (CREATED, "/b"),
        (CHILD, "/"),
        (EventType.DELETED, "/b"),
        (CHILD, "/"),
        (CHANGED, "/a"),
    ]
    assert isinstance(frame[-1], EmptyReply)
    # The one-shot watch has fired; the others go on.
    assert servers[2].server.stats().watches == 2
    other.ask(other.create("/b"))
    assert events(moved.new()) == [(CREATED, "/b"), (CHILD, "/")]


def test_no_watch_is_set_before_the_last_of_several_requests() -> None:
    host = PureServer()
    caller, other = host.caller(1), host.caller(2)
    since = zxid_of(host)
    other.ask(other.create("/a"))
    first = again(caller, since, PersistentWatch("/a", PERSISTENT), more=True)
    assert [type(item) for item in caller.ask(first)] == [EmptyReply]
    assert host.server.stats().watches == 0
    other.ask(other.set("/a", b"1"), other.create("/b"))
    assert caller.new() == []
    told = caller.ask(again(caller, since, exist=["/b"]))
    assert events(told) == [(CREATED, "/a"), (CHANGED, "/a"), (CREATED, "/b")]
    assert host.server.stats().watches == 1


def test_partial_set_watches_are_bounded() -> None:
    host = PureServer(limits=Limits(watches_max=2))
    caller = host.caller()
    since = zxid_of(host)
    for path in ("/a", "/b", "/c", "/d", "/e"):
        caller.ask(again(caller, since, more=True, exist=[path]))
    for _ in range(5):
        caller.ask(again(caller, since, more=True))
    assert len(host.server._clients._by_number[1].partial_set_watches) == 3
    caller.ask(again(caller, since))
    assert host.server.stats().watches == 2
    assert host.notes(server_trace_events.WATCHES_FULL) == [caller.session_id] * 8


@pytest.mark.parametrize(
    "bounds", [{"change_log_count_max": 2}, {"change_log_bytes_max": 600}], ids=["count", "bytes"]
)
def test_a_gap_in_the_history_is_a_resync(bounds: dict[str, int]) -> None:
    host = PureServer(options=ServerOptions(**bounds))
    caller, other = host.caller(1), host.caller(2)
    since = zxid_of(host)
    for path in ("/a", "/b", "/c"):
        other.ask(other.create(path))
    lasting = [PersistentWatch("/", RECURSIVE), PersistentWatch("/a", PERSISTENT)]
    told = caller.ask(again(caller, since, *lasting, exist=["/a"]))
    assert events(told) == [(CREATED, "/a"), (RESYNC, "/a"), (RESYNC, "/")]
    assert [item.zxid for item in told[1:3] if isinstance(item, WatcherEvent)] == [
        zxid_of(host)
    ] * 2


def test_a_restarted_server_knows_what_it_replays_after_its_snapshot() -> None:
    servers = PureServers(3)
    mine, other = servers[2].caller(1), servers[2].caller(2)
    since = zxid_of(servers[2])
    other.ask(other.create("/a"), other.create("/b"))
    servers.crash(1)
    servers.restart(1)
    servers.run()
    moved = Caller(servers[1], 9)
    moved.take_up(mine)
    told = moved.ask(again(moved, since, PersistentWatch("/", PERSISTENT)))
    assert events(told) == [(CHILD, "/"), (CHILD, "/")]


def test_a_client_without_read_permission_receives_no_event_now_or_later() -> None:
    host = PureServer()
    hers, his = host.caller(1), host.caller(2)
    hers.ask(hers.write(AddAuth("digest", b"alice:secret")))
    acls = [Acl(Permission.ALL, "digest", digest_id("alice", "secret"))]
    since = zxid_of(host)
    for caller in (hers, his):
        caller.ask(add(caller, "/a", RECURSIVE))
    his.ask(his.exists("/a", watch=True))
    assert events(hers.ask(hers.write(Create("/a", b"", 0, acls)))) == [(CREATED, "/a")]
    assert his.new() == []
    assert host.server.stats().watches == 3
    assert events(his.ask(again(his, since, PersistentWatch("/a", PERSISTENT)))) == []
    assert events(hers.ask(again(hers, since, PersistentWatch("/a", PERSISTENT)))) == [
        (CREATED, "/a")
    ]
