"""LeaderForwarder: what servers confirm to clients, and only after a quorum has said so."""

from raykeeper.server.events import ClientDisconnected, LinkDown, LinkUp, PeerFrame
from raykeeper.server.leader_forwarder import FORWARDED_BYTES_MAX
from raykeeper.server.peer_messages import (
    ForwardConnect,
    ForwardWrites,
    OwnedSession,
    ReadIndexReply,
    ReadIndexRequest,
    TouchSessions,
    TouchSessionsReply,
)
from raykeeper.zab.effects import Role, TraceEvent
from raykeeper.zab.ids import ServerId, Zxid
from raykeeper.zab.trace_events import MESSAGE_STALE
from raykeeper.znodes.replies import EmptyReply, GetDataReply, WriteReply
from raykeeper.znodes.requests import SessionId
from tests.harness.pure_servers import Caller, PureServer, PureServers


def confirmed(caller: Caller) -> int:
    """Return the newest heartbeat that the client may count on."""
    return max([frame.heartbeat_seq for frame in caller.answers], default=0)


def stop_pongs(servers: PureServers) -> None:
    """Make all followers stop answering the leader, server 3."""
    servers.hold(1, 3)
    servers.hold(2, 3)


def stale_kinds(host: PureServer) -> list[str]:
    """Return the kinds of the refused messages; assert that nothing else was done."""
    effects = host.take()
    assert all(isinstance(x, TraceEvent) and x.name == MESSAGE_STALE for x in effects), effects
    return [x.detail[1] for x in effects if isinstance(x, TraceEvent)]


# Heartbeats.


def test_heartbeat_is_confirmed_on_every_server() -> None:
    servers = PureServers(3)
    callers = [servers[n].caller(n) for n in (1, 2, 3)]
    for _ in range(3):
        for caller in callers:
            caller.ask()
        servers.pass_time(100)
    assert [confirmed(caller) for caller in callers] == [3, 3, 3]


def test_heartbeat_of_a_leaders_client_waits_for_a_probe() -> None:
    servers = PureServers(3)
    caller = servers[3].caller()
    stop_pongs(servers)
    caller.ask()
    servers.pass_time(300)
    assert confirmed(caller) == 0
    servers.release(2, 3)  # with the leader itself that makes two of three
    assert confirmed(caller) == 1


def test_heartbeat_through_a_follower_waits_for_a_probe() -> None:
    servers = PureServers(3)
    caller = servers[1].caller()
    servers.hold(3, 1)
    servers.hold(2, 3)
    caller.ask()
    servers.pass_time(100)
    assert len(servers[1].sent(TouchSessions)) == 1
    assert servers[3].sent(TouchSessionsReply) == []
    servers.release(2, 3)
    assert len(servers[3].sent(TouchSessionsReply)) == 1
    assert confirmed(caller) == 0
    servers.release(3, 1)
    assert confirmed(caller) == 1


def test_one_batch_is_under_way_at_a_time() -> None:
    servers = PureServers(2)
    caller = servers[1].caller()
    servers.hold(2, 1)
    for _ in range(4):
        caller.ask()
        servers.pass_time(100)
    assert len(servers[1].sent(TouchSessions)) == 1
    servers.release(2, 1)
    servers.pass_time(100)
    assert [touches.number for touches in servers[1].sent(TouchSessions)] == [1, 2]
    assert confirmed(caller) == 4


def test_the_leader_rejects_moved_and_unknown_sessions() -> None:
    servers = PureServers(2)
    caller = servers[1].caller()
    unknown, live = SessionId(99), caller.session_id
    touches = [
        OwnedSession(unknown, Zxid(99)),
        OwnedSession(live, Zxid(caller.owner - 1)),
    ]
    servers[2].step(PeerFrame(ServerId(1), [TouchSessions(9, touches)]))
    servers.run()
    assert servers[2].sent(TouchSessionsReply)[-1] == TouchSessionsReply(9, [unknown, live])


def test_rejected_heartbeat_is_not_confirmed() -> None:
    servers = PureServers(2)
    caller = servers[1].caller()
    servers.hold(1, 2)
    caller.ask()
    servers.pass_time(100)
    number = servers[1].sent(TouchSessions)[-1].number
    answers = [
        TouchSessionsReply(number - 1, []),  # for an earlier batch
        TouchSessionsReply(number, [caller.session_id]),
        TouchSessionsReply(number, []),  # twice
    ]
    for answer in answers:
        servers[1].step(PeerFrame(ServerId(2), [answer]))
    assert confirmed(caller) == 0


def test_a_heartbeat_of_an_ended_connection_is_not_confirmed() -> None:
    """The harness asserts that the server sends nothing after the end of a connection."""
    servers = PureServers(2)
    caller = servers[1].caller()
    servers.hold(2, 1)
    caller.ask()
    servers.pass_time(100)
    caller.raw(b"malformed")
    frames = len(servers[1].frames[1])
    servers.release(2, 1)
    servers.pass_time(300)
    assert len(servers[1].frames[1]) == frames


def test_a_heartbeat_is_sent_again_to_the_next_leader() -> None:
    servers = PureServers(3)
    caller = servers[1].caller()
    servers.hold(3, 1)
    caller.ask()
    servers.pass_time(100)
    servers.crash(3)
    servers.pass_time(500)
    assert confirmed(caller) == 1


# Read points.


def test_sync_waits_for_the_commits_before_its_read_point() -> None:
    servers = PureServers(3)
    mine, other = servers[1].caller(1), servers[2].caller(2)
    servers.hold(3, 1)
    other.ask(other.create("/a", b"x"))
    assert mine.ask(mine.sync(), mine.get("/a")) == []
    servers.release(3, 1)
    items = mine.new()
    assert [type(item) for item in items] == [EmptyReply, GetDataReply]


def test_deposed_leader_confirms_no_read_point() -> None:
    """The answer would lack what the others have committed meanwhile."""
    servers = PureServers(3)
    old, new = servers[3].caller(1), servers[2].caller(2)
    servers.hold(1, 3)
    servers.hold(2, 3)
    servers.hold(3, 1)
    servers.hold(3, 2)
    for other in (1, 2):  # they have noticed that the leader is gone; the leader has not
        servers[other].step(LinkDown(ServerId(3)))
    servers.run()
    servers.pass_time(500)
    assert servers[2].server.peer.role is Role.LEADER
    assert servers[3].server.peer.role is Role.LEADER
    (item,) = new.ask(new.create("/a", b"x"))
    assert isinstance(item, WriteReply) and item.code == 0
    assert old.ask(old.sync(), old.get("/a")) == []
    servers.pass_time(500)
    assert old.new() == []
    servers.held.clear()
    for other in (1, 2):
        servers.cut(3, other)
        servers.link(3, other)
    servers.pass_time(3_000)
    assert [type(item) for item in old.new()] == [EmptyReply, GetDataReply]


def test_sync_of_one_server_alone_is_answered_at_once() -> None:
    host = PureServer()
    caller = host.caller()
    assert [type(item) for item in caller.ask(caller.sync(), caller.sync())] == [
        EmptyReply,
        EmptyReply,
    ]


def test_replies_without_a_waiter_are_dropped() -> None:
    servers = PureServers(2)
    caller = servers[1].caller()
    servers[1].step(
        PeerFrame(ServerId(2), [ReadIndexReply(77, Zxid(1)), TouchSessionsReply(77, [])])
    )
    assert caller.answers == []


def test_requests_to_a_server_that_does_not_lead_are_dropped() -> None:
    """The messages were for the server's former role; their senders repeat the requests."""
    servers = PureServers(2)
    caller = servers[2].caller()
    connect = ForwardConnect(5, Caller(servers[2], 5).request())
    servers[1].take()
    messages = [ReadIndexRequest(1), TouchSessions(1, []), ForwardWrites([]), connect]
    servers[1].step(PeerFrame(ServerId(2), list(messages)))
    assert stale_kinds(servers[1]) == [type(message).__name__ for message in messages]
    assert caller.ended is None


def test_a_forwarded_batch_is_bounded() -> None:
    servers = PureServers(2)
    caller = servers[1].caller()
    servers[1].take()
    value = bytes(FORWARDED_BYTES_MAX * 2 // 5)
    caller.ask(*(caller.set("/", value) for _ in range(4)), caller.set("/", b"last"))
    forwarded = servers[1].sent(ForwardWrites)
    numbers = [[each.write.number for each in message.writes] for message in forwarded]
    assert numbers == [[1, 2, 3], [4, 5]]
    caller.ask(caller.set("/", value), caller.set("/", value), caller.set("/", value))
    assert [len(message.writes) for message in servers[1].sent(ForwardWrites)] == [3, 2, 3]


def test_connects_are_not_collected_while_there_is_no_leader() -> None:
    host = PureServer(1, (1, 2))
    for connection in range(5):
        assert Caller(host, connection).connect() is None
        host.step(ClientDisconnected(connection))
    assert host.server._context.leader_outbox.take().connects == []


def test_requests_of_an_unlinked_server_are_dropped() -> None:
    host = PureServer(2, (1, 2))
    host.step(LinkUp(ServerId(1)), LinkDown(ServerId(1)))
    host.take()
    messages = [ReadIndexRequest(1), ReadIndexReply(1, Zxid(1)), TouchSessionsReply(1, [])]
    host.step(PeerFrame(ServerId(1), list(messages)))
    assert stale_kinds(host) == [type(message).__name__ for message in messages]
