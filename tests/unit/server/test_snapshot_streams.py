"""SnapshotStreams: when a snapshot begins, how fast it is sent, and when it may be published."""

import pytest

from raykeeper.server import server_trace_events
from raykeeper.server.context import ServerOptions
from raykeeper.server.effects import (
    PublishSnapshot,
    SnapshotAbort,
    SnapshotBegin,
    SnapshotFinish,
    SnapshotWrite,
)
from raykeeper.server.events import (
    Event,
    PeerFrame,
    SnapshotCredited,
    SnapshotFailed,
    SnapshotWritten,
)
from raykeeper.server.peer_messages import PeerMessage
from raykeeper.server.snapshot_streams import CREDIT_MAX
from raykeeper.zab.ids import Millis, ServerId, Zxid
from raykeeper.zab.messages import Snapshot, SnapshotChunk, SnapshotCredit, SnapshotEnd
from raykeeper.zab.settings import RecentLogLimits
from raykeeper.znodes.snapshot import SnapshotLoader
from tests.harness.pure_servers import Caller, PureServer, PureServers
from tests.harness.sim_disk import StoredSnapshot

OPTIONS = ServerOptions(snapshot_every_txns=6, session_report_ms=Millis(100))
NO_DIFF = RecentLogLimits(txns_max=1, read_log_bytes_max=1)


def alone(znodes: int = 0) -> tuple[PureServer, Caller]:
    """Return a server that was just told to begin a snapshot with its next transaction.

    Each of `znodes` makes a chunk of its own.
    """
    host = PureServer(options=OPTIONS)
    caller = host.caller()
    for n in range(znodes):
        caller.ask(caller.create(f"/{n}", bytes(70_000)))
    for _ in range(4 - znodes):
        caller.ask(caller.set("/", b""))
    assert host.of(SnapshotBegin) == []
    return host, caller


def rest(host: PureServer) -> None:
    """Step until the server does not ask for another step at once."""
    while host.server.deadline() == host.clock.now:
        host.step()


def begun(host: PureServer) -> Zxid:
    (effect,) = host.of(SnapshotBegin)
    return effect.zxid


# The Snapshotter.


@pytest.mark.parametrize(("server", "transactions"), [(1, 6), (2, 8), (3, 10)])
def test_servers_take_turns(server: int, transactions: int) -> None:
    servers = PureServers(3, options=OPTIONS)
    caller = servers[3].caller()  # the first transaction
    for _ in range(transactions - 2):
        caller.ask(caller.set("/", b""))
    assert servers[server].of(SnapshotBegin) == []
    caller.ask(caller.set("/", b""))
    assert servers[server].of(SnapshotBegin) == [SnapshotBegin(servers[server].server.state.zxid)]
    assert len(servers[server].notes(server_trace_events.SNAPSHOT_STARTED)) == 1


def test_a_walk_makes_a_snapshot_that_can_be_loaded() -> None:
    host, caller = alone()
    caller.ask(caller.create("/a", b"value"))
    rest(host)
    zxid = begun(host)
    (finish,) = host.of(SnapshotFinish)
    assert finish == SnapshotFinish(zxid, host.server.state.zxid)
    loader = SnapshotLoader()
    for write in host.of(SnapshotWrite):
        assert write.zxid == zxid
        loader.load(write.data)
    assert loader.finish(zxid, finish.consistent_at).digest() == host.server.state.digest()


def test_a_walk_goes_on_between_requests_and_names_its_end() -> None:
    host, caller = alone()
    caller.ask(caller.create("/early", b""))
    before = host.server.state.zxid
    for _ in range(3):
        caller.ask(caller.set("/", b""))
    rest(host)
    (finish,) = host.of(SnapshotFinish)
    assert begun(host) == before < finish.consistent_at


def test_walk_waits_for_credit() -> None:
    host, caller = alone(4)
    caller.ask(caller.set("/", b""))
    rest(host)
    assert len(host.of(SnapshotWrite)) == CREDIT_MAX
    host.step(SnapshotCredited(Zxid(1)))  # of another snapshot
    assert len(host.of(SnapshotWrite)) == CREDIT_MAX
    host.step(SnapshotCredited(begun(host)))
    assert len(host.of(SnapshotWrite)) == CREDIT_MAX + 1


def test_a_written_snapshot_is_published_and_the_next_counts_from_its_beginning() -> None:
    host, caller = alone()
    caller.ask(caller.set("/", b""))
    rest(host)
    zxid = begun(host)
    stored(host, zxid)
    host.step(SnapshotWritten(Zxid(1)))  # of another snapshot
    assert host.of(PublishSnapshot) == []
    host.step(SnapshotWritten(zxid))
    assert host.of(PublishSnapshot) == [PublishSnapshot(zxid)]
    assert host.notes(server_trace_events.SNAPSHOT_PUBLISHED) == [
        "1:6"
    ]  # its disk was done at once
    host.take()
    for _ in range(5):
        caller.ask(caller.set("/", b""))
    assert host.of(SnapshotBegin) == []
    caller.ask(caller.set("/", b""))
    assert len(host.of(SnapshotBegin)) == 1


def stored(host: PureServer, zxid: Zxid) -> None:
    """Let the Snapshotter have all chunks, so that the disk can publish the snapshot."""
    (finish,) = host.of(SnapshotFinish)
    chunks = [write.data for write in host.of(SnapshotWrite)]
    host.disk.written[zxid] = StoredSnapshot(zxid, finish.consistent_at, chunks)


def test_a_snapshot_is_published_only_when_the_log_is_synced_past_its_end() -> None:
    servers = PureServers(3, options=OPTIONS)
    host, caller = servers[1], servers[3].caller()
    host.is_disk_held = True  # the others commit without it
    for _ in range(5):
        caller.ask(caller.set("/", b""))
    rest(host)
    zxid = begun(host)
    stored(host, zxid)
    host.step(SnapshotWritten(zxid))
    assert host.of(PublishSnapshot) == []
    host.sync_disk()
    assert host.of(PublishSnapshot) == [PublishSnapshot(zxid)]
    host.step()
    assert len(host.of(PublishSnapshot)) == 1
    host.release_disk()
    assert len(host.notes(server_trace_events.SNAPSHOT_PUBLISHED)) == 1


@pytest.mark.parametrize("when", ["walking", "written", "publishing"])
def test_failure_drops_the_snapshot_unless_it_is_being_published(when: str) -> None:
    host, caller = alone(4)
    caller.ask(caller.set("/", b""))
    rest(host)
    zxid = begun(host)
    if when != "walking":
        for _ in range(4):
            host.step(SnapshotCredited(zxid))
        rest(host)
        assert len(host.of(SnapshotFinish)) == 1
    if when == "publishing":
        stored(host, zxid)
        host.is_disk_held = True
        host.step(SnapshotWritten(zxid))
    host.step(SnapshotFailed(Zxid(1)), SnapshotFailed(zxid))
    assert len(host.notes(server_trace_events.SNAPSHOT_FAILED)) == (
        0 if when == "publishing" else 1
    )
    host.release_disk()
    assert len(host.notes(server_trace_events.SNAPSHOT_PUBLISHED)) == (
        1 if when == "publishing" else 0
    )
    host.take()
    late: list[Event] = [SnapshotCredited(zxid), SnapshotWritten(zxid)]
    host.step(*late)
    assert [x for x in host.take() if isinstance(x, SnapshotWrite | PublishSnapshot)] == []
    for _ in range(6):
        caller.ask(caller.set("/", b""))
    assert len(host.of(SnapshotBegin)) == 1  # the next one is tried


def test_one_snapshot_at_a_time() -> None:
    host, caller = alone()
    for _ in range(20):
        caller.ask(caller.set("/", b""))
    assert len(host.of(SnapshotBegin)) == 1


# Learners.


def lagging(znodes: int) -> tuple[PureServers, Caller]:
    """Return an ensemble in which server 1 is cut off and has missed too much for a DIFF."""
    servers = PureServers(3, window=NO_DIFF)
    caller = servers[2].caller()
    servers.cut(1, 2)
    servers.cut(1, 3)
    for n in range(max(znodes, 4)):
        caller.ask(caller.create(f"/{n}", bytes(70_000)))
    return servers, caller


def streaming(servers: PureServers) -> None:
    """Let the leader begin to send the snapshot, and receive nothing more from server 1."""
    leader = servers[3]
    servers.hold(1, 3)
    servers.link(1, 3)
    servers.held.clear()
    leader.take()
    while not leader.sent(Snapshot):
        assert servers._carry()
    servers.hold(1, 3)
    rest(leader)
    servers.run()
    rest(leader)


def test_learner_gets_the_tree_as_fast_as_it_gives_credit() -> None:
    servers, caller = lagging(8)
    leader = servers[3]
    streaming(servers)
    assert len(leader.sent(SnapshotChunk)) == CREDIT_MAX
    caller.ask(caller.create("/during", b""))
    while not leader.sent(SnapshotEnd):
        servers.release(1, 3)
        rest(leader)
    servers.run()
    assert leader.sent(SnapshotEnd)[0].consistent_at > leader.sent(Snapshot)[0].zxid
    assert len(set(servers.digests())) == 1


def test_learner_that_claims_more_credit_than_there_is_loses_its_link() -> None:
    servers, _caller = lagging(8)
    leader = servers[3]
    streaming(servers)
    leader.take()
    claims: list[PeerMessage] = [SnapshotCredit()] * (CREDIT_MAX + 1)
    leader.step(PeerFrame(ServerId(1), claims))
    assert leader.broken == [1]
    rest(leader)
    assert leader.sent(SnapshotChunk) == []


def test_stream_ends_with_its_learner() -> None:
    servers, _caller = lagging(8)
    leader = servers[3]
    streaming(servers)
    assert leader.sent(SnapshotChunk)
    servers.cut(1, 3)
    leader.take()
    rest(leader)
    assert leader.sent(SnapshotChunk) == []
    servers.held.clear()
    servers.link(1, 3)
    for _ in range(20):
        rest(leader)
        servers.run()
    assert len(set(servers.digests())) == 1


@pytest.mark.parametrize("when", ["walking", "finished", "publishing", "idle"])
def test_replaced_tree_ends_the_walk_of_the_old_one(when: str) -> None:
    servers = PureServers(3, window=NO_DIFF, options=OPTIONS)
    host, caller = servers[1], servers[2].caller()
    if when != "idle":
        for n in range(5):
            caller.ask(caller.create(f"/{n}", bytes(70_000)))
        rest(host)
        zxid = begun(host)
    if when in ("finished", "publishing"):
        for _ in range(5):
            host.step(SnapshotCredited(zxid))
        rest(host)
        stored(host, zxid)
    if when == "publishing":
        host.is_disk_held = True
        host.step(SnapshotWritten(zxid))
        assert len(host.of(PublishSnapshot)) == 1
    servers.cut(1, 2)
    servers.cut(1, 3)
    host.release_disk() if when != "publishing" else None
    for n in range(4):
        caller.ask(caller.create(f"/late-{n}", b""))
    host.take()
    host.is_disk_held = False
    servers.link(1, 3)
    for _ in range(30):
        for other in servers.hosts.values():
            rest(other)
        servers.run()
    assert len(host.notes(server_trace_events.SNAPSHOT_INSTALLED)) == 1
    aborted = [effect.zxid for effect in host.of(SnapshotAbort)]
    assert aborted == ([zxid] if when in ("walking", "finished") else [])
    assert len(set(servers.digests())) == 1


def test_a_log_synced_past_the_beginning_alone_publishes_nothing() -> None:
    servers = PureServers(3, options=OPTIONS)
    host, caller = servers[1], servers[3].caller()
    for n in range(5):
        caller.ask(caller.create(f"/{n}", bytes(70_000)))
    zxid = begun(host)
    rest(host)
    host.is_disk_held = True
    caller.ask(caller.set("/", b"applied here, and not synced"))
    for _ in range(5):
        host.step(SnapshotCredited(zxid))
    stored(host, zxid)
    host.step(SnapshotWritten(zxid))
    assert host.of(PublishSnapshot) == []
    host.release_disk()
    assert host.of(PublishSnapshot) == [PublishSnapshot(zxid)]


def test_a_received_tree_restarts_the_count() -> None:
    servers = PureServers(3, window=NO_DIFF, options=OPTIONS)
    host, caller = servers[1], servers[2].caller()
    for _ in range(4):
        caller.ask(caller.set("/", b""))
    servers.cut(1, 2)
    servers.cut(1, 3)
    for _ in range(4):
        caller.ask(caller.set("/", b""))
    servers.link(1, 3)
    assert len(host.notes(server_trace_events.SNAPSHOT_INSTALLED)) == 1
    for _ in range(5):
        caller.ask(caller.set("/", b""))
    assert host.of(SnapshotBegin) == []
    caller.ask(caller.set("/", b""))
    assert len(host.of(SnapshotBegin)) == 1
