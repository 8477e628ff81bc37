"""Messages between servers beside Zab's: requests to the leader, and its replies.

They share the link with Zab's messages, so that a leader's reply stays in order with its commits.
"""

from typing import Annotated, Final

import msgspec
from msgspec import Meta, Struct

from raykeeper.zab.ids import Zxid
from raykeeper.zab.messages import ZabMessage
from raykeeper.zab.wire_types import WireZxid
from raykeeper.znodes.requests import Connect, SessionId, Write

_ADDRESS_PATTERN: Final = r"^[0-9A-Za-z.:_%\[\]-]{1,255}:[0-9]{1,5}\Z"


class ForwardedWrite(Struct, frozen=True, array_like=True, gc=False):
    """A client's write on its way to the leader, with the operation in the client's own bytes."""

    session_id: SessionId
    owner_zxid: Zxid
    write: Write


class ForwardWrites(Struct, frozen=True, array_like=True, tag=30):
    """To the leader: writes of any number of sessions, in the order of each session."""

    writes: list[ForwardedWrite]


class ForwardConnect(Struct, frozen=True, array_like=True, tag=31):
    """To the leader: a client wants a session on the sender's `connection`."""

    connection: int
    request: Connect
    host: str = ""


class WriteGap(Struct, frozen=True, array_like=True, tag=32):
    """From the leader: a write skipped a number, so its connection must be closed."""

    session_id: SessionId
    owner_zxid: Zxid


class OwnedSession(Struct, frozen=True, array_like=True):
    """A session, and the owner zxid under which the sender has it."""

    session_id: SessionId
    owner_zxid: Zxid


class TouchSessions(Struct, frozen=True, array_like=True, tag=33):
    """To the leader: the sessions heard since report `number` - 1."""

    number: int
    sessions: list[OwnedSession]


class TouchSessionsReply(Struct, frozen=True, array_like=True, tag=34):
    """From the leader: the sessions of report `number` live at least a timeout from its arrival.

    Sessions in `rejected` are excepted: they have ended, are about to, have moved elsewhere, or are
    suspected still.
    """

    number: int
    rejected: list[SessionId]


class ReadIndexRequest(Struct, frozen=True, array_like=True, tag=35):
    """To the leader: send a commit point, and confirm that you lead (rule Z4)."""

    token: int


class ReadIndexReply(Struct, frozen=True, array_like=True, tag=36):
    """From the leader, after the commits up to `zxid`."""

    token: int
    zxid: Zxid


class DigestRequest(Struct, frozen=True, array_like=True, tag=37, gc=False):
    """From the leader, after the commits up to `zxid`: its digest there; send yours."""

    zxid: WireZxid
    digest: int


class DigestReply(Struct, frozen=True, array_like=True, tag=38, gc=False):
    """To the leader: the sender's digest at `zxid`."""

    zxid: WireZxid
    digest: int


class DigestMismatch(Struct, frozen=True, array_like=True, tag=39, gc=False):
    """From the leader: at `zxid` a quorum agrees on another digest than the receiver's."""

    zxid: WireZxid


class EndDeadSessions(Struct, frozen=True, array_like=True, tag=40):
    """To the leader: the processes that had these sessions last are dead, so end the sessions.

    A session with another owner zxid has moved to another connection, and lives on.
    """

    sessions: list[OwnedSession]


class MemberAddress(Struct, frozen=True, array_like=True, tag=41, gc=False):
    """To the leader: where the sender takes clients of ZooKeeper, "host:port"."""

    address: Annotated[str, Meta(pattern=_ADDRESS_PATTERN)]


ServerMessage = (
    ForwardWrites
    | ForwardConnect
    | WriteGap
    | TouchSessions
    | TouchSessionsReply
    | ReadIndexRequest
    | ReadIndexReply
    | DigestRequest
    | DigestReply
    | DigestMismatch
    | EndDeadSessions
    | MemberAddress
)
PeerMessage = ZabMessage | ServerMessage

encode_peer_frame = msgspec.msgpack.Encoder().encode
"""Encode a `list[PeerMessage]`."""
decode_peer_frame = msgspec.msgpack.Decoder(list[PeerMessage]).decode
"""Decode a `list[PeerMessage]`; raises one of `zab.errors.MALFORMED`."""
