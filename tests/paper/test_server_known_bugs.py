"""What went wrong around ZooKeeper's Zab: pipelines, sessions, streams; on whole pure servers.

Server 3 leads, all else being equal; what is held on a wire stands for a slow network.
"""

import pytest

from raykeeper.server.context import ServerOptions
from raykeeper.server.events import ClientFrameArrived, LinkDown, PeerFrame
from raykeeper.server.peer_messages import decode_peer_frame
from raykeeper.zab import trace_events
from raykeeper.zab.effects import Append, InstallSnapshot, Role
from raykeeper.zab.ids import Millis, ServerId, Zxid, epoch_of
from raykeeper.zab.messages import Snapshot, SnapshotChunk
from raykeeper.zab.settings import RecentLogLimits
from raykeeper.znodes.errors import Code
from raykeeper.znodes.limits import Limits
from raykeeper.znodes.replies import (
    EmptyReply,
    EventType,
    ExistsReply,
    GetDataReply,
    Item,
    WatcherEvent,
    WriteReply,
)
from raykeeper.znodes.requests import CreateMode, Request
from raykeeper.znodes.state import State
from raykeeper.znodes.txns import ErrorTxn, decode_txn
from tests.harness.pure_servers import Caller, PureServer, PureServers

EPHEMERAL, SEQUENTIAL = CreateMode.EPHEMERAL, CreateMode.SEQUENTIAL
NO_DIFF = RecentLogLimits(txns_max=1, read_log_bytes_max=1)


def codes(items: list[Item]) -> list[int]:
    return [item.code for item in items if isinstance(item, WriteReply)]


def values(items: list[Item]) -> list[bytes]:
    return [item.value for item in items if isinstance(item, GetDataReply)]


def have(servers: PureServers, path: str) -> list[bool]:
    """Which of the servers that are up have a znode."""
    return [host.server.state.tree.get(path) is not None for host in servers.hosts.values()]


def owners_live(servers: PureServers) -> bool:
    """Whether every ephemeral on every server belongs to a session that lives there."""
    states = [host.server.state for host in servers.hosts.values()]
    return all(state.tree.ephemerals.keys() <= state.sessions.by_id.keys() for state in states)


def replayed(host: PureServer, upto: Zxid) -> int:
    """The digest of the state that the whole log of a server makes up to `upto`."""
    state = State()
    for zxid, txn in host.disk.log:
        if zxid <= upto:
            state.apply(zxid, txn)
    return state.digest()


def rejoin_until_streamed(servers: PureServers, server_id: int) -> None:
    """Start a server again, and stop when the leader begins to stream its tree to it."""
    host = servers.hosts[server_id] = servers.down.pop(server_id)
    servers[3].take()
    host.start()
    for other in list(servers.hosts):
        if other != server_id:
            servers._link(server_id, other)
    while not servers[3].sent(Snapshot):
        assert servers._carry(), "this was to be no DIFF"


# Sessions and ephemerals.


def test_zookeeper_2355_a_close_that_one_follower_missed() -> None:
    """The ephemerals of a closed session are gone everywhere, and their paths free.

    1. A session closes; the proposal is on the wire to S1 when that link breaks.
    2. S1 joins again by DIFF. ZooKeeper's S1 had half of it, and kept the ephemeral.
    3. The path is created again by another session, which closes too; S1 restarts.
    """
    servers = PureServers(3)
    owner, other = servers[2].caller(1), servers[1].caller(2)
    owner.ask(owner.create("/e", b"", EPHEMERAL))
    servers.hold(3, 1)
    owner.ask(owner.close())
    assert have(servers, "/e") == [True, False, False]
    servers.cut(3, 1)
    servers.held.clear()
    servers[3].take()
    servers.link(3, 1)
    servers.pass_time(1_000)
    assert servers[3].notes(trace_events.SYNC_DIFF) and have(servers, "/e") == [False] * 3
    again = servers[1].caller(3)
    assert codes(again.ask(again.create("/e", b"", EPHEMERAL), again.close())) == [0, 0]
    items = other.ask(other.sync(), other.exists("/e"))
    assert isinstance(items[1], ExistsReply) and items[1].stat is None
    servers.crash(1)
    servers.restart(1)
    servers.pass_time(1_000)
    assert have(servers, "/e") == [False] * 3 and len(set(servers.digests())) == 1


@pytest.mark.parametrize("moves", [False, True])
def test_zookeeper_3471_an_ephemeral_in_flight_while_its_session_ends(moves: bool) -> None:
    """No ephemeral without a session, however creation, move and close cross.

    1. A client's creation of an ephemeral is on the wire from S1 to the leader.
    2. Meanwhile its session moves to S2 and closes there; or the close is on the wire before it.
    3. The creation arrives. ZooKeeper, upgrading a local session just then, made the znode.
    """
    servers = PureServers(3)
    one = servers[1].caller(1)
    servers.hold(1, 3)
    if moves:
        one.ask(one.create("/e", b"", EPHEMERAL))
        moved = Caller(servers[2], 9)
        moved.take_up(one)
        moved.number = 0
        assert codes(moved.ask(moved.close())) == [0]
    else:
        one.ask(one.close(), one.create("/e", b"", EPHEMERAL))
    servers.release(1, 3)
    assert have(servers, "/e") == [False] * 3
    assert owners_live(servers) and not servers[3].server.state.sessions.by_id
    assert len(set(servers.digests())) == 1


def test_zookeeper_1277_the_counter_runs_out_under_load(monkeypatch: pytest.MonkeyPatch) -> None:
    """The operation that meets the end of the epoch is done once; no session and no watch is lost.

    1. An epoch has room for eight transactions. A client has an ephemeral and a watch.
    2. It sends twenty sequential creations at once.
    3. The leader steps down at the eighth transaction, and again. ZooKeeper's ran into the epoch.
    """
    monkeypatch.setattr("raykeeper.zab.leader_broadcast.COUNTER_MAX", 8)
    servers = PureServers(3)
    one, other = servers[1].caller(1), servers[2].caller(2)
    one.ask(one.create("/e", b"", EPHEMERAL))
    other.ask(other.exists("/end", watch=True))
    items = one.ask(*[one.create("/s-", b"", SEQUENTIAL) for _ in range(20)])
    servers.pass_time(2_000)
    items += one.new()
    assert codes(items) == [0] * 20
    numbers = [int(item.path[-10:]) for item in items if isinstance(item, WriteReply)]
    assert numbers == list(range(1, 21))
    assert len({epoch_of(item.zxid) for item in items if isinstance(item, WriteReply)}) > 2
    one.ask(one.create("/end"))
    servers.pass_time(2_000)
    assert [(x.kind, x.path) for x in other.items if isinstance(x, WatcherEvent)] == [
        (EventType.CREATED, "/end")
    ]
    assert one.ended is None and other.ended is None
    assert have(servers, "/e") == [True] * 3 and len(set(servers.digests())) == 1


@pytest.mark.parametrize(
    ("path", "size"), [("/p/s-", 101), ("/p/none/s-", 0), ("/e/s-", 0)], ids=["size", "none", "e"]
)
def test_zookeeper_1624_the_suffix_after_a_sequential_creation_that_failed(
    path: str, size: int
) -> None:
    """What is refused uses up no number, and leaves no trace in the outstanding changes.

    1. In one frame: a sequential creation, one that fails (too large, no parent, an ephemeral
       parent), and another. ZooKeeper's failed as part of a multi, whose changes stayed among the
       outstanding ones.
    """
    host = PureServer(limits=Limits(value_bytes_max=100))
    one = host.caller()
    one.ask(one.create("/p"), one.create("/e", b"", EPHEMERAL))
    first = one.create("/p/s-", b"", SEQUENTIAL)
    failing = one.create(path, bytes(size), SEQUENTIAL)
    items = one.ask(first, failing, one.create("/p/s-", b"", SEQUENTIAL))
    assert [code == 0 for code in codes(items)] == [True, False, True]
    paths = [item.path for item in items if isinstance(item, WriteReply) and not item.code]
    assert paths == ["/p/s-0000000000", "/p/s-0000000001"]


# The pipeline.


@pytest.mark.parametrize("commit_first", [False, True])
@pytest.mark.parametrize("in_one_step", [False, True])
def test_zookeeper_4537_a_commit_between_a_check_and_a_wait(
    commit_first: bool, in_one_step: bool
) -> None:
    """A single client is answered, however a commit and its next request cross.

    1. A client's write is under way.
    2. Its commit and the client's next write and read reach the server at the same moment, in
       either order. ZooKeeper's thread looked, found no commit, and slept through it.
    """
    servers = PureServers(3)
    one = servers[1].caller()
    servers.hold(3, 1)
    assert one.ask(one.create("/a", b"1")) == []
    wire = servers.wires[3, 1]
    commits: list[PeerFrame | ClientFrameArrived] = [
        PeerFrame(ServerId(3), decode_peer_frame(data)) for data in wire
    ]
    wire.clear()
    request = one.frame(one.set("/a", b"2"), one.get("/a"))
    events = [*commits, request] if commit_first else [request, *commits]
    if in_one_step:
        servers[1].step(*events)
    else:
        for event in events:
            servers[1].step(event)
    servers.release(3, 1)
    items = one.new()
    assert [type(item) for item in items] == [WriteReply, WriteReply, GetDataReply]
    assert values(items) == [b"2"]


def test_zookeeper_1863_two_sessions_with_reads_and_writes_between_each_other() -> None:
    """Each session is answered in the order of its own requests, whatever the other does.

    1. Two clients of S1 send writes and reads in turn; the leader's answers trickle in.
    2. ZooKeeper's commit processor let a read of one session pass its own write while it waited
       for a commit of the other.
    """
    servers = PureServers(3)
    one, two = servers[1].caller(1), servers[1].caller(2)
    one.ask(one.create("/1"), one.create("/2"))
    servers.hold(3, 1)
    expected: dict[Caller, list[tuple[type, bytes | int]]] = {one: [], two: []}
    begin = {one: len(one.items), two: len(two.items)}
    for n in range(10):
        for caller, path in ((one, "/1"), (two, "/2")):
            value = b"%d" % n
            requests: list[Request] = [caller.set(path, value), caller.get(path)]
            if n % 3 == 0:
                requests = [caller.get(path), *requests]
                expected[caller].append((GetDataReply, b"%d" % (n - 1) if n else b""))
            expected[caller] += [(WriteReply, caller.number), (GetDataReply, value)]
            servers[1].step(caller.frame(*requests))
        servers.run()
    while servers.wires[3, 1]:
        frame = servers.wires[3, 1].popleft()
        for message in decode_peer_frame(frame):
            servers[1].step(PeerFrame(ServerId(3), [message]))
    servers.release(3, 1)
    for caller in (one, two):
        found = [
            (type(x), x.value if isinstance(x, GetDataReply) else x.number)
            for x in caller.items[begin[caller] :]
            if isinstance(x, GetDataReply | WriteReply)
        ]
        assert found == expected[caller]


def test_zookeeper_3496_what_is_too_large_is_refused_before_it_is_logged() -> None:
    """What is accepted is accepted by everybody, at replay as well.

    1. The limit of a value is 1000 bytes: one of 1001 bytes is refused, one of 1000 is not.
    2. ZooKeeper checked the request and not the transaction made of it, so one came into the log
       that no server could read again.
    """
    host = PureServer(limits=Limits(value_bytes_max=1_000, path_chars_max=100))
    one = host.caller()
    host.take()
    items = one.ask(one.create("/a", bytes(1_001)), one.create("/b", bytes(1_000)))
    items += one.ask(one.set("/b", bytes(1_001)), one.create("/" + "x" * 100))
    assert codes(items) == [Code.BAD_ARGUMENTS, 0, Code.BAD_ARGUMENTS, Code.BAD_ARGUMENTS]
    logged = [txn for append in host.of(Append) for txn in append.txns]
    refused = [txn for txn in logged if isinstance(decode_txn(txn).body, ErrorTxn)]
    assert len(refused) == 3 and max(map(len, refused)) < 200
    digest = host.server.state.digest()
    host.start()
    assert host.server.state.digest() == digest


# Leaders and their disks.


def test_zookeeper_2247_the_leaders_log_cannot_be_written() -> None:
    """The leader whose disk fails ends; the others elect another, and every write is done once.

    1. The disk of S3, the leader, writes nothing any more. Followers still make a quorum.
    2. Its process ends (a failed write is never tried again). ZooKeeper's leader lived on without
       its log thread, and nothing was committed any more.
    3. The others go on; S3 returns on a disk that works.
    """
    servers = PureServers(3)
    one = servers[1].caller()
    one.ask(one.create("/p"))
    servers[3].is_disk_held = True
    servers.hold(2, 3)
    assert one.ask(one.create("/p/s-", b"", SEQUENTIAL)) == []
    servers.crash(3)
    servers.held.clear()
    servers.pass_time(2_000)
    (item,) = one.new()
    assert isinstance(item, WriteReply) and item.path == "/p/s-0000000000"
    assert codes(one.ask(one.create("/after"))) == [0]
    servers.down[3].is_disk_held = False
    servers.restart(3)
    servers.pass_time(2_000)
    assert len(set(servers.digests())) == 1 and have(servers, "/p/s-0000000001") == [False] * 3


def test_zookeeper_1675_a_client_of_a_deposed_leader_syncs_and_reads() -> None:
    """A read behind a sync never shows what was replaced before the sync.

    1. S3 leads. Nothing gets through to it or from it, and it has not noticed.
    2. S1 and S2 elect S2, which commits a new value.
    3. A client of S3 syncs and reads. ZooKeeper's S3 answers with the old value.
    4. S3 comes back to the others.
    """
    servers = PureServers(3)
    mine, other = servers[3].caller(1), servers[1].caller(2)
    other.ask(other.create("/a", b"old"))
    for follower in (1, 2):
        servers.hold(3, follower)
        servers.hold(follower, 3)
        servers[follower].step(LinkDown(ServerId(3)))
    servers.run()
    servers.pass_time(500)
    assert servers[2].server.peer.role is servers[3].server.peer.role is Role.LEADER
    assert codes(other.ask(other.set("/a", b"new"))) == [0]
    assert mine.ask(mine.sync(), mine.get("/a")) == []
    servers.pass_time(5_000)
    assert mine.new() == []
    servers.held.clear()
    for follower in (1, 2):
        servers.cut(3, follower)
        servers.link(3, follower)
    servers.pass_time(2_000)
    items = mine.new()
    assert [type(item) for item in items] == [EmptyReply, GetDataReply] and values(items) == [
        b"new"
    ]


# Snapshots between servers.


@pytest.mark.parametrize("stuck", [(3, 1), (1, 3)])
def test_zookeeper_2201_3531_a_learner_that_does_not_read(stuck: tuple[int, int]) -> None:
    """While a tree is streamed to a dead socket, everybody else goes on.

    1. S1 is far behind: the leader begins to stream its tree to it.
    2. Then that link takes nothing any more. ZooKeeper serialized the tree while it held the lock
       of a znode, or of the ACLs, and all writes stood behind it.
    3. Others write and read; no more of the tree waits for S1 than it has given credit for.
    4. The link comes back to life.
    """
    servers = PureServers(3, window=NO_DIFF)
    other = servers[2].caller()
    for n in range(40):
        other.ask(other.create(f"/{n}", bytes(20_000)))
    servers.crash(1)
    for n in range(10):
        other.ask(other.set("/", b"%d" % n))
    rejoin_until_streamed(servers, 1)
    servers.hold(*stuck)
    for n in range(20):
        items = other.ask(other.set(f"/{n}", b"new"), other.get(f"/{n}"))
        assert codes(items) == [0] and values(items) == [b"new"]
        servers.pass_time(100)
    assert 0 < len(servers[3].sent(SnapshotChunk)) < 8
    servers.release(*stuck)
    servers.pass_time(2_000)
    assert len(set(servers.digests())) == 1 and len(servers.hosts) == 3


@pytest.mark.parametrize("pace", [1, 3])
def test_zookeeper_3104_writes_while_a_tree_is_streamed(pace: int) -> None:
    """A received snapshot is named after a transaction whose successors all follow it.

    1. S1 is far behind, and S3 streams its tree while clients write to it.
    2. S1 installs the snapshot and is killed at once, before NEWLEADER is acknowledged.
    3. ZooKeeper's snapshot had the number of what was applied at its end, above what stood queued
       behind it; after the restart those were taken for contained.
    4. S1 starts alone: its state is the one that the whole log makes up to the same zxid.
    """
    servers = PureServers(3, window=NO_DIFF)
    other = servers[2].caller()
    for n in range(40):
        other.ask(other.create(f"/{n}", bytes(20_000)))
    servers.crash(1)
    for n in range(10):
        other.ask(other.set("/", b"%d" % n))
    rejoin_until_streamed(servers, 1)
    begin = servers[3].server.state.zxid
    for n in range(10_000):
        if servers[1].of(InstallSnapshot):
            break
        if n % pace == 0 and n < 60:
            path = f"/{n * 7 % 40}"
            write = other.delete(path) if n % 2 else other.set(path, b"%d" % n)
            servers[2].step(other.frame(write))
        servers._carry()
    (installed,) = servers[1].of(InstallSnapshot)
    assert installed.zxid == begin < installed.consistent_at
    servers.crash(1)
    alone = servers.down[1]
    alone.start()
    state = alone.server.state
    assert state.zxid >= installed.consistent_at
    assert state.digest() == replayed(servers[3], state.zxid)


def test_zookeeper_1549_no_snapshot_of_what_may_be_cut() -> None:
    """What is in the log and not known to be committed is in no tree and in no snapshot.

    1. S3 logs the creation of an ephemeral that reaches nobody, and crashes. S1 and S2 go on.
    2. S3 starts alone, with a snapshot due at every transaction. ZooKeeper replays all of its log
       into memory, and takes a snapshot of that.
    3. S3 joins the others and restarts once more: the ephemeral must not come out of a snapshot.
    """
    options = ServerOptions(snapshot_every_txns=1, session_report_ms=Millis(100))
    servers = PureServers(3, options=options)
    servers[3].has_snapshotter = True
    mine, other = servers[3].caller(1), servers[1].caller(2)
    other.ask(other.create("/a"), other.set("/a", b"1"))
    for follower in (1, 2):
        servers.hold(3, follower)
    mine.ask(mine.create("/tail", b"", EPHEMERAL))
    tail = servers[3].disk.log[-1][0]
    servers.crash(3)
    servers.held.clear()
    servers.pass_time(1_000)
    assert codes(other.ask(other.set("/a", b"2"))) == [0]
    alone = servers.down[3]
    alone.start()
    alone.pass_time(1_000)
    assert alone.disk.log[-1][0] == tail and alone.server.state.tree.get("/tail") is None
    assert alone.disk.snapshots and all(s.consistent_at < tail for s in alone.disk.snapshots)
    for _ in range(2):
        servers.restart(3)
        servers.pass_time(1_000)
        assert have(servers, "/tail") == [False] * 3
        assert tail not in [zxid for zxid, _ in servers[3].disk.log]
        assert len(set(servers.digests())) == 1
        servers.crash(3)
