"""The messages of a client: the schema of its frames.

A write is numbered within its session and its operation stays opaque bytes until it
reaches the leader: a follower forwards them as they came. A read has an `xid` of the client's
choosing and is decoded and answered by the server the client is connected to.

ZooKeeper: `zookeeper.jute`, proto module. Numbers of writes have no counterpart there.
"""

from enum import IntEnum
from typing import Annotated, Final, NewType, final, get_args

import msgspec
from msgspec import Meta, Struct

from raykeeper.zab.ids import Millis, Zxid
from raykeeper.znodes.acl import Acl

SessionId = NewType("SessionId", int)
"""The zxid of the transaction that opened the session, so it is unique for ever; 0 is none."""

PASSWORD_BYTES = 16
IDENTITY_BYTES_MAX = 250
"""Of the line that names the process of a client."""
ANY_VERSION = -1


class CreateMode:
    """The values of `Create.flags`, ZooKeeper's CreateMode. Up to 3 they are two bits."""

    PERSISTENT = 0
    EPHEMERAL = 1
    SEQUENTIAL = 2
    CONTAINER = 4
    TTL = 5
    TTL_SEQUENTIAL = 6
    LAST = 6


class Create(Struct, frozen=True, array_like=True, tag=1, gc=False):
    """Create a znode. A sequential one gets ten digits appended to its path.

    `value` None is null data (`Znode`). `acls` None is open to all. `ttl_ms` goes with the modes of
    that name, and is 0 else.
    """

    path: str
    value: bytes | None
    flags: int
    acls: list[Acl] | None = None
    ttl_ms: int = 0


class Delete(Struct, frozen=True, array_like=True, tag=2, gc=False):
    """Delete a znode without children, at `version` or at any (-1)."""

    path: str
    version: int


class SetData(Struct, frozen=True, array_like=True, tag=3, gc=False):
    """Replace the value, by null data if it is None, at `version` or at any (-1)."""

    path: str
    value: bytes | None
    version: int


class CloseSession(Struct, frozen=True, array_like=True, tag=4, gc=False):
    """End the session and delete its ephemerals."""


class SetAcls(Struct, frozen=True, array_like=True, tag=5):
    """Replace the ACL, at `version` of the ACL or at any (-1)."""

    path: str
    acls: list[Acl]
    version: int


class AddAuth(Struct, frozen=True, array_like=True, tag=6, gc=False):
    """Give the session the identity that `credential` proves (see acl.py)."""

    scheme: str
    credential: bytes


class Check(Struct, frozen=True, array_like=True, tag=7, gc=False):
    """In a transaction: the znode exists, at `version` or at any (-1)."""

    path: str
    version: int


class ReadData(Struct, frozen=True, array_like=True, tag=8, gc=False):
    """In a transaction: value and Stat."""

    path: str


class ReadStat(Struct, frozen=True, array_like=True, tag=9, gc=False):
    """In a transaction: the Stat, or that there is no such znode."""

    path: str


class ReadChildren(Struct, frozen=True, array_like=True, tag=10, gc=False):
    """In a transaction: names of the children, and Stat."""

    path: str


class CompareField(IntEnum):
    """The field of a znode that a condition compares."""

    VERSION = 1
    MZXID = 2
    CZXID = 3
    VALUE = 4
    EXISTS = 5
    NUM_CHILDREN = 6


class Relation(IntEnum):
    """The relation that must hold between the field and the operand."""

    EQUAL = 1
    NOT_EQUAL = 2
    LESS = 3
    GREATER = 4


class Compare(Struct, frozen=True, array_like=True):
    """A condition of a transaction. A missing znode meets only EXISTS = 0, whatever the relation.

    `operand`: bytes for VALUE, 0 or 1 for EXISTS, else a number.
    """

    path: str
    field: CompareField
    relation: Relation
    operand: int | bytes


TxnOp = Create | Delete | SetData | Check | ReadData | ReadStat | ReadChildren


class Multi(Struct, frozen=True, array_like=True, tag=11):
    """All or nothing, at one zxid: `then` when every condition holds, else `otherwise`.

    ZooKeeper's multi is one without conditions.
    """

    compares: list[Compare]
    then: list[TxnOp]
    otherwise: list[TxnOp]


class Reconfig(Struct, frozen=True, array_like=True, tag=12, gc=False):
    """Change the member list by one step (docs/MEMBERS.md); needs ADMIN on /zookeeper/config.

    `joining` is added as an observer (`as_observer`), made a voter if it is an observer, or an
    observer if it is a voter. `leaving` leaves; with both, the one takes the place of the other.
    0 is none. `version` is that of the member list, or of /zookeeper/config, which changes with
    every address too; -1 is any.
    """

    joining: int
    leaving: int = 0
    as_observer: bool = False
    version: int = ANY_VERSION


WriteOp = Create | Delete | SetData | CloseSession | SetAcls | AddAuth | Multi | Reconfig


@final
class Write(Struct, frozen=True, array_like=True, tag=1, gc=False):
    """A write: contiguous `number` within the session, from 1.

    `acked`: every outcome up to this number has reached the client and may be forgotten.
    """

    number: int
    acked: int
    op: bytes


class _PathRequest(Struct, frozen=True, array_like=True):
    """A request about one path, which a server answers by itself."""

    xid: int
    path: str


class _Read(_PathRequest, frozen=True, array_like=True):
    """`linearizable`: answer as a `Sync` right before it would make it."""

    watch: bool
    linearizable: bool = False


class GetData(_Read, frozen=True, array_like=True, tag=2, gc=False):
    """Read value and Stat; `watch` sets a data watch unless the znode is missing."""


class Exists(_Read, frozen=True, array_like=True, tag=3, gc=False):
    """Read the Stat, if any; `watch` sets a data watch, or an exist watch when missing."""


class GetChildren(_Read, frozen=True, array_like=True, tag=4, gc=False):
    """List the children's names; `watch` sets a child watch unless the znode is missing."""


class GetAcls(_PathRequest, frozen=True, array_like=True, tag=7, gc=False):
    """Read ACL and Stat; hashes are masked unless the session has ADMIN."""


class WhoAmI(Struct, frozen=True, array_like=True, tag=8, gc=False):
    """Read the identities of the session."""

    xid: int


class GetEphemerals(_PathRequest, frozen=True, array_like=True, tag=9, gc=False):
    """Read the paths of the session's own ephemerals that begin with `path`."""


class CountDescendants(_PathRequest, frozen=True, array_like=True, tag=10, gc=False):
    """Count the znodes below `path` (getAllChildrenNumber)."""


class MultiRead(Struct, frozen=True, array_like=True, tag=11):
    """Several reads of one state, each with a result or an error of its own."""

    xid: int
    ops: list[ReadData | ReadStat | ReadChildren]


class GetQuota(_PathRequest, frozen=True, array_like=True, tag=12, gc=False):
    """Read limits and usage of the subtree at `path`, which has a quota (`zookeeper_stats`)."""


@final
class Sync(_PathRequest, frozen=True, array_like=True, tag=5, gc=False):
    """Wait until this server has everything that was committed when the request arrived."""


class WatchMode(IntEnum):
    """The modes of a persistent watch, ZooKeeper's `AddWatchMode`."""

    PERSISTENT = 0
    RECURSIVE = 1


class WatchKind(IntEnum):
    """A kind of watches, for their removal: ZooKeeper's `WatcherType`."""

    CHILD = 1
    DATA = 2
    ANY = 3
    PERSISTENT = 4
    RECURSIVE = 5


class PersistentWatch(Struct, frozen=True, array_like=True, gc=False):
    """A persistent watch: `mode` is one of WatchMode."""

    path: str
    mode: int
    with_values: bool = False


class SetWatches(Struct, frozen=True, array_like=True, tag=6):
    """Set watches again after a reconnect; events missed after `zxid` are sent at once.

    Paths of getData, of exists on a missing znode, and of getChildren watches (opcode 101), and
    persistent watches (105). `more`: another one follows. Then none of these is set yet, so that
    what all of them have missed is told in the order in which it happened.
    """

    xid: int
    zxid: Zxid
    data: list[str]
    exist: list[str]
    child: list[str]
    persistent: list[PersistentWatch] = []
    more: bool = False


class AddWatch(Struct, frozen=True, array_like=True, tag=13, gc=False):
    """Set a persistent watch. Set again, it is the same watch, with values if ever asked."""

    xid: int
    path: str
    mode: int
    with_values: bool = False


class RemoveWatches(Struct, frozen=True, array_like=True, tag=14, gc=False):
    """Remove this connection's watches of some `kinds` (WatchKind) on one path."""

    xid: int
    path: str
    kinds: list[int]


Read = GetData | Exists | GetChildren
AuxRead = GetAcls | WhoAmI | GetEphemerals | CountDescendants | MultiRead | GetQuota
WatchRequest = SetWatches | AddWatch | RemoveWatches
Request = Write | Read | AuxRead | Sync | WatchRequest


class Connect(Struct, frozen=True, array_like=True, tag=1):
    """First frame of a connection: open a session, or take it up again.

    For a new session (`session_id` 0) the client draws `password` at random: it is the session's
    password from then on, and a repeated request with the same one finds the session it made.
    The server answers only when it has applied `last_zxid`, so the client never reads backwards.
    `attempt` numbers the connections of a client, from 1; a session never goes back to an earlier
    one. A client that does not number them says 0.
    `new_password` is drawn by a client that takes the session over from another one: it becomes
    the session's, which fences that one for ever, and makes a repeat of this request known.
    `read_only`: a server without a leader will do, for reading.
    `identity`: the line with which the client names its process, empty if it does not. The server
    shows it to operators, and believes nothing of it.
    """

    session_id: SessionId
    password: bytes
    timeout_ms: Millis
    last_zxid: Zxid
    attempt: int = 0
    new_password: bytes = b""
    read_only: bool = False
    identity: Annotated[bytes, Meta(max_length=IDENTITY_BYTES_MAX)] = b""


def has_passwords(connect: Connect) -> bool:
    """Return whether both passwords have the right length."""
    return len(connect.password) == PASSWORD_BYTES and (
        not connect.new_password or len(connect.new_password) == PASSWORD_BYTES
    )


class ClientFrame(Struct, frozen=True, array_like=True, tag=2):
    """Requests in order, none in a heartbeat. `heartbeat_seq` numbers the frames of a session."""

    heartbeat_seq: int
    requests: list[Request]


_WRITE_TAGS: Final = frozenset(kind.__struct_config__.tag for kind in get_args(WriteOp))


def is_unknown_op(data: bytes) -> bool:
    """Return whether bytes that are no `WriteOp` look like an operation that no client may write.

    Such are the ones of a newer version, reads, checks outside of a transaction, and what only
    a server says.
    """
    is_struct = len(data) > 1 and data[0] & 0xF0 == 0x90 and data[1] < 0x80
    return is_struct and data[1] not in _WRITE_TAGS


encode_op = msgspec.msgpack.Encoder().encode
decode_op = msgspec.msgpack.Decoder(WriteOp).decode
encode_client_frame = msgspec.msgpack.Encoder().encode
decode_client_frame = msgspec.msgpack.Decoder(Connect | ClientFrame).decode
