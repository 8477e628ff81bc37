"""Replies: what a server sends arrives as it was."""

import pytest

from raykeeper.zab.ids import Millis, Zxid
from raykeeper.znodes.errors import Code
from raykeeper.znodes.replies import (
    ChildrenRead,
    Connected,
    DataRead,
    Done,
    Ended,
    EventType,
    ReadFailed,
    ServerFrame,
    StatRead,
    WatchFired,
    Written,
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
        Connected(Code.OK, SessionId(Z), Millis(5_000), Z, 7),
        Ended(Code.SESSION_MOVED),
        ServerFrame(0, Z, []),
        ServerFrame(
            1,
            Z,
            [
                WatchFired(EventType.CHILD, "/a", Z),
                Written(1, Z, 0, "/a", STAT),
                Written(2, Z, Code.NO_NODE, "", None),
                DataRead(3, Z, b"v", STAT),
                StatRead(4, Z, None),
                ChildrenRead(5, Z, ["a", "b"], STAT),
                Done(6, Z),
                ReadFailed(7, Z, Code.NO_NODE),
            ],
        ),
    ],
)
def test_a_frame_comes_back(frame: Connected | ServerFrame | Ended) -> None:
    assert decode_server_frame(encode_server_frame(frame)) == frame
