"""ClientRequests: clients learn the member list, and a server that is no member takes none."""

from msgspec.structs import replace

from raykeeper.jute.opcodes import OpCode
from raykeeper.jute.records import PathWatchRequest
from raykeeper.zab.feature_levels import LEVEL_OF_MEMBERS
from raykeeper.zab.member_list import MemberList
from raykeeper.znodes.acl import Identity, digest_id
from raykeeper.znodes.errors import Code
from raykeeper.znodes.replies import CloseFrame, ConnectReply, ServerFrame
from raykeeper.znodes.requests import AddAuth, ClientFrame, Reconfig, encode_client_frame
from tests.harness.caller import Caller
from tests.harness.jute_caller import JuteCaller, connected
from tests.harness.pure_servers import LIMITS, PureServer, PureServers


def ensemble() -> PureServers:
    """Three voters, and two servers that follow and are no members."""
    limits = replace(LIMITS, super_identities=(Identity("digest", digest_id("root", "pw")),))
    servers = PureServers(3, limits=limits, strangers=2, newest_level=LEVEL_OF_MEMBERS)
    servers.pass_time(300)
    return servers


def operator(servers: PureServers) -> Caller:
    caller = servers[2].caller(2)
    caller.ask(caller.write(AddAuth("digest", b"root:pw")))
    return caller


def change(caller: Caller, step: Reconfig) -> None:
    (reply,) = caller.ask(caller.write(step))
    assert getattr(reply, "code", None) == 0, reply


def told(host: PureServer, connection: int) -> list[tuple[int, ...]]:
    """The servers of each list that a client was told, in order."""
    lists: list[MemberList | None] = [
        frame.members for frame in host.frames[connection] if not isinstance(frame, CloseFrame)
    ]
    return [(*each.voters, *each.observers) for each in lists if each is not None]


def test_a_client_is_told_the_list_when_it_connects_and_each_newer_one_once() -> None:
    servers = ensemble()
    asking = operator(servers)
    watching = servers[1].caller(1)
    assert told(servers[1], 1) == [(1, 2, 3)]
    change(asking, Reconfig(4, 0, True))
    change(asking, Reconfig(0, 4))
    change(asking, Reconfig(5, 0, True))
    for _ in range(2):
        watching.ask(watching.get("/"))
    assert told(servers[1], 1) == [(1, 2, 3), (1, 2, 3, 5)]
    assert told(servers[2], 2) == [(1, 2, 3), (1, 2, 3, 4), (1, 2, 3), (1, 2, 3, 5)]
    servers[1].caller(3)
    assert told(servers[1], 3) == [(1, 2, 3, 5)]


def test_a_list_comes_with_the_next_confirmed_heartbeat() -> None:
    servers = ensemble()
    idle = servers[1].caller(1)
    change(operator(servers), Reconfig(4, 0, True))
    idle.raw(encode_client_frame(ClientFrame(1, [])))
    servers.pass_time(500)
    last = servers[1].frames[1][-1]
    assert isinstance(last, ServerFrame) and not last.items
    assert told(servers[1], 1) == [(1, 2, 3), (1, 2, 3, 4)]


def test_a_server_that_is_no_member_sends_clients_to_the_members() -> None:
    servers = ensemble()
    client = Caller(servers[4], 1)
    greeting = client.connect()
    assert isinstance(greeting, ConnectReply)
    assert (greeting.code, greeting.session_id) == (Code.CONNECTION_LOSS, 0)
    assert greeting.detail == "server 4 is no member of the ensemble"
    assert told(servers[4], 1) == [(1, 2, 3)] and 1 in servers[4].closed
    change(operator(servers), Reconfig(4, 0, True))
    client = servers[4].caller(2)
    client.ask(client.create("/a"))


def test_a_removed_server_takes_no_clients_any_more() -> None:
    servers = ensemble()
    asking = operator(servers)
    change(asking, Reconfig(0, 1))
    greeting = Caller(servers[1], 7).connect()
    assert isinstance(greeting, ConnectReply) and greeting.code == Code.CONNECTION_LOSS
    assert told(servers[1], 7) == [(2, 3)]


def test_a_client_of_zookeeper_is_closed_there_without_a_word() -> None:
    """An answer would say that its session has ended."""
    servers = ensemble()
    client = JuteCaller(servers[4], 1)
    assert client.connect() is None and client.is_closed
    change(operator(servers), Reconfig(4, 0, True))
    member = connected(servers[4], 9)
    assert member.ask(OpCode.GET_DATA, PathWatchRequest("/", False)).err == 0
