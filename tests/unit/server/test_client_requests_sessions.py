"""ClientRequests: the connection that owns a session, and how a client learns of its end."""

import msgspec
import pytest

from raykeeper.server import server_trace_events
from raykeeper.server.context import ServerOptions
from raykeeper.server.events import PeerFrame, TrackerLost
from raykeeper.server.peer_messages import ForwardConnect, WriteGap
from raykeeper.zab.ids import Millis, ServerId, Zxid
from raykeeper.znodes.errors import Code
from raykeeper.znodes.replies import (
    CloseFrame,
    ConnectReply,
    EmptyReply,
    Item,
    WatcherEvent,
    WriteReply,
)
from raykeeper.znodes.requests import (
    Connect,
    CreateMode,
    SessionId,
    encode_client_frame,
)
from tests.harness.pure_servers import LIMITS, Caller, PureServer, PureServers

PASSWORD = bytes(16)


def kinds(items: list[Item]) -> list[type]:
    return [type(item) for item in items]


def test_repeat_of_a_write_is_answered_from_the_table() -> None:
    host = PureServer()
    first = host.caller(1)
    before = first.ask(first.create("/s-", b"", CreateMode.SEQUENTIAL))
    first.ask(first.set("/nowhere", b""))
    second = Caller(host, 2)
    assert second.take_up(first) is not None
    zxid = host.server.state.zxid
    second.number = 0
    repeats = [second.create("/s-", b"", CreateMode.SEQUENTIAL), second.set("/nowhere", b"")]
    items = second.ask(*repeats, second.exists("/"))
    assert items[:1] == before
    assert [item.code for item in items[:2]] == [0, Code.NO_NODE]  # type: ignore[union-attr]
    assert host.server.state.zxid == zxid


def test_repeat_of_an_acknowledged_write_ends_the_connection() -> None:
    host = PureServer()
    caller = host.caller()
    caller.ask(caller.create("/a"))
    caller.acked = 1
    caller.ask(caller.create("/b"))
    caller.number = 0
    assert caller.ask(caller.create("/a"), caller.exists("/")) == []
    assert caller.ended == Code.CONNECTION_LOSS
    assert host.notes(server_trace_events.CLIENT_MALFORMED) == [(1, "repeat")]


def test_write_through_the_old_connection_is_answered_on_the_new_one() -> None:
    """The move is ordered after the write, so the new connection asks for it again."""
    servers = PureServers(2)
    old, new = servers[1].caller(1), Caller(servers[1], 2)
    servers.hold(2, 1)
    old.ask(old.create("/a"))
    new.password = old.password
    new.connect(old.session_id)
    servers.release(2, 1)
    assert new.greeting is not None and new.greeting.last_number == 1  # type: ignore[union-attr]
    assert old.ended == Code.SESSION_MOVED
    (item,) = new.ask(new.create("/a"))
    assert isinstance(item, WriteReply) and item.code == 0


@pytest.mark.parametrize("elsewhere", [False, True])
def test_move_ends_the_old_connection(elsewhere: bool) -> None:
    servers = PureServers(3)
    old = servers[1].caller(1)
    new = Caller(servers[2] if elsewhere else servers[1], 2)
    answer = new.take_up(old)
    assert isinstance(answer, ConnectReply) and answer.session_id == old.session_id
    assert old.ended == Code.SESSION_MOVED
    assert servers[1].notes(server_trace_events.SESSION_FENCED) == [(old.session_id, 1)]
    assert kinds(new.ask(new.create("/a"))) == [WriteReply]


def test_lost_answer_to_connect_is_asked_for_again() -> None:
    host = PureServer()
    first = host.caller(1)
    second = Caller(host, 2, first.password)
    answer = second.connect()
    assert isinstance(answer, ConnectReply) and answer.session_id == first.session_id


@pytest.mark.parametrize(
    ("session_id", "password", "code"),
    [
        (12345, PASSWORD, Code.SESSION_EXPIRED),
        (0, None, Code.AUTH_FAILED),  # 0 stands for the session of the first caller
    ],
)
def test_a_refused_connect_says_why(session_id: int, password: bytes | None, code: Code) -> None:
    servers = PureServers(2)
    first = servers[1].caller(1)
    caller = Caller(servers[1], 2, password or b"another password")
    caller.password = caller.password.ljust(16)[:16]
    answer = caller.connect(session_id or first.session_id)
    assert isinstance(answer, ConnectReply) and (answer.code, answer.detail) == (code, "")
    assert servers[1].closed == [2]
    assert servers[1].server.stats().connections == 1
    assert first.ended is None


def test_a_session_beyond_the_limit_is_refused_with_the_setting_and_its_value() -> None:
    host = PureServer(limits=msgspec.structs.replace(LIMITS, sessions_max=1))
    host.caller(1)
    answer = Caller(host, 2, b"another password").connect()
    assert isinstance(answer, ConnectReply) and answer.code == Code.CONNECTION_LOSS
    assert answer.detail == (
        "the setting sessions_max is 1, and the ensemble has as many sessions already; close some, "
        "or raise it in the settings of the ensemble"
    )
    assert host.closed == [2]


def test_refusal_for_a_connection_that_is_gone_or_served_is_dropped() -> None:
    servers = PureServers(2)
    leader, host = servers[2], servers[1]
    caller = host.caller(1)
    unknown = Connect(SessionId(99), PASSWORD, Millis(1_000), Zxid(0))
    for connection in (1, 77):
        leader.step(PeerFrame(ServerId(1), [ForwardConnect(connection, unknown)]))
        servers.run()
    assert caller.ended is None
    assert kinds(caller.ask(caller.exists("/"))) != []


def test_client_of_another_ensemble_is_sent_away() -> None:
    host = PureServer()
    caller = Caller(host, 1)
    answer = caller.connect(last_zxid=1 << 62)
    assert answer == CloseFrame(Code.CONNECTION_LOSS)
    assert host.closed == [1]


def test_connect_forwarded_twice_keeps_the_connection_under_its_new_owner_number() -> None:
    """As around a change of leader: requests under the first owner number are refused."""
    servers = PureServers(2)
    leader, host = servers[2], servers[1]
    caller = host.caller(1)
    owner = caller.owner
    servers.hold(1, 2)
    assert caller.ask(caller.create("/a"), caller.sync(), caller.create("/b")) == []
    leader.step(PeerFrame(ServerId(1), [ForwardConnect(1, caller.request())]))
    servers.release(1, 2)
    assert caller.owner > owner
    assert len(leader.notes(server_trace_events.WRITE_FENCED)) == 1
    assert kinds(caller.new()) == [WriteReply, EmptyReply, WriteReply]
    assert [type(frame) for frame in host.frames[1]].count(ConnectReply) == 1


def test_connect_overtaken_by_a_later_one_of_its_client_is_refused() -> None:
    """The client has moved to another server, which does not close its session."""
    servers = PureServers(3)
    first = servers[3].caller(1)
    servers.hold(1, 3)
    late, newest = Caller(servers[1], 2), Caller(servers[2], 3)
    assert late.take_up(first) is None
    assert isinstance(newest.take_up(late), ConnectReply)
    servers.release(1, 3)
    assert isinstance(late.greeting, ConnectReply) and late.greeting.code == Code.SESSION_MOVED
    assert servers[1].closed == [2]
    assert kinds(newest.ask(newest.create("/a"))) == [WriteReply]
    assert newest.ended is None


def test_connect_of_a_dead_link_is_sent_to_a_new_leader_and_refused() -> None:
    """Its server cannot know that the client has left, so it forwards again in each new epoch."""
    servers = PureServers(3)
    first = servers[2].caller(1)
    servers.hold(1, 3)
    dead, newest = Caller(servers[1], 2), Caller(servers[2], 3)
    assert dead.take_up(first) is None
    assert isinstance(newest.take_up(dead), ConnectReply)
    owner = newest.owner
    servers.crash(3)
    servers.pass_time(2_000)
    assert servers.leader is servers[2]
    assert isinstance(dead.greeting, ConnectReply) and dead.greeting.code == Code.SESSION_MOVED
    assert newest.ended is None and newest.owner == owner


@pytest.mark.parametrize("server", [1, 2])
def test_connect_in_the_log_of_a_new_leader_is_not_proposed_again(server: int) -> None:
    """The old leader proposed it, and died before any server knew of the commit."""
    servers = PureServers(3)
    for n in (1, 2):
        servers[n].is_disk_held = True
    caller = Caller(servers[server], 1)
    assert caller.connect() is None
    servers.crash(3)
    for n in (1, 2):
        servers[n].release_disk()
    servers.pass_time(2_000)
    assert servers.leader is servers[2]
    assert len(servers[server].notes(server_trace_events.SESSION_OPENED)) == 1
    assert [type(frame) for frame in servers[server].frames[1]] == [ConnectReply]
    assert kinds(caller.ask(caller.create("/a"), caller.sync())) == [WriteReply, EmptyReply]


def test_close_is_answered_and_then_the_connection_ends() -> None:
    host = PureServer()
    caller = host.caller()
    caller.ask(caller.create("/e", b"", CreateMode.EPHEMERAL))
    items = caller.ask(caller.exists("/e", watch=True), caller.close())
    assert kinds(items)[1:] == [WatcherEvent, WriteReply]
    assert caller.ended == Code.SESSION_EXPIRED
    assert host.server.stats().sessions == 0


def test_repeated_close_finds_the_session_gone() -> None:
    host = PureServer()
    first = host.caller(1)
    first.ask(first.close())
    second = Caller(host, 2)
    answer = second.take_up(first)
    assert isinstance(answer, ConnectReply) and answer.code == Code.SESSION_EXPIRED


@pytest.mark.parametrize("old", [False, True])
def test_gap_names_the_session_and_its_owner(old: bool) -> None:
    servers = PureServers(2)
    caller = servers[1].caller()
    owner = Zxid(caller.owner - old)
    for session_id in (SessionId(caller.session_id), SessionId(999)):
        servers[1].step(PeerFrame(ServerId(2), [WriteGap(session_id, owner)]))
    assert caller.ended == (None if old else Code.CONNECTION_LOSS)


def test_gap_counts_from_the_leader_alone() -> None:
    servers = PureServers(3)
    caller = servers[1].caller()
    servers[1].step(PeerFrame(ServerId(2), [WriteGap(caller.session_id, caller.owner)]))
    assert caller.ended is None


def test_taken_over_by_another_client() -> None:
    host = PureServer(options=ServerOptions(session_report_ms=Millis(100), ensemble="the uuid"))
    first = host.caller(1)
    first.ask(first.create("/a"), first.create("/b"))
    second = Caller(host, 2)
    request = msgspec.structs.replace(
        second.request(first.session_id), password=first.password, new_password=b"n" * 16
    )
    second.raw(encode_client_frame(request))
    assert second.greeting == ConnectReply(
        *(Code.OK, first.session_id, Millis(10_000), host.server.state.zxid, 2, "the uuid"),
        members=host.settings.members.founding,
    )
    assert first.ended == Code.SESSION_MOVED
    again = Caller(host, 3, first.password)
    again.attempt = 9
    again.connect(first.session_id)
    assert isinstance(again.greeting, ConnectReply) and again.greeting.code == Code.AUTH_FAILED


@pytest.mark.parametrize(
    ("salt", "told", "own_uuid"),
    [("", "own", ""), ("own", "own", ""), ("that of the backup", "that of the backup", "own")],
)
def test_a_client_is_told_the_salt_of_the_state(salt: str, told: str, own_uuid: str) -> None:
    host = PureServer(options=ServerOptions(ensemble="own"))
    host.server.state.acl_salt = salt
    greeting = host.caller().greeting
    assert isinstance(greeting, ConnectReply)
    assert (greeting.ensemble, greeting.own_uuid) == (told, own_uuid)


def test_late_connect_whose_session_was_taken_over_does_no_harm() -> None:
    """The password is that of no session now, so a new session opens; it ends by its timeout."""
    servers = PureServers(3)
    servers[3].step(TrackerLost())
    servers[3].step(TrackerLost())
    servers.hold(1, 3)
    dead = Caller(servers[1], 1)
    assert dead.connect(timeout_ms=1_000) is None
    first = Caller(servers[2], 2, dead.password)
    first.attempt = 2
    assert isinstance(first.connect(timeout_ms=1_000), ConnectReply)
    second = Caller(servers[3], 3)
    taking = msgspec.structs.replace(
        second.request(first.session_id), password=first.password, new_password=second.password
    )
    second.raw(encode_client_frame(taking))
    assert first.ended == Code.SESSION_MOVED
    assert isinstance(second.greeting, ConnectReply) and second.session_id == first.session_id
    owner = second.owner
    servers.release(1, 3)
    assert isinstance(dead.greeting, ConnectReply) and dead.greeting.code == Code.OK
    assert dead.session_id != second.session_id and second.owner == owner
    other = first.host.server.state.sessions.get(dead.session_id)
    assert other is not None and (other.last_number, other.password) == (0, first.password)
    for _ in range(20):
        servers.pass_time(100)
        second.ask()
    assert dead.ended == Code.SESSION_EXPIRED
    assert kinds(second.ask(second.create("/a"))) == [WriteReply]
    # The former owner learns the move, not that the client got another session.
    again = Caller(servers[1], 4, first.password)
    again.attempt = 3
    again.connect(second.session_id)
    assert isinstance(again.greeting, ConnectReply) and again.greeting.code == Code.AUTH_FAILED
    assert servers.digests() == [servers[1].server.state.digest()] * 3


@pytest.mark.parametrize("length", [1, 15, 17])
def test_a_new_password_of_another_length_is_malformed(length: int) -> None:
    host = PureServer()
    caller = Caller(host, 1)
    request = msgspec.structs.replace(caller.request(), new_password=b"n" * length)
    caller.raw(encode_client_frame(request))
    assert caller.ended == Code.CONNECTION_LOSS
