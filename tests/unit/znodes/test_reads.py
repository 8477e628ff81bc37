"""Reads: the answer to each, and the watch each sets."""

import pytest

from raykeeper.znodes.errors import Code
from raykeeper.znodes.reads import answer, set_watch
from raykeeper.znodes.replies import (
    ChildrenRead,
    DataRead,
    EventType,
    Item,
    ReadFailed,
    StatRead,
)
from raykeeper.znodes.requests import Create, Delete, Exists, GetChildren, GetData, Read, SetData
from raykeeper.znodes.stat import Stat
from raykeeper.znodes.tree import stat_of
from raykeeper.znodes.watches import WatchTable
from tests.unit.znodes.one_leader import OneLeader

XID, CONNECTION = 5, 9


def leader_with_znodes() -> OneLeader:
    leader = OneLeader()
    session = leader.open()
    for path in ("/a", "/a/b", "/a/c"):
        leader.create(session, path, path.encode())
    return leader


LEADER = leader_with_znodes()
STATE = LEADER.state
ZXID = LEADER.zxid


def stat(path: str) -> Stat:
    znode = STATE.tree.get(path)
    assert znode is not None
    return stat_of(znode)


@pytest.mark.parametrize(
    ("request_", "expected"),
    [
        (GetData(XID, "/a", False), DataRead(XID, ZXID, b"/a", stat("/a"))),
        (Exists(XID, "/a", False), StatRead(XID, ZXID, stat("/a"))),
        (GetChildren(XID, "/a", False), ChildrenRead(XID, ZXID, ["b", "c"], stat("/a"))),
        (GetChildren(XID, "/", False), ChildrenRead(XID, ZXID, ["zookeeper", "a"], stat("/"))),
        (GetChildren(XID, "/a/b", False), ChildrenRead(XID, ZXID, [], stat("/a/b"))),
        # Missing is an answer to exists, an error to the others.
        (Exists(XID, "/x", False), StatRead(XID, ZXID, None)),
        (GetData(XID, "/x", False), ReadFailed(XID, ZXID, Code.NO_NODE)),
        (GetChildren(XID, "/x", False), ReadFailed(XID, ZXID, Code.NO_NODE)),
        # A malformed path is neither there nor missing.
        (Exists(XID, "x", True), ReadFailed(XID, ZXID, Code.BAD_ARGUMENTS)),
        (GetData(XID, "/a/", True), ReadFailed(XID, ZXID, Code.BAD_ARGUMENTS)),
        (GetChildren(XID, "", True), ReadFailed(XID, ZXID, Code.BAD_ARGUMENTS)),
    ],
)
def test_answers(request_: Read, expected: Item) -> None:
    assert answer(STATE, request_) == expected


CREATE, SET = (
    (Create("/x", b"", 0), EventType.CREATED),
    (SetData("/a/b", b"", -1), EventType.CHANGED),
)
DELETE = (Delete("/a/b", -1), EventType.DELETED)
CHILD = (Create("/a/b/new", b"", 0), EventType.CHILD)


@pytest.mark.parametrize(
    ("request_", "fires", "silent"),
    [
        (GetData(XID, "/a/b", True), [SET, DELETE], [CHILD]),
        (Exists(XID, "/a/b", True), [SET, DELETE], [CHILD]),
        (GetChildren(XID, "/a/b", True), [CHILD, DELETE], [SET]),
        (Exists(XID, "/x", True), [CREATE], []),
        (GetData(XID, "/x", True), [], [CREATE]),
        (GetChildren(XID, "/x", True), [], [CREATE]),
        (Exists(XID, "x", True), [], [CREATE]),
    ],
)
def test_watches(
    request_: Read,
    fires: list[tuple[Create | Delete | SetData, EventType]],
    silent: list[tuple[Create | Delete | SetData, EventType]],
) -> None:
    for op, kind in fires + silent:
        leader, watches = leader_with_znodes(), WatchTable()
        set_watch(watches, CONNECTION, request_, answer(leader.state, request_))
        change = leader.do(leader.open(2), op)
        kinds = [event.kind for _, event in watches.trigger(leader.zxid, change)]
        assert kinds == ([kind] if (op, kind) in fires else [])
