"""How servers and clients work together, sentence by sentence, on three whole pure servers.

Paper: Hunt, Konar, Junqueira, Reed, "ZooKeeper: Wait-free coordination for Internet-scale
systems" (USENIX ATC 2010), section 4; the fuzzy snapshot of 4.3 is in `test_fuzzy_snapshot.py`.
"""

from raykeeper.server.context import ServerOptions
from raykeeper.server.effects import SendPeer
from raykeeper.server.peer_messages import ForwardWrites
from raykeeper.zab.effects import Append
from raykeeper.zab.ids import Millis, Zxid
from raykeeper.zab.messages import Ack, Commit, Proposals
from raykeeper.znodes.errors import Code
from raykeeper.znodes.replies import (
    ConnectReply,
    EmptyReply,
    ErrorReply,
    GetDataReply,
    Item,
    ServerFrame,
    WatcherEvent,
    WriteReply,
)
from raykeeper.znodes.requests import CreateMode
from raykeeper.znodes.txns import ErrorTxn, SetDataTxn, decode_txn
from tests.harness.pure_servers import Caller, PureServer, PureServers


def three(clients: int = 2) -> tuple[PureServers, list[Caller]]:
    """Three servers, and clients of the servers 1, 2, 3, 1, …"""
    servers = PureServers(3)
    return servers, [servers[n % 3 + 1].caller(n + 1) for n in range(clients)]


def kinds(items: list[Item]) -> list[type]:
    return [type(item) for item in items]


def values(items: list[Item]) -> list[bytes]:
    return [item.value for item in items if isinstance(item, GetDataReply)]


# 4 Implementation.


def test_reads_are_answered_from_the_local_replica() -> None:
    """No message to anybody, and nothing on the disk."""
    servers, (one, _) = three()
    one.ask(one.create("/a", b"x"))
    servers[1].take()
    assert values(one.ask(one.get("/a"))) == [b"x"]
    assert servers[1].of(SendPeer) == [] and servers[1].of(Append) == []


def test_updates_are_on_the_disk_of_a_quorum_before_they_are_applied() -> None:
    """A log is written ahead: one disk of three is not enough, two are."""
    servers, (one, _) = three()
    for server in (1, 2):
        servers[server].is_disk_held = True
    assert one.ask(one.create("/a")) == []
    assert [h.server.state.tree.get("/a") for h in servers.hosts.values()] == [None] * 3
    servers[2].release_disk()
    servers.run()
    assert kinds(one.new()) == [WriteReply]


def test_writes_are_forwarded_to_the_leader_who_proposes_to_the_followers() -> None:
    """One server orders all; the others receive proposals of state changes and agree to them."""
    servers, (one, _) = three()
    for host in servers.hosts.values():
        host.take()
    one.ask(one.create("/a"))
    assert len(servers[1].sent(ForwardWrites)) == 1
    assert len(servers[3].sent(Proposals)) == len(servers[3].sent(Commit)) == 2
    assert len(servers[1].sent(Ack)) == len(servers[2].sent(Ack)) == 1


# 4.1 Request processor.


def test_local_replicas_never_diverge() -> None:
    """Some may have applied more than others, but all the same in the same order."""
    servers, callers = three(3)
    seen: dict[Zxid, set[int]] = {}
    for n in range(30):
        caller = callers[n % 3]
        servers.hold(3, 1 + n % 2)
        caller.ask(caller.create("/s-", b"", CreateMode.SEQUENTIAL))
        for host in servers.hosts.values():
            seen.setdefault(host.server.state.zxid, set()).add(host.server.state.digest())
        servers.held.clear()
    servers.run()
    assert all(len(digests) == 1 for digests in seen.values())
    assert len(set(servers.digests())) == 1


def test_leader_makes_transactions_of_the_future_state() -> None:
    """A conditional set is judged by the version that outstanding transactions will leave."""
    servers, (one, other) = three()
    one.ask(one.create("/a"))
    owner = servers[3].caller(9)
    servers.hold(1, 3)
    servers.hold(2, 3)
    leader = servers[3]
    owner.ask(owner.set("/a", b"1", 0))
    owner.ask(owner.set("/a", b"2", 1), owner.set("/a", b"3", 1))
    changes = [decode_txn(t).body for a in leader.of(Append) for t in a.txns][-3:]
    assert [type(change) for change in changes] == [SetDataTxn, SetDataTxn, ErrorTxn]
    _, second, third = changes
    assert isinstance(second, SetDataTxn) and (second.value, second.stat.version) == (b"2", 2)
    assert isinstance(third, ErrorTxn) and third.code == Code.BAD_VERSION
    znode = leader.server.state.tree.get("/a")
    assert znode is not None and znode.version == 0  # nothing of it is applied yet
    servers.held.clear()
    servers.run()
    assert values(other.ask(other.sync(), other.get("/a"))) == [b"2"]


def test_error_becomes_a_transaction_that_changes_nothing() -> None:
    """A version that does not match, or a znode that is not there, is an error transaction."""
    servers, (one, _) = three()
    servers[3].take()
    before = servers[1].server.state.tree.digest
    items = one.ask(one.set("/none", b""), one.delete("/", 0), one.set("/", b"", 7))
    changes = [decode_txn(t).body for a in servers[3].of(Append) for t in a.txns]
    assert [type(change) for change in changes] == [ErrorTxn] * 3
    wanted = [Code.NO_NODE, Code.BAD_ARGUMENTS, Code.BAD_VERSION]
    assert [item.code for item in items if isinstance(item, WriteReply)] == wanted
    assert servers[1].server.state.tree.digest == before


# 4.2 Atomic broadcast.


def test_server_that_took_the_request_answers_when_it_delivers_the_change() -> None:
    """The others have delivered it by then, but not this one: its client waits."""
    servers, (one, other) = three()
    servers.hold(3, 1)
    assert one.ask(one.create("/a")) == []
    assert kinds(other.ask(other.get("/a"))) == [GetDataReply]
    servers.release(3, 1)
    assert kinds(one.new()) == [WriteReply]


def test_pipeline_holds_many_requests_at_different_stages() -> None:
    """Hundreds of one client are under way, and those of others are between them."""
    servers, (one, other) = three()
    servers.hold(3, 1)
    for start in range(0, 500, 50):
        one.ask(*[one.create(f"/{n}") for n in range(start, start + 50)])
        assert len(other.ask(other.create(f"/other-{start}"))) == 1
    assert servers[1].server.stats().outstanding == 500
    servers.release(3, 1)
    numbers = [item.number for item in one.new() if isinstance(item, WriteReply) and not item.code]
    assert numbers == list(range(1, 501))


def test_changes_of_earlier_leaders_come_before_those_of_an_established_one() -> None:
    """What the dead leader had proposed to a quorum is delivered before the next one's own."""
    servers, (one, other) = three()
    servers.hold(2, 3)
    servers[1].step(one.frame(one.create("/before")))
    servers._carry()
    servers.hold(1, 3)
    servers.run()
    servers.crash(3)
    servers.held.clear()
    servers.pass_time(1_000)
    (before,) = one.new()
    (after,) = other.ask(other.create("/after"))
    assert isinstance(before, WriteReply) and isinstance(after, WriteReply)
    assert (before.code, after.code) == (0, 0)
    assert before.zxid < after.zxid


# 4.3 Replicated database.


def test_recovery_needs_only_what_came_after_the_start_of_the_last_snapshot() -> None:
    """A fuzzy snapshot, taken while writes went on, and replay give the state before the crash."""
    host = PureServer(options=ServerOptions(snapshot_every_txns=10, session_report_ms=Millis(100)))
    host.has_snapshotter = True
    caller = host.caller()
    for n in range(40):
        caller.ask(caller.create(f"/{n}", bytes(20_000)), caller.set("/", b"%d" % n))
    digest, zxid = host.server.state.digest(), host.server.state.zxid
    newest = host.disk.snapshots[-1]
    assert newest.zxid < newest.consistent_at < zxid
    host.disk.log = [entry for entry in host.disk.log if entry[0] > newest.zxid]
    host.start()
    assert (host.server.state.digest(), host.server.state.zxid) == (digest, zxid)


# 4.4 Client-server interactions.


def test_update_sends_and_clears_the_watches_it_matches() -> None:
    """In the same go as it is applied, in the order of the updates."""
    servers, (one, other) = three()
    one.ask(one.create("/a"), one.create("/b"))
    other.ask(other.sync(), other.get("/a", watch=True), other.get("/b", watch=True))
    one.ask(one.set("/b", b"1"), one.set("/a", b"1"), one.set("/b", b"2"))
    assert [item.path for item in other.new() if isinstance(item, WatcherEvent)] == ["/b", "/a"]
    assert servers[2].server.stats().watches == 0


def test_notifications_are_handled_locally() -> None:
    """Only the server that a client is connected to knows of its watches."""
    servers, (_, other) = three()
    other.ask(other.exists("/a", watch=True))
    assert [servers[n].server.stats().watches for n in (1, 2, 3)] == [0, 1, 0]


def test_read_is_tagged_with_the_last_transaction_its_server_has_seen() -> None:
    """The tag tells where the read stands in the order of the writes."""
    servers, (one, other) = three()
    (first,) = one.ask(one.create("/a"))
    assert isinstance(first, WriteReply)
    servers.hold(3, 1)
    (second,) = other.ask(other.set("/a", b"x"))
    assert isinstance(second, WriteReply)
    (old,) = one.ask(one.get("/a"))
    (new,) = other.ask(other.get("/a"))
    assert isinstance(old, GetDataReply) and (old.zxid, old.value) == (first.zxid, b"")
    assert isinstance(new, GetDataReply) and (new.zxid, new.value) == (second.zxid, b"x")


def test_fast_read_may_be_stale() -> None:
    """Although a newer value is committed: reads are not ordered by precedence."""
    servers, (one, other) = three()
    one.ask(one.create("/a", b"old"))
    servers.hold(3, 1)
    other.ask(other.set("/a", b"new"))
    assert values(one.ask(one.get("/a"))) == [b"old"]


def test_sync_makes_sure_that_the_leader_is_still_the_leader() -> None:
    """One that a quorum no longer follows answers no sync."""
    servers, callers = three(3)
    mine = callers[2]
    servers.hold(1, 3)
    servers.hold(2, 3)
    assert mine.ask(mine.sync()) == []
    servers.release(1, 3)
    assert kinds(mine.new()) == [EmptyReply]


def test_answers_and_heartbeats_tell_the_last_zxid() -> None:
    """Also in times without activity."""
    servers, (one, other) = three()
    other.ask(other.create("/a"))
    one.ask()
    servers.pass_time(200)
    frame = servers[1].frames[1][-1]
    assert isinstance(frame, ServerFrame)
    assert (frame.items, frame.zxid) == ([], servers[3].server.state.zxid)


def test_new_server_takes_a_session_only_when_it_is_as_recent_as_its_client() -> None:
    """Until it has caught up with what the client has seen, the client has no session there."""
    servers, (one, _) = three()
    servers.hold(3, 2)
    (item,) = one.ask(one.create("/a", b"x"))
    assert isinstance(item, WriteReply)
    moved = Caller(servers[2], 9)
    moved.password = one.password
    assert moved.connect(one.session_id, last_zxid=item.zxid) is None
    servers.release(3, 2)
    answer = moved.greeting
    assert isinstance(answer, ConnectReply) and answer.zxid >= item.zxid
    assert values(moved.ask(moved.get("/a"))) == [b"x"]


def test_client_finds_a_server_with_a_recent_view() -> None:
    """What it has seen is on a majority, so of any two servers that are left one has it."""
    servers, (one, _) = three()
    servers.hold(3, 2)
    (item,) = one.ask(one.create("/a"))
    assert isinstance(item, WriteReply)
    servers.crash(3)
    servers.held.clear()
    servers.pass_time(1_000)
    moved = Caller(servers[2], 9)
    moved.password = one.password
    assert isinstance(moved.connect(one.session_id, last_zxid=item.zxid), ConnectReply)
    assert not isinstance(moved.ask(moved.get("/a"))[0], ErrorReply)


def test_session_ends_when_no_server_has_heard_it_within_its_timeout() -> None:
    """Frames through any server count, requests and empty heartbeats alike."""
    servers, callers = three(3)
    silent, busy, beating = callers
    servers[3].track()
    for _ in range(120):
        busy.ask(busy.exists("/"))
        beating.ask()
        servers.pass_time(100)
    assert silent.ended == Code.SESSION_EXPIRED
    assert busy.ended is None and beating.ended is None
