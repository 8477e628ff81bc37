"""Reads beside get, exists and get_children: linearizable ones, and those about a session.

What a linearizable read sees is in data/client_requests_linearizable.txt.
"""

import pytest
from msgspec.structs import replace

from raykeeper.server.events import PeerFrame
from raykeeper.server.leader_request_processor import DELETED_PER_STEP, DELETIONS_OUTSTANDING_MAX
from raykeeper.server.peer_messages import ReadIndexReply, ReadIndexRequest, decode_peer_frame
from raykeeper.zab.ids import Millis, Now, ServerId
from raykeeper.znodes.acl import Identity, digest_id
from raykeeper.znodes.errors import Code
from raykeeper.znodes.replies import (
    CountDescendantsReply,
    ErrorReply,
    ExistsReply,
    GetAclsReply,
    GetDataReply,
    GetEphemeralsReply,
    MultiReadReply,
    WhoAmIReply,
    WriteReply,
)
from raykeeper.znodes.requests import (
    AddAuth,
    CountDescendants,
    Create,
    CreateMode,
    GetAcls,
    GetData,
    GetEphemerals,
    Multi,
    MultiRead,
    ReadData,
    WhoAmI,
)
from tests.harness.pure_servers import OPTIONS, Caller, PureServer, PureServers
from tests.harness.schedule import Schedule


def linearizable(caller: Caller, path: str, *, watch: bool = False) -> GetData:
    return GetData(caller.next_xid(), path, watch, True)


def kinds(items: list[object]) -> list[type]:
    return [type(item) for item in items]


def test_linearizable_reads_of_one_step_share_one_read_index_request() -> None:
    servers = PureServers(3)
    host = servers[1]
    one, other = host.caller(1), host.caller(2)
    one.ask(one.create("/a"))
    before = len(host.sent(ReadIndexRequest))
    host.step(
        one.frame(linearizable(one, "/a"), linearizable(one, "/a"), one.sync()),
        other.frame(linearizable(other, "/a")),
    )
    servers.run()
    assert len(host.sent(ReadIndexRequest)) == before + 1
    assert len(one.new()) == 3 and len(other.new()) == 1


def test_a_linearizable_read_waits_until_its_server_may_answer_reads() -> None:
    """The answer of the leader was delayed, and arrived alone."""
    servers = PureServers(3)
    host = servers[1]
    caller = host.caller()
    caller.ask(caller.create("/a"))
    servers.hold(3, 1)
    host.step(caller.frame(linearizable(caller, "/a")))
    servers.run()
    frames = [decode_peer_frame(frame) for frame in servers.wires[3, 1]]
    (reply,) = (m for frame in frames for m in frame if isinstance(m, ReadIndexReply))
    servers.clock.now = Millis(servers.clock.now + 1_500)
    host.step()
    host.step(PeerFrame(ServerId(3), [reply]))
    assert caller.new()[1:] == []
    servers.release(3, 1)
    assert kinds(caller.items)[-1] is GetDataReply


def test_aux_reads_are_answered_behind_earlier_writes() -> None:
    host = PureServer()
    caller = host.caller()
    items = caller.ask(
        caller.write(AddAuth("digest", b"ann:pw")),
        WhoAmI(101),
        caller.write(Create("/e", b"", CreateMode.EPHEMERAL)),
        caller.write(Create("/a", b"v", 0)),
        caller.write(Create("/a/b", b"", CreateMode.EPHEMERAL)),
        GetEphemerals(102, "/"),
        GetEphemerals(103, "/a"),
        CountDescendants(104, "/a"),
        CountDescendants(105, "/"),
        GetAcls(106, "/a"),
        MultiRead(107, [ReadData("/a"), ReadData("/none")]),
        CountDescendants(108, "/none"),
    )
    answers = {item.xid: item for item in items if not isinstance(item, WriteReply)}  # type: ignore[union-attr]
    who = answers[101]
    assert isinstance(who, WhoAmIReply)
    assert who.identities == (Identity("digest", digest_id("ann", "pw")),)
    assert isinstance(answers[102], GetEphemeralsReply) and answers[102].paths == ["/e", "/a/b"]
    assert isinstance(answers[103], GetEphemeralsReply) and answers[103].paths == ["/a/b"]
    assert isinstance(answers[104], CountDescendantsReply) and answers[104].count == 1
    assert isinstance(answers[105], CountDescendantsReply) and answers[105].count == 6
    assert isinstance(answers[106], GetAclsReply)
    assert isinstance(answers[107], MultiReadReply) and len(answers[107].results) == 2
    assert isinstance(answers[108], ErrorReply) and answers[108].code == Code.NO_NODE


@pytest.mark.parametrize(("mode", "ttl_ms"), [(CreateMode.TTL, 3_000), (CreateMode.CONTAINER, 0)])
def test_watchers_receive_the_deletion_of_an_expired_znode(mode: int, ttl_ms: int) -> None:
    servers = PureServers(3, options=replace(OPTIONS, container_grace_ms=Millis(3_000)))
    caller = servers[1].caller()
    caller.ask(caller.write(Create("/t", b"", mode, None, ttl_ms)), caller.create("/t/a"))
    caller.ask(caller.delete("/t/a"), caller.exists("/t", watch=True))
    servers.pass_time(2_500)
    (item,) = caller.ask(caller.exists("/t"))[-1:]
    assert isinstance(item, ExistsReply) and item.stat is not None
    servers.pass_time(1_000)
    (item,) = caller.ask(caller.exists("/t"))[-1:]
    assert isinstance(item, ExistsReply) and item.stat is None
    told = [type(item).__name__ for item in caller.items]
    assert told.count("WatcherEvent") == 1
    assert len(set(servers.digests())) == 1


class JumpingWall(Schedule):
    """A clock whose wall time a test moves."""

    wall_offset_ms = 0

    def times(self) -> Now:
        now = super().times()
        return Now(now.mono, Millis(now.wall + self.wall_offset_ms))


@pytest.mark.parametrize("jump_ms", [3_600_000, -3_600_000])
def test_a_jump_of_the_wall_clock_moves_no_expiry(jump_ms: int) -> None:
    clock = JumpingWall(0)
    host = PureServer(clock=clock)
    caller = host.caller()
    for path in ("/alone", "/refreshed"):
        caller.ask(caller.write(Create(path, b"", CreateMode.TTL, None, 3_000)))
    clock.wall_offset_ms = jump_ms
    host.pass_time(2_000)
    caller.ask(caller.set("/refreshed", b"again"))
    assert {"/alone", "/refreshed"} <= host.server.state.tree.expiring_paths.keys()
    host.pass_time(1_500)
    assert set(host.server.state.tree.expiring_paths) == {"/refreshed"}
    clock.wall_offset_ms = 0
    host.pass_time(1_000)
    assert set(host.server.state.tree.expiring_paths) == {"/refreshed"}
    host.pass_time(1_000)
    assert not host.server.state.tree.expiring_paths


def test_znodes_due_together_are_deleted_together_up_to_a_bound() -> None:
    host = PureServer()
    caller = host.caller()
    for each in range(3):
        ops = [Create(f"/{each}-{n}", b"", CreateMode.TTL, None, 1_000) for n in range(999)]
        caller.ask(caller.write(Multi([], list(ops), [])))
    expiring = host.server.state.tree.expiring_paths
    assert len(expiring) == 2_997
    host.is_disk_held = True
    logged = host.server.peer.history.logged
    host.pass_time(1_500)
    assert len(expiring) == 2_997
    begun = host.server.peer.history.logged - logged
    assert DELETIONS_OUTSTANDING_MAX <= begun <= DELETIONS_OUTSTANDING_MAX + 5 * DELETED_PER_STEP
    host.release_disk()
    host.step()
    while host.server.deadline() == host.clock.now:
        host.step()
    assert not expiring
    host.pass_time(1_000)
    assert host.server.deadline() > host.clock.now


def test_an_expired_znode_stays_while_the_disk_is_full() -> None:
    host = PureServer()
    caller = host.caller()
    caller.ask(caller.write(Create("/t", b"", CreateMode.TTL, None, 1_000)))
    host.server.peer.history.has_disk_space = False
    host.pass_time(2_000)
    assert "/t" in host.server.state.tree.znodes
    host.server.peer.history.has_disk_space = True
    host.pass_time(1_000)
    assert "/t" not in host.server.state.tree.znodes


def test_an_outstanding_refresh_keeps_an_expired_znode() -> None:
    servers = PureServers(3)
    caller = servers[3].caller()
    caller.ask(caller.write(Create("/t", b"", CreateMode.TTL, None, 1_000)))
    servers.pass_time(900)
    for other in (1, 2):
        servers.hold(other, 3)
    caller.ask(caller.set("/t", b"again"))
    servers.pass_time(400)
    for other in (1, 2):
        servers.release(other, 3)
    assert "/t" in servers[1].server.state.tree.znodes
    servers.pass_time(1_500)
    assert "/t" not in servers[1].server.state.tree.znodes
