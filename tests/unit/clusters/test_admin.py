"""The tables of an ensemble, put together from its servers."""

import pytest
from msgspec.structs import replace

from raykeeper.client.errors import NoNodeError
from raykeeper.clusters.admin import DOWN, EnsembleAdmin, ServerState, SessionNotFoundError
from raykeeper.server.admin_queries import ROWS_MAX, ListSessions
from raykeeper.zab.effects import Role
from raykeeper.zab.ids import ServerId, Zxid
from raykeeper.znodes.children import ShardedChildren
from raykeeper.znodes.requests import CreateMode, SessionId
from tests.harness.admin_servers import AdminServers
from tests.harness.pure_servers import OPTIONS, TIMING, PureServers

LATE = "no answer within 2 s"


def ensemble_of_three() -> tuple[PureServers, list[int]]:
    """Three servers, of which 3 leads, with one session each; their ids."""
    servers = PureServers(3, options=OPTIONS)
    return servers, [servers[each].caller(each).session_id for each in (1, 2, 3)]


def test_each_session_stands_with_its_connection() -> None:
    servers, ids = ensemble_of_three()
    asked = AdminServers(servers)
    table = EnsembleAdmin(asked).sessions()
    assert [each.session.session_id for each in table.rows if each.session] == ids
    assert [each.server_id for each in table.rows] == [1, 2, 3]
    assert [each.connection.session_id for each in table.rows if each.connection] == ids
    assert (table.told_by, table.total, table.left_out) == (3, 3, 0)
    zxid = servers[3].server.state.zxid
    assert table.servers[2] == ServerState(ServerId(3), "leader", True, zxid)
    assert [who for who, query in asked.asked if isinstance(query, ListSessions)] == [[3]]


def test_a_server_that_is_late_is_named_and_the_others_tell() -> None:
    servers, ids = ensemble_of_three()
    asked = AdminServers(servers, {1: LATE, 4: "not started"})
    table = EnsembleAdmin(asked).sessions()
    assert [each.session.session_id for each in table.rows if each.session] == ids
    assert [each.server_id for each in table.rows] == [None, 2, 3]
    assert [(each.server_id, each.problem) for each in table.servers if each.role == DOWN] == [
        (1, LATE),
        (4, "not started"),
    ]
    assert all(1 not in who for who, _ in asked.asked[1:]), "it is asked once"


def test_another_server_tells_if_the_leader_does_not() -> None:
    servers, _ = ensemble_of_three()
    table = EnsembleAdmin(AdminServers(servers, {3: LATE})).sessions()
    assert (table.told_by, table.total) == (1, 3)
    assert [each.server_id for each in table.rows] == [1, 2, None]


def test_a_leader_that_becomes_late_is_asked_no_more() -> None:
    servers, _ = ensemble_of_three()
    asked = AdminServers(servers)
    admin = EnsembleAdmin(asked)
    ask = asked.ask

    def ask_and_lose(who, query):  # type: ignore[no-untyped-def]
        if isinstance(query, ListSessions):
            asked.silent[3] = LATE
        return ask(who, query)

    asked.ask = ask_and_lose  # type: ignore[method-assign]
    table = admin.sessions()
    assert (table.told_by, table.total) == (1, 3)
    assert table.servers[2] == ServerState(ServerId(3), DOWN, problem=LATE)


def test_a_table_has_as_many_rows_as_are_asked_for_and_goes_on_behind_them() -> None:
    servers, ids = ensemble_of_three()
    admin = EnsembleAdmin(AdminServers(servers))
    table = admin.sessions(2)
    assert [each.session.session_id for each in table.rows if each.session] == ids[:2]
    assert (table.total, table.left_out) == (3, 1)
    table = admin.sessions(2, table.rows[-1].session.session_id)  # type: ignore[union-attr]
    assert [each.session.session_id for each in table.rows if each.session] == ids[2:]
    assert (table.total, table.left_out) == (3, 0)


def test_more_sessions_than_a_page_has_come_all() -> None:
    servers = PureServers(1)
    for number in range(1, ROWS_MAX + 11):
        servers[1].caller(number)
    table = EnsembleAdmin(AdminServers(servers)).sessions(10_000)
    ids = [each.session.session_id for each in table.rows if each.session]
    assert ids == sorted(servers[1].server.state.sessions.by_id)
    assert all(each.connection for each in table.rows)
    table = EnsembleAdmin(AdminServers(servers)).sessions(ROWS_MAX + 1)
    assert (len(table.rows), table.left_out) == (ROWS_MAX + 1, 9)


def test_ten_thousand_sessions_come_in_answers_of_a_thousand() -> None:
    servers = PureServers(1)
    first = servers[1].caller(1).session_id
    by_id = servers[1].server.state.sessions.by_id
    session = by_id[SessionId(first)]
    for number in range(1, 10_000):
        session_id = SessionId(first + number)
        by_id[session_id] = replace(session, session_id=session_id)
    asked = AdminServers(servers)
    table = EnsembleAdmin(asked).sessions(20_000)
    assert [each.session.session_id for each in table.rows if each.session] == sorted(by_id)
    assert (len(table.rows), table.total, table.left_out) == (10_000, 10_000, 0)
    assert sum(each.connection is not None for each in table.rows) == 1
    pages = [query for _, query in asked.asked if isinstance(query, ListSessions)]
    assert [page.rows_max for page in pages] == [ROWS_MAX] * 10


def test_a_connection_without_a_session_stands_behind_them_once() -> None:
    servers = PureServers(1)
    for number in range(1, ROWS_MAX + 2):
        servers[1].caller(number)
    servers[1].is_disk_held = True
    servers[1].caller(0)
    table = EnsembleAdmin(AdminServers(servers)).sessions(10_000)
    (waiting,) = [each for each in table.rows if each.session is None]
    assert waiting.connection is not None and waiting.connection.phase == "connecting"
    assert (waiting.server_id, len(table.rows)) == (1, ROWS_MAX + 2)


def test_without_a_leader_the_last_state_is_told() -> None:
    servers, ids = ensemble_of_three()
    for other in (2, 3):
        servers.crash(other)
    while servers[1].server.peer.role is not Role.LOOKING:
        servers.pass_time(TIMING.tick_ms)
    table = EnsembleAdmin(AdminServers(servers, {2: LATE, 3: LATE})).sessions()
    assert [each.session.session_id for each in table.rows if each.session] == ids
    assert (table.told_by, [each.is_active for each in table.servers]) == (1, [False] * 3)


def test_without_a_state_that_may_be_shown_the_connections_are() -> None:
    servers, _ = ensemble_of_three()
    for host in servers.hosts.values():
        host.server.state.consistent_at = host.server.state.zxid + 1  # type: ignore[assignment]
    table = EnsembleAdmin(AdminServers(servers, {2: LATE})).sessions()
    assert [(each.session, each.server_id) for each in table.rows] == [(None, 1), (None, 3)]
    assert (table.told_by, table.total, table.left_out) == (None, 2, 0)
    assert "only a leader can complete" in table.servers[0].problem


def test_an_ensemble_that_does_not_answer_has_no_rows() -> None:
    servers, _ = ensemble_of_three()
    silent = dict.fromkeys((1, 2, 3), LATE)
    table = EnsembleAdmin(AdminServers(servers, silent)).sessions()
    assert (table.rows, table.told_by, table.total) == ([], None, 0)
    assert [each.problem for each in table.servers] == [LATE] * 3


PLACE = CreateMode.EPHEMERAL | CreateMode.SEQUENTIAL


def lock_of_three() -> tuple[PureServers, list[int]]:
    """A lock for which a client of each server contends, in order; their sessions."""
    servers = PureServers(3, options=OPTIONS)
    callers = [servers[each].caller(each) for each in (1, 2, 3)]
    callers[0].ask(callers[0].create("/q"))
    for caller in callers:
        caller.ask(caller.create("/q/lock-", flags=PLACE))
    return servers, [each.session_id for each in callers]


def test_each_contender_is_found_where_it_is_connected() -> None:
    servers, ids = lock_of_three()
    table = EnsembleAdmin(AdminServers(servers)).locks()
    (row,) = table.rows
    assert [(each.session_id, each.holds) for each in row.contenders] == [
        (session, session == ids[0]) for session in ids
    ]
    assert {key: place.server_id for key, place in table.clients.items()} == dict(
        zip(ids, (1, 2, 3), strict=True)
    )
    assert (table.told_by, table.left_out, table.is_all) == (3, 0, True)


def test_a_lock_is_told_without_the_server_of_its_holder() -> None:
    servers, ids = lock_of_three()
    table = EnsembleAdmin(AdminServers(servers, {1: LATE})).locks("/q")
    assert (table.rows[0].contenders[0].session_id, sorted(table.clients)) == (ids[0], ids[1:])


def test_locks_come_up_to_the_number_asked_for() -> None:
    servers = PureServers(1)
    for number in range(7):
        caller = servers[1].caller(number)
        caller.ask(caller.create(f"/l{number}"))
        caller.ask(*(caller.create(f"/l{number}/lock-", flags=PLACE) for _ in range(600)))
    admin = EnsembleAdmin(AdminServers(servers))
    table = admin.locks(contenders_max=1_000)  # more than one page holds
    assert [each.path for each in table.rows] == [f"/l{number}" for number in range(7)]
    assert all(len(each.contenders) == 600 for each in table.rows)
    table = admin.locks(rows_max=3)
    assert ([each.path for each in table.rows], table.left_out) == (["/l0", "/l1", "/l2"], 4)
    table = admin.locks(rows_max=0)
    assert (table.rows, table.told_by) == ([], None)


def test_without_a_state_that_may_be_shown_there_are_no_locks() -> None:
    servers, _ = lock_of_three()
    for host in servers.hosts.values():
        host.server.state.consistent_at = host.server.state.zxid + 1  # type: ignore[assignment]
    table = EnsembleAdmin(AdminServers(servers)).locks()
    assert (table.rows, table.told_by, table.clients) == ([], None, {})
    assert all("only a leader can complete" in each.problem for each in table.servers)


def test_the_watches_of_all_servers_are_one_table() -> None:
    servers, ids = ensemble_of_three()
    for number in (1, 2):
        caller = servers[number].caller(10 + number)
        caller.ask(caller.get("/", watch=True), caller.children("/", watch=True))
        ids.append(caller.session_id)
    admin = EnsembleAdmin(AdminServers(servers))
    table = admin.watches()
    assert [(server, each.session_id, each.kind) for server, each in table.rows] == [
        *((1, ids[3], "data"), (1, ids[3], "child")),
        *((2, ids[4], "data"), (2, ids[4], "child")),
    ]
    assert sorted(table.clients) == ids[3:]
    assert (table.total, table.left_out) == (4, 0)
    table = admin.watches("/", SessionId(ids[4]), 1)
    assert [(server, each.kind) for server, each in table.rows] == [(2, "data")]
    assert (table.total, table.left_out) == (4, 1)
    table = EnsembleAdmin(AdminServers(servers, {1: LATE})).watches(rows_max=1)
    assert ([server for server, _ in table.rows], table.left_out) == ([2], 1)


def test_the_sizes_of_the_tree_are_those_of_the_leader() -> None:
    servers, _ = lock_of_three()
    table = EnsembleAdmin(AdminServers(servers)).tree_sizes("/q")
    assert table.row is not None and (table.row.znodes, table.row.ephemerals) == (4, 3)
    zxid = servers[3].server.state.zxid
    assert (table.told_by, table.begun_at, table.ended_at) == (3, zxid, zxid)
    table = EnsembleAdmin(AdminServers(servers, dict.fromkeys((1, 2, 3), LATE))).tree_sizes()
    assert (table.told_by, table.row) == (None, None)


def test_a_place_that_does_not_exist_is_told_from_one_with_nothing_there() -> None:
    servers, ids = lock_of_three()
    admin = EnsembleAdmin(AdminServers(servers))
    assert admin.locks("/zookeeper").rows == admin.watches("/q").rows == []
    for ask in (admin.locks, admin.watches, admin.tree_sizes, admin.children):
        with pytest.raises(NoNodeError, match=r"^/typo: no such znode"):
            ask("/typo")
    caller = servers[2].caller(9)
    caller.ask(caller.exists("/typo", watch=True))
    assert len(admin.watches("/typo").rows) == 1
    assert admin.watches(session_id=SessionId(ids[0])).rows == []
    with pytest.raises(SessionNotFoundError, match="no server has a connection of session 0x63"):
        admin.watches(session_id=SessionId(99))
    # A server that does not answer may have what was asked for.
    late = EnsembleAdmin(AdminServers(servers, {2: LATE}))
    for table in (late.watches("/typo"), late.watches(session_id=SessionId(99))):
        assert (table.rows, table.is_complete) == ([], False)


def test_a_million_children_are_summed_up_in_a_few_rows() -> None:
    servers = PureServers(1)
    caller = servers[1].caller(1)
    caller.ask(caller.create("/m"), caller.create("/m/leaf", bytes(10)))
    znodes = servers[1].server.state.tree.znodes
    # One leaf for all of them, which takes a fifth of the memory.
    leaf = znodes["/m/leaf"]
    paths = [f"/m/{number:06}" for number in range(1_000_000)]
    znodes.update(dict.fromkeys(paths, leaf))
    children = ShardedChildren((Zxid(leaf.czxid + n), path) for n, path in enumerate(paths))
    znodes["/m"].children = children
    table = EnsembleAdmin(AdminServers(servers)).tree_sizes("/m", rows_max=3)
    assert table.row is not None
    row = table.row
    assert (row.children, row.znodes, row.value_bytes) == (1_000_000, 1_000_001, 0)
    assert row.data_bytes == 1_000_000 * (10 + len("/m/000000")) + len("/m")
    assert [each.path for each in row.rows] == ["/m/999999", "/m/999998", "/m/999997"]
    assert (row.left_out, row.left_out_znodes) == (999_997, 999_997)
    assert EnsembleAdmin(AdminServers(servers)).locks("/m").rows == []


def test_the_load_has_rates_since_the_look_before() -> None:
    servers, _ = ensemble_of_three()
    admin = EnsembleAdmin(AdminServers(servers))
    first = admin.load()
    assert first.leader == 3
    assert [(each.rates, each.lag) for each in first.loads.values()] == [(None, 0)] * 3
    caller = servers[1].caller(9)
    caller.ask(*(caller.get("/") for _ in range(500)))
    servers.pass_time(1_000)
    second = EnsembleAdmin(AdminServers(servers, {2: LATE})).load(first)
    assert list(second.loads) == [1, 3]
    rates = second.loads[ServerId(1)].rates
    assert rates is not None and (rates.interval_ms, rates.reads) == (1_000, 500)
    third = admin.load(second)
    assert third.loads[ServerId(2)].rates is None


def test_a_server_that_was_not_told_everything_lags() -> None:
    servers, _ = ensemble_of_three()
    servers.hold(3, 1)
    caller = servers[3].caller(9)
    for _ in range(4):
        caller.ask(caller.set("/", b""))
    load = EnsembleAdmin(AdminServers(servers)).load()
    assert {server: each.lag for server, each in load.loads.items()} == {1: 5, 2: 0, 3: 0}


def test_without_a_leader_there_is_no_lag() -> None:
    servers, _ = ensemble_of_three()
    for other in (2, 3):
        servers.crash(other)
    while servers[1].server.peer.role is not Role.LOOKING:
        servers.pass_time(TIMING.tick_ms)
    load = EnsembleAdmin(AdminServers(servers, {2: LATE, 3: LATE})).load()
    assert (load.leader, load.loads[ServerId(1)].lag) == (None, None)


def test_children_are_listed_by_name_in_pages() -> None:
    servers = PureServers(3, options=OPTIONS)
    caller = servers[1].caller(1)
    caller.ask(*(caller.create(path) for path in ("/a", "/a/x", "/a/y", "/a/z")))
    asked = AdminServers(servers, {3: LATE})
    table = EnsembleAdmin(asked).children("/a", "x", 1)
    assert table.page is not None and table.told_by == 1
    assert [each.name for each in table.page.rows] == ["y"]
    assert (table.page.last, table.page.total, table.page.left_out) == ("y", 3, 1)
    assert table.servers[2].problem == LATE
    asked.silent.update({1: LATE, 2: LATE})
    table = EnsembleAdmin(asked).children("/a")
    assert (table.told_by, table.page) == (None, None)
