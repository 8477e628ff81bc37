"""Frames: the bytes of each request and reply, in pieces of any size, and what is refused."""

import pytest

from raykeeper.jute.errors import JuteError, TooManyElements
from raykeeper.jute.fields import Record
from raykeeper.jute.frames import (
    FrameReader,
    Reply,
    Request,
    decode_connect,
    decode_connect_response,
    decode_reply,
    decode_request,
    encode_connect,
    encode_connect_response,
    encode_reply,
    encode_request,
)
from raykeeper.jute.multi import MultiRequest, Operation
from raykeeper.jute.opcodes import AUTH_XID, NOTIFICATION_XID, PING_XID, OpCode
from raykeeper.jute.records import (
    AddWatchRequest,
    AuthPacket,
    CheckVersionRequest,
    ClientInfo,
    ConnectRequest,
    ConnectResponse,
    CreateRequest,
    CreateResponse,
    EmptyRequest,
    EmptyResponse,
    ErrorResponse,
    GetChildrenResponse,
    PathRequest,
    PathWatchRequest,
    ReconfigRequest,
    ReplyHeader,
    SetACLRequest,
    SetWatches,
    SetWatches2,
    WatcherEvent,
    WhoAmIResponse,
)
from raykeeper.znodes.acl import Acl

ZEROS = bytes(16)
CONNECT = (
    bytes.fromhex("0000002d 00000000 0000000000000000 00002710 0000000000000000 00000010")
    + ZEROS
    + b"\0"
)
"""The first frame of a client that knows read-only mode: 45 bytes, 10 s, no session."""
CONNECT_OLD = bytes.fromhex("0000002c") + CONNECT[4:-1]


def test_the_first_frame_has_a_flag_or_ends_before_it() -> None:
    new = ConnectRequest(0, 0, 10_000, 0, ZEROS, False)
    old = ConnectRequest(0, 0, 10_000, 0, ZEROS)
    assert len(CONNECT) == 49 and len(CONNECT_OLD) == 48
    for request, frame in ((new, CONNECT), (old, CONNECT_OLD)):
        assert encode_connect(request) == frame
        assert decode_connect(frame[4:]) == request


def test_the_answer_has_a_flag_or_ends_before_it() -> None:
    frame = bytes.fromhex("00000025 00000000 00002710 0000040000000001 00000010") + b"p" * 16
    new, old = (ConnectResponse(0, 10_000, 0x40000000001, b"p" * 16, x) for x in (True, None))
    assert encode_connect_response(new) == frame + b"\x01"
    assert encode_connect_response(old) == b"\0\0\0\x24" + frame[4:]
    assert decode_connect_response(frame[4:] + b"\x01") == new
    assert decode_connect_response(frame[4:]) == old


REQUESTS: list[tuple[int, int, Record, bytes]] = [
    (
        *(1, OpCode.CREATE, CreateRequest("/a", b"v", [Acl(31, "world", "anyone")], 3)),
        b"\0\0\0\x01\0\0\0\x01" b"\0\0\0\x02/a" b"\0\0\0\x01v"
        b"\0\0\0\x01\0\0\0\x1f\0\0\0\x05world\0\0\0\x06anyone" b"\0\0\0\x03",
    ),
    (
        *(2, OpCode.GET_DATA, PathWatchRequest("/a", True)),
        b"\0\0\0\x02\0\0\0\x04" b"\0\0\0\x02/a\x01",
    ),
    (*(PING_XID, OpCode.PING, EmptyRequest()), b"\xff\xff\xff\xfe\0\0\0\x0b"),
    (*(3, OpCode.CLOSE_SESSION, EmptyRequest()), b"\0\0\0\x03\xff\xff\xff\xf5"),
    (
        *(AUTH_XID, OpCode.AUTH, AuthPacket(0, "digest", b"u:p")),
        b"\xff\xff\xff\xfc\0\0\0\x64" b"\0\0\0\0" b"\0\0\0\x06digest" b"\0\0\0\x03u:p",
    ),
    (*(4, OpCode.SYNC, PathRequest("/")), b"\0\0\0\x04\0\0\0\x09" b"\0\0\0\x01/"),
    (
        *(-8, OpCode.SET_WATCHES, SetWatches(5, ["/a"], [], None)),
        b"\xff\xff\xff\xf8\0\0\0\x65" b"\0\0\0\0\0\0\0\x05" b"\0\0\0\x01\0\0\0\x02/a"
        b"\0\0\0\0" b"\xff\xff\xff\xff",
    ),
    (
        *(-8, OpCode.SET_WATCHES2, SetWatches2(5, [], [], [], ["/p"], ["/r"])),
        b"\xff\xff\xff\xf8\0\0\0\x69" b"\0\0\0\0\0\0\0\x05" b"\0\0\0\0\0\0\0\0\0\0\0\0"
        b"\0\0\0\x01\0\0\0\x02/p" b"\0\0\0\x01\0\0\0\x02/r",
    ),
    (
        *(6, OpCode.ADD_WATCH, AddWatchRequest("/a", 1)),
        b"\0\0\0\x06\0\0\0\x6a" b"\0\0\0\x02/a" b"\0\0\0\x01",
    ),
    (
        *(7, OpCode.RECONFIG, ReconfigRequest("a", "b", "c", -1)),
        b"\0\0\0\x07\0\0\0\x10" b"\0\0\0\x01a\0\0\0\x01b\0\0\0\x01c" + b"\xff" * 8,
    ),
]  # fmt: skip


@pytest.mark.parametrize(("xid", "opcode", "body", "payload"), REQUESTS)
def test_the_bytes_of_a_request(xid: int, opcode: int, body: Record, payload: bytes) -> None:
    assert encode_request(xid, opcode, body) == len(payload).to_bytes(4) + payload
    assert decode_request(payload) == Request(xid, opcode, body)
    assert decode_request(payload + b"more") == Request(xid, opcode, body)
    for size in range(len(payload)):
        with pytest.raises(JuteError):
            decode_request(payload[:size])


def test_an_opcode_of_no_request_has_no_body() -> None:
    assert decode_request(b"\0\0\0\x01\0\0\0\x63abc") == Request(1, 99, None)


REPLIES: list[tuple[int, int, int, int, Record | None, bytes]] = [
    (
        *(OpCode.CREATE, 1, 0x40000000002, 0, CreateResponse("/a")),
        b"\0\0\0\x01" b"\0\0\x04\0\0\0\0\x02" b"\0\0\0\0" b"\0\0\0\x02/a",
    ),
    # Nothing follows an error.
    (
        *(OpCode.GET_DATA, 2, 3, -101, None),
        b"\0\0\0\x02" b"\0\0\0\0\0\0\0\x03" b"\xff\xff\xff\x9b",
    ),
    (
        *(OpCode.DELETE, 3, 4, 0, EmptyResponse()),
        b"\0\0\0\x03" b"\0\0\0\0\0\0\0\x04" b"\0\0\0\0",
    ),
    (
        *(OpCode.GET_DATA, NOTIFICATION_XID, 4, 0, WatcherEvent(3, 3, "/a")),
        b"\xff\xff\xff\xff" b"\0\0\0\0\0\0\0\x04" b"\0\0\0\0" b"\0\0\0\x03\0\0\0\x03\0\0\0\x02/a",
    ),
    (
        *(OpCode.GET_CHILDREN, 5, 4, 0, GetChildrenResponse(["x", "y"])),
        b"\0\0\0\x05" b"\0\0\0\0\0\0\0\x04" b"\0\0\0\0" b"\0\0\0\x02\0\0\0\x01x\0\0\0\x01y",
    ),
    (
        *(OpCode.ADD_WATCH, 6, 4, 0, ErrorResponse(0)),
        b"\0\0\0\x06" b"\0\0\0\0\0\0\0\x04" b"\0\0\0\0" b"\0\0\0\0",
    ),
    (
        *(OpCode.WHO_AM_I, 7, 4, 0, WhoAmIResponse([ClientInfo("ip", "::1")])),
        b"\0\0\0\x07" b"\0\0\0\0\0\0\0\x04" b"\0\0\0\0"
        b"\0\0\0\x01" b"\0\0\0\x02ip" b"\0\0\0\x03::1",
    ),
]  # fmt: skip


@pytest.mark.parametrize(("opcode", "xid", "zxid", "err", "body", "payload"), REPLIES)
def test_the_bytes_of_a_reply(
    opcode: int, xid: int, zxid: int, err: int, body: Record | None, payload: bytes
) -> None:
    assert encode_reply(xid, zxid, err, body) == len(payload).to_bytes(4) + payload
    assert decode_reply(payload, opcode) == Reply(ReplyHeader(xid, zxid, err), body)
    for size in range(len(payload)):
        with pytest.raises(JuteError):
            decode_reply(payload[:size], opcode)


@pytest.mark.parametrize("size", range(1, len(CONNECT) + 1))
def test_frames_arrive_in_pieces_of_any_size(size: int) -> None:
    frames = [CONNECT, b"\0\0\0\0", CONNECT_OLD, b"\0\0\0\x01x"]
    stream = b"".join(frames)
    reader = FrameReader()
    got: list[bytes] = []
    for start in range(0, len(stream), size):
        reader.feed(stream[start : start + size])
        while (payload := reader.next()) is not None:
            got.append(payload)
    assert got == [frame[4:] for frame in frames]
    assert len(reader) == 0


@pytest.mark.parametrize("length", [-1, -(1 << 31), 11, (1 << 31) - 1])
def test_a_length_is_refused_as_soon_as_it_is_known(length: int) -> None:
    reader = FrameReader(10)
    reader.feed(length.to_bytes(4, signed=True)[:3])
    assert reader.next() is None
    reader.feed(length.to_bytes(4, signed=True)[3:])
    with pytest.raises(JuteError, match=f"a frame of {length} bytes"):
        reader.next()


def test_the_first_bytes_can_be_looked_at() -> None:
    reader = FrameReader()
    reader.feed(b"ruo")
    assert reader.peek(4) == b"ruo"
    reader.feed(b"k\n")
    assert reader.peek(4) == b"ruok" and len(reader) == 5


def test_the_bound_of_a_frame_can_be_raised() -> None:
    reader = FrameReader(1)
    reader.bytes_max = 2
    reader.feed(b"\0\0\0\x02ab")
    assert reader.next() == b"ab"


@pytest.mark.parametrize("payload", [b"", CONNECT[4:-1][:-1], CONNECT[4:30]])
def test_a_first_frame_that_is_cut_is_refused(payload: bytes) -> None:
    with pytest.raises(JuteError):
        decode_connect(payload)
    with pytest.raises(JuteError):
        decode_connect_response(payload[:16])


CHECK = Operation(OpCode.CHECK, CheckVersionRequest("/", -1))
ENTRY = Acl(31, "world", "anyone")


def creates(count: int) -> MultiRequest:
    return MultiRequest(
        [Operation(OpCode.CREATE, CreateRequest("/a", b"", [ENTRY], 0)) for _ in range(count)]
    )


@pytest.mark.parametrize(
    ("kind", "opcode", "fits", "too_many"),
    [
        (Operation, OpCode.MULTI, MultiRequest([CHECK] * 2), MultiRequest([CHECK] * 3)),
        (Operation, OpCode.MULTI_READ, MultiRequest([CHECK] * 2), MultiRequest([CHECK] * 3)),
        # All lists of a request together.
        (Acl, OpCode.MULTI, creates(2), creates(3)),
        (
            *(Acl, OpCode.SET_ACL),
            *(SetACLRequest("/a", [ENTRY] * count, -1) for count in (2, 3)),
        ),
        (
            *(str, OpCode.SET_WATCHES),
            *(SetWatches(0, [""] * count, ["/"], None) for count in (1, 2)),
        ),
    ],
)
def test_a_request_with_too_many_elements_is_read_no_further(
    kind: type, opcode: OpCode, fits: Record, too_many: Record
) -> None:
    elements_max = {kind: 2}
    assert decode_request(encode_request(7, opcode, fits)[4:], elements_max).body == fits
    payload = encode_request(7, opcode, too_many)[4:]
    assert decode_request(payload).body == too_many
    for cut in (payload, payload[:-1]):
        request = decode_request(cut, elements_max)
        assert (request.xid, request.opcode) == (7, opcode)
        assert isinstance(request.body, TooManyElements)
        assert (request.body.kind, request.body.most) == (kind, 2)
