"""Each operation of ZooKeeper by its bytes: what it does here, and what it answers."""

import pytest
from msgspec.structs import replace

from raykeeper.jute.fields import Record
from raykeeper.jute.frames import encode_request
from raykeeper.jute.multi import ERROR_TYPE, MultiRequest, MultiResponse, Operation, Result
from raykeeper.jute.opcodes import OpCode
from raykeeper.jute.records import (
    AddWatchRequest,
    CheckVersionRequest,
    Create2Response,
    CreateRequest,
    CreateResponse,
    CreateTTLRequest,
    DeleteRequest,
    EmptyRequest,
    EmptyResponse,
    ErrorResponse,
    GetACLResponse,
    GetAllChildrenNumberResponse,
    GetChildren2Response,
    GetChildrenResponse,
    GetDataResponse,
    PathRequest,
    PathWatchRequest,
    ReconfigRequest,
    SetACLRequest,
    SetDataRequest,
    StatResponse,
    SyncResponse,
    WatchesRequest,
)
from raykeeper.server import server_trace_events
from raykeeper.zab.settings import RecentLogLimits
from raykeeper.znodes.acl import OPEN_ACL, Acl, Permission
from raykeeper.znodes.errors import Code
from tests.harness.jute_caller import Answer, JuteCaller, connected
from tests.harness.pure_servers import LIMITS, PureServer, PureServers

OPEN = list(OPEN_ACL)


# Each operation.


def test_creations_answer_with_the_path_or_with_the_stat_too() -> None:
    caller = connected(PureServer())
    assert caller.create("/a", b"v").body == CreateResponse("/a")
    assert caller.create("/s-", b"", 2).body == CreateResponse("/s-0000000001")
    for opcode, body in (
        (OpCode.CREATE2, CreateRequest("/b", None, OPEN, 0)),
        (OpCode.CREATE_CONTAINER, CreateRequest("/c", b"", OPEN, 4)),
        (OpCode.CREATE_TTL, CreateTTLRequest("/t", b"", OPEN, 5, 1_000)),
    ):
        answer = caller.ask(opcode, body)
        assert isinstance(answer.body, Create2Response) and answer.body.path == body.path
        assert answer.body.stat.czxid == answer.zxid


@pytest.mark.parametrize(
    ("opcode", "body", "code"),
    [
        (OpCode.CREATE, CreateRequest("/a", b"", OPEN, 0), Code.NODE_EXISTS),
        (OpCode.CREATE, CreateRequest("/x/y", b"", OPEN, 0), Code.NO_NODE),
        (OpCode.CREATE, CreateRequest("/x", b"", OPEN, 7), Code.BAD_ARGUMENTS),
        (OpCode.CREATE, CreateRequest("/x\x01", b"", OPEN, 0), Code.BAD_ARGUMENTS),
        (OpCode.CREATE, CreateRequest("/x", b"", None, 0), Code.INVALID_ACL),
        (OpCode.CREATE, CreateRequest("/x", b"", [], 0), Code.INVALID_ACL),
        (OpCode.CREATE, CreateRequest("/e/x", b"", OPEN, 0), Code.NO_CHILDREN_FOR_EPHEMERALS),
        (OpCode.CREATE_TTL, CreateTTLRequest("/x", b"", OPEN, 5, 0), Code.BAD_ARGUMENTS),
        (OpCode.CREATE_TTL, CreateTTLRequest("/x", b"", OPEN, 0, 0), Code.BAD_ARGUMENTS),
        (OpCode.CREATE_TTL, CreateTTLRequest("/x", b"", OPEN, 0, -1), Code.BAD_ARGUMENTS),
        (OpCode.CREATE_TTL, CreateTTLRequest("/x", b"", OPEN, 0, 9), Code.BAD_ARGUMENTS),
        (OpCode.DELETE, DeleteRequest("/x", -1), Code.NO_NODE),
        (OpCode.DELETE, DeleteRequest("/a", 7), Code.BAD_VERSION),
        (OpCode.DELETE, DeleteRequest("/zookeeper", -1), Code.BAD_ARGUMENTS),
        (OpCode.DELETE, DeleteRequest("/p", -1), Code.NOT_EMPTY),
        (OpCode.SET_DATA, SetDataRequest("/a", b"", 7), Code.BAD_VERSION),
        (OpCode.SET_ACL, SetACLRequest("/a", None, -1), Code.INVALID_ACL),
        (OpCode.EXISTS, PathWatchRequest("/x", False), Code.NO_NODE),
        (OpCode.GET_DATA, PathWatchRequest("/x", True), Code.NO_NODE),
        (OpCode.GET_CHILDREN2, PathWatchRequest("/x", True), Code.NO_NODE),
        (OpCode.GET_ACL, PathRequest("/x"), Code.NO_NODE),
        (OpCode.GET_ALL_CHILDREN_NUMBER, PathRequest("/x"), Code.NO_NODE),
        (OpCode.EXISTS, PathWatchRequest("/a/", True), Code.NO_NODE),
        (OpCode.GET_DATA, PathWatchRequest("", False), Code.NO_NODE),
        (OpCode.GET_CHILDREN, PathWatchRequest("/a//b", False), Code.NO_NODE),
        (OpCode.GET_CHILDREN2, PathWatchRequest("/a/..", False), Code.NO_NODE),
        (OpCode.GET_ACL, PathRequest("a"), Code.NO_NODE),
        (OpCode.GET_ALL_CHILDREN_NUMBER, PathRequest("/a/\x01"), Code.NO_NODE),
        (OpCode.SET_DATA, SetDataRequest("/a/", b"", -1), Code.BAD_ARGUMENTS),
        (OpCode.ADD_WATCH, AddWatchRequest("/a/", 0), Code.BAD_ARGUMENTS),
        (OpCode.ADD_WATCH, AddWatchRequest("/a", 2), Code.MARSHALLING_ERROR),
        (OpCode.CHECK_WATCHES, WatchesRequest("/a", 1), Code.NO_WATCHER),
        (OpCode.CHECK_WATCHES, WatchesRequest("a", 1), Code.NO_WATCHER),
        (OpCode.REMOVE_WATCHES, WatchesRequest("/a/", 3), Code.NO_WATCHER),
        (OpCode.CHECK_WATCHES, WatchesRequest("/a", 9), Code.MARSHALLING_ERROR),
        (OpCode.REMOVE_WATCHES, WatchesRequest("/a", 0), Code.MARSHALLING_ERROR),
        (OpCode.REMOVE_WATCHES, WatchesRequest("/a", 3), Code.NO_WATCHER),
        (OpCode.RECONFIG, ReconfigRequest("", "", "", -1), Code.NO_AUTH),
        (OpCode.RECONFIG, ReconfigRequest("some thing", "", "", -1), Code.BAD_ARGUMENTS),
        (OpCode.CHECK, CheckVersionRequest("/a", -1), Code.UNIMPLEMENTED),
        (OpCode.DELETE_CONTAINER, PathRequest("/a"), Code.UNIMPLEMENTED),
        (
            OpCode.MULTI,
            MultiRequest([Operation(4, PathWatchRequest("/a", False))]),
            Code.MARSHALLING_ERROR,
        ),
        (
            OpCode.MULTI_READ,
            MultiRequest([Operation(2, DeleteRequest("/a", -1))]),
            Code.MARSHALLING_ERROR,
        ),
    ],
)
def test_an_error_is_zookeepers_and_the_connection_lives(
    opcode: int, body: Record, code: int
) -> None:
    caller = connected(PureServer())
    for path, flags in (("/a", 0), ("/e", 1), ("/p", 0), ("/p/c", 0)):
        assert caller.create(path, b"", flags).err == 0
    answer = caller.ask(opcode, body)
    assert (answer.err, answer.body) == (code, None) and answer.zxid > 0
    assert caller.get("/a").err == 0


def test_a_watch_above_the_bound_is_refused_with_its_read() -> None:
    caller = connected(PureServer(limits=replace(LIMITS, watches_max=1)))
    assert caller.children("/", watch=True).err == Code.OK
    assert caller.get("/", watch=True).err == Code.BAD_ARGUMENTS
    assert caller.get("/").err == Code.OK


def test_reads_and_writes_of_values_lists_and_acls() -> None:
    caller = connected(PureServer())
    caller.create("/a", b"1")
    caller.create("/a/b")
    changed = caller.set("/a", b"22", 0)
    assert isinstance(changed.body, StatResponse) and changed.body.stat.version == 1
    stat = changed.body.stat
    assert caller.get("/a").body == GetDataResponse(b"22", stat)
    assert caller.exists("/a").body == StatResponse(stat)
    assert caller.children("/a").body == GetChildrenResponse(["b"])
    got = caller.ask(OpCode.GET_CHILDREN2, PathWatchRequest("/a", False))
    assert got.body == GetChildren2Response(["b"], stat)
    assert caller.sync("/no/such").body == SyncResponse("/no/such")
    count = caller.ask(OpCode.GET_ALL_CHILDREN_NUMBER, PathRequest("/a"))
    assert count.body == GetAllChildrenNumberResponse(1)
    narrow = [Acl(Permission.READ, "world", "anyone"), Acl(31, "ip", "10.0.0.1")]
    replaced = caller.ask(OpCode.SET_ACL, SetACLRequest("/a", [*narrow, *narrow], 0))
    assert isinstance(replaced.body, StatResponse) and replaced.body.stat.aversion == 1
    acl = caller.ask(OpCode.GET_ACL, PathRequest("/a"))
    assert acl.body == GetACLResponse(narrow, replaced.body.stat)
    assert caller.delete("/a/b").body == EmptyResponse()


def data_of(answer: Answer) -> bytes | None:
    assert answer.err == 0 and isinstance(answer.body, GetDataResponse), answer
    assert answer.body.stat.data_length == len(answer.body.data or b"")
    return answer.body.data


def write_nulls(caller: JuteCaller) -> None:
    """Write /null and /nulled, whose data are null, and /empty and /emptied, whose data are not."""
    caller.create("/null", None)
    caller.create("/empty")
    ops = [
        Operation(15, CreateRequest("/nulled", b"v", OPEN, 0)),
        Operation(1, CreateRequest("/emptied", None, OPEN, 0)),
        Operation(5, SetDataRequest("/nulled", None, -1)),
    ]
    caller.ask(OpCode.MULTI, MultiRequest(ops))
    assert caller.set("/emptied", b"", 0).err == 0


def check_nulls(caller: JuteCaller) -> None:
    values = [data_of(caller.get(path)) for path in ("/null", "/nulled", "/empty", "/emptied")]
    assert values == [None, None, b"", b""]


def test_null_data_is_not_empty_data() -> None:
    host = PureServer()
    caller = connected(host)
    write_nulls(caller)
    check_nulls(caller)
    reads = [Operation(4, PathWatchRequest(path, False)) for path in ("/null", "/empty")]
    answer = caller.ask(OpCode.MULTI_READ, MultiRequest(reads))
    assert isinstance(answer.body, MultiResponse)
    told = [each.body for each in answer.body.results]
    assert [each.data for each in told if isinstance(each, GetDataResponse)] == [None, b""]


def test_null_data_is_kept_in_the_log() -> None:
    host = PureServer()
    write_nulls(connected(host))
    before = host.server.state.digest()
    host.start()
    assert host.server.state.digest() == before
    check_nulls(connected(host, 2))


def test_null_data_is_kept_in_the_snapshot_that_a_server_is_sent() -> None:
    servers = PureServers(3, window=RecentLogLimits(txns_max=1, read_log_bytes_max=1))
    other = connected(servers[2])
    servers._unlink(1, 2)
    servers._unlink(1, 3)
    servers.run()
    write_nulls(other)
    for _ in range(6):  # more than the leader's recent log holds
        other.set("/", b"")
    servers.link(1, 3)
    servers.link(1, 2)
    assert servers[1].notes(server_trace_events.SNAPSHOT_INSTALLED), "this was to be no DIFF"
    check_nulls(connected(servers[1], 2))
    assert len(set(servers.digests())) == 1


def test_the_peers_address_is_an_identity() -> None:
    host = PureServer()
    caller, other = connected(host), JuteCaller(host, 2, "10.0.0.9")
    other.connect()
    mine = [Acl(Permission.ALL, "ip", "10.0.0.1")]
    assert caller.ask(OpCode.CREATE, CreateRequest("/a", b"", mine, 0)).err == 0
    assert caller.get("/a").err == 0 and other.get("/a").err == Code.NO_AUTH


# Multi.


def test_a_multi_has_a_result_for_each_operation_in_its_own_form() -> None:
    caller = connected(PureServer())
    caller.create("/a", b"1")
    caller.create("/d")
    ops = [
        Operation(1, CreateRequest("/s-", b"", OPEN, 2)),
        Operation(15, CreateRequest("/b", b"", OPEN, 0)),
        Operation(19, CreateRequest("/c", b"", OPEN, 4)),
        Operation(21, CreateTTLRequest("/t", b"", OPEN, 5, 9)),
        Operation(5, SetDataRequest("/a", b"2", 0)),
        Operation(13, CheckVersionRequest("/a", 1)),
        Operation(2, DeleteRequest("/d", -1)),
    ]
    answer = caller.ask(OpCode.MULTI, MultiRequest(ops))
    assert answer.err == 0 and isinstance(answer.body, MultiResponse)
    results = answer.body.results
    assert [result.type for result in results] == [1, 15, 15, 15, 5, 13, 2]
    assert results[0].body == CreateResponse("/s-0000000002")
    told = [r.body for r in results[1:4] if isinstance(r.body, Create2Response)]
    assert [body.path for body in told] == ["/b", "/c", "/t"]
    assert {body.stat.czxid for body in told} == {answer.zxid}
    assert isinstance(results[4].body, StatResponse) and results[4].body.stat.version == 1
    assert results[5].body == results[6].body == EmptyResponse()
    assert caller.ask(OpCode.MULTI, MultiRequest([])).body == MultiResponse([])


def test_a_multi_that_fails_says_which_operation_did_without_an_error_of_its_own() -> None:
    caller = connected(PureServer())
    create = Operation(1, CreateRequest("/a", b"", OPEN, 0))
    ops = [create, Operation(13, CheckVersionRequest("/no", 1)), create]
    answer = caller.ask(OpCode.MULTI, MultiRequest(ops))
    codes = [0, Code.NO_NODE, Code.RUNTIME_INCONSISTENCY]
    assert answer.err == 0
    assert answer.body == MultiResponse([Result(ERROR_TYPE, ErrorResponse(c)) for c in codes])
    assert caller.exists("/a").err == Code.NO_NODE


def test_several_reads_have_results_or_errors_of_their_own() -> None:
    caller = connected(PureServer())
    caller.create("/a", b"1")
    ops = [
        Operation(code, PathWatchRequest(p, False)) for code, p in ((4, "/a"), (8, "/"), (4, "/x"))
    ]
    answer = caller.ask(OpCode.MULTI_READ, MultiRequest(ops))
    assert isinstance(answer.body, MultiResponse)
    value, names, missing = answer.body.results
    assert value.type == 4 and isinstance(value.body, GetDataResponse) and value.body.data == b"1"
    assert names == Result(8, GetChildrenResponse(["zookeeper", "a"]))
    assert missing == Result(ERROR_TYPE, ErrorResponse(Code.NO_NODE))


def test_malformed_paths_in_several_operations() -> None:
    """ZooKeeper checks the paths of writes; no znode has a malformed one."""
    caller = connected(PureServer())
    read = MultiRequest([Operation(4, PathWatchRequest("/a/", False))])
    answer = caller.ask(OpCode.MULTI_READ, read)
    assert answer.body == MultiResponse([Result(ERROR_TYPE, ErrorResponse(Code.NO_NODE))])
    write = MultiRequest([Operation(5, SetDataRequest("/a/", b"", -1))])
    answer = caller.ask(OpCode.MULTI, write)
    assert answer.body == MultiResponse([Result(ERROR_TYPE, ErrorResponse(Code.BAD_ARGUMENTS))])


PLAIN, WITH_STAT = 1, 15
MALFORMED = Code.MARSHALLING_ERROR


@pytest.mark.parametrize(
    ("opcode", "flags", "acl", "told", "expires"),
    [
        (OpCode.CREATE, 0, OPEN, PLAIN, False),
        (OpCode.CREATE2, 0, OPEN, WITH_STAT, False),
        (OpCode.CREATE2, 1, OPEN, WITH_STAT, False),
        # The flags of a container are enough, and so is its opcode.
        (OpCode.CREATE, 4, OPEN, WITH_STAT, True),
        (OpCode.CREATE2, 4, OPEN, WITH_STAT, True),
        (OpCode.CREATE_CONTAINER, 0, OPEN, WITH_STAT, True),
        (OpCode.CREATE_CONTAINER, 4, OPEN, WITH_STAT, True),
        (OpCode.CREATE_CONTAINER, 2, OPEN, Code.BAD_ARGUMENTS, False),
        # A TTL counts only with a mode that has one.
        (OpCode.CREATE_TTL, 5, OPEN, WITH_STAT, True),
        (OpCode.CREATE_TTL, 4, OPEN, WITH_STAT, True),
        (OpCode.CREATE_TTL, 0, OPEN, PLAIN, False),
        (OpCode.CREATE_TTL, 7, OPEN, Code.BAD_ARGUMENTS, False),
        (OpCode.CREATE_TTL, 5, None, Code.INVALID_ACL, False),
        # What ZooKeeper cannot read refuses the whole multi, whatever stands before it.
        *((opcode, 5, OPEN, MALFORMED, False) for opcode in (1, 15, 19)),
        *((opcode, -1, OPEN, MALFORMED, False) for opcode in (1, 15, 19)),
        *((opcode, 0, None, MALFORMED, False) for opcode in (1, 15, 19)),
    ],
)
def test_the_opcode_and_the_flags_of_a_creation_in_a_multi(
    opcode: int, flags: int, acl: list[Acl] | None, told: int, expires: bool
) -> None:
    caller = connected(PureServer())
    body: Record = CreateRequest("/a", b"", acl, flags)
    if opcode == OpCode.CREATE_TTL:
        body = CreateTTLRequest("/a", b"", acl, flags, 9)
    check = Operation(13, CheckVersionRequest("/", -1))
    answer = caller.ask(OpCode.MULTI, MultiRequest([check, Operation(opcode, body)]))
    if told == MALFORMED:
        assert (answer.err, answer.body) == (MALFORMED, None)
    else:
        assert isinstance(answer.body, MultiResponse)
        result = answer.body.results[1]
        err = result.body.err if isinstance(result.body, ErrorResponse) else result.type
        assert err == told
    assert ("/a" in caller.host.server.state.tree.expiring_paths) == expires
    assert caller.exists("/").err == 0, "the connection lives"


@pytest.mark.parametrize(
    ("opcode", "flags", "err", "expires"),
    [
        (OpCode.CREATE, 4, 0, False),
        (OpCode.CREATE2, 4, 0, False),
        (OpCode.CREATE_CONTAINER, 0, 0, True),
        (OpCode.CREATE_CONTAINER, 2, Code.BAD_ARGUMENTS, False),
    ],
)
def test_alone_the_opcode_says_what_is_a_container(
    opcode: int, flags: int, err: int, expires: bool
) -> None:
    caller = connected(PureServer())
    assert caller.ask(opcode, CreateRequest("/a", b"", OPEN, flags)).err == err
    assert ("/a" in caller.host.server.state.tree.expiring_paths) == expires


@pytest.mark.parametrize(
    ("opcode", "body"),
    [
        (OpCode.CREATE, b"\0\0\0\x09/a"),
        (OpCode.EXISTS, b""),
        (OpCode.MULTI, b"\0\0\0\x02"),
        (OpCode.MULTI, bytes((0, 0, 0, OpCode.SET_ACL)) + bytes(60)),
        (OpCode.SET_WATCHES, b"\0"),
    ],
)
def test_a_body_that_cannot_be_read_is_refused_in_its_place(opcode: int, body: bytes) -> None:
    caller = connected(PureServer())
    create = caller.frame(OpCode.CREATE, CreateRequest("/a", b"", OPEN, 0))
    head = caller.frame(opcode, EmptyRequest())[4:]
    read = caller.frame(OpCode.EXISTS, PathWatchRequest("/a", False))
    caller.raw(create + (len(head) + len(body)).to_bytes(4) + head + body + read)
    answers = [(answer.xid, answer.err) for answer in caller.read()]
    assert answers == [(1, 0), (2, Code.MARSHALLING_ERROR), (3, 0)]
    ((_, reason),) = caller.host.notes(server_trace_events.CLIENT_MALFORMED)  # type: ignore[misc]
    assert reason.startswith(f"a request of opcode {opcode:d}: ")


def test_a_credential_that_cannot_be_read_ends_the_connection() -> None:
    """As in ZooKeeper: a client that is not heard would go on without its identity."""
    caller = connected(PureServer())
    caller.raw(encode_request(1, OpCode.AUTH, EmptyRequest()))
    assert caller.is_closed
