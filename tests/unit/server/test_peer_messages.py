"""Peer messages: they share frames with Zab's packets, so each kind must be distinguishable."""

from typing import get_args

import msgspec
import pytest
from msgspec.inspect import StructType, type_info

from raykeeper.server.peer_messages import (
    DigestMismatch,
    DigestReply,
    DigestRequest,
    EndDeadSessions,
    ForwardConnect,
    ForwardedWrite,
    ForwardWrites,
    MemberAddress,
    OwnedSession,
    PeerMessage,
    ReadIndexReply,
    ReadIndexRequest,
    ServerMessage,
    TouchSessions,
    TouchSessionsReply,
    WriteGap,
    decode_peer_frame,
    encode_peer_frame,
)
from raykeeper.zab.ids import Millis, Zxid
from raykeeper.zab.messages import Commit, Ping
from raykeeper.znodes.digest import DIGEST_MASK
from raykeeper.znodes.requests import Connect, Create, CreateMode, SessionId, Write, encode_op

OP = encode_op(Create("/a", b"value", CreateMode.EPHEMERAL))
SESSION, OWNER = SessionId(1 << 62), Zxid((1 << 63) - 1)
MESSAGES: list[PeerMessage] = [
    ForwardWrites([ForwardedWrite(SESSION, OWNER, Write(1, 0, OP))]),
    ForwardConnect(1 << 40, Connect(SESSION, bytes(16), Millis(10_000), OWNER)),
    WriteGap(SESSION, OWNER),
    TouchSessions(7, [OwnedSession(SESSION, OWNER)]),
    TouchSessionsReply(7, [SESSION]),
    ReadIndexRequest(9),
    ReadIndexReply(9, OWNER),
    DigestRequest(OWNER, DIGEST_MASK),
    DigestReply(OWNER, DIGEST_MASK),
    DigestMismatch(OWNER),
    EndDeadSessions([OwnedSession(SESSION, OWNER)]),
    MemberAddress("[fe80::1]:2181"),
]


def test_every_message_has_a_sample() -> None:
    assert [type(message) for message in MESSAGES] == list(get_args(ServerMessage))


def test_frame_comes_out_as_it_went_in() -> None:
    frame = [Commit(OWNER), *MESSAGES, Ping(1)]
    decoded = decode_peer_frame(encode_peer_frame(frame))
    assert encode_peer_frame(decoded) == encode_peer_frame(frame)
    assert [type(message) for message in decoded] == [type(message) for message in frame]


def test_an_operation_keeps_the_bytes_of_the_client() -> None:
    (message,) = decode_peer_frame(encode_peer_frame(MESSAGES[:1]))
    assert isinstance(message, ForwardWrites)
    assert bytes(message.writes[0].write.op) == OP


def test_tags_are_unique() -> None:
    infos = [type_info(kind) for kind in get_args(PeerMessage)]
    tags = [info.tag for info in infos if isinstance(info, StructType)]
    assert len(tags) == len(infos) == len(set(tags))


@pytest.mark.parametrize("data", [b"", b"\x91\x91\xcc\xc8", b"\x90\x00", b"\x91\x92\x23\xa1x"])
def test_every_malformed_frame_raises_the_same_error(data: bytes) -> None:
    with pytest.raises(msgspec.DecodeError):
        decode_peer_frame(data)
