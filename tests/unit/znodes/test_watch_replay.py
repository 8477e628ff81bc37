"""Missed: what watches are told after an absence, from the history or else from the state."""

import pytest

from raykeeper.zab.ids import Zxid
from raykeeper.znodes.acl import Acl, Identities, digest_id
from raykeeper.znodes.change_log import ChangeLog
from raykeeper.znodes.limits import PATH_CHARS_MAX
from raykeeper.znodes.replies import EventType, WatcherEvent
from raykeeper.znodes.requests import (
    Create,
    Delete,
    Multi,
    PersistentWatch,
    SetAcls,
    SetData,
    SetWatches,
    TxnOp,
    WatchMode,
    WriteOp,
)
from raykeeper.znodes.state import State
from raykeeper.znodes.txns import ErrorTxn
from raykeeper.znodes.watch_replay import EVENT_BYTES, RESUME_BYTES_MAX, WatchReplay
from raykeeper.znodes.watches import WatchTable
from raykeeper.znodes.znode import attributes_of, stat_of
from tests.unit.znodes.one_leader import OneLeader

CREATED, DELETED = EventType.CREATED, EventType.DELETED
CHANGED, CHILD, RESYNC = EventType.CHANGED, EventType.CHILD, EventType.RESYNC


def nobody(_connection: int) -> Identities:
    return ()


def missed_by(leader: OneLeader, floor: Zxid | None = None) -> WatchReplay:
    """With a history from `floor` on, None for no history at all."""
    history = ChangeLog(Zxid(0), 100_000, 100_000_000)
    for of_txn in leader.changes:
        history.pending += of_txn
    if floor is None:
        history.reset(leader.zxid)
    return WatchReplay(leader.state, history, nobody)


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
        assert not isinstance(leader.do(session, op), ErrorTxn)
    return leader, since


def expected_events(
    events: list[tuple[EventType, int]], path: str, since: Zxid, state: State, *, once: bool = False
) -> list[WatcherEvent]:
    # +1: the session of those who changed things was opened first.
    return [
        WatcherEvent(kind, path, state.zxid if at == NOW else Zxid(since + 1 + at), once=once)
        for kind, at in events
    ]


@pytest.mark.parametrize(("ops", "lists", "path", "events", "armed"), ABSENCES)
def test_watches_are_set_again_after_a_reconnect(
    ops: list[WriteOp], lists: str, path: str, events: list[tuple[EventType, int]], armed: bool
) -> None:
    leader, since = went_by(ops)
    watches = WatchTable()
    data, exist, child = ([path] if name in lists else [] for name in ("data", "exist", "child"))
    fired = missed_by(leader).set_watches(watches, 1, [SetWatches(5, since, data, exist, child)])
    assert fired == expected_events(events, path, since, leader.state, once=True)
    assert watches.count == armed


@pytest.mark.parametrize(("ops", "lists", "path", "events", "armed"), ABSENCES)
def test_watches_are_evaluated_after_a_snapshot(
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
    fired = missed_by(leader).events_from_state(watches, since)
    expected = expected_events(events, path, since, leader.state, once=True)
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
    assert missed_by(leader).set_watches(watches, 1, [request]) == []
    session = leader.open(2)
    told = []
    for op in (SetData("/a", b"", -1), Create("/x", b"", 0), Create("/a/d", b"", 0)):
        leader.do(session, op)
        fired = watches.trigger(leader.changes[-1], nobody, {})
        told += [(event.kind, event.path) for connection, event in fired if connection == 1]
    assert told == [(CHANGED, "/a"), (CREATED, "/x"), (CHILD, "/a")]


def test_watches_above_the_bound_are_not_set_again() -> None:
    leader, since = absent()
    watches = WatchTable(per_connection_max=3)
    request = SetWatches(5, since, ["/a", "/a/b"], ["/x", "/y"], ["/a"])
    assert missed_by(leader).set_watches(watches, 1, [request]) == []
    assert watches.count_of(1) == 3


def test_watches_on_malformed_paths_are_not_set_again() -> None:
    """They could be as long as a frame."""
    leader, since = absent()
    watches = WatchTable()
    request = SetWatches(5, since, [], ["/" + "x" * PATH_CHARS_MAX, "x", "/x"], [])
    assert missed_by(leader).set_watches(watches, 1, [request]) == []
    assert watches.count_of(1) == 1


def test_a_snapshot_leaves_the_watches_of_others_alone() -> None:
    """Two connections on one path, one of them with a deletion to be told of twice."""
    leader, since = went_by([Delete("/a/b", -1), Create("/a/b", b"", 0)])
    watches = WatchTable()
    watches.add_data("/a/b", 1)
    watches.add_child("/a/b", 1)
    watches.add_child("/a/b", 2)
    watches.add_data("/a", 2)
    fired = missed_by(leader).events_from_state(watches, since)
    event = WatcherEvent(DELETED, "/a/b", leader.state.zxid, once=True)
    assert fired == [(1, event), (2, event)]
    assert (watches.count_of(1), watches.count_of(2), watches.count) == (0, 1, 1)


# With a history: what an unbroken connection would have brought.

B, C, X = "/a/b", "/a/c", "/x"
EXACT: list[tuple[list[WriteOp], str, str, list[tuple[EventType, int]], bool]] = [
    # what happened, which watch, on what, events (kind, zxid), armed again
    ([SetData("/a", b"", -1), SetData("/a", b"", -1)], "data", "/a", [(CHANGED, 1)], False),
    ([SetData(B, b"", -1), Delete(B, -1)], "data", B, [(CHANGED, 1)], False),
    ([Delete(B, -1), Create(B, b"", 0)], "data", B, [(DELETED, 1)], False),
    ([Create(X, b"", 0), Delete(X, -1)], "exist", X, [(CREATED, 1)], False),
    ([Create("/y", b"", 0)], "exist", X, [], True),
    ([SetData("/a", b"", -1), Delete(B, -1), Delete(C, -1), Delete("/a", -1)], "data child", "/a",
     [(CHANGED, 1), (CHILD, 2)], False),
    ([Delete(B, -1), Delete(C, -1), Delete("/a", -1)], "data child", "/a",
     [(CHILD, 1), (DELETED, 3)], False),
    ([SetData("/a", b"", -1), Create("/a/d", b"", 0), SetData("/a", b"", -1)], "persistent", "/a",
     [(CHANGED, 1), (CHILD, 2), (CHANGED, 3)], True),
    ([SetData("/y", b"", -1)], "persistent", "/a", [], True),
]  # fmt: skip


@pytest.mark.parametrize(("ops", "lists", "path", "events", "armed"), EXACT)
def test_a_change_log_reports_exactly_the_missed_events(
    ops: list[WriteOp], lists: str, path: str, events: list[tuple[EventType, int]], armed: bool
) -> None:
    leader, since = absent()
    session = leader.open(2)
    for op in ops:
        leader.do(session, op)
    watches = WatchTable()
    data, exist, child = ([path] if name in lists else [] for name in ("data", "exist", "child"))
    lasting = [PersistentWatch(path, WatchMode.PERSISTENT)] if "persistent" in lists else []
    request = SetWatches(5, since, data, exist, child, lasting)
    fired = missed_by(leader, Zxid(0)).set_watches(watches, 1, [request])
    assert fired == expected_events(events, path, since, leader.state)
    assert watches.count == armed


def test_events_of_several_requests_come_in_one_order() -> None:
    leader, since = absent()
    session = leader.open(2)
    for path in ("/a/b", "/a", "/a/b"):
        leader.set(session, path, b"1")
    requests = [
        SetWatches(1, since, [], [], [], [PersistentWatch("/a", WatchMode.PERSISTENT)], more=True),
        SetWatches(2, since, [], [], [], [PersistentWatch("/a/b", WatchMode.RECURSIVE)]),
    ]
    watches = WatchTable()
    events = missed_by(leader, Zxid(0)).set_watches(watches, 1, requests)
    assert [event.path for event in events] == ["/a/b", "/a", "/a/b"]
    assert watches.count_of(1) == 2


LASTING = [
    PersistentWatch("/a", WatchMode.PERSISTENT),
    PersistentWatch("/a", WatchMode.RECURSIVE),
    PersistentWatch("/x", WatchMode.RECURSIVE),
    PersistentWatch("/y", 7),
]


def test_without_a_change_log_persistent_watches_get_a_resync() -> None:
    leader, since = went_by([SetData("/a", b"", -1)])
    watches = WatchTable()
    request = SetWatches(5, since, ["/a"], [], [], LASTING)
    events = missed_by(leader).set_watches(watches, 1, [request])
    zxid = leader.state.zxid
    assert events[1:] == [WatcherEvent(RESYNC, "/a", zxid), WatcherEvent(RESYNC, "/x", zxid)]
    assert events[0].kind is CHANGED
    assert watches.count_of(1) == 3
    session = leader.open(3)
    leader.set(session, "/a", b"2")
    assert [event.kind for _, event in watches.trigger(leader.changes[-1], nobody, {})] == [CHANGED]


def test_after_a_snapshot_persistent_watches_get_a_resync() -> None:
    leader, since = absent()
    watches = WatchTable()
    for each in LASTING[:3]:
        watches.add_persistent(each.path, 1, each.mode, with_values=True)
    fired = missed_by(leader).events_from_state(watches, since)
    assert fired == [(1, WatcherEvent(RESYNC, path, leader.zxid)) for path in ("/a", "/x")]
    assert watches.count == 3


def test_too_many_missed_events_are_a_resync_and_one_shot_watches_lose_none() -> None:
    leader, since = absent()
    session = leader.open(2)
    leader.set(session, "/a/b", b"1")
    for _ in range(RESUME_BYTES_MAX // EVENT_BYTES):
        leader.set(session, "/a", b"2")
    watches = WatchTable()
    lasting = [PersistentWatch("/a", WatchMode.PERSISTENT)]
    request = SetWatches(5, since, ["/a/b"], [], [], lasting)
    events = missed_by(leader, Zxid(0)).set_watches(watches, 1, [request])
    assert [(event.kind, event.path) for event in events] == [(CHANGED, "/a/b"), (RESYNC, "/a")]
    assert watches.count_of(1) == 1


def test_missed_events_carry_values_that_are_still_known() -> None:
    leader, since = absent()
    session = leader.open(2)
    for op in (
        SetData("/a/b", b"lost", -1),
        SetData("/a/b", b"kept", -1),
        Create("/x", b"new", 0),
        # Its children change, so the Stat is another one.
        SetData("/a", b"", -1),
        Delete("/a/c", -1),
        Create("/a/c", b"again", 0),
        # So does its ACL.
        SetAcls("/a/c", [Acl(31, "world", "anyone")], -1),
        Delete("/a/c", -1),
        Create("/y", b"", 0),
        SetAcls("/y", [Acl(31, "world", "anyone")], -1),
    ):
        assert not isinstance(leader.do(session, op), ErrorTxn)
    lasting = [PersistentWatch("/", WatchMode.RECURSIVE, with_values=True)]
    request = SetWatches(5, since, [], [], [], lasting)
    events = missed_by(leader, Zxid(0)).set_watches(WatchTable(), 1, [request])
    values = [(each.path, each.old, each.new and each.new.value) for each in events]
    assert values == [
        ("/a/b", None, None),
        ("/a/b", None, b"kept"),
        ("/x", None, b"new"),
        ("/a", None, None),
        ("/a/c", None, None),
        ("/a/c", None, None),
        ("/a/c", None, None),
        ("/y", None, None),
    ]
    assert [each.new.stat.version for each in events if each.new] == [2, 0]


def test_a_znode_changed_twice_in_a_transaction_is_sent_without_a_value() -> None:
    leader, since = absent()
    session = leader.open(2)
    ops: list[TxnOp] = [
        SetData("/a/b", b"lost", -1),
        SetData("/a/b", b"kept", -1),
        SetData("/a", b"has one child less soon", -1),
        Delete("/a/c", -1),
        Create("/x", b"has a child soon", 0),
        Create("/x/y", b"", 0),
        SetData("/x", b"kept", -1),
    ]
    assert not isinstance(leader.do(session, Multi([], ops, [])), ErrorTxn)
    stats = {path: stat_of(znode) for path, znode in leader.state.tree.znodes.items()}
    lasting = [PersistentWatch("/", WatchMode.RECURSIVE, with_values=True)]
    request = SetWatches(5, since, [], [], [], lasting)
    events = missed_by(leader, Zxid(0)).set_watches(WatchTable(), 1, [request])
    assert [(each.path, each.new and (each.new.value, each.new.stat)) for each in events] == [
        ("/a/b", None),
        ("/a/b", (b"kept", stats["/a/b"])),
        ("/a", None),
        ("/a/c", None),
        ("/x", None),
        ("/x/y", (b"", stats["/x/y"])),
        ("/x", (b"kept", stats["/x"])),
    ]


def test_a_recursive_watch_fires_for_its_subtree_only() -> None:
    leader, since = absent()
    session = leader.open(2)
    for op in (
        Create("/a/b/c", b"", 0), Create("/ab", b"", 0), SetData("/a", b"", -1),
        SetData("/a/c", b"", -1), Delete("/a/c", -1), SetData("/a/b/c", b"", -1),
    ):  # fmt: skip
        leader.do(session, op)
    request = SetWatches(5, since, [], [], [], [PersistentWatch("/a/b", WatchMode.RECURSIVE)])
    events = missed_by(leader, Zxid(0)).set_watches(WatchTable(), 1, [request])
    assert [(each.kind, each.path) for each in events] == [(CREATED, "/a/b/c"), (CHANGED, "/a/b/c")]


def test_existing_watches_count_towards_the_bound() -> None:
    leader, since = absent()
    watches = WatchTable(per_connection_max=2)
    watches.add_data("/x", 1, exists=False)
    request = SetWatches(5, since, ["/a", "/a/b", "/a/c"], [], [])
    assert missed_by(leader, Zxid(0)).set_watches(watches, 1, [request]) == []
    assert [path for _, path, _ in watches.watches_of(1)] == ["/x", "/a"]


@pytest.mark.parametrize("what", ["data", "exist", "child"])
def test_the_state_reveals_nothing_unreadable(what: str) -> None:
    leader, since = absent()
    session = leader.open(2)
    leader.create(session, "/a/b/c")
    leader.set(session, "/a/b", b"1")
    znode = leader.state.tree.get("/a/b")
    assert znode is not None
    znode.attributes = attributes_of((Acl(31, "digest", "alice"),), 1, 0)
    watches = WatchTable()
    data, exist, child = (["/a/b"] if name == what else [] for name in ("data", "exist", "child"))
    request = SetWatches(5, since, data, exist, child)
    assert missed_by(leader).set_watches(watches, 1, [request]) == []
    assert watches.count_of(1) == 1


@pytest.mark.parametrize("what", ["data", "child"])
def test_a_deletion_is_sent_whatever_the_next_znodes_acl(what: str) -> None:
    leader, since = absent()
    session = leader.open(2)
    leader.delete(session, "/a/b")
    hidden = Create("/a/b", b"", 0, [Acl(31, "digest", digest_id("alice", "a"))])
    assert not isinstance(leader.do(session, hidden), ErrorTxn)
    watches = WatchTable()
    data, child = (["/a/b"] if name == what else [] for name in ("data", "child"))
    request = SetWatches(5, since, data, [], child)
    assert missed_by(leader).set_watches(watches, 1, [request]) == [
        WatcherEvent(DELETED, "/a/b", leader.zxid, once=True)
    ]
    assert watches.count_of(1) == 0
