"""SnapshotInstall: what clients notice when the leader's tree replaces that of their server."""

import pytest

from raykeeper.server import server_trace_events
from raykeeper.server.events import LinkDown, LinkUp, PeerFrame
from raykeeper.server.peer_messages import DigestReply, DigestRequest, PeerMessage
from raykeeper.zab.effects import DiscardSnapshot, InstallSnapshot
from raykeeper.zab.ids import Epoch, ServerId, Zxid, format_zxid
from raykeeper.zab.messages import (
    FollowerInfo,
    LeaderInfo,
    NewLeader,
    Proposals,
    Snapshot,
    SnapshotChunk,
    SnapshotEnd,
    UpToDate,
)
from raykeeper.zab.settings import RecentLogLimits
from raykeeper.znodes.errors import Code
from raykeeper.znodes.replies import ConnectReply, EventType, GetDataReply, WatcherEvent, WriteReply
from raykeeper.znodes.requests import AddWatch, PersistentWatch, SetWatches, WatchMode
from raykeeper.znodes.snapshot import SnapshotWalk
from tests.harness.pure_servers import Caller, PureServer, PureServers, zxid_of

NO_DIFF = RecentLogLimits(txns_max=1, read_log_bytes_max=1)
LEADER = ServerId(3)


def part(servers: PureServers) -> None:
    """Separate server 1 from the others, which continue without it."""
    servers._unlink(1, 2)
    servers._unlink(1, 3)
    servers.run()


def rejoin(servers: PureServers) -> None:
    servers.link(1, 3)
    servers.link(1, 2)
    assert servers[1].notes(server_trace_events.SNAPSHOT_INSTALLED), "this was to be no DIFF"


def busy(caller: Caller) -> None:
    """Do more transactions than the leader's recent log holds."""
    for _ in range(6):
        caller.ask(caller.set("/", b"x"))


def test_watches_fire_before_any_reply_from_the_new_tree() -> None:
    servers = PureServers(3, window=NO_DIFF)
    mine, other = servers[1].caller(1), servers[2].caller(2)
    other.ask(*[other.create(path) for path in ("/set", "/deleted", "/same", "/parent")])
    mine.ask(
        mine.get("/set", watch=True),
        mine.exists("/deleted", watch=True),
        mine.exists("/created", watch=True),
        mine.exists("/same", watch=True),
        mine.children("/parent", watch=True),
    )
    part(servers)
    other.ask(other.set("/set", b"new"), other.delete("/deleted"), other.create("/created"))
    other.ask(other.create("/parent/child"))
    busy(other)
    assert mine.ask(mine.get("/set")) == []  # held: there is no leader
    rejoin(servers)
    items = mine.new()
    assert [(x.kind, x.path) for x in items if isinstance(x, WatcherEvent)] == [
        (EventType.CHANGED, "/set"),
        (EventType.DELETED, "/deleted"),
        (EventType.CREATED, "/created"),
        (EventType.CHILD, "/parent"),
    ]
    assert isinstance(items[-1], GetDataReply) and items[-1].value == b"new"
    assert servers[1].server.stats().watches == 1
    assert len(set(servers.digests())) == 1


def test_persistent_watches_get_a_resync_and_the_change_log_begins_there() -> None:
    servers = PureServers(3, window=NO_DIFF)
    mine, other = servers[1].caller(1), servers[2].caller(2)
    since = zxid_of(servers[1])
    mine.ask(
        AddWatch(mine.next_xid(), "/", WatchMode.RECURSIVE, True),
        AddWatch(mine.next_xid(), "/", WatchMode.PERSISTENT),
    )
    part(servers)
    other.ask(other.create("/a"), other.create("/b"))
    busy(other)
    rejoin(servers)
    resync = WatcherEvent(EventType.RESYNC, "/", zxid_of(servers[1]))
    assert [x for x in mine.new() if isinstance(x, WatcherEvent)] == [resync]
    # The sessions continue from there.
    other.ask(other.delete("/a"))
    told = [(x.kind, x.path) for x in mine.new() if isinstance(x, WatcherEvent)]
    assert told == [(EventType.DELETED, "/a"), (EventType.CHILD, "/")]
    # A client that has seen less than the snapshot cannot get more either.
    request = SetWatches(
        mine.next_xid(), since, [], [], [], [PersistentWatch("/", WatchMode.PERSISTENT)]
    )
    assert mine.ask(request)[0] == WatcherEvent(EventType.RESYNC, "/", zxid_of(servers[1]))


def test_ended_and_moved_sessions_are_disconnected_and_others_go_on() -> None:
    servers = PureServers(3, window=NO_DIFF)
    stays, goes, moves = (servers[1].caller(n) for n in (1, 2, 3))
    part(servers)
    moved = Caller(servers[2], 4)
    moved.take_up(moves)
    closer = Caller(servers[2], 5)
    closer.take_up(goes)
    closer.ask(closer.close())
    busy(moved)
    rejoin(servers)
    assert stays.ended is None
    assert goes.ended == Code.SESSION_EXPIRED
    assert moves.ended == Code.CONNECTION_LOSS  # the client itself knows where it went
    assert [type(item) for item in stays.ask(stays.create("/a"))] == [WriteReply]


def test_writes_in_the_new_tree_are_answered_from_its_table() -> None:
    servers = PureServers(3, window=NO_DIFF)
    mine, other = servers[1].caller(1), servers[2].caller(2)
    servers.hold(3, 1)  # neither the proposal nor its commit come back
    mine.ask(mine.create("/a"))
    part(servers)
    servers.held.clear()
    busy(other)
    rejoin(servers)
    (item,) = mine.new()
    assert isinstance(item, WriteReply) and item.path == "/a"


def test_a_connect_in_the_new_tree_is_forwarded_again() -> None:
    servers = PureServers(3, window=NO_DIFF)
    other = servers[2].caller(2)
    servers.hold(3, 1)
    mine = Caller(servers[1], 1)
    assert mine.connect() is None
    part(servers)
    servers.held.clear()
    busy(other)
    rejoin(servers)
    assert isinstance(mine.greeting, ConnectReply) and mine.greeting.code == 0
    assert servers[1].server.stats().sessions == 2


class Rejoining:
    """Server 1, which a test makes follow a leader of epoch 2, packet by packet."""

    def __init__(self) -> None:
        self.servers = PureServers(3)
        self.host: PureServer = self.servers[1]
        self.caller = self.host.caller(1)
        self.log = self.host.disk.log

    def join(self) -> None:
        part(self.servers)
        self.host.take()
        self.servers._link(1, 2)
        self.servers._link(1, 3)
        while not self.host.sent(FollowerInfo):
            assert self.servers._carry()
        self.servers.wires.clear()
        self.leader(LeaderInfo(Epoch(2), self.host.sent(FollowerInfo)[-1].follow_attempt))

    def join_again(self) -> None:
        """Follow again, because the link to the leader broke before UPTODATE."""
        self.host.step(LinkDown(LEADER))
        self.host.take()
        self.join()

    def leader(self, *messages: PeerMessage) -> None:
        self.host.step(PeerFrame(LEADER, list(messages)))

    def txns(self, after: Zxid) -> Proposals:
        entries = [(zxid, txn) for zxid, txn in self.log if zxid > after]
        return Proposals(entries[0][0], [txn for _, txn in entries])


def first_tree() -> list[SnapshotChunk]:
    """Return a tree as of the first transaction, which opens the session of `caller`."""
    walk = SnapshotWalk(Rejoining().host.server.state)
    return [SnapshotChunk(chunk) for chunk in iter(walk.next_chunk, None)]


def test_an_older_tree_counts_once_it_has_what_clients_have_seen() -> None:
    """The leader sends what it has delivered, which may be less than this server has."""
    it = Rejoining()
    host, caller = it.host, it.caller
    late = host.caller(2)
    late.ask(late.create("/b"))
    old = it.servers[3].disk.log[0][0]
    assert old < late.session_id < host.server.state.zxid
    # A tree as of the first transaction: `caller` is in it, `late` and "/b" are not.
    chunks = first_tree()
    late.ask(late.exists("/b", watch=True))
    caller.ask(caller.exists("/never", watch=True))
    it.join()
    last = it.log[-1][0]
    it.leader(Snapshot(old), *chunks, SnapshotEnd(old), it.txns(old), NewLeader(Epoch(2), last))
    assert host.server.state.zxid == old
    assert host.server.stats().watches == 2
    assert caller.ask(caller.exists("/b")) == late.ask(late.exists("/b")) == []
    it.leader(DigestRequest(old, 0))
    assert host.sent(DigestReply) == []  # a tree that is not served is not compared either
    it.leader(UpToDate(last))  # it is served now, and hashed
    it.leader(DigestRequest(last, 0))
    assert [told.zxid for told in host.sent(DigestReply)] == [last]
    assert host.server.state.zxid == last
    assert late.ended is None
    assert host.server.stats().watches == 2
    assert [x.stat is not None for x in (*caller.new(), *late.new())] == [True, True]  # type: ignore[union-attr]


@pytest.mark.parametrize("chunk", [b"", b"\x91\x93\x01\x63\x00", b"\x90"])
def test_malformed_tree_breaks_the_link_and_changes_nothing(chunk: bytes) -> None:
    it = Rejoining()
    digest = it.host.server.state.digest()
    it.join()
    it.leader(Snapshot(it.log[-1][0]), SnapshotChunk(chunk))
    assert it.host.broken == [LEADER]
    assert it.host.of(DiscardSnapshot)
    assert it.host.server.state.digest() == digest
    assert it.host.server.peer.leader is None
    assert it.caller.ended is None


def test_an_incomplete_tree_breaks_the_link_and_changes_nothing() -> None:
    it = Rejoining()
    digest = it.host.server.state.digest()
    it.join()
    walk, last = SnapshotWalk(it.host.server.state), it.log[-1][0]
    header = SnapshotChunk(walk.next_chunk() or b"")
    it.leader(Snapshot(last), header, SnapshotEnd(last), NewLeader(Epoch(2), last))
    assert it.host.broken == [LEADER]
    assert it.host.of(DiscardSnapshot)
    assert it.host.of(InstallSnapshot) == []
    assert it.host.server.state.digest() == digest
    assert it.caller.ended is None


def test_a_tree_that_breaks_off_is_dropped() -> None:
    it = Rejoining()
    digest = it.host.server.state.digest()
    it.join()
    walk = SnapshotWalk(it.host.server.state)
    it.leader(Snapshot(it.log[-1][0]), SnapshotChunk(walk.next_chunk() or b""))
    it.host.take()
    it.host.step(LinkUp(LEADER))  # a new link: the old one is gone
    assert it.host.of(DiscardSnapshot)
    assert it.host.server.state.digest() == digest


def test_a_second_tree_must_have_what_clients_saw_before_the_first() -> None:
    it = Rejoining()
    it.caller.ask(it.caller.create("/a"))
    it.caller.ask(it.caller.exists("/a", watch=True))
    old, last = it.log[0][0], it.log[-1][0]
    chunks = first_tree()
    rest = it.txns(old)
    for follow_attempt in (2, 3):
        it.join() if follow_attempt == 2 else it.join_again()
        assert it.host.sent(FollowerInfo)[-1].follow_attempt == follow_attempt
        it.leader(Snapshot(old), *chunks, SnapshotEnd(old), rest, NewLeader(Epoch(2), last))
        assert it.host.notes(server_trace_events.SNAPSHOT_INSTALLED) == [format_zxid(old)]
        assert it.host.server.state.zxid == old
        assert it.host.server.stats().watches == 1
        assert it.host.notes(server_trace_events.READS_RESUMED) == []
    it.leader(UpToDate(last))
    assert it.host.server.state.zxid == last
    assert it.host.notes(server_trace_events.READS_RESUMED) == [None]
    assert it.host.server.stats().watches == 1
    assert it.caller.ended is None
