"""What a server answers to operators."""

import pytest
from msgspec.structs import replace

from raykeeper.jute.opcodes import OpCode
from raykeeper.jute.records import AddWatchRequest
from raykeeper.server.admin_queries import (
    ROWS_MAX,
    AdminQuery,
    ConnectionsPage,
    ListChildren,
    ListConnections,
    ListLocks,
    ListSessions,
    ListWatches,
    MeasureTree,
    SessionsPage,
    WatchesPage,
)
from raykeeper.server.admin_tables import NOT_READ_YET
from raykeeper.zab.effects import Role
from raykeeper.zab.ids import Zxid
from raykeeper.znodes.requests import AddAuth, CreateMode, SessionId, WatchMode, encode_client_frame
from tests.harness.admin_servers import answer_of
from tests.harness.caller import Caller
from tests.harness.jute_caller import connected
from tests.harness.pure_servers import OPTIONS, TIMING, PureServer, PureServers

ALL_SESSIONS, ALL_CONNECTIONS = ListSessions(), ListConnections()


def sessions_of(host: PureServer, query: ListSessions = ALL_SESSIONS) -> SessionsPage:
    page = answer_of(host, query).page
    assert isinstance(page, SessionsPage)
    return page


def connections_of(host: PureServer, query: ListConnections = ALL_CONNECTIONS) -> ConnectionsPage:
    page = answer_of(host, query).page
    assert isinstance(page, ConnectionsPage)
    return page


def test_a_session_has_its_users_and_ephemerals() -> None:
    host = PureServer()
    caller = host.caller(1, timeout_ms=5_000)
    caller.ask(
        caller.write(AddAuth("digest", b"ann:secret")),
        caller.create("/e", flags=CreateMode.EPHEMERAL),
        caller.create("/f", flags=CreateMode.EPHEMERAL),
    )
    (row,) = sessions_of(host).rows
    assert (row.session_id, row.timeout_ms) == (caller.session_id, 5_000)
    assert (row.users, row.ephemerals) == (["digest:ann"], 2)


def test_sessions_come_in_pages_by_their_ids() -> None:
    host = PureServer()
    ids = [host.caller(number).session_id for number in range(1, 6)]
    first = sessions_of(host, ListSessions(rows_max=2))
    assert [each.session_id for each in first.rows] == ids[:2]
    assert (first.total, first.left_out) == (5, 3)
    last = sessions_of(host, ListSessions(ids[2], 9))
    assert [each.session_id for each in last.rows] == ids[3:]
    assert (last.total, last.left_out) == (5, 0)
    assert sessions_of(host, ListSessions(ids[4])).rows == []


def test_a_page_has_a_bound_whatever_is_asked_for() -> None:
    host = PureServer()
    for number in range(1, ROWS_MAX + 3):
        host.caller(number)
    page = sessions_of(host, ListSessions(rows_max=1 << 40))
    assert (len(page.rows), page.total, page.left_out) == (ROWS_MAX, ROWS_MAX + 2, 2)
    every = connections_of(host)
    assert (len(every.rows), every.total, every.left_out) == (ROWS_MAX, ROWS_MAX + 2, 2)
    ids = tuple(host.server.state.sessions.by_id)
    some = connections_of(host, ListConnections(ids * 2))
    assert (len(some.rows), some.left_out) == (ROWS_MAX, 0)


def test_a_connection_names_the_process_of_its_client() -> None:
    host = PureServer()
    native = Caller(host, 1)
    line = b"actor Trainer 3f2a pid 8 on b/5d0e \x1b[31m"
    native.raw(encode_client_frame(replace(native.request(), identity=line + b"\xff")))
    assert native.greeting is not None
    connected(host, 2)
    ours, theirs = connections_of(host).rows
    assert ours.identity == line.decode() + "\ufffd"
    assert (ours.session_id, ours.port, ours.phase) == (native.session_id, 0, "connected")
    assert (theirs.identity, theirs.port, theirs.host) == ("", 4000, "10.0.0.1")


def test_a_connection_counts_its_watches() -> None:
    host = PureServer()
    caller = host.caller(1)
    caller.ask(caller.get("/", watch=True), caller.children("/", watch=True))
    host.caller(2)
    assert [each.watches for each in connections_of(host).rows] == [2, 0]


def test_connections_are_found_by_their_sessions() -> None:
    host = PureServer()
    one, two = host.caller(1), host.caller(2)
    host.is_disk_held = True
    host.caller(3)  # waits for its session
    asked = ListConnections((two.session_id, SessionId(99)))
    page = connections_of(host, asked)
    assert [each.session_id for each in page.rows] == [two.session_id]
    assert (page.total, page.left_out) == (3, 0)
    page = connections_of(host, replace(asked, without_session=True))
    assert [each.phase for each in page.rows] == ["connected", "connecting"]
    assert len(connections_of(host).rows) == 3
    assert one.session_id in host.server.state.sessions.by_id


def test_a_server_says_whether_it_has_a_leader() -> None:
    servers = PureServers(3, options=OPTIONS)
    servers[2].caller(1)
    answer = answer_of(servers[3], ListSessions())
    assert (answer.server_id, answer.role, answer.is_active) == (3, Role.LEADER, True)
    assert answer.zxid == servers[3].server.state.zxid
    for other in (2, 3):
        servers.crash(other)
    while servers[1].server.peer.role is not Role.LOOKING:
        servers.pass_time(TIMING.tick_ms)
    answer = answer_of(servers[1], ListSessions())
    assert (answer.role, answer.is_active, answer.problem) == (Role.LOOKING, False, "")
    assert isinstance(answer.page, SessionsPage) and answer.page.total == 1


@pytest.mark.parametrize("query", [ListSessions(), ListLocks(), ListChildren(), MeasureTree()])
def test_a_mixture_of_states_is_not_shown(query: AdminQuery) -> None:
    host = PureServer()
    host.caller(1)
    host.server.state.consistent_at = Zxid(host.server.state.zxid + 1)
    answer = answer_of(host, query)
    assert (answer.page, answer.problem) == (None, NOT_READ_YET)
    assert connections_of(host).total == 1


def watches_of(host: PureServer, query: ListWatches) -> list[tuple[int, str, str]]:
    page = answer_of(host, query).page
    assert isinstance(page, WatchesPage) and page.left_out == 0
    return [(each.session_id, each.path, each.kind) for each in page.rows]


def watching() -> tuple[PureServer, SessionId, SessionId]:
    """A server with a client of ZooKeeper and a native one, which watch; their sessions."""
    host = PureServer()
    theirs, ours = connected(host, 1), host.caller(2)
    theirs.get("/", watch=True)
    theirs.ask(OpCode.ADD_WATCH, AddWatchRequest("/a", WatchMode.RECURSIVE))
    theirs.ask(OpCode.ADD_WATCH, AddWatchRequest("/a/b", WatchMode.PERSISTENT))
    ours.ask(ours.exists("/a/b", watch=True), ours.children("/", watch=True))
    return host, SessionId(theirs.session_id), ours.session_id


def test_all_watches_are_told_by_session() -> None:
    host, theirs, ours = watching()
    assert watches_of(host, ListWatches()) == [
        (theirs, "/", "data"),
        (theirs, "/a/b", "persistent"),
        (theirs, "/a", "recursive"),
        (ours, "/a/b", "data"),
        (ours, "/", "child"),
    ]
    assert watches_of(host, ListWatches(ours)) == [(ours, "/a/b", "data"), (ours, "/", "child")]
    assert watches_of(host, ListWatches(SessionId(99))) == []


def test_the_watches_of_a_znode_are_those_that_its_change_fires() -> None:
    host, theirs, ours = watching()
    assert watches_of(host, ListWatches(path="/a/b")) == [
        (ours, "/a/b", "data"),
        (theirs, "/a/b", "persistent"),
        (theirs, "/a", "recursive"),
    ]
    assert watches_of(host, ListWatches(path="/a/b/c")) == [(theirs, "/a", "recursive")]
    assert watches_of(host, ListWatches(ours, "/a/b")) == [(ours, "/a/b", "data")]
    assert watches_of(host, ListWatches(path="/ab")) == []


def test_watches_have_a_bound() -> None:
    host, *_ = watching()
    for query in (ListWatches(rows_max=2), ListWatches(path="/a/b", rows_max=1)):
        page = answer_of(host, query).page
        assert isinstance(page, WatchesPage)
        assert (len(page.rows), page.total) == (query.rows_max, 5)
        assert page.left_out == (2 if query.path else 3)
