"""The replicated state: the tree, the sessions and the zxid of the last applied transaction.

Every replica applies the same transactions in the same order, so replicas at the same zxid are
identical; `digest` says so in one number. Applying cannot fail and changes nothing the second time.

Paper: ZooKeeper (USENIX ATC 2010), 4.1 (idempotent transactions) and 4.3 (fuzzy snapshots).
ZooKeeper: `ZKDatabase.processTxn`, `FinalRequestProcessor`.
"""

import msgspec

from raykeeper.zab.feature_levels import LEVEL_MAX, LEVEL_MIN, level_problem
from raykeeper.zab.ids import FOUNDING_DISK, ZERO, DiskId, Millis, ServerId, Zxid, format_zxid
from raykeeper.zab.member_list import MemberList
from raykeeper.znodes.digest import DIGEST_MASK, record_term
from raykeeper.znodes.errors import Code
from raykeeper.znodes.sessions import SessionTable
from raykeeper.znodes.tree import Tree
from raykeeper.znodes.txns import (
    CloseSessionTxn,
    CreateSessionErrorTxn,
    CreateSessionTxn,
    CreateTxn,
    DeleteTxn,
    ErrorTxn,
    MultiErrorTxn,
    MultiResults,
    MultiTxn,
    OpFailed,
    OpResult,
    RaiseLevelTxn,
    ReconfigErrorTxn,
    ReconfigTxn,
    ReplaceVoterTxn,
    SetAclTxn,
    SetDataTxn,
    SetIdentitiesTxn,
    SuspectSessionTxn,
    Txn,
    TxnBody,
    UnknownTxnError,
    WriteOutcome,
    decode_known_txn,
    stat_of_created,
)

_encode_item = msgspec.msgpack.Encoder().encode


class State:
    """The replicated state of the ensemble, as of transaction `zxid`.

    From `consistent_at` on it is a real state; before, after the load of a fuzzy snapshot, it is a
    mixture that only replaying may touch.
    """

    def __init__(self, tree: Tree | None = None, sessions: SessionTable | None = None) -> None:
        if tree is None:
            tree = Tree()
            tree.create_system_znodes()
        self.tree = tree
        self.sessions = SessionTable() if sessions is None else sessions
        self.voters: dict[ServerId, DiskId] = {}
        """The voters whose vote rests on another than their founding disk."""
        self.level = LEVEL_MIN
        """The feature level in force: nothing of a newer one may be written."""
        self.newest_level = LEVEL_MAX
        """The newest one that the program knows."""
        self.voters_version = ZERO
        """The zxid of the transaction that moved the newest of them, or a later one."""
        self.members: MemberList | None = None
        """The member list; None while it has the servers with which the ensemble was founded."""
        self.members_said = ZERO
        """The version of the newest list that was said again (docs/MEMBERS.md, M4)."""
        self.acl_salt = ""
        """The uuid that salts the keys of the scheme `scrypt`: in a restored ensemble that of the
        one that was backed up. "": the ensemble's own."""
        self.zxid = ZERO
        self.consistent_at = ZERO
        self.time_ms = Millis(0)

    def apply(self, zxid: Zxid, data: bytes) -> Txn:
        """Apply the transaction encoded in `data`; the same one again changes nothing.

        Raises:
            UnknownTxnError: `data` is no transaction that the program knows. Nothing has changed.
        """
        assert zxid >= self.zxid, (zxid, self.zxid)
        txn = decode_known_txn(zxid, data)
        if type(txn.body) is RaiseLevelTxn:
            self._check_level(zxid, txn.body)
        # Transactions of one millisecond share one int object: 32 bytes less for most znodes.
        if txn.time_ms != self.time_ms:
            self.time_ms = txn.time_ms
        body = txn.body
        if type(body) is SetDataTxn:  # the most frequent one
            self.tree.set_data(zxid, self.time_ms, body)
        elif type(body) is MultiTxn:
            for each in body.changes:
                self._apply(zxid, txn, each)
        else:
            self._apply(zxid, txn, body)
        if txn.session_id:
            session = self.sessions.by_id.get(txn.session_id)
            if session is not None:
                self.sessions.record(session, txn.number, txn.acked, outcome_of(zxid, txn))
        self.zxid = zxid
        return txn

    def _apply(self, zxid: Zxid, txn: Txn, change: TxnBody) -> None:
        match change:
            case SetDataTxn():
                self.tree.set_data(zxid, self.time_ms, change)
            case CreateTxn():
                self.tree.create(zxid, self.time_ms, change)
            case DeleteTxn():
                self.tree.delete(zxid, change.path)
            case CreateSessionTxn():
                self.sessions.open(zxid, change)
            case CloseSessionTxn():
                for path in change.ephemerals:
                    self.tree.delete(zxid, path)
                self.sessions.close(change.session_id)
            case ReplaceVoterTxn():
                self._replace_voter(zxid, change.server_id, change.disk)
            case ReconfigTxn():
                self.set_members(change.members)
                if change.config is not None:
                    self.tree.set_data(zxid, self.time_ms, change.config)
                else:
                    self.members_said = max(self.members_said, change.members.version)
            case SetAclTxn():
                self.tree.set_acls(zxid, change)
            case RaiseLevelTxn():
                self.level = max(self.level, change.level)  # a replay may be older
            case SetIdentitiesTxn():
                self.sessions.identify(txn.session_id, txn.number, change.identities)
            case SuspectSessionTxn():
                self.sessions.suspect(zxid, change)
            case _:
                _nothing: (
                    ErrorTxn | CreateSessionErrorTxn | MultiErrorTxn | MultiTxn | ReconfigErrorTxn
                ) = change

    def member_list(self, founding: MemberList) -> MemberList:
        """Return the member list of an ensemble that was founded with `founding`."""
        if self.members is not None:
            return self.members
        if not self.voters:
            return founding
        moved = {server: self.voters.get(server, disk) for server, disk in founding.voters.items()}
        return MemberList(self.voters_version, moved, founding.observers)

    @property
    def is_list_said_again(self) -> bool:
        """Whether a majority of the member list knows that it is committed (docs/MEMBERS.md, M4).

        That of the founding needs no words.
        """
        return self.members is None or self.members_said >= self.members.version

    def _check_level(self, zxid: Zxid, change: RaiseLevelTxn) -> None:
        if problem := level_problem(change.level, self.newest_level):
            raise UnknownTxnError(f"transaction {format_zxid(zxid)} requires {problem}")

    def digest(self) -> int:
        """Return 64 bits over znodes, sessions, reply caches, voters, level and salt.

        They are equal on equal states. Level 1 adds nothing: the program before knows none.

        Hashes all sessions that have changed, and after a load the znodes not hashed yet, 0.7 µs
        each.
        """
        others = sum(record_term(_encode_item(item)) for item in self.voters.items())
        if self.level > LEVEL_MIN:
            others += record_term(_encode_item(("level", self.level)))
        if self.members is not None:
            others += record_term(_encode_item(self.members))
        if self.acl_salt:
            others += record_term(_encode_item(("acl_salt", self.acl_salt)))
        return (self.tree.full_digest() + self.sessions.digest() + others) & DIGEST_MASK

    def _replace_voter(self, zxid: Zxid, server: ServerId, disk: DiskId) -> None:
        members = self.members
        if members is None:
            if self.voters.get(server, FOUNDING_DISK) != disk:
                self.voters[server] = disk
                self.voters_version = zxid
        else:
            self.set_members(members.with_disk(server, disk, zxid))

    def set_members(self, members: MemberList) -> None:
        """Take over a member list, as a transaction or a snapshot says it."""
        self.members = members
        self.voters = members.moved


def error_results(change: MultiErrorTxn) -> list[OpResult]:
    """Return all results as ZooKeeper does: 0 before the failed one, its code, -2 after it."""
    failed = change.failed
    return [
        *[OpFailed(Code.OK)] * failed,
        OpFailed(change.code),
        *[OpFailed(Code.RUNTIME_INCONSISTENCY)] * (change.count - failed - 1),
    ]


def outcome_of(zxid: Zxid, txn: Txn) -> WriteOutcome:
    """Return the outcome that the client of a numbered write is told."""
    change = txn.body
    match change:
        case SetDataTxn():
            return WriteOutcome(zxid, 0, "", change.stat)
        case CreateTxn():
            stat = stat_of_created(zxid, txn.time_ms, change)
            return WriteOutcome(zxid, 0, change.path, stat)
        case ErrorTxn():
            return WriteOutcome(zxid, change.code, "", None)
        case ReconfigErrorTxn():
            return WriteOutcome(zxid, change.code, change.detail, None)
        case ReconfigTxn(config=SetDataTxn(value=text, stat=stat)):
            return WriteOutcome(zxid, 0, (text or b"").decode(errors="replace"), stat)
        case SetAclTxn():
            return WriteOutcome(zxid, 0, "", change.stat)
        case MultiTxn():
            return WriteOutcome(zxid, 0, "", None, MultiResults(change.is_then, change.results))
        case MultiErrorTxn():
            return WriteOutcome(
                zxid, change.code, "", None, MultiResults(change.is_then, error_results(change))
            )
        case _:
            return WriteOutcome(zxid, 0, "", None)
