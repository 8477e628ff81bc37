"""Replies: what a server sends arrives as it was."""

import pytest

from raykeeper.zab.ids import Millis, Zxid
from raykeeper.znodes.errors import Code
from raykeeper.znodes.replies import (
    CloseFrame,
    ConnectReply,
    EmptyReply,
    ErrorReply,
    EventType,
    ExistsReply,
    GetChildrenReply,
    GetDataReply,
    ServerFrame,
    WatcherEvent,
    WriteReply,
    decode_server_frame,
    encode_server_frame,
)
from raykeeper.znodes.requests import SessionId
from raykeeper.znodes.stat import Stat

Z = Zxid((1 << 63) - 1)
STAT = Stat(Z, Z, Millis(1), Millis(2), -1, -(1 << 31), 0, Z, 3, 4, Z)


@pytest.mark.parametrize(
    "frame",
    [
        ConnectReply(Code.OK, SessionId(Z), Millis(5_000), Z, 7),
        ConnectReply(Code.CONNECTION_LOSS, SessionId(0), Millis(0), Z, 0, detail="full"),
        ConnectReply(Code.OK, SessionId(Z), Millis(5_000), Z, 7, "salt", own_uuid="own"),
        CloseFrame(Code.SESSION_MOVED),
        ServerFrame(0, Z, []),
        ServerFrame(
            1,
            Z,
            [
                WatcherEvent(EventType.CHILD, "/a", Z),
                WriteReply(1, Z, 0, "/a", STAT),
                WriteReply(2, Z, Code.NO_NODE, "", None),
                GetDataReply(3, Z, b"v", STAT),
                ExistsReply(4, Z, None),
                GetChildrenReply(5, Z, ["a", "b"], STAT),
                EmptyReply(6, Z),
                ErrorReply(7, Z, Code.NO_NODE),
            ],
        ),
    ],
)
def test_a_frame_survives_encoding(frame: ConnectReply | ServerFrame | CloseFrame) -> None:
    assert decode_server_frame(encode_server_frame(frame)) == frame
