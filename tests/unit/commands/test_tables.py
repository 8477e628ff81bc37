"""The tables of `sessions`, `locks`, `watches` and `tree`."""

import json
import re
from typing import Any

import pytest
import typer
from msgspec.structs import replace

from raykeeper.clusters.admin import (
    DOWN,
    ClientPlace,
    LocksTable,
    ServerState,
    SessionEntry,
    SessionsTable,
    TreeTable,
    WatchesTable,
)
from raykeeper.commands.tables import (
    locks_document,
    session_argument,
    sessions_document,
    show_locks,
    show_sessions,
    show_tree,
    show_watches,
    tree_document,
    watches_document,
)
from raykeeper.server.admin_queries import ContenderRow, LockRow, SessionRow, TreeRow, WatchRow
from raykeeper.server.connection_stats import ConnectionStats
from raykeeper.zab.ids import Epoch, Millis, ServerId, make_zxid
from raykeeper.znodes.requests import SessionId
from tests.unit.commands.printed import printed

AT = Millis(1_795_442_520_000)  # 2026-11-23 14:02 UTC
LEADER = ServerState(ServerId(1), "leader", True, make_zxid(Epoch(1), 7))
SESSION = SessionRow(SessionId(0x1F), Millis(2_500), "10.0.0.1", ["digest:ann"], 3)
NATIVE = ConnectionStats(
    *("10.0.0.1", 0, True, 4, 50, 60, SessionId(0x1F), AT, Millis(2_500), None),
    identity="actor Trainer 3f2a pid 8 on b/5d0e",
    watches=2,
)


def table_of(*rows: SessionEntry, **more: Any) -> SessionsTable:
    given = {"servers": [LEADER], "told_by": ServerId(1), "total": len(rows), "left_out": 0}
    return SessionsTable(rows=list(rows), **{**given, **more})


def lines_of(table: SessionsTable) -> list[list[str]]:
    lines = printed(lambda console: show_sessions(console, table)).splitlines()
    return [re.split(" {2,}", line.strip()) for line in lines]


def test_a_session_is_a_row_with_its_process() -> None:
    told, heading, row = lines_of(table_of(SessionEntry(SESSION, ServerId(2), NATIVE)))
    assert told == ["1 session, as server 1 knows them"]
    assert heading[:5] == ["session", "client", "server", "since (UTC)", "users"]
    assert row == [
        *("0x1f", "actor Trainer 3f2a pid 8 on b/5d0e", "2", "11-23 14:02:00", "digest:ann"),
        *("2.5 s", "3", "2", "4"),
    ]


def test_a_session_without_a_connection_shows_the_address_of_its_last_one() -> None:
    *_, row = lines_of(table_of(SessionEntry(SESSION, None, None)))
    assert row == ["0x1f", "10.0.0.1", "none", "digest:ann", "2.5 s", "3"]


def test_a_server_that_is_down_may_have_the_connection() -> None:
    down = ServerState(ServerId(2), DOWN, problem="no answer \x1b[2J within 2 s")
    *_, row, problem = lines_of(table_of(SessionEntry(SESSION, None, None), servers=[LEADER, down]))
    assert row[2] == "unknown"
    assert problem == ["server 2 is down: no answer \\x1b[2J within 2 s"]


@pytest.mark.parametrize(
    ("connection", "shown"),
    [
        (replace(NATIVE, identity="", port=4000), "client of ZooKeeper at 10.0.0.1:4000"),
        (replace(NATIVE, identity=""), "10.0.0.1"),
        (replace(NATIVE, identity="", host=""), "unknown"),
        (replace(NATIVE, identity="a", phase="read-only"), "a (read-only)"),
        # Neither markup of Rich nor HTML nor a terminal's commands are obeyed.
        (
            replace(NATIVE, identity="[red]x[/] <b>\x1b[31m\r\n\u202eé\ud800"),
            "[red]x[/] <b>\\x1b[31m\\r\\n\\u202eé\\ud800",
        ),
    ],
)
def test_a_client_is_named_as_far_as_it_is_known(connection: ConnectionStats, shown: str) -> None:
    *_, row = lines_of(table_of(SessionEntry(None, ServerId(1), connection)))
    assert row[:3] == ["none", shown, "1"]


def test_what_is_left_out_is_said() -> None:
    table = table_of(SessionEntry(SESSION, ServerId(1), NATIVE), total=9_001, left_out=9_000)
    told, *_, left = lines_of(table)
    assert told == ["9001 sessions, as server 1 knows them"]
    assert left == ["9000 sessions more; see --limit or --after"]


def test_ten_thousand_sessions_are_a_row_each() -> None:
    entries = [
        SessionEntry(replace(SESSION, session_id=SessionId(number)), ServerId(1), NATIVE)
        for number in range(1, 10_001)
    ]
    told, _, *rows = lines_of(table_of(*entries))
    assert told == ["10000 sessions, as server 1 knows them"]
    assert [row[0] for row in rows] == [f"{number:#x}" for number in range(1, 10_001)]
    assert len(sessions_document("coord", table_of(*entries))["sessions"]) == 10_000


def test_without_a_leader_the_table_may_be_old() -> None:
    looking = ServerState(ServerId(1), "looking", problem="it has not read all of its log")
    told, _, *problems = lines_of(table_of(servers=[looking], told_by=None))
    assert told == ["0 connections; no server can list the sessions"]
    assert problems == [
        ["server 1 it has not read all of its log"],
        ["no server has a leader: what is shown may be old"],
    ]


def test_the_document_has_the_same() -> None:
    table = table_of(
        SessionEntry(SESSION, ServerId(2), NATIVE),
        SessionEntry(SESSION, None, None),
        SessionEntry(None, ServerId(1), replace(NATIVE, phase="connecting")),
    )
    document = json.loads(json.dumps(sessions_document("coord", table)))
    assert document["name"] == "coord"
    assert document["servers"] == [
        {"server_id": 1, "role": "leader", "has_leader": True, "last_zxid": "1:7", "problem": ""}
    ]
    first, second, third = document["sessions"]
    assert first == {
        "session_id": "0x1f",
        "server_id": 2,
        "identity": "actor Trainer 3f2a pid 8 on b/5d0e",
        "host": "10.0.0.1",
        "port": 0,
        "phase": "connected",
        "connected_at": "2026-11-23T14:02:00.000+00:00",
        "timeout_ms": 2500,
        "users": ["digest:ann"],
        "ephemerals": 3,
        "watches": 2,
        "outstanding": 4,
        "packets_received": 50,
        "packets_sent": 60,
    }
    assert (second["phase"], second["host"], second["watches"]) == (None, "10.0.0.1", None)
    assert (third["session_id"], third["phase"], third["timeout_ms"]) == (None, "connecting", 2500)


def test_a_session_is_named_as_the_tables_show_it() -> None:
    assert [session_argument(each) for each in ("0x1f", "31", "0")] == [31, 31, 0]
    with pytest.raises(typer.BadParameter, match="no session id"):
        session_argument("/x")


LINE = NATIVE.identity
HOLDER = ContenderRow(
    "lock-0000000003", True, "", SessionId(0x1F), AT, make_zxid(Epoch(1), 5), LINE
)
WAITER = ContenderRow(
    "lock-0000000004", False, "", SessionId(0x20), AT, make_zxid(Epoch(1), 6), "me [red]\x1b[0m"
)
PLACES = {SessionId(0x1F): ClientPlace(ServerId(2), NATIVE)}


def locks_of(*rows: LockRow, **more: Any) -> LocksTable:
    given = {
        "servers": [LEADER],
        "told_by": ServerId(1),
        "clients": PLACES,
        "left_out": 0,
        "is_all": True,
    }
    return LocksTable(rows=list(rows), **{**given, **more})


def lock_lines(table: LocksTable) -> list[list[str]]:
    lines = printed(lambda console: show_locks(console, table)).splitlines()
    return [re.split(" {2,}", line.strip()) for line in lines]


def test_a_lock_shows_its_holder_and_who_waits() -> None:
    told, heading, holder, waiter = lock_lines(
        locks_of(LockRow("/q\x1b", "lock", None, 1, 1, [HOLDER, WAITER]))
    )
    assert told == ["1 lock, as server 1 knows them"]
    assert heading[:4] == ["lock", "kind", "state", "session"]
    assert holder == [
        *("/q\\x1b", "lock", "holds", "0x1f", "11-23 14:02:00", "1:5", "2"),
        "actor Trainer 3f2a pid 8 on b/5d0e",
    ]
    assert waiter == ["waits", "0x20", "11-23 14:02:00", "1:6", "none", "me [red]\\x1b[0m"]


def test_a_contender_may_be_shown_in_part() -> None:
    hidden = replace(HOLDER, mode="read", identifier=None)
    down = ServerState(ServerId(2), DOWN, problem="late")
    rows = lock_lines(
        locks_of(
            LockRow("/r", "read/write lock", None, 2, 4, [hidden]),
            LockRow("/s", "semaphore", 2, 1, 0, [replace(WAITER, holds=True, mode="permit")]),
            LockRow("/t", "semaphore", 0, 0, 1, [WAITER]),
            LockRow("/l", "lease", None, 1, 0, [replace(HOLDER, session_id=SessionId(0))]),
            servers=[LEADER, down],
            left_out=7,
        )
    )
    assert rows[0] == ["11 locks, as server 1 knows them"]
    assert rows[2][2:4] + rows[2][-1:] == ["holds (read)", "0x1f", "(hidden by its ACL)"]
    assert rows[3] == ["5 more, 1 of them hold it"]
    assert rows[4][1:3] + rows[4][-2:-1] == ["semaphore of 2", "holds (permit)", "unknown"]
    assert rows[5][1] == "semaphore of an unknown number"
    assert rows[6] == ["/l", "lease", "holds", "none", "11-23 14:02:00", "1:5", LINE]
    assert rows[7:] == [["7 locks more; see --limit"], ["server 2 is down: late"]]


def test_only_waiters_may_be_left_out() -> None:
    rows = lock_lines(locks_of(LockRow("/q", "lock", None, 1, 9, [HOLDER]), is_all=False))
    assert rows[0] == ["at least 1 lock, as server 1 knows them"]
    assert rows[-1] == ["9 more"]
    assert lock_lines(locks_of(told_by=None))[0] == ["no server can tell the locks"]


def test_the_document_of_the_locks_has_the_same() -> None:
    table = locks_of(
        LockRow("/q", "lock", None, 1, 1, [HOLDER, replace(WAITER, session_id=SessionId(0))]),
        left_out=3,
    )
    document = json.loads(json.dumps(locks_document("coord", table)))
    assert {key: document[key] for key in ("name", "told_by", "left_out", "is_all")} == {
        "name": "coord",
        "told_by": 1,
        "left_out": 3,
        "is_all": True,
    }
    (lock,) = document["locks"]
    first, second = lock.pop("contenders")
    assert lock == {"path": "/q", "kind": "lock", "permits": None, "holders": 1, "waiting": 1}
    assert first == {
        "name": "lock-0000000003",
        "state": "holds",
        "mode": "",
        "session_id": "0x1f",
        "since": "2026-11-23T14:02:00.000+00:00",
        "token": "1:5",
        "identifier": LINE,
        "server_id": 2,
        "identity": LINE,
        "host": "10.0.0.1",
        "port": 0,
        "waits_for": [],
    }
    assert (second["state"], second["session_id"], second["server_id"]) == ("waits", None, None)
    assert (second["waits_for"], document["cycles"]) == (["lock-0000000003"], [])


def test_sessions_that_wait_for_each_other_are_told() -> None:
    back = [replace(WAITER, holds=True), replace(HOLDER, holds=False)]
    locks = [LockRow("/q", "lock", None, 1, 1, [HOLDER, WAITER])]
    table = locks_of(*locks, LockRow("/r", "lock", None, 1, 1, back))
    assert locks_document("coord", table)["cycles"] == [["0x1f", "0x20"]]
    lines = printed(lambda console: show_locks(console, table)).splitlines()
    assert lines[-1] == "these sessions wait for each other: 0x1f, 0x20"
    assert locks_document("coord", locks_of(*locks))["cycles"] == []


def test_a_watch_is_a_row_with_its_client() -> None:
    watch = WatchRow(SessionId(0x1F), "/a\nb", "data")
    table = WatchesTable(
        [LEADER],
        [(ServerId(2), watch), (ServerId(3), replace(watch, session_id=SessionId(0)))],
        PLACES,
        9,
        3,
    )
    lines = printed(lambda console: show_watches(console, table)).splitlines()
    told, _, first, second, left = [re.split(" {2,}", line.strip()) for line in lines]
    assert told == ["5 watches of 9 on the servers that answer"]
    assert first == ["2", "0x1f", "data", "/a\\nb", LINE]
    assert second == ["3", "none", "data", "/a\\nb"]
    assert left == ["3 watches more; see --limit, --session or a path"]
    document = json.loads(json.dumps(watches_document("coord", table)))
    assert (document["name"], document["total"], document["left_out"]) == ("coord", 9, 3)
    first_watch, second_watch = document["watches"]
    assert first_watch == {
        "server_id": 2,
        "session_id": "0x1f",
        "kind": "data",
        "path": "/a\nb",
        "identity": LINE,
        "host": "10.0.0.1",
        "port": 0,
    }
    assert (second_watch["session_id"], second_watch["identity"]) == (None, "")
    one = replace(table, rows=[(ServerId(2), watch)], left_out=0)
    assert printed(lambda console: show_watches(console, one)).startswith("1 watch of 9 ")


def tree_row(path: str, *rows: TreeRow, left_out: int = 0) -> TreeRow:
    return TreeRow(path, 9, 80, 1, 5, 3, list(rows), left_out, 4 * left_out, 20 * left_out)


def test_the_tree_is_indented_and_says_what_it_leaves_out() -> None:
    zxids = make_zxid(Epoch(1), 5), make_zxid(Epoch(1), 8)
    below = tree_row("/a/b\x1b", tree_row("/a/b\x1b/c"), left_out=2)
    table = TreeTable([LEADER], ServerId(1), tree_row("/a", below), *zxids)
    lines = printed(lambda console: show_tree(console, table)).splitlines()
    assert lines[0] == "as server 1 knew it between 1:5 and 1:8"
    assert lines[1].split() == [
        "znode",
        "znodes",
        "bytes",
        "own",
        "bytes",
        "children",
        "ephemerals",
    ]
    assert lines[2].split() == ["/a", "9", "80", "5", "3", "1"]
    assert lines[3].startswith("  b\\x1b ")
    assert lines[4].startswith("    c ")
    assert (lines[5][:10], lines[5].split()) == ("    2 more", ["2", "more", "8", "40"])
    document = json.loads(json.dumps(tree_document("coord", table)))
    assert document["tree"]["rows"][0]["left_out_znodes"] == 8
    assert (document["told_by"], document["begun_at"], document["ended_at"]) == (1, "1:5", "1:8")


def test_a_tree_of_one_moment_says_which() -> None:
    zxid = make_zxid(Epoch(1), 5)
    root = TreeTable([LEADER], ServerId(1), tree_row("/", tree_row("/a")), zxid, zxid)
    lines = printed(lambda console: show_tree(console, root)).splitlines()
    assert (lines[0], lines[2][:2], lines[3][:4]) == ("as server 1 knew it at 1:5", "/ ", "  a ")
    down = [ServerState(ServerId(1), DOWN, problem="late")]
    nobody = TreeTable(down, None, None, zxid, zxid)
    assert printed(lambda console: show_tree(console, nobody)).splitlines() == [
        "no server can tell the sizes of the tree",
        "server 1 is down: late",
        "no server has a leader: what is shown may be old",
    ]
    assert tree_document("coord", nobody)["tree"] is None
