"""WatchTable: ZooKeeper's trigger table, and what is told after an absence."""

import pytest

from raykeeper.zab.ids import Zxid
from raykeeper.znodes.errors import Code
from raykeeper.znodes.limits import PATH_CHARS_MAX
from raykeeper.znodes.replies import EventType, WatchFired
from raykeeper.znodes.requests import (
    CloseSession,
    Create,
    Delete,
    SetData,
    SetWatches,
    Transaction,
    WriteOp,
)
from raykeeper.znodes.state import State
from raykeeper.znodes.txns import Change, Refused
from raykeeper.znodes.watches import WatchTable
from tests.unit.znodes.one_leader import OneLeader

CREATED, DELETED = EventType.CREATED, EventType.DELETED
CHANGED, CHILD = EventType.CHANGED, EventType.CHILD
Z = Zxid(100)
# Connections, named after the one watch each of them has.
GET_B, EXISTS_B, CHILDREN_B, CHILDREN_A, GET_A, EXISTS_X, BOTH_B = range(1, 8)


def watched() -> WatchTable:
    watches = WatchTable()
    watches.add_data("/a/b", GET_B)
    watches.add_data("/a/b", EXISTS_B)
    watches.add_child("/a/b", CHILDREN_B)
    watches.add_child("/a", CHILDREN_A)
    watches.add_data("/a", GET_A)
    watches.add_data("/a/x", EXISTS_X, exists=False)
    watches.add_data("/a/b", BOTH_B)
    watches.add_child("/a/b", BOTH_B)
    return watches


def change_by(op: WriteOp) -> Change:
    leader = OneLeader()
    session = leader.open()
    for path in ("/a", "/a/b"):
        leader.create(session, path)
    return leader.do(session, op)


@pytest.mark.parametrize(
    ("op", "events"),
    [
        (SetData("/a/b", b"", -1), [
            (GET_B, CHANGED, "/a/b"), (EXISTS_B, CHANGED, "/a/b"), (BOTH_B, CHANGED, "/a/b"),
        ]),
        (SetData("/a", b"", -1), [(GET_A, CHANGED, "/a")]),
        (Create("/a/x", b"", 0), [(EXISTS_X, CREATED, "/a/x"), (CHILDREN_A, CHILD, "/a")]),
        (Create("/a/b/c", b"", 0), [(CHILDREN_B, CHILD, "/a/b"), (BOTH_B, CHILD, "/a/b")]),
        # The child table skips who was told by the data table.
        (Delete("/a/b", -1), [
            (GET_B, DELETED, "/a/b"), (EXISTS_B, DELETED, "/a/b"), (BOTH_B, DELETED, "/a/b"),
            (CHILDREN_B, DELETED, "/a/b"),
            (CHILDREN_A, CHILD, "/a"),
        ]),
        (SetData("/missing", b"", -1), []),
        (CloseSession(), []),
    ],
)  # fmt: skip
def test_triggers_in_order_and_once(op: WriteOp, events: list[tuple[int, EventType, str]]) -> None:
    watches, change = watched(), change_by(op)
    before = watches.count
    fired = watches.trigger(Z, change)
    assert fired == [(conn, WatchFired(kind, path, Z)) for conn, kind, path in events]
    # BOTH_B loses both its watches to one deletion.
    assert watches.count == before - len(events) - (op == Delete("/a/b", -1))
    assert [e for e in watches.trigger(Z, change) if e in fired] == []


def test_the_end_of_a_session_deletes_its_ephemerals_one_by_one() -> None:
    leader = OneLeader()
    session = leader.open()
    leader.create(session, "/a")
    for path in ("/a/e2", "/a/e1"):
        leader.create(session, path, flags=1)
    watches = WatchTable()
    watches.add_child("/a", 1)
    watches.add_data("/a/e1", 2)
    watches.add_data("/a/e2", 1)
    fired = watches.trigger(Z, leader.do(session, CloseSession()))
    assert fired == [
        (2, WatchFired(DELETED, "/a/e1", Z)),
        (1, WatchFired(CHILD, "/a", Z)),
        (1, WatchFired(DELETED, "/a/e2", Z)),
    ]
    assert watches.count == 0


def test_a_transaction_triggers_for_each_of_its_changes_in_order() -> None:
    ops = [SetData("/a", b"", -1), Create("/a/x", b"", 0), Delete("/a/b", -1)]
    fired = watched().trigger(Z, change_by(Transaction([], list(ops), [])))
    assert [(connection, event.kind, event.path) for connection, event in fired] == [
        (GET_A, CHANGED, "/a"),
        (EXISTS_X, CREATED, "/a/x"),
        (CHILDREN_A, CHILD, "/a"),
        (GET_B, DELETED, "/a/b"),
        (EXISTS_B, DELETED, "/a/b"),
        (BOTH_B, DELETED, "/a/b"),
        (CHILDREN_B, DELETED, "/a/b"),
    ]


def test_a_refusal_triggers_nothing() -> None:
    assert watched().trigger(Z, Refused(Code.NO_NODE)) == []


def test_a_watch_set_twice_is_one() -> None:
    watches = WatchTable()
    for _ in range(2):
        watches.add_data("/a", 1)
        watches.add_child("/a", 1)
    assert (watches.count, watches.count_of(1), watches.count_of(2)) == (2, 2, 0)


def test_a_dropped_connection_is_told_nothing() -> None:
    watches = watched()
    watches.drop(BOTH_B)
    watches.drop(CHILDREN_A)
    watches.drop(EXISTS_X)
    watches.drop(99)
    assert watches.count == 4
    told = [conn for conn, _ in watches.trigger(Z, change_by(Delete("/a/b", -1)))]
    assert told == [GET_B, EXISTS_B, CHILDREN_B]
    for connection in (GET_B, EXISTS_B, CHILDREN_B, GET_A):
        watches.drop(connection)
    assert watches.count == 0
    assert watches.trigger(Z, change_by(SetData("/a", b"", -1))) == []


# After an absence. Before it: /a with children b and c; /x is missing.


def absent() -> tuple[OneLeader, Zxid]:
    leader = OneLeader()
    session = leader.open()
    for path in ("/a", "/a/b", "/a/c"):
        leader.create(session, path)
    return leader, leader.zxid


NOW = -1  # zxid of an event: the last one applied; others are counted from the absence
ABSENCES: list[tuple[list[WriteOp], str, str, list[tuple[EventType, int]], bool]] = [
    # what happened, which watch, on what, events (kind, zxid), armed again
    ([], "data", "/a", [], True),
    ([SetData("/a", b"", -1), Create("/y", b"", 0)], "data", "/a", [(CHANGED, 1)], False),
    ([Create("/a/d", b"", 0)], "data", "/a", [], True),
    ([Delete("/a/b", -1)], "data", "/a/b", [(DELETED, NOW)], False),
    # ZooKeeper says changed; an unbroken watch would have said deleted.
    ([Delete("/a/b", -1), Create("/a/b", b"", 0)], "data", "/a/b", [(DELETED, NOW)], False),
    ([], "exist", "/x", [], True),
    ([Create("/x", b"", 0), SetData("/x", b"", -1)], "exist", "/x", [(CREATED, 1)], False),
    # The state cannot show it.
    ([Create("/x", b"", 0), Delete("/x", -1)], "exist", "/x", [], True),
    ([], "child", "/a", [], True),
    ([SetData("/a", b"", -1), Create("/a/b/c", b"", 0)], "child", "/a", [], True),
    ([Create("/a/d", b"", 0), SetData("/a", b"", -1)], "child", "/a", [(CHILD, 1)], False),
    ([Delete("/a/c", -1)], "child", "/a", [(CHILD, 1)], False),
    ([Delete("/a/b", -1)], "child", "/a/b", [(DELETED, NOW)], False),
    ([Delete("/a/b", -1), Create("/a/b", b"", 0)], "child", "/a/b", [(DELETED, NOW)], False),
    # One deletion, told once for both watches.
    ([Delete("/a/b", -1)], "data child", "/a/b", [(DELETED, NOW)], False),
    ([Create("/a/d", b"", 0), SetData("/a", b"", -1)], "data child", "/a",
     [(CHANGED, 2), (CHILD, 1)], False),
]  # fmt: skip


def went_by(ops: list[WriteOp]) -> tuple[OneLeader, Zxid]:
    leader, since = absent()
    session = leader.open(2)
    for op in ops:
        assert not isinstance(leader.do(session, op), Refused)
    return leader, since


def expected_events(
    events: list[tuple[EventType, int]], path: str, since: Zxid, state: State
) -> list[WatchFired]:
    # +1: the session of those who changed things was opened first.
    return [
        WatchFired(kind, path, state.zxid if at == NOW else Zxid(since + 1 + at))
        for kind, at in events
    ]


@pytest.mark.parametrize(("ops", "lists", "path", "events", "armed"), ABSENCES)
def test_set_again_after_a_reconnect(
    ops: list[WriteOp], lists: str, path: str, events: list[tuple[EventType, int]], armed: bool
) -> None:
    leader, since = went_by(ops)
    watches = WatchTable()
    data, exist, child = ([path] if name in lists else [] for name in ("data", "exist", "child"))
    fired = watches.rearm(leader.state, 1, SetWatches(5, since, data, exist, child))
    assert fired == expected_events(events, path, since, leader.state)
    assert watches.count == armed


@pytest.mark.parametrize(("ops", "lists", "path", "events", "armed"), ABSENCES)
def test_evaluated_after_a_snapshot(
    ops: list[WriteOp], lists: str, path: str, events: list[tuple[EventType, int]], armed: bool
) -> None:
    leader, since = went_by(ops)
    watches = WatchTable()
    for connection in (1, 2):
        if "data" in lists:
            watches.add_data(path, connection)
        if "exist" in lists:
            watches.add_data(path, connection, exists=False)
        if "child" in lists:
            watches.add_child(path, connection)
    fired = watches.reevaluate(leader.state, since)
    expected = expected_events(events, path, since, leader.state)
    assert fired == [(connection, event) for event in expected for connection in (1, 2)]
    assert watches.count == 2 * armed
    watches.drop(1)
    watches.drop(2)
    assert watches.count == 0


@pytest.mark.parametrize("others", [True, False])
def test_a_watch_set_again_fires(others: bool) -> None:
    leader, since = absent()
    watches = WatchTable()
    if others:
        for path in ("/a", "/x"):
            watches.add_data(path, 9)
        watches.add_child("/a", 9)
    request = SetWatches(5, since, ["/a"], ["/x"], ["/a"])
    assert watches.rearm(leader.state, 1, request) == []
    session = leader.open(2)
    told = []
    for op in (SetData("/a", b"", -1), Create("/x", b"", 0), Create("/a/d", b"", 0)):
        change = leader.do(session, op)
        fired = watches.trigger(leader.zxid, change)
        told += [(event.kind, event.path) for connection, event in fired if connection == 1]
    assert told == [(CHANGED, "/a"), (CREATED, "/x"), (CHILD, "/a")]


def test_watches_above_the_bound_are_not_set_again() -> None:
    leader, since = absent()
    watches = WatchTable(per_connection_max=3)
    request = SetWatches(5, since, ["/a", "/a/b"], ["/x", "/y"], ["/a"])
    assert watches.rearm(leader.state, 1, request) == []
    assert watches.count_of(1) == 3


def test_watches_on_malformed_paths_are_not_set_again() -> None:
    """They could be as long as a frame."""
    leader, since = absent()
    watches = WatchTable()
    request = SetWatches(5, since, [], ["/" + "x" * PATH_CHARS_MAX, "x", "/x"], [])
    assert watches.rearm(leader.state, 1, request) == []
    assert watches.count_of(1) == 1


def test_a_snapshot_leaves_the_watches_of_others_alone() -> None:
    """Two connections on one path, one of them with a deletion to be told of twice."""
    leader, since = went_by([Delete("/a/b", -1), Create("/a/b", b"", 0)])
    watches = WatchTable()
    watches.add_data("/a/b", 1)
    watches.add_child("/a/b", 1)
    watches.add_child("/a/b", 2)
    watches.add_data("/a", 2)
    fired = watches.reevaluate(leader.state, since)
    event = WatchFired(DELETED, "/a/b", leader.state.zxid)
    assert fired == [(1, event), (2, event)]
    assert (watches.count_of(1), watches.count_of(2), watches.count) == (0, 1, 1)
