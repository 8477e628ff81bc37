"""Transactions: what a write did, ready to be applied any number of times, in order.

A transaction holds results, not conditions: absolute values prepared by the leader against the
future state (paper, section 4.1), so applying it cannot fail and doing it twice changes nothing.
It also holds the number of the write in its session and what the client is told, so every replica
keeps the same table of outcomes and can answer a repeated write.

ZooKeeper: `zookeeper.jute`, txn module (TxnHeader, CreateTxn, DeleteTxn, SetDataTxn, ErrorTxn …).
"""

import msgspec
from msgspec import Struct

from raykeeper.zab.ids import DiskId, Millis, ServerId, Zxid
from raykeeper.znodes.requests import SessionId
from raykeeper.znodes.stat import Stat


class Created(Struct, frozen=True, array_like=True, tag=1, gc=False):
    """A znode was created at `path` (the real one); czxid is the transaction's own zxid.

    `creates` is the parent's counter of created children after this one: the next sequential
    number under it. The parent's pzxid becomes this zxid.
    """

    path: str
    value: bytes
    owner: SessionId
    creates: int


class Deleted(Struct, frozen=True, array_like=True, tag=2, gc=False):
    """The znode was deleted; the parent's pzxid becomes this zxid."""

    path: str


class DataSet(Struct, frozen=True, array_like=True, tag=3, gc=False):
    """The value was replaced; `stat` is the whole Stat afterwards, as the client is told."""

    path: str
    value: bytes
    stat: Stat


class SessionOpened(Struct, frozen=True, array_like=True, tag=4):
    """A session was opened, or moved to another connection (createSession and moveSession).

    Its owner number is this transaction's zxid: requests forwarded under an earlier one are
    refused. `server_id` and `connection` say whom to answer, `attempt` is that of the Connect.
    """

    session_id: SessionId
    password: bytes
    timeout_ms: Millis
    server_id: ServerId
    connection: int
    attempt: int = 0


class OpenRefused(Struct, frozen=True, array_like=True, tag=5):
    """A session could not be opened or taken up.

    `code` is SESSION_EXPIRED, AUTH_FAILED, SESSION_MOVED when the client has gone on to another
    connection since it asked, or CONNECTION_LOSS when there are too many.
    """

    server_id: ServerId
    connection: int
    code: int


class SessionClosed(Struct, frozen=True, array_like=True, tag=6):
    """The session ended, by its client or by expiry; its ephemerals go with it, in this order."""

    session_id: SessionId
    ephemerals: list[str]


class Refused(Struct, frozen=True, array_like=True, tag=7, gc=False):
    """An error transaction: the write changed nothing but uses up its number."""

    code: int


class VoterReplaced(Struct, frozen=True, array_like=True, tag=8, gc=False):
    """The vote of a server rests on another disk from now on (rule D3).

    Proposed by the leader once that server follows it; committed by the other voters.
    """

    server_id: ServerId
    disk: DiskId


Change = (
    Created
    | Deleted
    | DataSet
    | SessionOpened
    | OpenRefused
    | SessionClosed
    | Refused
    | VoterReplaced
)


class Txn(Struct, frozen=True, array_like=True):
    """One transaction. `session_id`, `number` and `acked` are 0 when no numbered write made it.

    `time_ms` is the leader's wall clock, never before that of the transaction before.
    """

    session_id: SessionId
    number: int
    acked: int
    time_ms: Millis
    change: Change


class Outcome(Struct, frozen=True, array_like=True, gc=False):
    """What became of a numbered write: the fields of its `Written` reply."""

    zxid: Zxid
    code: int
    path: str
    stat: Stat | None


encode_txn = msgspec.msgpack.Encoder().encode
decode_txn = msgspec.msgpack.Decoder(Txn).decode
