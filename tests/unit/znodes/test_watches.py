"""WatchTable: ZooKeeper's trigger table, row by row, and who is told what of it."""

import pytest

from raykeeper.zab.ids import Millis
from raykeeper.znodes import watches
from raykeeper.znodes.acl import Acl, Identities, Identity, digest_id
from raykeeper.znodes.change_log import EVENT_VALUES_BYTES_MAX, ZnodeChange
from raykeeper.znodes.limits import Limits
from raykeeper.znodes.replies import Content, EventType, WatcherEvent
from raykeeper.znodes.requests import (
    CloseSession,
    Create,
    Delete,
    Multi,
    SetAcls,
    SetData,
    WatchKind,
    WatchMode,
    WriteOp,
)
from raykeeper.znodes.txns import SetDataTxn
from raykeeper.znodes.watches import Fired, WatchTable
from raykeeper.znodes.znode import attributes_of, stat_of
from tests.unit.znodes.one_leader import OneLeader

CREATED, DELETED = EventType.CREATED, EventType.DELETED
CHANGED, CHILD = EventType.CHANGED, EventType.CHILD
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


def changes_by(op: WriteOp) -> list[ZnodeChange]:
    leader = OneLeader()
    session = leader.open()
    for path in ("/a", "/a/b"):
        leader.create(session, path)
    before = len(leader.changes)
    leader.do(session, op)
    return leader.changes[-1] if len(leader.changes) > before else []


def nobody(_connection: int) -> Identities:
    return ()


def kinds(fired: list[Fired]) -> list[tuple[int, EventType, str]]:
    return [(connection, event.kind, event.path) for connection, event in fired]


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
def test_watches_trigger_once_and_in_order(
    op: WriteOp, events: list[tuple[int, EventType, str]]
) -> None:
    watches, changes = watched(), changes_by(op)
    before = watches.count
    fired = watches.trigger(changes, nobody, {})
    assert kinds(fired) == events
    assert {event.zxid for _, event in fired} <= {each.zxid for each in changes}
    # BOTH_B loses both its watches to one deletion.
    assert watches.count == before - len(events) - (op == Delete("/a/b", -1))
    assert [e for e in kinds(watches.trigger(changes, nobody, {})) if e in events] == []


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
    leader.do(session, CloseSession())
    assert watches.trigger(leader.changes[-1], nobody, {}) == [
        (2, WatcherEvent(DELETED, "/a/e1", leader.zxid)),
        (1, WatcherEvent(CHILD, "/a", leader.zxid, more=True)),
        (1, WatcherEvent(DELETED, "/a/e2", leader.zxid)),
    ]
    assert watches.count == 0


def test_a_transaction_triggers_for_each_of_its_changes_in_order() -> None:
    ops = [SetData("/a", b"", -1), Create("/a/x", b"", 0), Delete("/a/b", -1)]
    changes = changes_by(Multi([], list(ops), []))
    fired = watched().trigger(changes, nobody, {})
    assert kinds(fired) == [
        (GET_A, CHANGED, "/a"),
        (EXISTS_X, CREATED, "/a/x"),
        (CHILDREN_A, CHILD, "/a"),
        (GET_B, DELETED, "/a/b"),
        (EXISTS_B, DELETED, "/a/b"),
        (BOTH_B, DELETED, "/a/b"),
        (CHILDREN_B, DELETED, "/a/b"),
    ]


def test_a_watch_set_twice_is_one() -> None:
    watches = WatchTable()
    for _ in range(2):
        watches.add_data("/a", 1)
        watches.add_child("/a", 1)
    assert (watches.count, watches.count_of(1), watches.count_of(2)) == (2, 2, 0)


def test_persistent_watches_end_with_their_connection_and_are_found_by_mode() -> None:
    watches = WatchTable()
    watches.add_persistent("/a", 1, WatchMode.RECURSIVE, with_values=False)
    assert watches.has_persistent("/a", 1, WatchMode.RECURSIVE)
    assert not watches.has_persistent("/a", 1, WatchMode.PERSISTENT)
    assert not watches.has_persistent("/a", 2, WatchMode.RECURSIVE)
    watches.drop(1)
    assert watches.trigger(changes_by(Create("/a/x", b"", 0)), nobody, {}) == []


def test_the_watches_on_a_path_are_its_own_and_the_recursive_ones_above() -> None:
    table = WatchTable()
    table.add_data("/a/b", 1)
    table.add_child("/a/b", 2)
    table.add_persistent("/a/b", 3, WatchMode.PERSISTENT, with_values=False)
    table.add_persistent("/a", 4, WatchMode.RECURSIVE, with_values=True)
    table.add_persistent("/", 5, WatchMode.RECURSIVE, with_values=False)
    table.add_data("/a", 6)
    above = [(watches.RECURSIVE, "/a", 4), (watches.RECURSIVE, "/", 5)]
    assert list(table.watches_on("/a/b")) == [
        *((watches.DATA, "/a/b", 1), (watches.CHILD, "/a/b", 2), (watches.PERSISTENT, "/a/b", 3)),
        *above,
    ]
    assert list(table.watches_on("/a/b/c")) == above
    assert list(table.watches_on("/")) == [(watches.RECURSIVE, "/", 5)]


def test_a_dropped_connection_receives_no_event() -> None:
    watches = watched()
    watches.drop(BOTH_B)
    watches.drop(CHILDREN_A)
    watches.drop(EXISTS_X)
    watches.drop(99)
    assert watches.count == 4
    told = [conn for conn, _ in watches.trigger(changes_by(Delete("/a/b", -1)), nobody, {})]
    assert told == [GET_B, EXISTS_B, CHILDREN_B]
    for connection in (GET_B, EXISTS_B, CHILDREN_B, GET_A):
        watches.drop(connection)
    assert watches.count == 0
    assert watches.trigger(changes_by(SetData("/a", b"", -1)), nobody, {}) == []


# The table of "what each kind of watcher sees": a column for each of them, on /a/b unless it says.

EXISTS, GET, CHILDREN, CHILDREN_ABOVE, GET_ABOVE = range(1, 6)
PERSISTENT, PERSISTENT_ABOVE, RECURSIVE, RECURSIVE_ABOVE, RECURSIVE_ROOT = range(6, 11)
NONE: dict[int, tuple[EventType, str]] = {}
CREATE_B, SET_B, DELETE_B = Create("/a/b", b"", 0), SetData("/a/b", b"", -1), Delete("/a/b", -1)


def everybody(*, is_there: bool) -> WatchTable:
    watches = WatchTable()
    watches.add_data("/a/b", EXISTS, exists=is_there)
    if is_there:
        watches.add_data("/a/b", GET)
        watches.add_child("/a/b", CHILDREN)
    watches.add_child("/a", CHILDREN_ABOVE)
    watches.add_data("/a", GET_ABOVE)
    lasting = [
        ("/a/b", PERSISTENT, WatchMode.PERSISTENT),
        ("/a", PERSISTENT_ABOVE, WatchMode.PERSISTENT),
        ("/a/b", RECURSIVE, WatchMode.RECURSIVE),
        ("/a", RECURSIVE_ABOVE, WatchMode.RECURSIVE),
        ("/", RECURSIVE_ROOT, WatchMode.RECURSIVE),
    ]
    for path, connection, mode in lasting:
        watches.add_persistent(path, connection, mode, with_values=False)
    return watches


def of_b(kind: EventType, *connections: int) -> dict[int, tuple[EventType, str]]:
    return dict.fromkeys(connections, (kind, "/a/b"))


def of_a(*connections: int) -> dict[int, tuple[EventType, str]]:
    return dict.fromkeys(connections, (CHILD, "/a"))


ALWAYS = (PERSISTENT, RECURSIVE, RECURSIVE_ABOVE, RECURSIVE_ROOT)
ABOVE = (CHILDREN_ABOVE, PERSISTENT_ABOVE)


@pytest.mark.parametrize(
    ("op", "seen"),
    [
        (CREATE_B, of_b(CREATED, EXISTS, *ALWAYS) | of_a(*ABOVE)),
        (SET_B, of_b(CHANGED, EXISTS, GET, *ALWAYS)),
        (DELETE_B, of_b(DELETED, EXISTS, GET, CHILDREN, *ALWAYS) | of_a(*ABOVE)),
        (SetAcls("/a/b", [Acl(31, "world", "anyone")], -1), NONE),
    ],
)
def test_each_kind_of_watcher_sees_its_events(
    op: WriteOp, seen: dict[int, tuple[EventType, str]]
) -> None:
    leader = OneLeader()
    session = leader.open()
    leader.create(session, "/a")
    if op is not CREATE_B:
        leader.create(session, "/a/b")
    leader.changes.clear()
    leader.do(session, op)
    watches = everybody(is_there=op is not CREATE_B)
    fired = kinds(watches.trigger(leader.changes[0] if leader.changes else [], nobody, {}))
    assert {connection: (kind, path) for connection, kind, path in fired} == seen
    assert len(fired) == len(seen)
    # What is one-shot and has fired is gone; the others stay.
    for connection in (EXISTS, GET, CHILDREN, CHILDREN_ABOVE, GET_ABOVE)[: 5 if fired else 0]:
        assert watches.count_of(connection) == (
            connection not in seen and (op is not CREATE_B or connection not in (GET, CHILDREN))
        )
    for connection in (*ALWAYS, PERSISTENT_ABOVE):
        assert watches.count_of(connection) == 1


def test_several_kinds_on_one_path_are_one_event_and_leave_each_other_alone() -> None:
    watches = WatchTable()
    watches.add_data("/a/b", 1)
    watches.add_child("/a/b", 1)
    for mode in WatchMode:
        watches.add_persistent("/a/b", 1, mode, with_values=False)
    assert watches.count_of(1) == 4
    assert kinds(watches.trigger(changes_by(SET_B), nobody, {})) == [(1, CHANGED, "/a/b")]
    assert watches.count_of(1) == 3
    made = changes_by(Create("/a/b/c", b"", 0))
    assert watches.trigger(made, nobody, {}) == [
        (1, WatcherEvent(CREATED, "/a/b/c", made[0].zxid, more=True)),
        (1, WatcherEvent(CHILD, "/a/b", made[0].zxid)),
    ]
    assert watches.count_of(1) == 2
    for _ in range(2):
        assert kinds(watches.trigger(changes_by(DELETE_B), nobody, {})) == [(1, DELETED, "/a/b")]


@pytest.mark.parametrize(
    ("kind", "left"),
    [
        (WatchKind.DATA, 3), (WatchKind.CHILD, 3),
        (WatchKind.PERSISTENT, 3), (WatchKind.RECURSIVE, 3), (WatchKind.ANY, 0),
    ],
)  # fmt: skip
def test_removal_takes_one_kind_of_one_connection(kind: WatchKind, left: int) -> None:
    watches = WatchTable()
    for connection in (1, 2):
        watches.add_data("/a", connection)
        watches.add_child("/a", connection)
        for mode in WatchMode:
            watches.add_persistent("/a", connection, mode, with_values=False)
    assert watches.has_any("/a", 1, kind)
    assert watches.remove("/a", 1, [kind])
    assert not watches.has_any("/a", 1, kind) and watches.has_any("/a", 2, kind)
    assert (watches.count_of(1), watches.count_of(2), watches.count) == (left, 4, left + 4)
    assert not watches.remove("/a", 1, [kind])
    assert not watches.remove("/b", 1, [kind])


def test_values_go_to_the_watches_that_want_them() -> None:
    leader = OneLeader()
    session = leader.open()
    watches = WatchTable()
    watches.add_persistent("/", 1, WatchMode.RECURSIVE, with_values=False)
    watches.add_persistent("/", 2, WatchMode.RECURSIVE, with_values=True)
    # Asked for once, and then again without: it stays.
    watches.add_persistent("/a", 1, WatchMode.PERSISTENT, with_values=True)
    watches.add_persistent("/a", 1, WatchMode.PERSISTENT, with_values=False)
    watches.add_persistent("/b", 1, WatchMode.PERSISTENT, with_values=False)
    stats = []
    for op in (Create("/a", b"0", 0), SetData("/a", b"1", -1), Delete("/a", -1)):
        leader.do(session, op)
        znode = leader.state.tree.get("/a")
        stats.append(None if znode is None else Content(znode.value, stat_of(znode)))
        event = WatcherEvent(
            (CREATED, CHANGED, DELETED)[len(stats) - 1],
            "/a",
            leader.zxid,
            old=stats[-2] if len(stats) > 1 else None,
            new=stats[-1],
        )
        fired = watches.trigger(leader.changes[-1], nobody, {})
        assert dict(fired) == {1: event, 2: event}
    leader.create(session, "/b")
    told = dict(watches.trigger(leader.changes[-1], nobody, {}))
    assert (told[1].new, told[2].new is None) == (None, False)


def test_values_of_one_transaction_are_bounded() -> None:
    leader = OneLeader(Limits(value_bytes_max=EVENT_VALUES_BYTES_MAX))
    session = leader.open()
    watches = WatchTable()
    watches.add_persistent("/", 1, WatchMode.RECURSIVE, with_values=True)
    for path, size in (("/a", EVENT_VALUES_BYTES_MAX - 1), ("/b", 2), ("/c", 1)):
        leader.create(session, path, bytes(size))
    leader.do(session, Multi([], [Delete(f"/{name}", -1) for name in "abc"], []))
    told = [event.old for _, event in watches.trigger(leader.changes[-1], nobody, {})]
    assert [each and each.value for each in told] == [
        bytes(EVENT_VALUES_BYTES_MAX - 1),
        None,
        b"\0",
    ]
    assert [each and each.stat.data_length for each in told] == [EVENT_VALUES_BYTES_MAX - 1, 2, 1]


# Who may not read is told nothing, and keeps its watch.

ALICE = Identity("digest", "alice")
HERS = [Acl(31, "digest", "alice")]


def known(connection: int) -> Identities:
    return (ALICE,) if connection == 1 else ()


def test_events_go_only_to_permitted_readers() -> None:
    leader = OneLeader()
    session = leader.open()
    leader.create(session, "/a")
    leader.create(session, "/a/b")
    both = (1, 2)
    watches = WatchTable()
    for connection in both:
        watches.add_data("/a/b", connection)
        watches.add_child("/a/b", connection)
        watches.add_child("/a", connection)
        for mode in WatchMode:
            watches.add_persistent("/a/b", connection, mode, with_values=False)
    znode = leader.state.tree.get("/a/b")
    assert znode is not None
    znode.attributes = attributes_of(tuple(HERS), 1, 0)
    leader.do(session, Multi([], [], []))
    change = SetDataTxn("/a/b", b"", stat_of(znode))
    leader.state.tree.set_data(leader.zxid, Millis(1), change)
    fired = watches.trigger(leader.state.tree.changes or [], known, {})
    assert kinds(fired) == [(1, CHANGED, "/a/b")]
    assert (watches.count_of(1), watches.count_of(2)) == (4, 5)
    leader.state.tree.changes = []
    leader.state.tree.delete(leader.zxid, "/a/b")
    fired = watches.trigger(leader.state.tree.changes or [], known, {})
    # The parent is open to all.
    assert kinds(fired) == [(1, DELETED, "/a/b"), (1, CHILD, "/a"), (2, CHILD, "/a")]
    assert (watches.count_of(1), watches.count_of(2)) == (2, 4)
    # To who was not told, the znode is missing from now on.
    assert watches.tables[0]["/a/b"] == {2: False}


def test_a_hidden_created_znode_stays_missing_for_its_watcher() -> None:
    leader = OneLeader()
    session = leader.open()
    watches = WatchTable()
    watches.add_data("/a", 2, exists=False)
    hidden = [Acl(31, "digest", digest_id("alice", "a"))]
    for op in (Create("/a", b"", 0, hidden), Delete("/a", -1)):
        leader.do(session, op)
        assert watches.trigger(leader.changes[-1], nobody, {}) == []
        assert watches.tables[0]["/a"] == {2: False}


def test_an_acl_of_the_parent_hides_its_children_changes_only() -> None:
    leader = OneLeader()
    session = leader.open()
    leader.create(session, "/a")
    parent = leader.state.tree.get("/a")
    assert parent is not None
    parent.attributes = attributes_of((Acl(30, "world", "anyone"),), 1, 0)
    watches = WatchTable()
    watches.add_child("/a", 2)
    watches.add_persistent("/a", 2, WatchMode.PERSISTENT, with_values=False)
    watches.add_persistent("/a", 2, WatchMode.RECURSIVE, with_values=False)
    leader.create(session, "/a/b")
    assert kinds(watches.trigger(leader.changes[-1], nobody, {})) == [(2, CREATED, "/a/b")]
    assert watches.count_of(2) == 3
