"""What a client sends: the schema of its frames.

A write is numbered within its session and its operation stays opaque bytes until it
reaches the leader: a follower forwards them as they came. A read has an `xid` of the client's
choosing and is decoded and answered by the server the client is connected to.

ZooKeeper: `zookeeper.jute`, proto module. Numbers of writes have no counterpart there.
"""

from typing import NewType

import msgspec
from msgspec import Struct

from raykeeper.zab.ids import Millis, Zxid

SessionId = NewType("SessionId", int)
"""The zxid of the transaction that opened the session, so it is unique for ever; 0 is none."""

PASSWORD_BYTES = 16
ANY_VERSION = -1


class CreateMode:
    """Bits of `Create.flags`, as in ZooKeeper's CreateMode 0 to 3."""

    EPHEMERAL = 1
    SEQUENTIAL = 2
    MASK = 3


class Create(Struct, frozen=True, array_like=True, tag=1, gc=False):
    """Create a znode. A sequential one gets ten digits appended to its path."""

    path: str
    value: bytes
    flags: int


class Delete(Struct, frozen=True, array_like=True, tag=2, gc=False):
    """Delete a znode without children, at `version` or at any (-1)."""

    path: str
    version: int


class SetData(Struct, frozen=True, array_like=True, tag=3, gc=False):
    """Replace the value, at `version` or at any (-1)."""

    path: str
    value: bytes
    version: int


class CloseSession(Struct, frozen=True, array_like=True, tag=4, gc=False):
    """End the session and delete its ephemerals."""


WriteOp = Create | Delete | SetData | CloseSession


class Write(Struct, frozen=True, array_like=True, tag=1):
    """A write: contiguous `number` within the session, from 1.

    `acked`: every outcome up to this number has reached the client and may be forgotten.
    """

    number: int
    acked: int
    op: bytes


class GetData(Struct, frozen=True, array_like=True, tag=2, gc=False):
    """Read value and Stat; `watch` sets a data watch unless the znode is missing."""

    xid: int
    path: str
    watch: bool


class Exists(Struct, frozen=True, array_like=True, tag=3, gc=False):
    """Read the Stat, if any; `watch` sets a data watch, or an exist watch when missing."""

    xid: int
    path: str
    watch: bool


class GetChildren(Struct, frozen=True, array_like=True, tag=4, gc=False):
    """List the children's names; `watch` sets a child watch unless the znode is missing."""

    xid: int
    path: str
    watch: bool


class Sync(Struct, frozen=True, array_like=True, tag=5, gc=False):
    """Wait until this server has everything that was committed when the request arrived."""

    xid: int
    path: str


class SetWatches(Struct, frozen=True, array_like=True, tag=6):
    """Set watches again after a reconnect; what changed after `zxid` is told at once.

    Paths of getData, of exists on a missing znode, and of getChildren watches (opcode 101).
    """

    xid: int
    zxid: Zxid
    data: list[str]
    exist: list[str]
    child: list[str]


Read = GetData | Exists | GetChildren
Request = Write | Read | Sync | SetWatches


class Connect(Struct, frozen=True, array_like=True, tag=1):
    """First frame of a connection: open a session, or take it up again.

    For a new session (`session_id` 0) the client draws `password` at random: it is the session's
    password from then on, and a repeated request with the same one finds the session it made.
    The server answers only when it has applied `last_zxid`, so the client never reads backwards.
    `attempt` numbers the connections of a client, from 1; a session never goes back to an earlier
    one. A client that does not number them says 0.
    """

    session_id: SessionId
    password: bytes
    timeout_ms: Millis
    last_zxid: Zxid
    attempt: int = 0


class ClientFrame(Struct, frozen=True, array_like=True, tag=2):
    """Requests in order. `beat` numbers the frames of a session; an empty one is a heartbeat."""

    beat: int
    requests: list[Request]


encode_op = msgspec.msgpack.Encoder().encode
decode_op = msgspec.msgpack.Decoder(WriteOp).decode
encode_client_frame = msgspec.msgpack.Encoder().encode
decode_client_frame = msgspec.msgpack.Decoder(Connect | ClientFrame).decode
