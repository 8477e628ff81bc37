"""ClientRequests: the reasons to close a client's link, and bounds.

The order of answers is in data/client_requests_*.txt.
"""

import pytest

from raykeeper.server import server_trace_events
from raykeeper.server.context import ServerOptions
from raykeeper.server.effects import CloseClient, SendClient
from raykeeper.server.events import ClientDisconnected, ClientFrameArrived, PeerFrame
from raykeeper.server.peer_messages import ForwardWrites, TouchSessionsReply
from raykeeper.zab.ids import Millis, ServerId, Zxid
from raykeeper.znodes.errors import Code
from raykeeper.znodes.limits import Limits
from raykeeper.znodes.replies import (
    CloseFrame,
    EmptyReply,
    GetChildrenReply,
    GetDataReply,
    Item,
    ServerFrame,
    WriteReply,
    decode_server_frame,
)
from raykeeper.znodes.requests import (
    ClientFrame,
    Connect,
    SessionId,
    Write,
    encode_client_frame,
)
from tests.harness.pure_servers import Caller, PureServer, PureServers

NO_SESSION = SessionId(0)
PASSWORD = bytes(16)
DEEP = b"\x91" * 100_000 + b"\xc0"
FRAME_WITH_PATH = b"\x93\x02\x01\x91\x94\x02\x01\xa2%s\xc2"  # getData of a path of two bytes
FRAME_WITH_OP = b"\x93\x02\x01\x91\x94\x01\x01\x00%s"  # write number 1


def values(items: list[Item]) -> list[bytes]:
    return [item.value for item in items if isinstance(item, GetDataReply)]


def kinds(items: list[Item]) -> list[type]:
    return [type(item) for item in items]


# Frames that a client must not send.


@pytest.mark.parametrize(
    "data",
    [
        b"",
        b"\x00",
        b"GET / HTTP/1.1\r\n",
        encode_client_frame(ClientFrame(1, [])) + b"\x00",
        FRAME_WITH_PATH % b"\xff\xfe",  # not UTF-8
        FRAME_WITH_OP % DEEP,  # deeper than any recursion may go
        b"\x93\x02\x01\xdd\xff\xff\xff\xff",  # its head announces four thousand million requests
        encode_client_frame(Connect(NO_SESSION, PASSWORD, Millis(1), Zxid(0))),  # a second one
    ],
)
def test_malformed_frame_ends_its_connection_alone(data: bytes) -> None:
    host = PureServer()
    bad, good = host.caller(1), host.caller(2)
    bad.raw(data)
    assert bad.ended == Code.CONNECTION_LOSS
    assert [detail[0] for detail in host.notes(server_trace_events.CLIENT_MALFORMED)] == [1]  # type: ignore[index]
    assert kinds(good.ask(good.exists("/"))) != []
    again = Caller(host, 3)
    assert again.take_up(bad) is not None and again.session_id == bad.session_id


@pytest.mark.parametrize(
    "data",
    [
        encode_client_frame(ClientFrame(1, [])),
        encode_client_frame(Connect(NO_SESSION, b"short", Millis(1), Zxid(0))),
        b"\xff",
    ],
)
def test_first_frame_must_be_a_connect(data: bytes) -> None:
    host = PureServer()
    host.step(ClientFrameArrived(9, data))
    assert host.frames[9] == [CloseFrame(Code.CONNECTION_LOSS)]
    assert host.closed == [9]
    assert host.server.stats().connections == 0


def test_a_connect_behind_a_malformed_frame_opens_no_session() -> None:
    """Both frames may be in one step, whose end closes the link: no event would end the session."""
    host = PureServer()
    connect = encode_client_frame(Caller(host, 9).request())
    host.step(ClientFrameArrived(9, b"\xff"), ClientFrameArrived(9, connect))
    assert host.frames[9] == [CloseFrame(Code.CONNECTION_LOSS)]
    assert host.closed == [9]
    assert host.server.stats().connections == 0


def test_requests_before_the_session_is_open_are_malformed() -> None:
    host = PureServer()
    host.is_disk_held = True
    caller = Caller(host, 1)
    assert caller.connect() is None
    caller.raw(encode_client_frame(ClientFrame(1, [])))
    assert host.frames[1] == [CloseFrame(Code.CONNECTION_LOSS)]
    host.release_disk()
    assert len(host.frames[1]) == 1  # its CreateSessionTxn finds no connection


def test_malformed_write_is_refused_and_uses_up_its_number() -> None:
    host = PureServer()
    caller = host.caller()
    ops = [b"\xc0", b"\x93\x02\xa2\xff\xfe\x00", b"\x95\x02\xa1/\x00" + b"\x91" * 800 + b"\xc0\xc0"]
    writes = [Write(n, 0, op) for n, op in enumerate(ops, 1)]
    items = caller.ask(*writes)
    assert [item.code for item in items if isinstance(item, WriteReply)] == [
        Code.MARSHALLING_ERROR,
        Code.MARSHALLING_ERROR,
        items[2].code,  # type: ignore[union-attr]
    ]
    caller.number = 3
    assert caller.ask(caller.create("/a"))[0].code == 0  # type: ignore[union-attr]


# The order within a session.


def test_each_sync_releases_the_writes_up_to_the_next() -> None:
    servers = PureServers(2)
    host = servers[1]
    caller = host.caller()
    servers.hold(2, 1)
    requests = [caller.create("/a"), caller.sync(), caller.create("/b"), caller.sync()]
    host.take()
    host.step(caller.frame(*requests, caller.create("/c")))
    assert [len(m.writes) for m in host.sent(ForwardWrites)] == [1]
    caller.ask(caller.create("/d"))
    assert [len(m.writes) for m in host.sent(ForwardWrites)] == [1]
    servers.release(2, 1)
    assert [len(m.writes) for m in host.sent(ForwardWrites)] == [1, 1, 2]
    assert kinds(caller.new()) == [
        WriteReply,
        EmptyReply,
        WriteReply,
        EmptyReply,
        WriteReply,
        WriteReply,
    ]


# Events.


def test_watches_of_a_closed_connection_are_gone() -> None:
    host = PureServer()
    caller, other = host.caller(1), host.caller(2)
    caller.ask(caller.exists("/a", watch=True))
    assert host.server.stats().watches == 1
    host.step(ClientDisconnected(1))
    host.step(ClientDisconnected(1))  # said twice
    assert host.server.stats().watches == 0
    other.ask(other.create("/a"))
    assert host.server.stats().connections == 1


# Bounds.


def test_queue_is_bounded() -> None:
    host = PureServer(options=ServerOptions(queued_requests_max=3))
    caller = host.caller()
    host.is_disk_held = True
    caller.ask(caller.create("/a"), caller.exists("/"), caller.exists("/"))
    assert caller.ended is None
    caller.ask(caller.exists("/"))
    assert caller.ended == Code.CONNECTION_LOSS
    assert host.notes(server_trace_events.CLIENT_OVERRUN) == [1]
    host.release_disk()  # the write is done, but no event tells the server
    assert host.server.state.tree.get("/a") is not None


def test_large_answers_leave_in_frames_of_their_own() -> None:
    host = PureServer()
    caller = host.caller()
    caller.ask(caller.create("/a", bytes(600_000)))
    before = len(caller.answers)
    items = caller.ask(*[caller.get("/a") for _ in range(5)])
    assert [len(frame.items) for frame in caller.answers[before:]] == [2, 2, 1]
    assert kinds(items) == [GetDataReply] * 5


def test_long_lists_leave_in_frames_of_their_own() -> None:
    host = PureServer()
    caller = host.caller()
    caller.ask(*[caller.create("/" + f"{n}".ljust(8_000, "x")) for n in range(30)])
    before = len(caller.answers)
    assert kinds(caller.ask(*[caller.children("/")] * 12)) == [GetChildrenReply] * 12
    assert [len(frame.items) for frame in caller.answers[before:]] == [5, 5, 2]


def test_items_behind_a_frame_that_left_early_leave_too() -> None:
    host = PureServer()
    caller = host.caller()
    caller.ask(caller.create("/a", bytes(1_000_000)))
    items = caller.ask(caller.get("/a"), caller.get("/a"), caller.sync(), caller.set("/a", b""))
    assert kinds(items) == [GetDataReply, GetDataReply, EmptyReply, WriteReply]


# Slow requests.


@pytest.mark.parametrize("election", [False, True])
def test_a_slow_request_names_its_slowest_stage(election: bool) -> None:
    servers = PureServers(2)
    host = servers[1]
    caller = host.caller()
    servers.hold(2, 1)
    caller.ask(caller.create("/a"))
    servers.pass_time(1_500)
    if election:
        servers.cut(1, 2)
        servers.link(1, 2)
    servers.release(2, 1)
    assert kinds(caller.new()) == [WriteReply]
    (detail,) = host.notes(server_trace_events.REQUEST_SLOW)
    stage = "election" if election else "queue"  # no proposal came
    assert detail == (1, caller.session_id, "write", 1, stage, 1_500)


def test_nothing_is_sent_to_a_connection_that_has_ended() -> None:
    host = PureServer()
    caller = host.caller()
    frames = [caller.frame(caller.exists("/")), ClientFrameArrived(1, b"\xff")]
    host.take()
    host.step(*frames)
    sent = [decode_server_frame(effect.data) for effect in host.of(SendClient)]
    assert [type(frame) for frame in sent] == [ServerFrame, CloseFrame]
    assert host.effects[-1] == CloseClient(1)


def test_the_slowest_request_of_a_step_is_reported() -> None:
    host = PureServer(options=ServerOptions(slow_request_ms=Millis(10)))
    caller = host.caller()
    host.is_disk_held = True
    caller.ask(caller.create("/a"))
    host.clock.now = Millis(5)
    caller.ask(caller.create("/b"))
    host.clock.now = Millis(50)
    host.release_disk()
    assert host.notes(server_trace_events.REQUEST_SLOW) == [
        (2, caller.session_id, "write", 1, "force", 50)
    ]


def test_confirmed_heartbeat_leaves_with_the_answers_of_its_step() -> None:
    servers = PureServers(2)
    caller = servers[1].caller()
    caller.ask()
    number = 1
    servers.hold(1, 2)
    servers[1].clock.now = Millis(100)
    servers[1].step()
    frames = [
        caller.frame(caller.exists("/")),
        PeerFrame(ServerId(2), [TouchSessionsReply(number, [])]),
    ]
    before = len(caller.answers)
    servers[1].step(*frames)
    (frame,) = caller.answers[before:]
    assert frame.heartbeat_seq == 1 and len(frame.items) == 1


@pytest.mark.parametrize("with_sync", [False, True])
def test_write_does_not_overtake_a_read_held_while_answers_trickle_in(with_sync: bool) -> None:
    """Of five servers one follower at a time is heard, each too long after the one before."""
    servers = PureServers(5, limits=Limits(session_timeout_min_ms=Millis(200)))
    leader = servers[5]
    caller = leader.caller()
    caller.ask(caller.create("/a", b"old"))

    def hear(server: int) -> None:
        servers.release(server, 5)
        servers.hold(server, 5)
        servers.clock.now = Millis(servers.clock.now + 250)
        leader.step()

    for server in (1, 2, 3, 4):
        servers.hold(server, 5)
    servers.clock.now = Millis(servers.clock.now + 250)
    requests = [caller.sync()] if with_sync else []
    leader.step(caller.frame(*requests, caller.get("/a"), caller.set("/a", b"new")))
    servers.run()
    for server in (1, 2, 3, 4, 1, 2):
        hear(server)
    servers.held.clear()
    servers.run()
    assert values(caller.items) == [b"old"]
    assert kinds(caller.items)[-1] is WriteReply
