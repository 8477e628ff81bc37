"""Transactions: the results of writes, ready to be applied any number of times, in order.

A transaction holds results, not conditions: absolute values prepared by the leader against the
future state (paper, section 4.1), so applying it cannot fail and doing it twice changes nothing.
It also holds the number of the write in its session and the reply to the client, so every replica
keeps the same reply cache and can answer a repeated write.

A field that was added later stands last and has a default: an older log is read without it, and an
older program passes over it. The state must not depend on it, or replicas of two versions differ.

ZooKeeper: `zookeeper.jute`, txn module (TxnHeader, CreateTxn, DeleteTxn, SetDataTxn, ErrorTxn …).
"""

from collections.abc import Iterable
from typing import Final

import msgspec
from msgspec import Struct

from raykeeper.zab.errors import DECODE_ERRORS, RayKeeperError
from raykeeper.zab.feature_levels import LEVEL_MAX, LEVEL_MIN, FeatureLevel
from raykeeper.zab.ids import DiskId, Millis, ServerId, Zxid, format_zxid
from raykeeper.zab.member_list import MemberList
from raykeeper.znodes.acl import Acls, Identities
from raykeeper.znodes.requests import SessionId
from raykeeper.znodes.stat import Stat


class CreateTxn(Struct, frozen=True, array_like=True, tag=1, gc=False):
    """A znode was created at `path` (the real one); czxid is the transaction's own zxid.

    `value` None is null data, here and below: it is nil in the log, where else bytes stand.
    `child_create_count` is the parent's counter of created children after this one: the next
    sequential number under it. The parent's pzxid becomes this zxid.
    """

    path: str
    value: bytes | None
    ephemeral_owner: SessionId
    child_create_count: int
    acls: Acls | None = None
    ttl_ms: int = 0


class DeleteTxn(Struct, frozen=True, array_like=True, tag=2, gc=False):
    """The znode was deleted; the parent's pzxid becomes this zxid."""

    path: str


class SetDataTxn(Struct, frozen=True, array_like=True, tag=3, gc=False):
    """The value was replaced; `stat` is the whole Stat afterwards, as the client is told."""

    path: str
    value: bytes | None
    stat: Stat


class CreateSessionTxn(Struct, frozen=True, array_like=True, tag=4):
    """A session was opened, or moved to another connection (createSession and moveSession).

    Its owner number is this transaction's zxid: requests forwarded under an earlier one are
    refused. `server_id` and `connection` say whom to answer, `attempt` is that of the Connect,
    `host` where that client is.
    """

    session_id: SessionId
    password: bytes
    timeout_ms: Millis
    server_id: ServerId
    connection: int
    attempt: int = 0
    host: str = ""


class CreateSessionErrorTxn(Struct, frozen=True, array_like=True, tag=5):
    """A session could not be opened or taken up.

    `code` is SESSION_EXPIRED, AUTH_FAILED, SESSION_MOVED when the client has gone on to another
    connection since it asked, or CONNECTION_LOSS when there are `sessions_max` already.
    """

    server_id: ServerId
    connection: int
    code: int
    sessions_max: int = 0


class CloseReason:
    """The values of `CloseSessionTxn.reason`. A session that is taken over does not end."""

    UNKNOWN = 0
    """The log is of a version that did not tell."""
    BY_CLIENT = 1
    EXPIRED = 2
    PROCESS_DIED = 3
    """Ray or the system has told that the process of the client is dead."""


class CloseSessionTxn(Struct, frozen=True, array_like=True, tag=6):
    """The session ended; its ephemerals go with it, in this order. `reason`: of CloseReason."""

    session_id: SessionId
    ephemerals: list[str]
    reason: int = CloseReason.UNKNOWN


class SuspectSessionTxn(Struct, frozen=True, array_like=True, tag=16, gc=False):
    """Half of the session's timeout has passed in silence, or it was heard again since.

    No heartbeat of a suspected session is confirmed before it counts as heard again. So each later
    leader knows that its silence has lasted for half of its timeout already.
    """

    session_id: SessionId
    is_suspected: bool


class ErrorTxn(Struct, frozen=True, array_like=True, tag=7, gc=False):
    """An error transaction: the write changed nothing but uses up its number.

    For the audit log: `op` is the tag of the request that was refused (requests.py), 0 if it was
    not decoded, and `path` the path in it, cut off if it is longer than any may be.
    """

    code: int
    op: int = 0
    path: str = ""


class ReplaceVoterTxn(Struct, frozen=True, array_like=True, tag=8, gc=False):
    """The vote of a server rests on another disk from now on (rule D3).

    Proposed by the leader once that server follows it; committed by the other voters.
    """

    server_id: ServerId
    disk: DiskId


class SetAclTxn(Struct, frozen=True, array_like=True, tag=9):
    """The ACL was replaced; `stat` is the whole Stat afterwards, its aversion the new one."""

    path: str
    acls: Acls | None
    stat: Stat


class SetIdentitiesTxn(Struct, frozen=True, array_like=True, tag=10):
    """The session that wrote this has these identities from now on, in the order it added them."""

    identities: Identities


class RaiseLevelTxn(Struct, frozen=True, array_like=True, tag=13, gc=False):
    """From here on the ensemble is at this feature level (zab/feature_levels.py).

    Proposed by the leader once all members know the level.
    """

    level: FeatureLevel


class ReconfigTxn(Struct, frozen=True, array_like=True, tag=14):
    """The member list is `members` from now on (docs/MEMBERS.md).

    `config` writes it into /zookeeper/config. Said again, to show that it is committed, the list
    has the version of the first time, and there is no `config`.
    """

    members: MemberList
    config: SetDataTxn | None = None


class ReconfigErrorTxn(Struct, frozen=True, array_like=True, tag=15):
    """A step of the member list was refused; `detail` says in words what the code cannot."""

    code: int
    detail: str


class OpDone(Struct, frozen=True, array_like=True, tag=1, gc=False):
    """Result of an operation in a transaction. Path of a creation, Stat as for the same alone."""

    path: str
    stat: Stat | None


class OpFailed(Struct, frozen=True, array_like=True, tag=2, gc=False):
    """Result of an operation: 0 before the one that failed, its code, -2 after it."""

    code: int


class OpValue(Struct, frozen=True, array_like=True, tag=3, gc=False):
    """Result of ReadData."""

    value: bytes | None
    stat: Stat


class OpStat(Struct, frozen=True, array_like=True, tag=4, gc=False):
    """Result of ReadStat, None when there was no such znode."""

    stat: Stat | None


class OpChildren(Struct, frozen=True, array_like=True, tag=5):
    """Result of ReadChildren."""

    names: list[str]
    stat: Stat


OpResult = OpDone | OpFailed | OpValue | OpStat | OpChildren


class MultiTxn(Struct, frozen=True, array_like=True, tag=11):
    """A transaction of several changes, in order, with the result of each operation.

    `is_then`: the conditions held. The results of reads stand here, because only the leader that
    prepared them could see the state they are of.
    """

    is_then: bool
    changes: list["CreateTxn | DeleteTxn | SetDataTxn"]
    results: list[OpResult]


class MultiErrorTxn(Struct, frozen=True, array_like=True, tag=12):
    """A transaction of which operation `failed` failed with `code`; nothing was changed.

    `op` and `path` are those of this operation, as in ErrorTxn.
    """

    is_then: bool
    code: int
    failed: int
    count: int
    op: int = 0
    path: str = ""


TxnBody = (
    CreateTxn
    | DeleteTxn
    | SetDataTxn
    | CreateSessionTxn
    | CreateSessionErrorTxn
    | CloseSessionTxn
    | ErrorTxn
    | ReplaceVoterTxn
    | SetAclTxn
    | SetIdentitiesTxn
    | MultiTxn
    | MultiErrorTxn
    | RaiseLevelTxn
    | ReconfigTxn
    | ReconfigErrorTxn
    | SuspectSessionTxn
)


class Txn(Struct, frozen=True, array_like=True, gc=False):
    """One transaction. `session_id`, `number` and `acked` are 0 when no numbered write made it.

    `time_ms` is the leader's wall clock, never before that of the transaction before.
    """

    session_id: SessionId
    number: int
    acked: int
    time_ms: Millis
    body: TxnBody


class MultiResults(Struct, frozen=True, array_like=True):
    """The outcome of a transaction: the chosen branch, and the result of each operation."""

    is_then: bool
    results: list[OpResult]


class WriteOutcome(Struct, frozen=True, array_like=True, gc=False):
    """The outcome of a numbered write: the fields of its `WriteReply`."""

    zxid: Zxid
    code: int
    path: str
    stat: Stat | None
    results: MultiResults | None = None


def stat_of_created(zxid: Zxid, time_ms: Millis, body: CreateTxn) -> Stat:
    """Return the Stat of the znode that transaction `zxid` creates."""
    owner, size = body.ephemeral_owner, len(body.value or b"")
    return Stat(zxid, zxid, time_ms, time_ms, 0, 0, 0, owner, size, 0, zxid)


class UnknownTxnError(RayKeeperError):
    """Raised when a transaction is none that this program knows. Nothing has changed.

    The caller must end the server: it could not stay like the others. A newer program made it, or
    it is damaged.
    """


encode_txn = msgspec.msgpack.Encoder().encode
decode_txn = msgspec.msgpack.Decoder(Txn).decode

_OF_NOBODY: Final = encode_txn(Txn(SessionId(0), 0, 0, Millis(0), ErrorTxn(0)))[:4]
"""How a transaction begins that no session made, and so each that raises the level."""


def decode_known_txn(zxid: Zxid, data: bytes) -> Txn:
    """Decode a transaction of the log.

    Raises:
        UnknownTxnError: it is none that this program knows.
    """
    try:
        return decode_txn(data)
    except DECODE_ERRORS as error:
        raise UnknownTxnError(
            f"transaction {format_zxid(zxid)} is none that this program knows (feature levels "
            f"{LEVEL_MIN} to {LEVEL_MAX}): {error}"
        ) from error


def level_required_by(first: Zxid, txns: Iterable[bytes]) -> FeatureLevel:
    """Return the feature level to which one of these consecutive transactions raises; else the
    oldest one.

    Raises:
        UnknownTxnError: one that may is none that this program knows.
    """
    level = LEVEL_MIN
    for zxid, data in enumerate(txns, first):
        if data[:4] == _OF_NOBODY:
            body = decode_known_txn(Zxid(zxid), data).body
            if type(body) is RaiseLevelTxn:
                level = max(level, body.level)
    return level
