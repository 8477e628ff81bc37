"""What servers say to each other beside Zab: requests on their way to the leader and back.

They share the link with Zab's packets, so that a leader's answer stays in order with its commits.
"""

import msgspec
from msgspec import Struct

from raykeeper.zab.ids import Zxid
from raykeeper.zab.messages import WireZxid, ZabMessage
from raykeeper.znodes.requests import Connect, SessionId, Write


class ForwardedWrite(Struct, frozen=True, array_like=True, gc=False):
    """A client's write on its way to the leader; its operation stays the client's bytes."""

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
    """From the leader: a write skipped a number, so its connection cannot go on."""

    session_id: SessionId
    owner_zxid: Zxid


class OwnedSession(Struct, frozen=True, array_like=True):
    """A session was heard."""

    session_id: SessionId
    owner_zxid: Zxid


class TouchSessions(Struct, frozen=True, array_like=True, tag=33):
    """To the leader: the sessions heard since batch `number` - 1."""

    number: int
    sessions: list[OwnedSession]


class TouchSessionsReply(Struct, frozen=True, array_like=True, tag=34):
    """From the leader: the sessions of batch `number` live at least a timeout from its arrival.

    Not so those in `rejected`, which have ended, are about to, or have moved elsewhere.
    """

    number: int
    rejected: list[SessionId]


class ReadIndexRequest(Struct, frozen=True, array_like=True, tag=35):
    """To the leader: tell a commit point and confirm that you lead (rule Z4)."""

    token: int


class ReadIndexReply(Struct, frozen=True, array_like=True, tag=36):
    """From the leader, after the commits up to `zxid`."""

    token: int
    zxid: Zxid


class DigestRequest(Struct, frozen=True, array_like=True, tag=37, gc=False):
    """From the leader, after the commits up to `zxid`: its digest there; what is yours?"""

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
    """To the leader: the processes that have these sessions are dead; so far it is their last one.

    A session that has another owner number by then is somebody else's, and lives on.
    """

    sessions: list[OwnedSession]


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
)
LeaderReply = WriteGap | TouchSessionsReply | ReadIndexReply | DigestRequest | DigestMismatch
"""Those of them that only a leader sends."""
LeaderRequest = (
    ForwardWrites
    | ForwardConnect
    | TouchSessions
    | ReadIndexRequest
    | DigestReply
    | EndDeadSessions
)
"""Those that only a leader is sent."""
PeerMessage = ZabMessage | ServerMessage

encode_peer_frame = msgspec.msgpack.Encoder().encode
"""Encode a `list[PeerMessage]`."""
decode_peer_frame = msgspec.msgpack.Decoder(list[PeerMessage]).decode
"""Decode a `list[PeerMessage]`; raises one of `zab.errors.MALFORMED`."""
