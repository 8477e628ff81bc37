"""DeadClients: the session of a dead process ends at once, and no other one."""

import pytest

from raykeeper.server import server_trace_events
from raykeeper.server.dead_clients import UNOPENED_MAX
from raykeeper.server.events import (
    ClientDisconnected,
    ClientFrameArrived,
    ClientProcessDied,
    PeerFrame,
)
from raykeeper.server.peer_messages import EndDeadSessions, OwnedSession
from raykeeper.zab.effects import Append
from raykeeper.zab.ids import ServerId
from raykeeper.znodes.requests import CreateMode, SessionId, encode_client_frame
from raykeeper.znodes.txns import CloseReason, CloseSessionTxn, decode_txn
from tests.harness.pure_servers import Caller, PureServer, PureServers


def holder(host: PureServer, connection: int = 1) -> Caller:
    """Return a client with an ephemeral /mine."""
    caller = host.caller(connection)
    caller.ask(caller.create("/mine", b"", CreateMode.EPHEMERAL))
    assert is_held(host)
    return caller


def is_held(host: PureServer) -> bool:
    return "/mine" in host.server.state.tree.znodes


def kept(host: PureServer) -> int:
    return len(host.server._clients.dead_clients)


@pytest.mark.parametrize("at", [1, 3], ids=["of a follower", "of the leader"])
def test_the_session_of_a_dead_process_ends_at_once_everywhere(at: int) -> None:
    servers = PureServers(3)
    host = servers[at]
    caller = holder(host)
    host.step(ClientDisconnected(1))
    servers.run()
    assert is_held(host) and kept(host) == 1
    host.step(ClientProcessDied(1))
    servers.run()
    assert not any(is_held(each) for each in servers.hosts.values())
    assert servers.leader.notes(server_trace_events.SESSION_PROCESS_DIED) == [caller.session_id]
    last = decode_txn(servers.leader.of(Append)[-1].txns[-1])
    assert last.body == CloseSessionTxn(
        SessionId(caller.session_id), ["/mine"], CloseReason.PROCESS_DIED
    )
    assert kept(host) == 0


def test_a_death_is_awaited_until_the_session_has_moved_or_ended() -> None:
    servers = PureServers(3)
    host, other = servers[1], servers[2]
    old, new = holder(host), Caller(other, 2)
    assert not host.server.awaits_process_death(1)
    host.step(ClientDisconnected(1))
    assert host.server.awaits_process_death(1) and not other.server.awaits_process_death(1)
    assert new.take_up(old) is not None
    assert not host.server.awaits_process_death(1)
    other.step(ClientDisconnected(2))
    assert other.server.awaits_process_death(2)
    other.step(ClientProcessDied(2))
    assert not other.server.awaits_process_death(2)


def test_a_dead_client_is_disconnected_even_without_a_report_of_its_link() -> None:
    host = PureServer()
    holder(host)
    host.step(ClientProcessDied(1))
    assert not is_held(host)
    host.step(ClientDisconnected(1), ClientProcessDied(1))  # late, and again
    assert (
        host.notes(server_trace_events.SESSION_PROCESS_DIED) != []
        and host.notes(server_trace_events.DEAD_SESSION_DROPPED) == []
    )


def test_earlier_requests_of_a_dead_client_are_done() -> None:
    servers = PureServers(3)
    host = servers[1]
    caller = host.caller(1)
    host.step(caller.frame(caller.create("/done")), ClientDisconnected(1), ClientProcessDied(1))
    servers.run()
    assert "/done" in host.server.state.tree.znodes
    assert caller.session_id not in host.server.state.sessions.by_id


def test_a_session_that_is_reopened_lives_on() -> None:
    """By the same client over another link, or by a client that has taken it over."""
    servers = PureServers(3)
    old, new = holder(servers[1]), Caller(servers[2], 2)
    servers[1].step(ClientDisconnected(1))
    assert new.take_up(old) is not None
    assert kept(servers[1]) == 0
    servers[1].step(ClientProcessDied(1))
    servers.run()
    assert is_held(servers[1]) and new.ended is None


def test_the_leader_considers_an_outstanding_move() -> None:
    """The follower does not know of the move: it names the owner number that it knows."""
    servers = PureServers(3)
    old = holder(servers[1])
    servers.hold(3, 1)
    servers[1].step(ClientDisconnected(1))
    new = Caller(servers[2], 2)
    assert new.take_up(old) is not None
    servers[1].step(ClientProcessDied(1))
    servers.run()
    assert servers[1].sent(EndDeadSessions) != []
    assert servers.leader.notes(server_trace_events.DEAD_SESSION_DROPPED) == [new.session_id]
    servers.release(3, 1)
    assert is_held(servers[1]) and new.ended is None and kept(servers[1]) == 0


def test_the_leader_drops_another_owner_number() -> None:
    servers = PureServers(3)
    caller = holder(servers[1])
    wrong = OwnedSession(caller.session_id, servers[1].server.state.zxid)
    servers[3].step(PeerFrame(ServerId(1), [EndDeadSessions([wrong])]))
    servers.run()
    assert is_held(servers[1])


def test_a_death_is_kept_until_there_is_a_leader() -> None:
    servers = PureServers(3)
    caller = holder(servers[1])
    servers.crash(3)
    servers.crash(2)
    servers[1].step(ClientDisconnected(1), ClientProcessDied(1))
    servers.run()
    assert is_held(servers[1])
    servers.restart(2)
    servers.pass_time(1_000)
    assert not is_held(servers[1])
    assert servers.leader.notes(server_trace_events.SESSION_PROCESS_DIED) == [caller.session_id]


def test_a_death_is_reported_again_to_the_next_leader() -> None:
    """The server that learned of the death died, too."""
    servers = PureServers(3)
    holder(servers[1])
    servers.hold(1, 3)
    servers[1].step(ClientDisconnected(1), ClientProcessDied(1))
    servers.run()
    assert servers[1].sent(EndDeadSessions) != [] and is_held(servers[1])
    servers.crash(3)
    servers.pass_time(1_000)
    assert not is_held(servers[1])


def test_with_a_full_disk_a_death_waits_for_a_leader_that_can_write() -> None:
    host = PureServer(segment_bytes=1)
    caller = holder(host)
    host.disk.log_space.is_full = True
    host.step(caller.frame(caller.create("/fills")))
    host.pass_time(100)
    assert not host.server.stats().has_disk_space
    host.step(ClientDisconnected(1), ClientProcessDied(1))
    host.pass_time(1_000)
    assert is_held(host) and host.notes(server_trace_events.SESSION_PROCESS_DIED) == []
    host.disk.log_space.is_full = False
    host.pass_time(3_000)
    assert not is_held(host)
    assert host.notes(server_trace_events.SESSION_PROCESS_DIED) == [caller.session_id]


def test_a_session_opened_after_the_death_of_its_process_ends() -> None:
    servers = PureServers(3)
    servers.hold(3, 1)
    caller = Caller(servers[1], 1)
    servers[1].step(ClientFrameArrived(1, encode_client_frame(caller.request())))
    servers.run()
    servers[1].step(ClientDisconnected(1), ClientProcessDied(1))
    assert len(servers.leader.server.state.sessions.by_id) == 1
    servers.release(3, 1)
    assert servers.leader.server.state.sessions.by_id == {}
    assert kept(servers[1]) == 0


def test_a_session_opened_before_the_death_is_known_ends() -> None:
    servers = PureServers(3)
    servers.hold(3, 1)
    caller = Caller(servers[1], 1)
    servers[1].step(ClientFrameArrived(1, encode_client_frame(caller.request())))
    servers.run()
    servers[1].step(ClientDisconnected(1))
    servers.release(3, 1)
    assert len(servers.leader.server.state.sessions.by_id) == 1
    servers[1].step(ClientProcessDied(1))
    servers.run()
    assert servers.leader.server.state.sessions.by_id == {}


def test_a_second_opening_raises_the_owner_number_of_the_report() -> None:
    """A request that was forwarded twice, around a change of leader, opens the session again."""
    servers = PureServers(3)
    caller = holder(servers[1])
    servers[1].step(ClientDisconnected(1))
    dead_clients = servers[1].server._clients.dead_clients
    again = servers[1].server.state.zxid
    dead_clients.on_session_created(caller.session_id, again, 1)
    assert kept(servers[1]) == 1
    dead_clients.on_process_died(1)
    batch = servers[1].server._context.leader_outbox.take()
    assert batch.dead_sessions == [OwnedSession(caller.session_id, again)]


def test_an_ended_session_is_forgotten() -> None:
    host = PureServer()
    caller = host.caller(1)
    host.step(caller.frame(caller.close()))
    assert caller.ended is not None
    other = Caller(host, 2, b"short")  # refused
    other.connect()
    host.step(ClientDisconnected(1), ClientDisconnected(2))
    assert kept(host) == 0
    host.step(ClientProcessDied(1), ClientProcessDied(2), ClientProcessDied(77))
    assert host.notes(server_trace_events.SESSION_PROCESS_DIED) == []


def test_dead_clients_without_a_session_are_bounded() -> None:
    servers = PureServers(3)
    servers.hold(1, 3)
    for number in range(1, UNOPENED_MAX + 5):
        request = Caller(servers[1], number).request()
        servers[1].step(ClientFrameArrived(number, encode_client_frame(request)))
        servers[1].step(ClientDisconnected(number))
    assert kept(servers[1]) == UNOPENED_MAX


def test_a_snapshot_shows_which_sessions_live_on() -> None:
    """While the server was away, one session moved, one has ended, and one has stayed."""
    servers = PureServers(3, segment_bytes=2_000)
    host = servers[1]
    moved, ended, left = (host.caller(number) for number in (1, 2, 3))
    host.step(ClientDisconnected(1), ClientDisconnected(2), ClientDisconnected(3))
    connections = host.server._clients
    state = host.server.state
    assert kept(host) == 3
    state.sessions.by_id[moved.session_id].owner_zxid = state.zxid
    del state.sessions.by_id[ended.session_id]
    connections.dead_clients.on_state_replaced()
    assert kept(host) == 1
    host.step(ClientProcessDied(3))
    servers.run()
    assert servers.leader.notes(server_trace_events.SESSION_PROCESS_DIED) == [left.session_id]
