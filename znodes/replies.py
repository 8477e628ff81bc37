"""The messages to a client: the schema of a server's frames.

Items stand in the order in which the client may learn of them: a watch event before any reply that
could show the state it announces, the replies of one session in the order of its requests. Each
holds the zxid of the last transaction that its server had applied.
"""

from enum import IntEnum
from typing import final

import msgspec
from msgspec import Struct

from raykeeper.zab.ids import ZERO, Millis, Zxid
from raykeeper.zab.member_list import MemberList
from raykeeper.znodes.acl import Acls, Identities
from raykeeper.znodes.limits import REPLY_CACHE_MAX
from raykeeper.znodes.quotas import QuotaLimits
from raykeeper.znodes.requests import SessionId
from raykeeper.znodes.stat import Stat
from raykeeper.znodes.txns import MultiResults, OpResult


class EventType(IntEnum):
    """The types of ZooKeeper's `Watcher.Event.EventType`, and RESYNC.

    A client itself tells the watchers that it has removed; no server sends these three.

    RESYNC: events of a persistent watch may be missing before this one, since no server knows the
    changes of the time without a watch any more. The watcher must read again what it follows.
    """

    NONE = -1
    CREATED = 1
    DELETED = 2
    CHANGED = 3
    CHILD = 4
    DATA_WATCH_REMOVED = 5
    CHILD_WATCH_REMOVED = 6
    PERSISTENT_WATCH_REMOVED = 7
    RESYNC = 100


class _Reply(Struct, frozen=True, array_like=True):
    """The answer to a request with an `xid`, as of transaction `zxid`."""

    xid: int
    zxid: Zxid


@final
class WriteReply(Struct, frozen=True, array_like=True, tag=1, gc=False):
    """Outcome of write `number`: `zxid` is its transaction, `code` 0 or a ZooKeeper error.

    `path` is the real path of a creation; of a step of the member list it is the new text of
    /zookeeper/config, or the words of the refusal; else "". `stat` is that of a creation, a set or
    a step, else None; `results` are those of a transaction, else None.
    """

    number: int
    zxid: Zxid
    code: int
    path: str
    stat: Stat | None
    results: MultiResults | None = None


class GetDataReply(_Reply, frozen=True, array_like=True, tag=2, gc=False):
    """Answer to GetData. `value` None is null data."""

    value: bytes | None
    stat: Stat


class ExistsReply(_Reply, frozen=True, array_like=True, tag=3, gc=False):
    """Answer to Exists; None when the znode is missing."""

    stat: Stat | None


class GetChildrenReply(_Reply, frozen=True, array_like=True, tag=4):
    """Answer to GetChildren: names, not paths, in no particular order.

    `more`: a page; the next item with this xid goes on with it, as of the same zxid.
    """

    children: list[str]
    stat: Stat
    more: bool = False


class EmptyReply(_Reply, frozen=True, array_like=True, tag=5, gc=False):
    """Answer to Sync, SetWatches, AddWatch and RemoveWatches."""


@final
class ErrorReply(_Reply, frozen=True, array_like=True, tag=6, gc=False):
    """A read, sync or setWatches that ended with a ZooKeeper error."""

    code: int


class Content(Struct, frozen=True, array_like=True, gc=False):
    """A znode at one moment. `value` is None when it is too long for an event."""

    value: bytes | None
    stat: Stat


@final
class WatcherEvent(Struct, frozen=True, array_like=True, tag=7, gc=False):
    """An event: transaction `zxid` triggered a watch of this connection.

    `more`: another event of the same transaction follows at once. `old` and `new` are the contents
    before and after, for watches that asked for values; None for a missing znode, and in a missed
    event if no server knows the content any more. `once`: the event was found in the state and is
    for one-shot watches only; persistent ones, which miss no event, are not meant.
    """

    kind: EventType
    path: str
    zxid: Zxid
    more: bool = False
    old: Content | None = None
    new: Content | None = None
    once: bool = False


class GetAclsReply(_Reply, frozen=True, array_like=True, tag=8):
    """Answer to GetAcls. `ttl_ms`: as in `ZnodeAttributes`, for no Stat has it."""

    acls: Acls
    stat: Stat
    ttl_ms: int = 0


class WhoAmIReply(_Reply, frozen=True, array_like=True, tag=9):
    """Answer to WhoAmI."""

    identities: Identities


class GetEphemeralsReply(_Reply, frozen=True, array_like=True, tag=10):
    """Answer to GetEphemerals, in no particular order; `more` as in GetChildrenReply."""

    paths: list[str]
    more: bool = False


class CountDescendantsReply(_Reply, frozen=True, array_like=True, tag=11, gc=False):
    """Answer to CountDescendants.

    `until`: 0 when it is exact as of `zxid`, else until when it went on, see `DescendantCount`.
    """

    count: int
    until: Zxid = ZERO


class MultiReadReply(_Reply, frozen=True, array_like=True, tag=12):
    """Answer to MultiRead."""

    results: list[OpResult]


class GetQuotaReply(_Reply, frozen=True, array_like=True, tag=13, gc=False):
    """Answer to GetQuota: the limits, and what is in the subtree."""

    limits: QuotaLimits
    znodes: int
    bytes: int


AuxReply = (
    GetAclsReply
    | WhoAmIReply
    | GetEphemeralsReply
    | CountDescendantsReply
    | MultiReadReply
    | GetQuotaReply
)
Item = (
    WriteReply
    | GetDataReply
    | ExistsReply
    | GetChildrenReply
    | EmptyReply
    | ErrorReply
    | WatcherEvent
    | AuxReply
)


class ConnectReply(Struct, frozen=True, array_like=True, tag=1):
    """Answer to Connect. `code` is 0, or a CreateSessionErrorTxn's, with nothing else but `zxid`.

    `timeout_ms` is the negotiated session timeout, `zxid` what the server had applied.
    `last_number` is the newest write of the session that the server has applied. `ensemble` is the
    uuid that salts the keys of the scheme `scrypt`, and `own_uuid` the one that tells the ensemble
    from others, "" if it is the same: a restored ensemble has the salt of the one it comes from.
    `read_only`: the server has no leader, and the session is a local one.
    `window`, `return_spread_ms` and `members`: see ServerFrame. `members` is always told.
    `detail` tells a person why the session was refused, "" if `code` says it all.
    """

    code: int
    session_id: SessionId
    timeout_ms: Millis
    zxid: Zxid
    last_number: int
    ensemble: str = ""
    read_only: bool = False
    window: int = REPLY_CACHE_MAX
    detail: str = ""
    return_spread_ms: Millis = Millis(0)
    members: MemberList | None = None
    own_uuid: str = ""


class ServerFrame(Struct, frozen=True, array_like=True, tag=2):
    """Items in order. `heartbeat_seq`: the newest client frame that the *leader* has confirmed.

    The client counts its own deadline from the sending of that frame. `zxid` is what the server
    has applied, also without an item; every event up to it was sent before.
    `window` is how many requests the client may have unanswered on this connection.
    `return_spread_ms`: if this server is lost, its clients spread their return over this time, so
    that the other servers can take them.
    `members` is the newest member list that the server knows to be committed, if it is newer than
    the one that this connection was told: the client goes to these servers from now on.
    """

    heartbeat_seq: int
    zxid: Zxid
    items: list[Item]
    window: int = REPLY_CACHE_MAX
    return_spread_ms: Millis = Millis(0)
    members: MemberList | None = None


class CloseFrame(Struct, frozen=True, array_like=True, tag=3):
    """Last frame of a connection, with the reason.

    SESSION_EXPIRED: the session is over. SESSION_MOVED: another connection has it now.
    CONNECTION_LOSS: the server cannot go on with this connection; the session lives.
    """

    code: int


encode_server_frame = msgspec.msgpack.Encoder().encode
decode_server_frame = msgspec.msgpack.Decoder(ConnectReply | ServerFrame | CloseFrame).decode
