"""A drained server: which clients it refuses, whom it moves when, and what they are told."""

import pytest

from raykeeper.jute.opcodes import OpCode
from raykeeper.jute.records import CreateRequest, PathRequest
from raykeeper.server.client_drain import BURST_MS, LOOKED_AT, QUIET_MS, REFUSAL
from raykeeper.server.events import (
    ClientDisconnected,
    ClientFrameArrived,
    DrainEnded,
    DrainRequested,
)
from raykeeper.zab.ids import Millis
from raykeeper.znodes.acl import OPEN_ACL
from raykeeper.znodes.errors import Code
from raykeeper.znodes.replies import ConnectReply, ServerFrame, WriteReply
from raykeeper.znodes.requests import encode_client_frame
from tests.harness.caller import Caller
from tests.harness.jute_caller import JuteCaller, connected
from tests.harness.pure_servers import PureServer, PureServers

PATIENCE_MS = 5_000
SLOWLY = DrainRequested(10, PATIENCE_MS)  # one client in 100 ms
AT_ONCE = DrainRequested(100_000, PATIENCE_MS)


def to_move(host: PureServer) -> int | None:
    return host.server.stats().clients_to_move


def alone() -> PureServer:
    """A leader without followers, in whose steps nothing else moves."""
    return PureServer()


def test_a_drained_server_refuses_clients_with_a_reason_and_serves_those_it_has() -> None:
    server = alone()
    before = server.caller()
    assert to_move(server) is None
    server.step(DrainRequested(1, PATIENCE_MS))
    other = server.caller(2)
    server.step(DrainRequested(1, PATIENCE_MS))
    assert before.ended == Code.CONNECTION_LOSS  # the first one was due at once
    refusal = other.greeting
    assert isinstance(refusal, ConnectReply)
    assert (refusal.code, refusal.detail) == (Code.CONNECTION_LOSS, REFUSAL)
    assert 2 in server.closed and to_move(server) == 0
    server.step(DrainEnded())
    assert to_move(server) is None
    third = server.caller(3)
    assert third.session_id and third.ended is None


def test_the_session_of_a_client_that_is_moved_lives() -> None:
    servers = PureServers(3)
    caller = servers[1].caller()
    servers[1].step(AT_ONCE)
    assert caller.ended == Code.CONNECTION_LOSS
    moved = Caller(servers[2], 2)
    moved.take_up(caller)
    assert moved.session_id == caller.session_id
    assert [type(item) for item in moved.ask(moved.create("/a"))] == [WriteReply]


def test_moves_are_paced() -> None:
    server = alone()
    callers = [server.caller(number) for number in range(1, 6)]
    server.step(SLOWLY)
    moved = []
    for _ in range(5):
        moved.append(sum(caller.ended is not None for caller in callers))
        server.pass_time(100)
    assert moved == [1, 2, 3, 4, 5]
    assert len(server.notes("drain.done")) == 1
    assert server.notes("drain.begun") == [(5, 10)]


@pytest.mark.parametrize(("per_s", "after_ms", "moved"), [(3, 334, 2), (3, 333, 1), (1_000, 3, 4)])
def test_any_rate_is_kept(per_s: int, after_ms: int, moved: int) -> None:
    server = alone()
    callers = [server.caller(number) for number in range(1, 9)]
    server.step(DrainRequested(per_s, PATIENCE_MS))
    server.pass_time(after_ms)
    assert sum(caller.ended is not None for caller in callers) == moved


def test_a_process_that_stood_still_does_not_move_all_at_once() -> None:
    server = alone()
    callers = [server.caller(number) for number in range(1, 21)]
    server.step(DrainRequested(50, PATIENCE_MS))
    server.clock.now = Millis(server.clock.now + 10_000)
    server.step()
    assert sum(caller.ended is not None for caller in callers) == 1 + 50 * BURST_MS // 1_000


def test_a_client_that_leaves_by_itself_takes_no_turn() -> None:
    server = alone()
    callers = [server.caller(number) for number in range(1, 4)]
    server.step(SLOWLY)
    server.step(ClientDisconnected(2))
    server.pass_time(100)
    assert [caller.ended for caller in callers] == [
        Code.CONNECTION_LOSS,
        None,
        Code.CONNECTION_LOSS,
    ]
    assert server.server.stats().clients_to_move == 0


def test_a_new_request_changes_the_rate_and_a_drain_that_was_ended_moves_nobody() -> None:
    server = alone()
    callers = [server.caller(number) for number in range(1, 5)]
    server.step(SLOWLY)
    server.step(DrainEnded())
    server.step(DrainEnded())
    server.pass_time(1_000)
    assert [caller.ended for caller in callers].count(None) == 3
    assert len(server.notes("drain.ended")) == 1
    server.step(SLOWLY)
    server.step(DrainRequested(1_000, PATIENCE_MS))
    server.pass_time(3)
    assert all(caller.ended is not None for caller in callers)


def test_a_moved_client_need_not_wait_for_the_crowd() -> None:
    """Clients of a lost server spread their return; those that are moved come in turn anyway."""
    server = alone()
    callers = [server.caller(number) for number in range(1, 41)]
    server.step(SLOWLY)
    frames = server.frames[callers[0].connection]
    assert isinstance(frames[-2], ServerFrame) and frames[-2].return_spread_ms == 0
    callers[1].ask(callers[1].get("/"))
    frame = callers[1].answers[-1]
    assert frame.return_spread_ms > 0


def test_requests_under_way_are_sent_again_at_another_server() -> None:
    servers = PureServers(3)
    caller = servers[1].caller()
    servers.hold(3, 1)
    write = caller.create("/a")
    assert caller.ask(write) == []
    servers[1].step(AT_ONCE)
    assert caller.ended == Code.CONNECTION_LOSS
    moved = Caller(servers[2], 2)
    moved.take_up(caller)
    (reply,) = moved.ask(write)
    assert isinstance(reply, WriteReply) and reply.code == Code.OK
    servers.release(3, 1)
    assert caller.items == []


def test_a_client_that_waits_for_its_session_is_moved_too() -> None:
    servers = PureServers(3)
    servers.hold(1, 3)
    caller = Caller(servers[1], 1)
    servers[1].step(ClientFrameArrived(1, encode_client_frame(caller.request())), AT_ONCE)
    assert servers[1].closed == [1]
    servers.release(1, 3)  # its session is opened for nobody, until it comes again
    moved = Caller(servers[2], 2, caller.password)
    moved.attempt = 2
    moved.connect()
    assert moved.session_id and len(servers[2].server.state.sessions.by_id) == 1


# Clients of ZooKeeper.


def test_a_client_of_zookeeper_is_refused_without_a_word() -> None:
    server = alone()
    server.step(AT_ONCE)
    caller = JuteCaller(server, 1)
    assert caller.connect() is None  # an answer would say that its session has ended
    assert caller.is_closed


def test_one_of_zookeeper_is_moved_when_it_is_quiet() -> None:
    servers = PureServers(3)
    host = servers[1]
    caller = connected(host)
    host.step(AT_ONCE)
    assert not caller.is_closed  # its connect request came at this moment
    host.pass_time(QUIET_MS - 1)
    caller.exists("/")
    host.pass_time(QUIET_MS - 1)
    assert not caller.is_closed
    host.pass_time(QUIET_MS)
    assert caller.is_closed and caller.read() == []
    again = JuteCaller(servers[2], 2)
    response = again.take_up(caller)
    assert response is not None and response.session_id == caller.session_id


def test_one_of_zookeeper_that_waits_for_a_reply_is_waited_for() -> None:
    servers = PureServers(3)
    host = servers[1]
    caller = connected(host)
    servers.hold(3, 1)
    caller.send(OpCode.CREATE, CreateRequest("/a", b"", list(OPEN_ACL), 0))
    host.step(AT_ONCE)
    host.pass_time(PATIENCE_MS // 2)
    assert not caller.is_closed
    servers.release(3, 1)
    host.pass_time(2 * QUIET_MS)
    assert caller.is_closed and [answer.err for answer in caller.read()] == [0]


def test_one_of_zookeeper_that_is_never_quiet_is_moved_when_the_patience_ends() -> None:
    servers = PureServers(3)
    host = servers[1]
    caller = connected(host)
    servers.hold(3, 1)
    caller.send(OpCode.SYNC, PathRequest("/"))
    host.step(AT_ONCE)
    host.pass_time(PATIENCE_MS - 1)
    assert not caller.is_closed
    host.pass_time(1 + QUIET_MS)
    assert caller.is_closed


def test_part_of_a_request_and_a_ping_without_an_answer_are_waited_for() -> None:
    servers = PureServers(3)
    host = servers[1]
    partial, pinging = connected(host), connected(host, 2)
    frame = partial.frame(OpCode.EXISTS, None)
    partial.raw(frame[:5])
    servers.hold(1, 3)
    pinging.send(OpCode.PING)
    host.step(AT_ONCE)
    host.pass_time(20 * QUIET_MS)
    assert not partial.is_closed and not pinging.is_closed
    assert to_move(host) == 2


def test_one_of_zookeeper_that_waits_for_its_session_is_waited_for() -> None:
    servers = PureServers(3)
    host = servers[1]
    servers.hold(1, 3)
    caller = JuteCaller(host, 1)
    assert caller.connect() is None
    host.step(AT_ONCE)
    host.pass_time(2 * QUIET_MS)
    assert not caller.is_closed
    servers.release(1, 3)
    host.pass_time(2 * QUIET_MS)
    caller.read()
    assert caller.response is not None and caller.is_closed


def test_a_step_looks_at_some_clients_only() -> None:
    server = alone()
    busy = [connected(server, number) for number in range(1, LOOKED_AT + 1)]
    free = server.caller(LOOKED_AT + 1)
    server.step(AT_ONCE)
    assert free.ended is None  # it stands behind all that one step looks at
    for caller in busy:
        caller.raw(b"\0")  # part of a request
    server.pass_time(QUIET_MS)
    assert free.ended == Code.CONNECTION_LOSS
    assert not any(caller.is_closed for caller in busy)
