"""Server: the effects of one step, the time of the next one, and which requests get an answer."""

import pytest

from raykeeper.server import server_trace_events
from raykeeper.server.context import ServerOptions
from raykeeper.server.effects import SendClient, SendPeer
from raykeeper.server.events import (
    ClientDisconnected,
    Event,
    LinkDown,
    LinkUp,
    LogRead,
    PeerFrame,
    SessionsOverdue,
    TrackerLost,
)
from raykeeper.server.peer_messages import (
    DigestMismatch,
    DigestReply,
    DigestRequest,
    ForwardConnect,
    ForwardWrites,
    MemberAddress,
    ReadIndexReply,
    ReadIndexRequest,
    ServerMessage,
    TouchSessions,
    TouchSessionsReply,
    WriteGap,
    encode_peer_frame,
)
from raykeeper.server.recovered_state import RecoveredState
from raykeeper.server.server import Server
from raykeeper.zab.effects import Append, Role, TraceEvent, Truncate
from raykeeper.zab.ids import ZERO, Epoch, Millis, ServerId, Zxid
from raykeeper.zab.messages import Ping
from raykeeper.zab.settings import RecentLogLimits
from raykeeper.zab.trace_events import MESSAGE_STALE
from raykeeper.znodes.replies import (
    ConnectReply,
    EmptyReply,
    GetChildrenReply,
    GetDataReply,
    WriteReply,
)
from raykeeper.znodes.requests import ANY_VERSION, Delete, SessionId
from raykeeper.znodes.snapshot import SnapshotFormatError, SnapshotWalk
from tests.harness.pure_servers import OPTIONS, TIMING, Caller, PureServer, PureServers
from tests.harness.sim_disk import StoredSnapshot

FORWARDS: list[ServerMessage] = [
    ForwardWrites([]),
    ForwardConnect(5, Caller(None, 5).request()),  # type: ignore[arg-type]
    WriteGap(SessionId(1), Zxid(1)),
    TouchSessions(1, []),
    TouchSessionsReply(1, []),
    ReadIndexRequest(1),
    ReadIndexReply(1, Zxid(1)),
    DigestRequest(Zxid(1), 0),
    DigestReply(Zxid(1), 0),
    DigestMismatch(Zxid(1)),
    MemberAddress("10.0.0.1:2181"),
]


# One step.


def test_the_same_events_have_the_same_effects() -> None:
    def life() -> list[object]:
        servers = PureServers(
            3, options=ServerOptions(snapshot_every_txns=4, session_report_ms=Millis(100))
        )
        callers = [servers[n].caller(n) for n in (1, 2, 3)]
        for caller in callers:
            caller.ask(caller.create(f"/{caller.connection}"), caller.children("/", watch=True))
            servers.pass_time(300)
        servers.crash(3)
        servers.pass_time(1_000)
        servers.restart(3)
        return [
            encode_peer_frame([x.message]) if isinstance(x, SendPeer) else x
            for host in servers.hosts.values()
            for x in host.effects
        ]

    assert life() == life()


def test_requests_of_many_clients_in_one_step_are_one_run() -> None:
    host = PureServer()
    callers = [host.caller(n) for n in range(1, 5)]
    host.take()
    host.step(*[caller.frame(caller.create(f"/{caller.connection}")) for caller in callers])
    assert [len(append.txns) for append in host.of(Append)] == [4]
    assert [len(caller.answers) for caller in callers] == [1, 1, 1, 1]


def test_answers_to_one_client_leave_in_one_frame() -> None:
    servers = PureServers(2)
    caller = servers[1].caller()
    servers[1].take()
    caller.ask(*[caller.create(f"/{n}") for n in range(10)])
    assert len(servers[1].of(SendClient)) == 1


def test_a_server_knows_that_a_hold_is_lost_once_it_has_delivered_it() -> None:
    host = PureServer()
    caller = host.caller()
    caller.ask(caller.create("/held"))
    token = host.server.state.tree.znodes["/held"].czxid
    assert not host.server.knows_lost("/held", token)
    assert host.server.knows_lost("/held", Zxid(token - 1)), "somebody else holds it now"
    assert not host.server.knows_lost("/held", Zxid(token + 1)), "it is not delivered here"
    caller.ask(caller.write(Delete("/held", ANY_VERSION)))
    assert host.server.knows_lost("/held", token)


@pytest.mark.parametrize("linked", [False, True])
@pytest.mark.parametrize("message", FORWARDS, ids=lambda message: type(message).__name__)
def test_a_message_that_the_role_does_not_expect_is_stale(
    message: ServerMessage, linked: bool
) -> None:
    servers = PureServers(3)
    if linked:
        host, sender = servers[1], ServerId(2)  # neither leads nor is in an election
    else:
        host, sender = servers[3], ServerId(2)
        host.step(LinkDown(sender))
    caller = host.caller()
    host.take()
    host.step(PeerFrame(sender, [message]))
    assert host.take() == [TraceEvent(MESSAGE_STALE, (sender, type(message).__name__))]
    assert caller.ended is None


def test_what_a_leader_says_is_stale_where_it_reaches_another_leader() -> None:
    servers = PureServers(3)
    host, sender = servers[3], ServerId(2)
    assert host.server.peer.broadcasting
    host.take()
    host.step(PeerFrame(sender, [WriteGap(SessionId(1), Zxid(1))]))
    assert host.take() == [TraceEvent(MESSAGE_STALE, (sender, "WriteGap"))]


def test_a_second_link_up_is_a_new_link() -> None:
    servers = PureServers(2)
    host = servers[1]
    host.step(LinkUp(ServerId(2)))
    assert host.server.peer.role is not Role.FOLLOWER or not host.server.peer.is_active
    host.step(LinkDown(ServerId(7)))  # a link that was never up


def test_a_completion_for_a_disconnected_learner_is_ignored() -> None:
    host = PureServer()
    host.take()
    host.step(LogRead(ServerId(2), Zxid(0), []))
    assert host.take() == []


# Time.


def test_deadline_is_the_earlier_of_report_and_protocol() -> None:
    host = PureServer()
    assert host.server.deadline() == 100  # the next report
    host.pass_time(TIMING.ping_ms - 50)
    assert host.server.deadline() == TIMING.ping_ms


def test_server_without_a_role_waits_for_events_alone() -> None:
    host = PureServer(1, (1, 2))
    host.is_disk_held = True
    assert host.server.deadline() == TIMING.resend_min_ms
    draining = PureServer()
    draining.is_disk_held = True
    caller = draining.caller()
    caller.ask(caller.create("/a"))
    draining.server.peer.step_down("to see", draining.clock.now)
    draining.step()
    assert draining.server.peer.role is Role.LOOKING
    draining.pass_time(OPTIONS.read_only_after_ms)  # until then it may have read-only clients
    assert draining.server.deadline() is None


def test_a_message_that_waited_in_a_frozen_process_ends_the_silence() -> None:
    """The leader's ping waited while the process was frozen."""
    servers = PureServers(2)
    host = servers[1]
    servers.clock.now = Millis(servers.clock.now + TIMING.sync_ms + 1)
    host.step(PeerFrame(ServerId(2), [Ping(1)]))
    assert host.server.peer.is_active
    servers.clock.now = Millis(servers.clock.now + TIMING.sync_ms + 1)
    host.step()
    assert not host.server.peer.is_active


def test_report_is_skipped_when_the_role_ends_in_the_same_step() -> None:
    servers = PureServers(2)
    host = servers[2]
    host.step(LinkDown(ServerId(1)))
    servers.clock.now = Millis(servers.clock.now + TIMING.sync_ms + 2)
    host.take()
    host.step()
    assert host.server.peer.role is Role.LOOKING
    assert host.sent(TouchSessions) == []


# Which requests get an answer.


def test_reads_wait_while_the_leader_is_silent() -> None:
    servers = PureServers(2)  # the shortest session timeout is 1000 ms, the patience 4000 ms
    caller = servers[1].caller()
    caller.ask(caller.create("/a", b"x"))
    servers.hold(2, 1)
    servers[1].take()
    servers.clock.now = Millis(servers.clock.now + 999)
    assert len(caller.ask(caller.get("/a"))) == 1
    servers.clock.now = Millis(servers.clock.now + 1)
    assert caller.ask(caller.get("/a"), caller.get("/a")) == []
    assert len(servers[1].notes(server_trace_events.READS_PAUSED)) == 1
    assert servers[1].server.peer.is_active
    servers.release(2, 1)
    servers.pass_time(TIMING.ping_ms)
    assert [type(item) for item in caller.new()] == [GetDataReply, GetDataReply]
    assert len(servers[1].notes(server_trace_events.READS_RESUMED)) == 1


def test_reads_of_a_leader_are_held_while_its_followers_are_silent() -> None:
    servers = PureServers(3)
    caller = servers[3].caller()
    servers.hold(1, 3)
    servers.hold(2, 3)
    servers.pass_time(1_100)
    assert caller.ask(caller.exists("/")) == []
    servers.release(1, 3)
    assert len(caller.new()) == 1


def test_reads_of_a_leader_are_held_though_an_observer_is_in_touch() -> None:
    """Its voters may have elected another leader, which ended sessions."""
    servers = PureServers(3, observers=1)
    leader, observer = servers[3], ServerId(4)
    caller = leader.caller()
    servers.hold(1, 3)
    servers.hold(2, 3)
    servers.pass_time(1_100)
    assert leader.server.peer.is_active
    assert leader.server.peer.links.keys() >= {observer}
    assert caller.ask(caller.exists("/")) == []
    servers.release(2, 3)
    assert len(caller.new()) == 1


def test_clients_stay_connected_while_their_server_looks_for_a_leader() -> None:
    servers = PureServers(3)
    caller, late = servers[1].caller(1), Caller(servers[1], 2)
    servers.hold(2, 1)
    servers.crash(3)
    assert caller.ask(caller.create("/a"), caller.get("/a"), caller.sync()) == []
    assert late.connect() is None
    servers.release(2, 1)
    servers.pass_time(2_000)
    assert [type(item) for item in caller.new()] == [WriteReply, GetDataReply, EmptyReply]
    assert isinstance(late.greeting, ConnectReply)
    assert caller.ended is None


def test_a_client_that_disconnected_is_not_served() -> None:
    servers = PureServers(2)
    gone = Caller(servers[1], 1)
    servers.hold(2, 1)
    gone.connect()
    servers[1].step(ClientDisconnected(1))
    servers.release(2, 1)
    assert gone.greeting is None
    assert servers[1].server.stats().sessions == 1  # it will expire


def test_repeated_deliveries_answer_nobody_twice() -> None:
    servers = PureServers(3)
    caller = servers[1].caller()
    caller.ask(caller.create("/a"), caller.create("/b"))
    servers.cut(1, 3)
    servers.link(1, 3)
    servers.pass_time(1_000)
    assert len([item for item in caller.items if isinstance(item, WriteReply)]) == 2


# Trace events of a server, and the state from which it starts.


def test_stats() -> None:
    servers = PureServers(3)
    caller = servers[1].caller()
    caller.ask(caller.create("/a"), caller.exists("/a", watch=True))
    stats = servers[1].server.stats()
    leader = servers[3].server.stats()
    assert (stats.role, stats.leader, stats.epoch) == (Role.FOLLOWER, 3, Epoch(1))
    assert (leader.role, leader.leader, leader.is_active) == (Role.LEADER, 3, True)
    assert (stats.sessions, stats.connections, stats.watches) == (1, 1, 1)
    assert stats.znodes == leader.znodes == len(servers[1].server.state.tree.znodes)
    assert (leader.connections, leader.watches) == (0, 0)
    assert stats.has_vote and stats.linked == [2, 3] and stats.outstanding == 0
    assert stats.has_disk_space and stats.voters_lost == []
    assert stats.last_zxid == leader.last_zxid


def test_restart_recovers_snapshot_and_log() -> None:
    host = PureServer()
    caller = host.caller()
    caller.ask(caller.create("/a", b"1"))
    walk = SnapshotWalk(host.server.state)
    zxid = host.server.state.zxid
    chunks = []
    while (chunk := walk.next_chunk()) is not None:
        chunks.append(chunk)
        caller.ask(caller.set("/a", b"2"))
    host.disk.snapshots = [StoredSnapshot(zxid, host.server.state.zxid, chunks)]
    caller.ask(caller.set("/a", b"3"))
    digest, last = host.server.state.digest(), host.server.state.zxid
    host.start()
    assert (host.server.state.digest(), host.server.state.zxid) == (digest, last)
    again = Caller(host, 2)
    again.take_up(caller)
    (item,) = again.ask(again.get("/a"))
    assert isinstance(item, GetDataReply) and item.value == b"3"


def test_recovers_no_further_than_is_known_to_be_committed() -> None:
    servers = PureServers(3)
    caller = servers[3].caller()
    servers.hold(1, 3)
    servers.hold(2, 3)
    caller.ask(caller.create("/a"))
    host = servers[1]
    assert host.disk.log[-1][0] > host.disk.committed
    servers.crash(1)
    servers.down[1].start()
    assert servers.down[1].server.state.tree.get("/a") is None


def test_a_damaged_snapshot_is_reported() -> None:
    host = PureServer()
    recovered = RecoveredState(Epoch(1), Epoch(1), Zxid(1), Zxid(1), [b"\x90"], [], ZERO)
    with pytest.raises(SnapshotFormatError):
        Server(host.settings, host.limits, host.options, recovered)


def test_observer_serves_and_does_not_vote() -> None:
    servers = PureServers(3, window=RecentLogLimits(), observers=1)
    caller = servers[4].caller()
    assert servers[4].server.peer.role is Role.OBSERVER
    assert [type(x) for x in caller.ask(caller.create("/a"), caller.sync())] == [
        WriteReply,
        EmptyReply,
    ]
    assert len(set(servers.digests())) == 1


def test_reads_at_observers_send_no_message() -> None:
    servers = PureServers(3, observers=2)
    callers = [servers[4].caller(), servers[5].caller(2)]
    callers[0].ask(callers[0].create("/a"))
    for host in servers.hosts.values():
        host.take()
    for caller in callers:
        read, listed = caller.ask(caller.get("/a"), caller.children("/"))
        assert (type(read), type(listed)) == (GetDataReply, GetChildrenReply)
    assert [host.of(SendPeer) for host in servers.hosts.values()] == [[]] * 5


def test_writes_wait_for_no_observer_and_for_a_majority_of_the_voters() -> None:
    servers = PureServers(3, observers=2)
    caller = servers[3].caller()
    servers.hold(1, 3)
    servers.hold(4, 3)
    servers.hold(5, 3)
    assert [type(item) for item in caller.ask(caller.create("/a"))] == [WriteReply]
    servers.hold(2, 3)
    servers.release(4, 3)
    servers.release(5, 3)
    assert caller.ask(caller.create("/b")) == []  # on three of five servers, one of three voters


@pytest.mark.parametrize("event", [SessionsOverdue([]), TrackerLost()])
def test_a_server_that_does_not_lead_ignores_the_tracker(event: Event) -> None:
    host = PureServer(1, (1, 2))
    host.take()
    host.step(event)
    assert host.take() == []


def test_an_uncommitted_tail_of_the_log_is_cut() -> None:
    servers = PureServers(3)
    servers.hold(3, 1)
    servers.hold(3, 2)
    caller = servers[3].caller()  # its transaction is in the log of server 3 alone
    assert caller.greeting is None
    servers.crash(3)
    servers.held.clear()
    servers.pass_time(1_000)
    servers.restart(3)
    assert len(servers[3].of(Truncate)) == 1
    servers.pass_time(1_000)
    assert servers[3].server.peer.is_active
    assert len(set(servers.digests())) == 1
