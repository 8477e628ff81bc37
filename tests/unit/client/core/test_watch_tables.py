"""Watchers: registration by reply, one call per object, and setting them again."""

from itertools import count

from raykeeper.client.core.watch_tables import WatchTables
from raykeeper.zab.ids import Millis, Zxid
from raykeeper.znodes.replies import EventType, ExistsReply, GetChildrenReply, GetDataReply
from raykeeper.znodes.requests import SetWatches
from raykeeper.znodes.stat import Stat

Z = Zxid(5)
STAT = Stat(Z, Z, Millis(1), Millis(1), 0, 0, 0, 0, 0, 0, Z)
DATA, HERE, MISSING = (
    GetDataReply(1, Z, b"", STAT),
    ExistsReply(1, Z, STAT),
    ExistsReply(1, Z, None),
)
CHILDREN = GetChildrenReply(1, Z, [], STAT)


def filled() -> WatchTables:
    watchers = WatchTables()
    for watcher, reply in (
        ("d", DATA),
        ("h", HERE),
        ("m", MISSING),
        ("c", CHILDREN),
        ("d", DATA),  # a second time
        ("d", CHILDREN),  # and by another kind
    ):
        watchers.add_one_shot(watcher, "/a", reply)
    return watchers


def test_each_event_takes_the_watchers_it_concerns() -> None:
    assert filled().take(EventType.CREATED, "/a") == ["d", "h", "m"]
    assert filled().take(EventType.CHANGED, "/a") == ["d", "h", "m"]
    assert filled().take(EventType.CHILD, "/a") == ["c", "d"]
    assert filled().take(EventType.DELETED, "/a") == ["d", "h", "m", "c"]
    assert filled().take(EventType.DELETED, "/b") == []


def test_an_event_leaves_the_watchers_of_other_kinds() -> None:
    watchers = filled()
    watchers.take(EventType.CHANGED, "/a")
    assert watchers.take(EventType.DELETED, "/a") == ["c", "d"]
    assert watchers.take_all() == {}


def test_the_end_of_the_session_calls_each_watcher_once_per_path() -> None:
    watchers = filled()
    watchers.add_one_shot("d", "/b", DATA)
    assert watchers.take_all() == {"/a": ["d", "h", "m", "c"], "/b": ["d"]}
    assert watchers.take_all() == {}


def test_each_kind_is_set_again_once_per_path() -> None:
    expected = [SetWatches(9, Z, ["/a"], ["/a"], ["/a"])]
    assert filled().set_watches(Z, count(9), 1000) == expected
    assert WatchTables().set_watches(Z, count(9), 1000) == []


def test_a_path_longer_than_the_bound_travels_alone() -> None:
    watchers = WatchTables()
    paths = ["/a", "/" + "x" * 100, "/b"]
    for path in paths:
        watchers.add_one_shot("w", path, DATA)
    requests = watchers.set_watches(Z, count(1), 50)
    assert [(request.xid, request.data) for request in requests] == [
        (1, ["/a"]),
        (2, [paths[1]]),
        (3, ["/b"]),
    ]
