"""Clients of ZooKeeper over time: heartbeats, windows, elections and read-only mode."""

import pytest
from msgspec.structs import replace

from raykeeper.jute.opcodes import AUTH_XID, OpCode
from raykeeper.jute.records import (
    AuthPacket,
    ClientInfo,
    CreateRequest,
    GetDataResponse,
    PathRequest,
    PathWatchRequest,
    WatcherEvent,
    WhoAmIResponse,
)
from raykeeper.server.effects import PauseReading, ResumeReading
from raykeeper.server.events import ClientDisconnected, JuteBytesArrived, JuteClientConnected
from raykeeper.server.jute_clients import READ_AHEAD_BYTES
from raykeeper.zab.effects import Role
from raykeeper.zab.ids import Millis
from raykeeper.znodes.acl import OPEN_ACL
from raykeeper.znodes.errors import Code
from tests.harness.jute_caller import JuteCaller, connected
from tests.harness.pure_servers import LIMITS, OPTIONS, TIMING, PureServer, PureServers

OPEN = list(OPEN_ACL)
EPHEMERAL = 1
REPORT_MS = OPTIONS.session_report_ms
TIMEOUT_MS = 10_000
GIVEN_UP_MS = TIMING.sync_ms + 2 * TIMING.tick_ms


def pings(caller: JuteCaller) -> int:
    """How many pings were answered since the last call, and nothing else was."""
    answers = caller.read()
    assert all((answer.xid, answer.err) == (-2, 0) for answer in answers)
    return len(answers)


# Heartbeats.


def test_a_ping_is_answered_once_the_leader_has_confirmed_it() -> None:
    servers = PureServers(3)
    caller = connected(servers[1])
    servers.pass_time(1_000)
    servers.hold(1, 3)
    caller.raw(2 * caller.frame(OpCode.PING))
    caller.send(OpCode.PING)
    servers.pass_time(2 * REPORT_MS)
    assert pings(caller) == 0
    servers.release(1, 3)
    servers.pass_time(2 * REPORT_MS)
    assert pings(caller) == 3


def test_a_client_is_told_nothing_when_it_was_not_heard_for_a_third_of_its_timeout() -> None:
    servers = PureServers(3)
    caller, other = connected(servers[1]), servers[2].caller(2)
    caller.get("/", watch=True)
    servers.pass_time(TIMEOUT_MS // 3 + 1)
    other.ask(other.set("/", b"1"))
    assert caller.read() == []
    # Its next sign of life is confirmed, and it gets the event before the answers.
    caller.raw(
        caller.frame(OpCode.PING) + caller.frame(OpCode.GET_DATA, PathWatchRequest("/", False))
    )
    assert caller.read() == []
    servers.pass_time(4 * REPORT_MS)
    event, reply, ping = sorted(caller.read(), key=lambda answer: answer.xid == -2)
    assert isinstance(event.body, WatcherEvent) and ping.xid == -2
    assert isinstance(reply.body, GetDataResponse) and reply.body.data == b"1"


def test_a_heartbeat_that_is_confirmed_too_late_tells_nothing() -> None:
    servers = PureServers(3)
    caller = connected(servers[1])
    servers.pass_time(1_000)
    servers.hold(3, 1)
    caller.send(OpCode.PING)
    servers.pass_time(TIMEOUT_MS // 3 + 1)
    assert servers[1].server.peer.role is Role.FOLLOWER, "the leader is believed to be there"
    servers.release(3, 1)
    assert pings(caller) == 0 and not caller.is_closed
    caller.send(OpCode.PING)
    servers.pass_time(4 * REPORT_MS)
    assert pings(caller) == 2


def test_an_answer_to_the_first_frame_that_comes_too_late_is_not_given() -> None:
    servers = PureServers(3)
    servers.hold(3, 1)
    caller = JuteCaller(servers[1], 1)
    assert caller.connect(timeout_ms=1_000) is None
    servers.pass_time(400)
    servers.release(3, 1)
    servers[1].step()
    assert caller.read() == [] and caller.response is None and caller.is_closed


def test_a_session_is_told_of_its_own_end_at_any_time() -> None:
    servers = PureServers(3)
    caller = connected(servers[1])
    servers.pass_time(TIMEOUT_MS // 3 + 1)
    assert caller.ask(OpCode.CLOSE_SESSION).err == 0 and caller.is_closed


# Windows.


WINDOW = replace(OPTIONS, outstanding_requests_max=4)


def test_no_more_requests_are_taken_than_the_window_holds_and_none_is_dropped() -> None:
    host = PureServer(options=WINDOW)
    caller = connected(host)
    host.is_disk_held = True
    frames = [
        caller.frame(OpCode.CREATE, CreateRequest(f"/{index}", b"", OPEN, 0)) for index in range(50)
    ]
    caller.raw(b"".join(frames))
    assert host.server.stats().outstanding == 4
    assert host.of(PauseReading) == [], "so few bytes may wait"
    host.release_disk()
    caller.raw(b"")
    assert [answer.xid for answer in caller.read()] == list(range(1, 51))


def test_a_malformed_request_behind_a_full_window_ends_the_connection_in_its_turn() -> None:
    host = PureServer(options=WINDOW)
    caller = connected(host)
    host.is_disk_held = True
    frames = [
        caller.frame(OpCode.CREATE, CreateRequest(f"/{index}", b"", OPEN, 0)) for index in range(4)
    ]
    caller.raw(b"".join(frames) + (-1).to_bytes(4, signed=True))
    assert not caller.is_closed
    host.release_disk()
    host.step()
    assert caller.is_closed and [answer.err for answer in caller.read()] == 4 * [0]


def test_reading_pauses_while_much_waits_and_goes_on_when_it_is_taken() -> None:
    host = PureServer(options=WINDOW)
    caller = connected(host)
    host.is_disk_held = True
    count = 3 * READ_AHEAD_BYTES // 1_000
    body = bytes(1_000)
    for index in range(count):
        frame = caller.frame(OpCode.CREATE, CreateRequest(f"/{index}", body, OPEN, 0))
        host.step(JuteBytesArrived(1, frame))
    assert host.of(PauseReading) == [PauseReading(1)] and host.of(ResumeReading) == []
    host.release_disk()
    caller.raw(b"")
    assert host.of(ResumeReading) == [ResumeReading(1)]
    assert [answer.err for answer in caller.read()] == count * [0]


def test_a_client_that_waits_for_its_session_is_read_no_further() -> None:
    servers = PureServers(3)
    servers.hold(1, 3)
    caller = JuteCaller(servers[1], 1)
    caller.connect()
    body = bytes(READ_AHEAD_BYTES)
    caller.send(OpCode.CREATE, CreateRequest("/a", body, OPEN, 0))
    assert servers[1].of(PauseReading) == [PauseReading(1)]
    servers.release(1, 3)
    caller.raw(b"")
    assert caller.read()[0].err == 0 and servers[1].of(ResumeReading) == [ResumeReading(1)]


def test_a_client_that_is_not_read_and_not_heard_is_read_once_more() -> None:
    """Else its replies would wait for a heartbeat, and the heartbeat for its replies."""
    servers = PureServers(3, options=WINDOW)
    host = servers[1]
    caller = connected(host)
    servers.pass_time(1_000)
    servers.hold(3, 1)
    body = bytes(READ_AHEAD_BYTES // 4)
    for index in range(10):
        frame = caller.frame(OpCode.CREATE, CreateRequest(f"/{index}", body, OPEN, 0))
        host.step(JuteBytesArrived(1, frame))
    assert host.of(PauseReading) == [PauseReading(1)]
    servers.pass_time(TIMEOUT_MS // 3 + 1)
    servers.release(3, 1)
    servers.pass_time(4 * REPORT_MS)
    assert caller.read() == [] and host.of(ResumeReading) == [ResumeReading(1)]
    # What is read now is a sign of life, and pauses reading again until that is confirmed.
    host.step(JuteBytesArrived(1, caller.frame(OpCode.PING)))
    assert host.of(PauseReading) == 2 * [PauseReading(1)]
    servers.pass_time(4 * REPORT_MS)
    answers = caller.read()
    assert [answer.xid for answer in answers if answer.xid > 0] == list(range(1, 11))


# Elections and read-only mode.


def alone() -> PureServers:
    """Server 1 of three, which has /a = 1, right after it gave up its leader."""
    servers = PureServers(3)
    writer = connected(servers[1], 9)
    writer.create("/a", b"1")
    for other in (2, 3):
        servers.crash(other)
    servers.pass_time(GIVEN_UP_MS)
    assert servers[1].server.peer.role is Role.LOOKING
    return servers


def test_clients_are_held_for_a_while_in_an_election_and_then_go_elsewhere() -> None:
    servers = PureServers(3)
    caller = connected(servers[1])
    for other in (2, 3):
        servers.crash(other)
    while servers[1].server.peer.role is not Role.LOOKING:
        servers.pass_time(TIMING.tick_ms)
        caller.raw(caller.frame(OpCode.PING))
    caller.send(OpCode.GET_DATA, PathWatchRequest("/", False))
    late = JuteCaller(servers[1], 2)
    assert late.connect() is None
    assert not caller.is_closed and not late.is_closed
    servers.pass_time(OPTIONS.read_only_after_ms)
    assert caller.is_closed and late.is_closed
    refused = JuteCaller(servers[1], 3)
    assert refused.connect() is None and refused.is_closed
    for other in (2, 3):
        servers.restart(other)
    servers.pass_time(GIVEN_UP_MS)
    assert JuteCaller(servers[1], 4).take_up(caller) is not None


def test_a_session_that_is_closed_in_an_election_ends_with_the_next_leader() -> None:
    servers = PureServers(3)
    caller = connected(servers[1])
    caller.create("/e", b"", EPHEMERAL)
    for one, other in ((1, 2), (2, 1)):
        servers.hold(one, other)
    servers.crash(3)
    assert servers[1].server.peer.role is Role.LOOKING
    caller.send(OpCode.CLOSE_SESSION)
    servers.pass_time(TIMING.tick_ms)
    assert servers[1].server.peer.role is Role.LOOKING
    assert caller.read() == [] and not caller.is_closed
    for one, other in ((1, 2), (2, 1)):
        servers.release(one, other)
    servers.pass_time(GIVEN_UP_MS)
    (answer,) = caller.read()
    assert (answer.xid, answer.err) == (caller.xid, 0) and caller.is_closed
    for server in (1, 2):
        state = servers[server].server.state
        assert state.tree.get("/e") is None and caller.session_id not in state.sessions.by_id


def test_a_session_that_is_closed_in_an_election_without_end_can_be_taken_up() -> None:
    """Nothing was decided: the client is not told that the session has ended."""
    servers = PureServers(3)
    caller = connected(servers[1])
    caller.create("/e", b"", EPHEMERAL)
    for other in (2, 3):
        servers.crash(other)
    while servers[1].server.peer.role is not Role.LOOKING:
        servers.pass_time(TIMING.tick_ms)
        caller.raw(caller.frame(OpCode.PING))
    caller.read()
    caller.send(OpCode.CLOSE_SESSION)
    assert not caller.is_closed
    servers.pass_time(OPTIONS.read_only_after_ms)
    assert caller.read() == [] and caller.is_closed
    for other in (2, 3):
        servers.restart(other)
    servers.pass_time(GIVEN_UP_MS)
    back = JuteCaller(servers[1], 2)
    response = back.take_up(caller)
    assert response is not None and response.timeout == TIMEOUT_MS
    assert back.exists("/e").err == 0
    assert back.ask(OpCode.CLOSE_SESSION).err == 0 and back.is_closed
    assert servers[1].server.state.tree.get("/e") is None


def test_a_read_only_client_reads_and_may_not_write() -> None:
    servers = alone()
    servers.pass_time(OPTIONS.read_only_after_ms)
    caller = JuteCaller(servers[1], 1)
    response = caller.connect(read_only=True)
    assert response is not None and response.read_only is True
    assert response.session_id == -1, "it is this server's own, and not 0"
    got = caller.get("/a", watch=True)
    assert isinstance(got.body, GetDataResponse) and got.body.data == b"1"
    assert caller.set("/a", b"2").err == Code.NOT_READ_ONLY
    assert caller.sync("/").err == Code.NOT_READ_ONLY
    caller.send(OpCode.PING)
    assert pings(caller) == 1
    servers.pass_time(2 * TIMEOUT_MS)
    assert caller.ask(OpCode.GET_ALL_CHILDREN_NUMBER, PathRequest("/")).err == 0
    assert caller.auth("digest", b"u:p").err == 0
    who = caller.ask(OpCode.WHO_AM_I).body
    assert who == WhoAmIResponse([ClientInfo("digest", "u"), ClientInfo("ip", "10.0.0.1")])
    caller.xid = AUTH_XID - 1
    assert caller.ask(OpCode.AUTH, AuthPacket(0, "digest", b"u:p")).err == 0
    assert caller.ask(OpCode.CLOSE_SESSION).err == 0 and caller.is_closed


@pytest.mark.parametrize("asked_ms", [-(1 << 31), -1, 0, 1, 10_000, (1 << 31) - 1])
def test_the_timeout_of_a_read_only_session_is_bounded_as_any_other(asked_ms: int) -> None:
    """The timeout 0 would tell the client that its session has expired."""
    servers = PureServers(3)
    usual = JuteCaller(servers[1], 1).connect(timeout_ms=asked_ms)
    for other in (2, 3):
        servers.crash(other)
    servers.pass_time(GIVEN_UP_MS + OPTIONS.read_only_after_ms)
    told = JuteCaller(servers[1], 2).connect(timeout_ms=asked_ms, read_only=True)
    assert usual is not None and told is not None and told.read_only is True
    bounds = LIMITS.session_timeout_min_ms, LIMITS.session_timeout_max_ms
    assert told.timeout == usual.timeout == min(max(asked_ms, bounds[0]), bounds[1])


@pytest.mark.parametrize("is_right", [True, False])
def test_a_session_that_the_server_knows_keeps_its_id_on_the_way(is_right: bool) -> None:
    servers = PureServers(3)
    caller = connected(servers[1], read_only=True)
    for other in (2, 3):
        servers.crash(other)
    servers.pass_time(GIVEN_UP_MS + OPTIONS.read_only_after_ms)
    assert caller.is_closed
    again = JuteCaller(servers[1], 2)
    assert caller.response is not None and caller.response.password is not None
    password = caller.response.password if is_right else b"x" * 16
    response = again.connect(caller.session_id, password, read_only=True)
    assert response is not None
    assert response.session_id == (caller.session_id if is_right else -2)
    assert response.password == password
    for other in (2, 3):
        servers.restart(other)
    servers.pass_time(TIMING.tick_ms)
    assert again.is_closed
    back = JuteCaller(servers[1], 3).take_up(again, read_only=True)
    assert back is not None and back.timeout == (TIMEOUT_MS if is_right else 0)
    assert back.read_only is False


def test_a_session_that_a_read_only_server_has_not_seen_yet_is_not_replaced() -> None:
    """With another id its client would lose it, though it lives."""
    servers = PureServers(3)
    connected(servers[1], 9)
    for other in (2, 3):
        servers.cut(1, other)
    servers.pass_time(GIVEN_UP_MS)
    caller = connected(servers[2], read_only=True)
    servers.pass_time(OPTIONS.read_only_after_ms)
    anybody = JuteCaller(servers[1], 3)
    assert anybody.connect(read_only=True) is not None
    again = JuteCaller(servers[1], 2)
    assert again.take_up(caller, read_only=True) is None and again.is_closed


# The end.


def test_a_connection_that_says_nothing_leaves_nothing_behind() -> None:
    host = PureServer()
    host.streams[5] = bytearray()
    host.step(JuteClientConnected(5, "10.0.0.1", bytes(16)), JuteBytesArrived(5, b"\0\0"))
    host.step(ClientDisconnected(5))
    host.step(JuteBytesArrived(5, b"\0\x2d"))
    assert len(host.server._clients.jute._by_number) == 0


def test_a_connection_that_is_closed_before_its_turn_is_left_alone() -> None:
    host = PureServer(options=WINDOW, limits=replace(LIMITS, session_timeout_max_ms=Millis(20_000)))
    caller = connected(host)
    host.is_disk_held = True
    frames = b"".join(
        caller.frame(OpCode.CREATE, CreateRequest(f"/{index}", b"", OPEN, 0)) for index in range(9)
    )
    host.step(JuteBytesArrived(1, frames))
    host._disk_work.run_until(host._disk_work.now)
    host.sync_disk()
    assert host.server._clients.jute.has_work
    host.step(ClientDisconnected(1))
    assert not host.server._clients.jute.has_work
    host.release_disk()
