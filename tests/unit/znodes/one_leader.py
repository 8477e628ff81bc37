"""A leader without followers: it prepares, and applies when the test says so."""

from raykeeper.zab.feature_levels import FeatureLevel
from raykeeper.zab.ids import DiskId, Epoch, Millis, ServerId, Zxid, make_zxid
from raykeeper.zab.member_list import MemberList
from raykeeper.znodes.change_log import ZnodeChange
from raykeeper.znodes.limits import Limits
from raykeeper.znodes.prep_request_processor import PrepRequestProcessor
from raykeeper.znodes.requests import (
    Connect,
    Create,
    Delete,
    SessionId,
    SetData,
    Write,
    WriteOp,
    encode_op,
)
from raykeeper.znodes.state import State
from raykeeper.znodes.txns import CloseReason, CreateSessionTxn, CreateTxn, Txn, TxnBody, decode_txn

NO_SESSION = SessionId(0)
WALL = Millis(1_000)


def zxid_at(counter: int) -> Zxid:
    """The transaction numbers of these tests: one epoch, from 1."""
    return make_zxid(Epoch(1), counter)


def password(n: int) -> bytes:
    return n.to_bytes(16)


def raw(op: WriteOp) -> bytes:
    return encode_op(op)


class OneLeader:
    """`prepare_*` leaves a transaction outstanding; `apply` applies all that are."""

    def __init__(self, limits: Limits | None = None) -> None:
        self.state = State()
        self.limits = limits or Limits()
        self.preparation = PrepRequestProcessor(self.state, self.limits)
        self.log: list[tuple[Zxid, bytes]] = []
        self.wall_ms = WALL
        self._applied = 0
        self.changes: list[list[ZnodeChange]] = []
        """Of each transaction that did something to znodes."""
        self.state.tree.changes = []
        self.state.tree.value_watches = "somebody"

    @property
    def zxid(self) -> Zxid:
        """Of the last transaction prepared."""
        return zxid_at(len(self.log))

    def prepare(self, session_id: SessionId, op: WriteOp, *, acked: int = 0) -> TxnBody:
        number = (self.preparation.last_number(session_id) or 0) + 1
        return self.prepare_write(session_id, Write(number, acked, raw(op)))

    def prepare_write(self, session_id: SessionId, write: Write) -> TxnBody:
        zxid = zxid_at(len(self.log) + 1)
        return self._add(self.preparation.prepare_write(zxid, self.wall_ms, session_id, write)).body

    def prepare_open(self, request: Connect, host: str = "") -> TxnBody:
        zxid = zxid_at(len(self.log) + 1)
        txn = self.preparation.prepare_create_session(
            zxid, self.wall_ms, ServerId(1), 7, request, host
        )
        return self._add(txn).body

    def prepare_expiry(self, session_id: SessionId) -> TxnBody | None:
        zxid = zxid_at(len(self.log) + 1)
        data = self.preparation.prepare_close_session(
            zxid, self.wall_ms, session_id, CloseReason.EXPIRED
        )
        return None if data is None else self._add(data).body

    def prepare_suspect(self, session_id: SessionId, *, is_suspected: bool) -> TxnBody:
        zxid = zxid_at(len(self.log) + 1)
        return self._add(
            self.preparation.prepare_suspect(
                zxid, self.wall_ms, session_id, is_suspected=is_suspected
            )
        ).body

    def prepare_list(self, members: MemberList) -> TxnBody:
        """Prepare to say a member list."""
        zxid = zxid_at(len(self.log) + 1)
        return self._add(self.preparation.prepare_repeated_list(zxid, self.wall_ms, members)).body

    def prepare_voter(self, server_id: int, disk: str) -> TxnBody:
        zxid = zxid_at(len(self.log) + 1)
        data = self.preparation.prepare_replace_voter(
            zxid, self.wall_ms, ServerId(server_id), DiskId(disk)
        )
        return self._add(data).body

    def prepare_level(self, level: int) -> TxnBody:
        zxid = zxid_at(len(self.log) + 1)
        return self._add(
            self.preparation.prepare_raise_level(zxid, self.wall_ms, FeatureLevel(level))
        ).body

    def apply(self, count: int | None = None) -> None:
        """Apply the next `count` outstanding transactions, or all."""
        end = len(self.log) if count is None else self._applied + count
        for zxid, data in self.log[self._applied : end]:
            self.state.apply(zxid, data)
            if self.state.tree.changes:
                self.changes.append(self.state.tree.changes)
                self.state.tree.changes = []
        self._applied = end
        self.preparation.applied(zxid_at(end))

    def open(self, n: int = 1, host: str = "") -> SessionId:
        change = self.prepare_open(Connect(NO_SESSION, password(n), Millis(5_000), Zxid(0)), host)
        assert isinstance(change, CreateSessionTxn)
        self.apply()
        return change.session_id

    def do(self, session_id: SessionId, op: WriteOp, *, acked: int = 0) -> TxnBody:
        change = self.prepare(session_id, op, acked=acked)
        self.apply()
        return change

    def create(self, session_id: SessionId, path: str, value: bytes = b"", flags: int = 0) -> str:
        change = self.do(session_id, Create(path, value, flags))
        assert isinstance(change, CreateTxn), change
        return change.path

    def delete(self, session_id: SessionId, path: str) -> TxnBody:
        return self.do(session_id, Delete(path, -1))

    def set(self, session_id: SessionId, path: str, value: bytes) -> TxnBody:
        return self.do(session_id, SetData(path, value, -1))

    def _add(self, data: bytes) -> Txn:
        self.log.append((zxid_at(len(self.log) + 1), data))
        return decode_txn(data)
