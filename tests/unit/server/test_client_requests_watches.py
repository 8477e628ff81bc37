"""Persistent watches: large events, and bounds. See also data/client_requests_watches_*.txt."""

from raykeeper.server import server_trace_events
from raykeeper.server.client_requests import FRAME_BYTES_MAX
from raykeeper.zab.ids import Zxid
from raykeeper.znodes.limits import Limits
from raykeeper.znodes.replies import (
    EventType,
    Item,
    WatcherEvent,
)
from raykeeper.znodes.requests import (
    AddWatch,
    PersistentWatch,
    SetWatches,
    WatchMode,
)
from tests.harness.pure_servers import Caller, PureServer, zxid_of

PERSISTENT, RECURSIVE = WatchMode.PERSISTENT, WatchMode.RECURSIVE
CREATED, CHANGED, CHILD = EventType.CREATED, EventType.CHANGED, EventType.CHILD
RESYNC = EventType.RESYNC


def add(caller: Caller, path: str, mode: int = PERSISTENT, *, values: bool = False) -> AddWatch:
    return AddWatch(caller.next_xid(), path, mode, values)


def again(
    caller: Caller, since: Zxid, *lasting: PersistentWatch, more: bool = False, **paths: list[str]
) -> SetWatches:
    lists = [paths.get(kind, []) for kind in ("data", "exist", "child")]
    return SetWatches(caller.next_xid(), since, *lists, list(lasting), more)


def events(items: list[Item]) -> list[tuple[EventType, str]]:
    return [(item.kind, item.path) for item in items if isinstance(item, WatcherEvent)]


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
