"""What a client of ZooKeeper may send is bounded by settings, and the log names the one it met."""

from msgspec.structs import replace

from raykeeper.jute.multi import MultiRequest, Operation
from raykeeper.jute.opcodes import OpCode
from raykeeper.jute.records import (
    CheckVersionRequest,
    CreateRequest,
    ErrorResponse,
    PathWatchRequest,
    SetACLRequest,
)
from raykeeper.server import server_trace_events
from raykeeper.znodes.acl import OPEN_ACL, Acl
from raykeeper.znodes.errors import Code
from tests.harness.jute_caller import connected
from tests.harness.pure_servers import LIMITS, PureServer

OPEN = list(OPEN_ACL)


def test_a_transaction_is_bounded_by_its_bytes_and_may_have_two_entries_for_each_creation() -> None:
    """Genuine servers take so many: clients such as HBase count bytes."""
    caller = connected(PureServer())
    two = [*OPEN, Acl(1, "ip", "10.0.0.0/8")]
    ops = [Operation(1, CreateRequest(f"/{n}", b"value", two, 0)) for n in range(8_000)]
    assert caller.ask(OpCode.MULTI, MultiRequest(ops)).err == 0
    assert caller.exists("/7999").err == 0


def test_a_transaction_has_as_many_operations_as_its_bytes_allow() -> None:
    limits = replace(LIMITS, transaction_ops_max=1, request_bytes_max=95)
    caller = connected(PureServer(limits=limits))
    check = Operation(13, CheckVersionRequest("/", -1))
    assert caller.ask(OpCode.MULTI, MultiRequest([check] * 2)).err == 0
    assert caller.host.notes(server_trace_events.CLIENT_LIMITED) == []
    assert caller.ask(OpCode.MULTI, MultiRequest([check] * 3)).err == Code.BAD_ARGUMENTS
    reason = "a transaction of more than 2 operations: the setting zookeeper_request_bytes is 95"
    assert caller.host.notes(server_trace_events.CLIENT_LIMITED) == [(1, reason)]
    read = Operation(OpCode.GET_DATA, PathWatchRequest("/", False))
    assert caller.ask(OpCode.MULTI_READ, MultiRequest([read])).err == 0
    for count in (2, 3):
        asked = MultiRequest([read] * count)
        assert caller.ask(OpCode.MULTI_READ, asked).err == Code.BAD_ARGUMENTS
    of_reads = "more than 1 reads: the setting transaction_ops_max is 1"
    limited = [(1, reason), (1, of_reads), (1, of_reads)]
    assert caller.host.notes(server_trace_events.CLIENT_LIMITED) == limited
    assert caller.exists("/").err == 0, "the connection lives"


def test_an_acl_has_as_many_entries_as_the_setting_says() -> None:
    caller = connected(PureServer(limits=replace(LIMITS, acl_entries_max=2)))
    acls = [Acl(31, "ip", f"10.0.0.{number}") for number in range(3)]
    long = CreateRequest("/b", b"", acls, 0)
    assert caller.ask(OpCode.CREATE, CreateRequest("/a", b"", acls[:2] * 2, 0)).err == 0
    assert caller.host.notes(server_trace_events.CLIENT_LIMITED) == []
    assert caller.ask(OpCode.CREATE, long).err == Code.INVALID_ACL
    assert caller.ask(OpCode.SET_ACL, SetACLRequest("/a", acls, -1)).err == Code.INVALID_ACL
    (refused,) = caller.ask(OpCode.MULTI, MultiRequest([Operation(1, long)])).body.results  # type: ignore[union-attr]
    assert refused.body == ErrorResponse(Code.INVALID_ACL)
    reason = "an ACL of 3 entries: the setting acl_entries_max is 2"
    assert caller.host.notes(server_trace_events.CLIENT_LIMITED) == [(1, reason)] * 3


def test_a_session_has_as_many_identities_as_the_setting_says() -> None:
    caller = connected(PureServer(limits=replace(LIMITS, session_identities_max=1)))
    assert caller.auth("digest", b"ann:pw").err == 0
    assert caller.auth("digest", b"ann:pw").err == 0
    assert caller.host.notes(server_trace_events.CLIENT_LIMITED) == []
    assert caller.auth("digest", b"bob:pw").err == Code.AUTH_FAILED
    reason = "one identity more: the setting session_identities_max is 1"
    assert caller.host.notes(server_trace_events.CLIENT_LIMITED) == [(1, reason)]
