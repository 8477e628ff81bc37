"""LeaderRequestProcessor: prepared writes, and the end of a leader's epoch."""

import pytest
from msgspec import structs

from raykeeper.jute.records import WatcherEvent as JuteEvent
from raykeeper.server import server_trace_events
from raykeeper.server.context import ZooKeeperOptions
from raykeeper.server.effects import TrackSessions
from raykeeper.server.events import (
    ClientFrameArrived,
    PeerFrame,
    SessionsOverdue,
)
from raykeeper.server.leader_request_processor import PROPOSED_BYTES_MAX
from raykeeper.server.peer_messages import (
    ForwardedWrite,
    ForwardWrites,
    WriteGap,
)
from raykeeper.zab.effects import Append, Role
from raykeeper.zab.ids import Epoch, Millis, ServerId, Zxid, epoch_of
from raykeeper.znodes.ensemble_config import parse_servers
from raykeeper.znodes.errors import Code
from raykeeper.znodes.expiry import ExpiryProposal, SessionReport
from raykeeper.znodes.limits import Limits
from raykeeper.znodes.paths import CONFIG_PATH
from raykeeper.znodes.replies import (
    ConnectReply,
    EmptyReply,
    EventType,
    GetDataReply,
    WriteReply,
)
from raykeeper.znodes.requests import CreateMode, SessionId, encode_client_frame
from tests.harness.jute_caller import connected
from tests.harness.pure_servers import OPTIONS, Caller, PureServer, PureServers, zxid_of

FOLLOWER = ServerId(1)


def reports(host: PureServer) -> list[SessionReport]:
    return [effect.report for effect in host.of(TrackSessions)]


def proposal(host: PureServer, caller: Caller, **changed: int) -> ExpiryProposal:
    """Return the proposal of a tracker that heard nothing of the session after the last report."""
    last = [r for r in reports(host) if caller.session_id in [t.session_id for t in r.touched]][-1]
    fields = {
        "epoch": last.epoch,
        "session_id": caller.session_id,
        "owner_zxid": caller.owner,
        "batch": last.batch,
    }
    return ExpiryProposal(**(fields | changed))  # type: ignore[arg-type]


# Writes.


def test_a_subtree_above_its_soft_limit_is_noted_by_the_leader() -> None:
    servers = PureServers(2)
    caller = servers[1].caller()
    for path, value in (("", b""), ("/zookeeper_limits", b"count=1,bytes=9")):
        caller.ask(caller.create(f"/zookeeper/quota/a{path}", value))
    assert isinstance(caller.ask(caller.create("/a"))[0], WriteReply)
    assert servers[2].notes(server_trace_events.QUOTA_EXCEEDED) == []
    caller.ask(caller.create("/a/b", b"123"), caller.create("/a/c", b"1"))
    assert servers[2].notes(server_trace_events.QUOTA_EXCEEDED) == [("/a", 2, 3)]
    assert servers[1].notes(server_trace_events.QUOTA_EXCEEDED) == []


@pytest.mark.parametrize("server", [1, 2])
def test_gap_ends_the_connection_wherever_it_is(server: int) -> None:
    servers = PureServers(2)
    caller = servers[server].caller()
    caller.ask(caller.create("/a"))
    caller.number += 1
    assert caller.ask(caller.create("/c"), caller.create("/d"), caller.exists("/")) == []
    assert caller.ended == Code.CONNECTION_LOSS
    leader = servers[2]
    assert leader.notes(server_trace_events.WRITE_GAP)[0] == (caller.session_id, 1, 3)
    assert len(leader.sent(WriteGap)) == (1 if server == 1 else 0)
    again = Caller(servers[1], 7)
    caller.number = 1
    again.take_up(caller)
    assert [type(item) for item in again.ask(again.create("/b"))] == [WriteReply]


def test_more_writes_than_outcomes_are_kept_are_a_gap() -> None:
    host = PureServer(limits=Limits(outcomes_max=2))
    caller = host.caller()
    assert len(caller.ask(caller.create("/a"), caller.create("/b"))) == 2
    caller.acked = 1
    assert len(caller.ask(caller.create("/c"))) == 1
    assert caller.ask(caller.create("/d")) == []
    assert caller.ended == Code.CONNECTION_LOSS


@pytest.mark.parametrize("owner_is", ["older", "unknown"])
def test_write_under_another_owner_number_is_fenced(owner_is: str) -> None:
    servers = PureServers(2)
    leader, old = servers[2], servers[1].caller(1)
    owner, session_id = old.owner, old.session_id
    if owner_is == "older":
        Caller(servers[1], 2).take_up(old)
    else:
        session_id = SessionId(77)
    zxid = leader.server.state.zxid
    writes = [ForwardedWrite(session_id, owner, old.create(path)) for path in ("/a", "/b")]
    leader.step(PeerFrame(FOLLOWER, [ForwardWrites(writes)]))
    servers.run()
    assert leader.server.state.zxid == zxid
    # One trace event, however many writes were under way.
    assert leader.notes(server_trace_events.WRITE_FENCED) == [(session_id, 1, FOLLOWER)]


def test_write_behind_a_close_is_fenced() -> None:
    host = PureServer()
    caller = host.caller()
    caller.ask(caller.close(), caller.create("/a"))
    assert host.notes(server_trace_events.WRITE_FENCED) == [(caller.session_id, 2, 1)]
    assert host.server.state.tree.get("/a") is None


def test_repeat_makes_no_second_transaction() -> None:
    servers = PureServers(2)
    leader, caller = servers[2], servers[1].caller()
    forwarded = ForwardedWrite(
        caller.session_id, caller.owner, caller.create("/s-", b"", CreateMode.SEQUENTIAL)
    )
    leader.step(PeerFrame(FOLLOWER, [ForwardWrites([forwarded, forwarded])]))
    leader.step(PeerFrame(FOLLOWER, [ForwardWrites([forwarded])]))
    servers.run()
    root = leader.server.state.tree.get("/")
    assert root is not None and root.child_create_count == 1


def test_proposals_are_bounded_in_bytes() -> None:
    host = PureServer()
    caller = host.caller()
    host.take()
    caller.ask(*[caller.create(f"/{n}", bytes(400_000)) for n in range(5)])
    assert [len(append.txns) for append in host.of(Append)] == [3, 2]
    assert PROPOSED_BYTES_MAX < 3 * 400_000


def test_slow_proposal_waited_for_the_followers() -> None:
    servers = PureServers(3)
    leader = servers[3]
    caller = leader.caller()
    servers.hold(1, 3)
    servers.hold(2, 3)
    leader.step(caller.frame(caller.create("/a")))
    servers.run()
    servers.clock.now += 1_500  # type: ignore[assignment]
    servers.release(2, 3)
    assert leader.notes(server_trace_events.PROPOSAL_SLOW) == [("1:2", "quorum", 1_500)]


def test_slow_proposal_waited_only_for_our_own_disk() -> None:
    servers = PureServers(3)
    leader = servers[3]
    caller = leader.caller()
    leader.is_disk_held = True
    servers.hold(1, 3)
    servers.hold(2, 3)
    leader.step(caller.frame(caller.create("/a")))
    servers.run()
    servers.clock.now += 1_500  # type: ignore[assignment]
    servers.release(1, 3)
    servers.release(2, 3)
    assert leader.notes(server_trace_events.PROPOSAL_SLOW) == [("1:2", "force", 1_500)]
    assert [type(item) for item in caller.new()] == [WriteReply]


# The end of a leader's epoch.


@pytest.fixture
def short_epochs(monkeypatch: pytest.MonkeyPatch) -> None:
    """Shorten epochs to five transactions: full ones take too long."""
    monkeypatch.setattr("raykeeper.zab.leader_broadcast.COUNTER_MAX", 5)


@pytest.mark.usefixtures("short_epochs")
def test_exhausted_counter_begins_a_new_epoch_and_loses_no_request() -> None:
    servers = PureServers(3)
    caller, other = servers[1].caller(1), servers[3].caller(2)
    writes = [caller.create(f"/{n}") for n in range(9)]
    items = caller.ask(*writes, caller.get("/8"))
    servers.pass_time(1_000)
    items += caller.new()
    assert [type(item) for item in items] == [WriteReply] * 9 + [GetDataReply]
    epochs = [epoch_of(item.zxid) for item in items if isinstance(item, WriteReply)]
    assert epochs == [1, 1, 1, 2, 2, 2, 2, 2, 3]
    assert any(host.notes(server_trace_events.COUNTER_EXHAUSTED) for host in servers.hosts.values())
    assert [type(item) for item in other.ask(other.get("/8"))] == [GetDataReply]
    assert len(set(servers.digests())) == 1


@pytest.mark.usefixtures("short_epochs")
def test_exhausted_counter_delays_the_opening_of_sessions() -> None:
    host = PureServer()
    callers = [Caller(host, n) for n in range(1, 9)]
    host.is_disk_held = True
    for caller in callers:
        caller.connect()
    host.release_disk()
    host.pass_time(1_000)
    assert [type(caller.greeting) for caller in callers] == [ConnectReply] * 8
    assert [epoch_of(Zxid(caller.session_id)) for caller in callers] == [1] * 5 + [2] * 3


@pytest.mark.usefixtures("short_epochs")
def test_an_exhausted_counter_delays_an_expiry_to_the_next_epoch() -> None:
    host = PureServer()
    callers = [host.caller(n) for n in range(1, 6)]
    host.pass_time(100)
    told = [proposal(host, caller) for caller in callers]
    host.take()
    host.step(SessionsOverdue(told))
    assert host.server.peer.epoch == Epoch(2)
    host.pass_time(100)
    (report, *_) = reports(host)
    assert report.full and report.epoch == 2 and len(report.touched) == 5
    host.step(SessionsOverdue([proposal(host, caller) for caller in callers]))
    assert {caller.ended for caller in callers} == {Code.SESSION_EXPIRED}


@pytest.mark.usefixtures("short_epochs")
def test_counter_may_be_exhausted_in_the_step_of_a_report() -> None:
    servers = PureServers(3)
    leader = servers.leader
    callers = [leader.caller(n) for n in range(1, 6)]
    servers.pass_time(100)
    told = [proposal(leader, caller) for caller in callers]
    leader.clock.now = Millis(leader.clock.now + 100)
    leader.step(SessionsOverdue(told))
    assert leader.server.peer.role is Role.LOOKING


def test_requests_behind_the_exhausted_counter_wait_too(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    host = PureServer()
    caller = host.caller(1)
    monkeypatch.setattr("raykeeper.zab.leader_broadcast.COUNTER_MAX", 2)
    late = [Caller(host, n) for n in (2, 3, 4)]
    connects = [ClientFrameArrived(x.connection, encode_client_frame(x.request())) for x in late]
    host.is_disk_held = True
    asked = [*(caller.create(f"/{n}") for n in range(3)), caller.sync()]
    host.step(*connects, caller.frame(*asked))
    monkeypatch.undo()
    host.release_disk()
    host.pass_time(1_000)
    assert [type(item) for item in caller.items] == [WriteReply] * 3 + [EmptyReply]
    assert [type(other.greeting) for other in late] == [ConnectReply] * 3


# The configuration.


def reported() -> int:
    """Return how long it takes until the next report, with which addresses are written."""
    return 2 * OPTIONS.session_report_ms


def move(servers: PureServers, server: int, address: str) -> None:
    """Start a server again that takes clients of ZooKeeper at this address."""
    servers.crash(server)
    servers.pass_time(2_000)
    servers.down[server].options = structs.replace(
        OPTIONS, zookeeper=ZooKeeperOptions(address=address)
    )
    servers.restart(server)
    servers.pass_time(2_000)


def config_at(servers: PureServers, server: int) -> dict[ServerId, str]:
    znode = servers[server].server.state.tree.znodes[CONFIG_PATH]
    text = znode.value or b""
    if znode.mzxid:
        assert text.endswith(b"\nversion=%x" % znode.mzxid)
    return parse_servers(text)


def test_the_configuration_has_the_addresses_that_servers_tell() -> None:
    servers = PureServers(3)
    servers.pass_time(reported())
    assert [config_at(servers, server) for server in (1, 2, 3)] == [{}] * 3
    watcher = connected(servers[2])
    assert watcher.get(CONFIG_PATH, watch=True).err == 0
    move(servers, 1, "10.0.0.1:2181")
    lines = {ServerId(1): "10.0.0.1:2888:3888:participant;10.0.0.1:2181"}
    assert [config_at(servers, server) for server in (1, 2, 3)] == [lines] * 3
    (event,) = watcher.read()
    assert event.body == JuteEvent(EventType.CHANGED, 3, CONFIG_PATH)
    # The leader tells its own, to whoever leads then; who has told before tells it again.
    move(servers, 3, "10.0.0.3:2183")
    lines |= {ServerId(3): "10.0.0.3:2888:3888:participant;10.0.0.3:2183"}
    assert [config_at(servers, server) for server in (1, 2, 3)] == [lines] * 3
    before = zxid_of(servers.leader)
    move(servers, 1, "10.0.0.1:2181")
    servers.pass_time(reported())
    assert zxid_of(servers.leader) == before, "nothing is written that is there"
    move(servers, 1, "10.0.0.9:2181")
    assert config_at(servers, 2)[ServerId(1)].endswith(";10.0.0.9:2181")
    assert len(set(servers.digests())) == 1


def test_a_leader_that_begins_writes_its_own_address() -> None:
    host = PureServer(
        options=structs.replace(OPTIONS, zookeeper=ZooKeeperOptions(address="10.0.0.1:2181"))
    )
    host.pass_time(reported())
    text = host.server.state.tree.znodes[CONFIG_PATH].value or b""
    assert parse_servers(text) == {ServerId(1): "10.0.0.1:2888:3888:participant;10.0.0.1:2181"}


@pytest.mark.usefixtures("short_epochs")
def test_an_exhausted_counter_delays_the_configuration_to_the_next_epoch() -> None:
    servers = PureServers(3)
    caller = servers[2].caller()
    caller.ask(*(caller.create(f"/{n}") for n in range(4)))
    assert servers.leader.server.peer.epoch == Epoch(1)
    move(servers, 1, "10.0.0.1:2181")
    assert servers.leader.server.peer.epoch == Epoch(2)
    assert [list(config_at(servers, server)) for server in (1, 2, 3)] == [[1]] * 3


def test_an_observer_is_named_as_one() -> None:
    observer = ServerId(4)
    servers = PureServers(3, options=OPTIONS, observers=1)
    servers.crash(4)
    servers.down[4].options = structs.replace(
        OPTIONS, zookeeper=ZooKeeperOptions(address="10.0.0.4:2184")
    )
    servers.restart(4)
    servers.pass_time(2_000)
    assert config_at(servers, 1) == {observer: "10.0.0.4:2888:3888:observer;10.0.0.4:2184"}
