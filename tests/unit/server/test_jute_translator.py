"""A client of ZooKeeper, by its bytes: handshake, order, watches, identities, the end."""

from typing import Any

import pytest
from msgspec.structs import replace

from raykeeper.jute.frames import encode_connect, encode_request
from raykeeper.jute.multi import MultiRequest, Operation
from raykeeper.jute.opcodes import AUTH_XID, OpCode
from raykeeper.jute.records import (
    AddWatchRequest,
    AuthPacket,
    CheckVersionRequest,
    ClientInfo,
    ConnectRequest,
    ConnectResponse,
    CreateRequest,
    EmptyRequest,
    EmptyResponse,
    ErrorResponse,
    GetACLResponse,
    GetAllChildrenNumberResponse,
    GetChildrenResponse,
    GetDataResponse,
    GetEphemeralsResponse,
    GetSASLRequest,
    PathRequest,
    PathWatchRequest,
    SetACLRequest,
    SetDataRequest,
    SetWatches,
    SetWatches2,
    WatcherEvent,
    WatchesRequest,
    WhoAmIResponse,
)
from raykeeper.server import server_trace_events
from raykeeper.server.context import ServerOptions, ZooKeeperOptions
from raykeeper.server.events import JuteBytesArrived
from raykeeper.zab.settings import RecentLogLimits
from raykeeper.znodes.acl import OPEN_ACL, Acl, digest_id
from raykeeper.znodes.errors import Code
from tests.harness.jute_caller import ZEROS, Answer, JuteCaller, connected
from tests.harness.pure_servers import LIMITS, OPTIONS, PureServer, PureServers

OPEN = list(OPEN_ACL)
CREATED, DELETED, CHANGED, CHILD = 1, 2, 3, 4


def told(caller: JuteCaller) -> list[tuple[int, str]]:
    """The events that have arrived, and nothing else has."""
    events = []
    for answer in caller.read():
        assert answer.xid == -1 and answer.err == 0 and isinstance(answer.body, WatcherEvent)
        assert answer.body.state == 3
        events.append((answer.body.type, answer.body.path))
    return events


# The handshake.


@pytest.mark.parametrize("flag", [None, False, True])
def test_a_new_session_is_answered_in_the_form_of_the_request(flag: bool | None) -> None:
    caller = JuteCaller(PureServer(), 7)
    response = caller.connect(read_only=flag)
    session_id = min(caller.host.server.state.sessions.by_id)
    expected = None if flag is None else False
    assert response == ConnectResponse(0, 10_000, session_id, (7).to_bytes(16), expected)


def test_two_new_clients_have_two_sessions_though_their_passwords_are_zeros() -> None:
    host = PureServer()
    one, other = connected(host, 1), connected(host, 2)
    assert one.session_id != other.session_id and len(host.server.state.sessions.by_id) == 2


@pytest.mark.parametrize(("asked", "given"), [(1, 1_000), (-5, 1_000), (1 << 30, 20_000)])
def test_the_timeout_is_negotiated(asked: int, given: int) -> None:
    response = JuteCaller(PureServer(), 1).connect(timeout_ms=asked)
    assert response is not None and response.timeout == given


def test_requests_behind_the_first_frame_are_answered_however_the_bytes_are_cut() -> None:
    stream = encode_connect(ConnectRequest(0, 0, 10_000, 0, ZEROS, False))
    caller = JuteCaller(PureServer(), 1)
    stream += caller.frame(OpCode.CREATE, CreateRequest("/a", b"v", OPEN, 0))
    stream += caller.frame(OpCode.GET_DATA, PathWatchRequest("/a", False))
    caller.raw(stream)
    whole = bytes(caller.host.streams[1])
    assert [answer.err for answer in caller.read()] == [0, 0]
    for size in (1, 3, 7, len(stream) - 1):
        again = JuteCaller(PureServer(), 1)
        for start in range(0, len(stream), size):
            again.raw(stream[start : start + size])
        assert bytes(again.host.streams[1]) == whole


REFUSED = ConnectResponse(0, 0, 0, ZEROS, False)


def test_an_unknown_session_or_a_wrong_password_is_refused_as_expired() -> None:
    host = PureServer()
    owner = connected(host)
    for number, (session_id, password) in enumerate(
        [(77, ZEROS), (-5, ZEROS), (owner.session_id, ZEROS), (owner.session_id, b"short")], 2
    ):
        other = JuteCaller(host, number)
        assert other.connect(session_id, password) == REFUSED
        assert other.is_closed
    assert owner.create("/a").err == 0


def test_a_client_that_has_seen_more_than_there_is_is_closed_without_a_word() -> None:
    caller = JuteCaller(PureServer(), 1)
    assert caller.connect(last_zxid=1 << 62) is None and caller.is_closed


def test_a_session_above_the_bound_is_closed_without_a_word() -> None:
    """An answer with the timeout 0 would say that the session has ended."""
    host = PureServer(limits=replace(LIMITS, sessions_max=1))
    first, second = connected(host, 1), JuteCaller(host, 2)
    assert second.connect() is None and second.is_closed
    assert first.create("/a").err == 0


def test_a_session_is_taken_up_with_its_watches_its_writes_and_its_znodes() -> None:
    host = PureServer()
    first = connected(host)
    assert first.create("/e", b"1", 1).err == 0
    second = JuteCaller(host, 2)
    response = second.take_up(first)
    assert response is not None and response.session_id == first.session_id
    assert first.is_closed and first.read() == []
    assert second.set("/e", b"2").err == 0 and second.create("/f").err == 0
    got = second.ask(OpCode.GET_EPHEMERALS, PathRequest("/"))
    assert got.body == GetEphemeralsResponse(["/e"])


def test_a_second_handshake_is_no_request() -> None:
    caller = connected(PureServer())
    caller.raw(encode_connect(ConnectRequest(0, 0, 10_000, 0, ZEROS, False)))
    # Read as a request it has xid 0 and the opcode 0, which is none.
    assert [(a.xid, a.err) for a in _loose(caller)] == [(0, Code.UNIMPLEMENTED)]
    assert caller.is_closed


def _loose(caller: JuteCaller) -> list[Answer]:
    caller._sent.append(int(OpCode.PING))
    return caller.read()


# The order.


def test_pipelined_requests_are_answered_in_their_order() -> None:
    caller = connected(PureServer())
    stream = b""
    for index in range(20):
        stream += caller.frame(OpCode.CREATE, CreateRequest(f"/{index}", b"", OPEN, 0))
        stream += caller.frame(OpCode.EXISTS, PathWatchRequest(f"/{index}", False))
        stream += caller.frame(OpCode.CHECK, CheckVersionRequest("/", 0))
        stream += caller.frame(OpCode.SYNC, PathRequest("/"))
    caller.raw(stream)
    answers = caller.read()
    assert [answer.xid for answer in answers] == list(range(1, 81))
    assert [answer.err for answer in answers] == [0, 0, Code.UNIMPLEMENTED, 0] * 20
    zxids = [answer.zxid for answer in answers]
    assert zxids == sorted(zxids)


def test_an_event_comes_before_the_reply_that_could_show_it() -> None:
    host = PureServer()
    caller, other = connected(host, 1), connected(host, 2)
    caller.create("/a", b"1")
    for watch in (caller.get, caller.exists):
        watch("/a", watch=True)
    caller.children("/a", watch=True)
    other.set("/a", b"2")
    assert told(caller) == [(CHANGED, "/a")]
    assert other.set("/a", b"3").err == 0 and told(caller) == []
    caller.get("/a", watch=True)
    caller.raw(
        caller.frame(OpCode.SET_DATA, SetDataRequest("/a", b"4", -1))
        + caller.frame(OpCode.GET_DATA, PathWatchRequest("/a", False))
    )
    event, reply, read = caller.read()
    assert (event.xid, event.zxid) == (-1, reply.zxid) and reply.zxid == read.zxid
    assert isinstance(read.body, GetDataResponse) and read.body.data == b"4"


def test_persistent_watches_stay_until_they_are_removed() -> None:
    caller = connected(PureServer())
    answer = caller.ask(OpCode.ADD_WATCH, AddWatchRequest("/", 1))
    assert answer.body == ErrorResponse(0)
    assert caller.ask(OpCode.ADD_WATCH, AddWatchRequest("/a", 0)).err == 0
    caller.raw(caller.frame(OpCode.CREATE, CreateRequest("/a", b"", OPEN, 0)))
    caller.raw(caller.frame(OpCode.CREATE, CreateRequest("/a/b", b"", OPEN, 0)))
    kinds = [a.body for a in caller.read() if a.xid == -1]
    assert [(e.type, e.path) for e in kinds if isinstance(e, WatcherEvent)] == [
        *((CREATED, "/a"), (CREATED, "/a/b"), (CHILD, "/a"))
    ]
    assert caller.ask(OpCode.CHECK_WATCHES, WatchesRequest("/", 5)).body == EmptyResponse()
    assert caller.ask(OpCode.REMOVE_WATCHES, WatchesRequest("/", 5)).body == EmptyResponse()
    assert caller.ask(OpCode.CHECK_WATCHES, WatchesRequest("/", 5)).err == Code.NO_WATCHER
    assert caller.ask(OpCode.CHECK_WATCHES, WatchesRequest("/a", 4)).err == 0


def test_watches_that_are_set_again_tell_what_was_missed_before_the_reply() -> None:
    host = PureServer()
    first, other = connected(host, 1), connected(host, 2)
    for path in ("/set", "/deleted", "/parent", "/same"):
        other.create(path)
    since = first.sync("/").zxid
    first.disconnect()
    other.set("/set", b"1")
    other.delete("/deleted")
    other.create("/parent/child")
    other.create("/created")
    second = JuteCaller(host, 3)
    second.take_up(first, last_zxid=since)
    second.send(
        OpCode.SET_WATCHES,
        SetWatches(since, ["/set", "/deleted", "/same"], ["/created"], ["/parent"]),
        -8,
    )
    *events, reply = second.read()
    assert [(e.body.type, e.body.path) for e in events if isinstance(e.body, WatcherEvent)] == [
        *((CHANGED, "/set"), (DELETED, "/deleted"), (CHILD, "/parent"), (CREATED, "/created"))
    ]
    assert (reply.xid, reply.err, reply.body) == (-8, 0, EmptyResponse())
    assert reply.zxid >= max(event.zxid for event in events)
    other.set("/same", b"1")
    assert told(second) == [(CHANGED, "/same")]


def test_a_ping_or_a_credential_names_no_state_before_the_watches_are_set_again() -> None:
    """A client that adopts their zxid, and loses this connection too, would ask for too little."""
    host = PureServer()
    first, other = connected(host, 1), connected(host, 2)
    since = first.sync("/").zxid
    first.disconnect()
    other.set("/", b"1")
    second = JuteCaller(host, 3)
    second.take_up(first, last_zxid=since)
    assert second.auth("digest", b"u:p").zxid == since
    second.send(OpCode.PING)
    host.pass_time(OPTIONS.session_report_ms)
    (ping,) = second.read()
    assert (ping.xid, ping.zxid) == (-2, since)
    again = SetWatches(since, ["/"], [], [])
    second.send(OpCode.SET_WATCHES, again, -8)
    event, reply = second.read()
    assert (event.xid, reply.xid) == (-1, -8) and reply.zxid > since


def test_persistent_watches_that_are_set_again_go_on() -> None:
    host = PureServer()
    caller, other = connected(host, 1), connected(host, 2)
    answer = caller.ask(
        OpCode.SET_WATCHES2, SetWatches2(caller.sync("/").zxid, None, None, None, ["/"], ["/"])
    )
    assert answer.err == 0
    other.create("/a")
    assert told(caller) == [(CREATED, "/a"), (CHILD, "/")]


NO_DIFF = RecentLogLimits(txns_max=1, read_log_bytes_max=1)


def test_what_this_protocol_cannot_say_closes_the_connection() -> None:
    """A snapshot replaces the tree under a persistent watch, which may have missed something."""
    servers = PureServers(3, window=NO_DIFF)
    watcher, other = connected(servers[1], 1), connected(servers[2], 2)
    since = watcher.sync("/").zxid
    watcher.ask(OpCode.ADD_WATCH, AddWatchRequest("/", 1))
    for peer in (2, 3):
        servers.cut(1, peer)
    for _ in range(6):
        other.set("/", b"x")
    for peer in (3, 2):
        servers.link(1, peer)
    servers[1].step()
    assert watcher.read() == [] and watcher.is_closed
    # A client that comes again sets its watch, and is told nothing of it, as by ZooKeeper.
    again = JuteCaller(servers[1], 3)
    again.take_up(watcher)
    body = SetWatches2(since, [], [], [], [], ["/"])
    assert again.ask(OpCode.SET_WATCHES2, body, -8).err == 0
    other.set("/", b"y")
    assert told(again) == [(CHANGED, "/")]


# Identities.


def test_a_credential_is_answered_in_its_place_and_written_once() -> None:
    caller = connected(PureServer())
    caller.raw(
        caller.frame(OpCode.CREATE, CreateRequest("/a", b"", OPEN, 0))
        + encode_request(AUTH_XID, OpCode.AUTH, AuthPacket(0, "digest", b"u:p"))
        + caller.frame(OpCode.WHO_AM_I, EmptyRequest())
    )
    caller._sent.insert(1, int(OpCode.AUTH))
    created, proven, who = caller.read()
    assert (created.xid, proven.xid, who.xid) == (1, AUTH_XID, 2)
    assert (proven.err, proven.body) == (0, EmptyResponse())
    assert who.body == WhoAmIResponse([ClientInfo("digest", "u"), ClientInfo("ip", "10.0.0.1")])
    before = caller.sync("/").zxid
    assert caller.auth("digest", b"u:p").err == 0 and caller.auth("ip", b"").err == 0
    assert caller.sync("/").zxid == before
    mine = [Acl(31, "auth", "")]
    assert caller.ask(OpCode.CREATE, CreateRequest("/m", b"", mine, 0)).err == 0
    acl = caller.ask(OpCode.GET_ACL, PathRequest("/m")).body
    assert isinstance(acl, GetACLResponse) and acl.acl == [Acl(31, "digest", digest_id("u", "p"))]


@pytest.mark.parametrize(("scheme", "credential"), [("sasl", b""), ("digest", b"u" * 129)])
def test_a_credential_that_proves_nothing_ends_the_connection(
    scheme: str, credential: bytes
) -> None:
    caller = connected(PureServer())
    caller.raw(
        encode_request(AUTH_XID, OpCode.AUTH, AuthPacket(0, scheme, credential))
        + encode_request(1, OpCode.CREATE, CreateRequest("/a", b"", OPEN, 0))
    )
    caller._sent.append(int(OpCode.AUTH))
    assert [(a.xid, a.err) for a in caller.read()] == [(AUTH_XID, Code.AUTH_FAILED)]
    assert caller.is_closed
    assert connected(caller.host, 2).exists("/a").err == Code.NO_NODE


def test_a_session_with_too_many_identities_gets_no_more() -> None:
    caller = connected(PureServer())
    answers = [caller.auth("digest", b"%d:p" % n).err for n in range(64)]
    assert answers == [0] * 64
    assert caller.auth("digest", b"more:p").err == Code.AUTH_FAILED and caller.is_closed


def test_sasl_is_refused_with_an_empty_token() -> None:
    caller = connected(PureServer())
    caller.send(OpCode.SASL, GetSASLRequest(b"x"))
    data = bytes(caller.host.streams[1])
    payload = data[data.index(b"\0\0\0\x14") + 4 :]
    assert payload[:4] == b"\0\0\0\x01" and payload[12:] == b"\xff\xff\xff\x8d\xff\xff\xff\xff"
    assert caller.is_closed


# The end, and what is no request.


def test_a_session_that_is_closed_is_answered_and_its_znodes_go() -> None:
    host = PureServer()
    caller, other = connected(host, 1), connected(host, 2)
    caller.create("/e", b"", 1)
    other.exists("/e", watch=True)
    assert caller.ask(OpCode.CLOSE_SESSION).err == 0 and caller.is_closed
    assert told(other) == [(DELETED, "/e")]


def test_an_unknown_opcode_is_answered_behind_what_came_before_and_closes() -> None:
    caller = connected(PureServer())
    caller.raw(
        caller.frame(OpCode.CREATE, CreateRequest("/a", b"", OPEN, 0))
        + encode_request(9, 99, EmptyRequest())
        + caller.frame(OpCode.CREATE, CreateRequest("/b", b"", OPEN, 0))
    )
    caller._sent.insert(1, int(OpCode.PING))
    assert [(a.xid, a.err) for a in caller.read()] == [(1, 0), (9, Code.UNIMPLEMENTED)]
    assert caller.is_closed
    other = connected(caller.host, 2)
    assert other.exists("/a").err == 0 and other.exists("/b").err == Code.NO_NODE


@pytest.mark.parametrize(
    "data", [b"\xff\xff\xff\xff", b"\x7f\xff\xff\xff", b"\x00\x10\x00\x00", b"\0\0\0\x02ab"]
)
def test_bytes_that_are_no_request_end_this_connection_alone(data: bytes) -> None:
    host = PureServer()
    caller, other = connected(host, 1), connected(host, 2)
    caller.raw(caller.frame(OpCode.CREATE, CreateRequest("/a", b"", OPEN, 0)) + data)
    assert caller.is_closed
    assert other.exists("/a").err == 0, "what came before is done"
    again = JuteCaller(host, 3)
    assert again.take_up(caller) is not None


@pytest.mark.parametrize("data", [b"\0\0\x04\x01", b"\0\0\0\x03abc", b"\xff\xff\xff\xfe", b"GET "])
def test_a_first_frame_that_is_none_ends_the_connection(data: bytes) -> None:
    caller = JuteCaller(PureServer(), 1)
    caller.raw(data)
    assert caller.is_closed and caller.host.streams[1] == b""
    caller.host.step(JuteBytesArrived(1, b"more"))


def test_a_request_may_be_as_long_as_the_setting_says() -> None:
    caller = connected(PureServer(limits=replace(LIMITS, request_bytes_max=100)))
    assert caller.create("/a", b"x" * 30).err == 0
    caller.send(OpCode.CREATE, CreateRequest("/b", b"x" * 100, OPEN, 0))
    assert caller.is_closed
    ((_, reason),) = caller.host.notes(server_trace_events.CLIENT_MALFORMED)  # type: ignore[misc]
    assert reason.endswith("at most 100 are allowed: zookeeper_request_bytes")


def test_the_lists_of_one_request_have_so_many_entries() -> None:
    limits = replace(LIMITS, transaction_ops_max=70, acl_entries_max=2, request_bytes_max=8_999)
    caller = connected(PureServer(limits=limits))
    assert limits.request_entries_max == 140
    many = OPEN * 140
    assert caller.ask(OpCode.CREATE, CreateRequest("/a", b"", many, 0)).err == 0
    for opcode, body in (
        (OpCode.CREATE, CreateRequest("/b", b"", [*many, *OPEN], 0)),
        (OpCode.SET_ACL, SetACLRequest("/a", [*many, *OPEN], -1)),
        (
            OpCode.MULTI,
            MultiRequest(
                [
                    Operation(OpCode.CREATE, CreateRequest("/b", b"", many, 0)),
                    Operation(OpCode.CREATE, CreateRequest("/c", b"", OPEN, 0)),
                ]
            ),
        ),
    ):
        assert caller.ask(opcode, body).err == Code.INVALID_ACL
    assert caller.exists("/b").err == Code.NO_NODE
    reason = "a request with more than 140 entries of ACLs: the setting acl_entries_max is 2"
    assert caller.host.notes(server_trace_events.CLIENT_LIMITED) == [(1, reason)] * 3


def test_a_request_sets_no_more_watches_than_a_connection_may_have() -> None:
    caller = connected(PureServer(limits=replace(LIMITS, watches_max=2)))
    assert caller.ask(OpCode.SET_WATCHES, SetWatches(0, ["/a"], ["/b"], [])).err == 0
    refused = caller.ask(OpCode.SET_WATCHES, SetWatches(0, ["/c"], ["/d"], ["/"]))
    assert refused.err == Code.BAD_ARGUMENTS
    assert caller.exists("/").err == 0, "the connection lives"


def test_a_request_that_is_refused_for_its_size_is_answered_in_its_place() -> None:
    limits = replace(LIMITS, transaction_ops_max=1, request_bytes_max=63)
    caller = connected(PureServer(limits=limits))
    check = Operation(13, CheckVersionRequest("/", -1))
    caller.raw(
        caller.frame(OpCode.CREATE, CreateRequest("/a", b"", OPEN, 0))
        + caller.frame(OpCode.MULTI, MultiRequest([check] * 2))
        + caller.frame(OpCode.EXISTS, PathWatchRequest("/a", False))
    )
    assert [(answer.xid, answer.err) for answer in caller.read()] == [(1, 0), (2, -8), (3, 0)]


@pytest.mark.parametrize(
    "too_long",
    [
        None,
        (OpCode.GET_CHILDREN, PathWatchRequest("/p", False)),
        (OpCode.GET_EPHEMERALS, PathRequest("/p/n0")),
    ],
)
def test_long_lists_come_in_one_frame(too_long: tuple[int, Any] | None) -> None:
    options = ServerOptions(
        session_report_ms=OPTIONS.session_report_ms,
        page_names=3,
        zookeeper=ZooKeeperOptions(list_bytes_max=60 if too_long else 64 << 20),
    )
    caller = connected(PureServer(options=options))
    names = [f"n{index:02}" for index in range(20)]
    caller.create("/p")
    for name in names:
        caller.create(f"/p/{name}", b"", 1)
    if too_long:
        caller.send(*too_long)
        assert caller.read() == [] and caller.is_closed
        reason = "a list: the setting zookeeper_list_bytes is 60"
        assert caller.host.notes(server_trace_events.CLIENT_LIMITED) == [(1, reason)]
        return
    listed = caller.children("/p").body
    assert isinstance(listed, GetChildrenResponse) and sorted(listed.children or ()) == names
    owned = caller.ask(OpCode.GET_EPHEMERALS, PathRequest("/p/n0")).body
    assert isinstance(owned, GetEphemeralsResponse)
    assert sorted(owned.ephemerals or ()) == [f"/p/{name}" for name in names[:10]]
    assert caller.ask(OpCode.GET_ALL_CHILDREN_NUMBER, PathRequest("/p")).body == (
        GetAllChildrenNumberResponse(20)
    )
