"""The leader's side of a write: it turns a client's request into a transaction for every replica.

A request holds conditions, a transaction holds results: paths, versions, counters and times as they
will be, found against the outstanding changes (paper, section 4.1). So a transaction can be applied
any number of times. A request that cannot be granted becomes an error transaction, which uses up
the write's number, so that a repeated write gets the same error.

Owns: the numbers of a session are prepared in order without gaps; txn times never go back; a
session that is closing writes no more; a session never goes back to an earlier connection of its
client; sequence numbers never repeat under a parent.

ZooKeeper: `PrepRequestProcessor.pRequest2Txn`; the order of the checks is the same.

The file is long because every kind of transaction is prepared here, by one count of zxids.
"""

from collections import deque
from collections.abc import Callable, Collection, Mapping
from types import MappingProxyType
from typing import Final

from msgspec import Struct

from raykeeper.zab.errors import DECODE_ERRORS
from raykeeper.zab.feature_levels import LEVEL_OF_MEMBERS, FeatureLevel
from raykeeper.zab.ids import ZERO, DiskId, Millis, ServerId, Zxid
from raykeeper.zab.member_list import MemberList
from raykeeper.znodes.acl import (
    SUPER,
    Identities,
    Permission,
    authenticate,
    identities_of,
)
from raykeeper.znodes.ensemble_config import format_config, member_lines, updated_servers
from raykeeper.znodes.errors import Code
from raykeeper.znodes.limits import CACHED_RESULTS_BYTES_MAX, Limits
from raykeeper.znodes.multi_preparer import OP_BYTES, MultiPreparer, results_bytes
from raykeeper.znodes.op_preparer import OpPreparer
from raykeeper.znodes.outstanding_changes import ChangeRecord, OutstandingChanges
from raykeeper.znodes.paths import CONFIG_PATH
from raykeeper.znodes.quotas import SoftLimitExceeded
from raykeeper.znodes.refusals import (
    refused_auth,
    refused_multi,
    refused_reconfig,
    refused_undecoded,
)
from raykeeper.znodes.requests import (
    ANY_VERSION,
    PASSWORD_BYTES,
    AddAuth,
    CloseSession,
    Connect,
    Create,
    Delete,
    Multi,
    Reconfig,
    SessionId,
    SetAcls,
    SetData,
    Write,
    decode_op,
    is_unknown_op,
)
from raykeeper.znodes.sessions import Session
from raykeeper.znodes.state import State
from raykeeper.znodes.txns import (
    CloseReason,
    CloseSessionTxn,
    CreateSessionErrorTxn,
    CreateSessionTxn,
    DeleteTxn,
    ErrorTxn,
    MultiErrorTxn,
    MultiTxn,
    RaiseLevelTxn,
    ReconfigErrorTxn,
    ReconfigTxn,
    ReplaceVoterTxn,
    SetDataTxn,
    SetIdentitiesTxn,
    SuspectSessionTxn,
    Txn,
    TxnBody,
    encode_txn,
)
from raykeeper.znodes.znode import Znode, is_allowed

_NO_SESSION: Final = SessionId(0)


NextList = Callable[[Reconfig, Zxid], MemberList | ReconfigErrorTxn]


def _no_next_list(_op: Reconfig, _zxid: Zxid) -> ReconfigErrorTxn:
    return ReconfigErrorTxn(Code.UNIMPLEMENTED, "this server knows no member list")


class OutstandingSession(Struct):
    """A session as preparing sees it; kept while the session and this leader's epoch last."""

    owner_zxid: Zxid
    password: bytes
    last_number: int
    attempt: int
    host: str
    auth_ids: Identities
    identities: Identities
    results: deque[tuple[int, int]] | None
    """Number and bytes of the outcomes of transactions that are not yet acknowledged; None before
    the first, for an empty one is larger than all the rest."""
    results_bytes: int
    """Of all of them."""
    is_suspected: bool = False
    heard_zxid: Zxid = ZERO
    """Of the transaction since which it is suspected no more."""
    closing: bool = False


class PrepRequestProcessor:
    """Prepares every transaction of one leader's epoch, in order.

    `state` already has every transaction before the first that is prepared.
    """

    def __init__(
        self,
        state: State,
        limits: Limits,
        next_list: NextList = _no_next_list,
        addresses: Mapping[ServerId, str] = MappingProxyType({}),
    ) -> None:
        """`next_list` returns the member list that a step makes, or its refusal.

        `addresses`: where clients of ZooKeeper find the servers that have told it. It may grow.
        """
        assert state.zxid >= state.consistent_at, (state.zxid, state.consistent_at)
        self._state = state
        self._limits = limits
        self._next_list = next_list
        self._addresses = addresses
        self._tree = tree = OutstandingChanges(state.tree)
        self._operations = OpPreparer(tree, limits)
        self._transactions = MultiPreparer(tree, self._operations)
        self._sessions: dict[SessionId, OutstandingSession] = {}
        self._passwords: dict[bytes, SessionId] = {}
        self._closing: deque[tuple[Zxid, SessionId]] = deque()
        self._session_count = len(state.sessions.by_id)
        self._time_ms = state.time_ms
        self._last = ZERO
        self.outstanding = 0
        """Transactions prepared and not yet applied."""

    def prepare_write(
        self, zxid: Zxid, wall_ms: Millis, session_id: SessionId, write: Write
    ) -> bytes:
        """Prepare a numbered write as transaction `zxid`; the caller has checked the number."""
        time_ms = self._begin(zxid, wall_ms)
        number = write.number
        session = self.session(session_id)
        change: TxnBody
        if session is None:
            change = refused_undecoded(Code.SESSION_EXPIRED, write.op)
        else:
            assert number == session.last_number + 1, (number, session.last_number)
            session.last_number = number
            held = session.results
            while held and held[0][0] <= write.acked:
                session.results_bytes -= held.popleft()[1]
            change = self._change(zxid, time_ms, session_id, session, write.op)
        # No client can have the outcome of this write yet, whatever it says.
        acked = write.acked
        if acked >= number:
            acked = number - 1
        return encode_txn(Txn(session_id, number, acked, time_ms, change))

    def prepare_create_session(
        self,
        zxid: Zxid,
        wall_ms: Millis,
        server_id: ServerId,
        connection: int,
        request: Connect,
        host: str = "",
    ) -> bytes:
        """Prepare the opening of a session, or its move to another connection.

        A request for a new session whose password is that of a living one is a repeat: its first
        answer was lost, so it finds the session it made. A request that is older than the one that
        has the session now is refused, and so is any of a client from which it was taken over.
        """
        time_ms = self._begin(zxid, wall_ms)
        change = self._opened(zxid, server_id, connection, request, host)
        return encode_txn(Txn(_NO_SESSION, 0, 0, time_ms, change))

    def prepare_close_session(
        self, zxid: Zxid, wall_ms: Millis, session_id: SessionId, reason: int
    ) -> bytes | None:
        """Prepare the end of a session for a `CloseReason`; None, and no zxid used, if it ended."""
        if self.session(session_id) is None:
            return None
        time_ms = self._begin(zxid, wall_ms)
        return encode_txn(Txn(_NO_SESSION, 0, 0, time_ms, self._closed(zxid, session_id, reason)))

    def prepare_suspect(
        self, zxid: Zxid, wall_ms: Millis, session_id: SessionId, *, is_suspected: bool
    ) -> bytes:
        """Prepare to suspect a living session, or to note that it was heard again."""
        session = self.session(session_id)
        assert session is not None, session_id
        session.is_suspected = is_suspected
        if not is_suspected:
            session.heard_zxid = zxid
        time_ms = self._begin(zxid, wall_ms)
        body = SuspectSessionTxn(session_id, is_suspected)
        return encode_txn(Txn(_NO_SESSION, 0, 0, time_ms, body))

    def prepare_delete_expired(
        self, zxid: Zxid, wall_ms: Millis, path: str, seen: Znode
    ) -> bytes | None:
        """Prepare the deletion of an empty container or of a znode whose TTL has passed.

        None, and no zxid used, when by then its value or its children will have changed since it
        was seen, or it is gone.
        """
        record = self._tree.find(path)
        if record is None or (record.mzxid, record.pzxid) != (seen.mzxid, seen.pzxid):
            return None
        assert not record.num_children, path
        time_ms = self._begin(zxid, wall_ms)
        self._tree.delete(zxid, path, record)
        return encode_txn(Txn(_NO_SESSION, 0, 0, time_ms, DeleteTxn(path)))

    def prepare_replace_voter(
        self, zxid: Zxid, wall_ms: Millis, server_id: ServerId, disk: DiskId
    ) -> bytes:
        """Prepare to put the vote of a server on another disk (rule D3)."""
        time_ms = self._begin(zxid, wall_ms)
        return encode_txn(Txn(_NO_SESSION, 0, 0, time_ms, ReplaceVoterTxn(server_id, disk)))

    def prepare_raise_level(self, zxid: Zxid, wall_ms: Millis, level: FeatureLevel) -> bytes:
        """Prepare to put a feature level in force, which all members know."""
        time_ms = self._begin(zxid, wall_ms)
        return encode_txn(Txn(_NO_SESSION, 0, 0, time_ms, RaiseLevelTxn(level)))

    def prepare_reconfig(
        self, zxid: Zxid, wall_ms: Millis, op: Reconfig
    ) -> bytes | ReconfigErrorTxn:
        """Prepare a step of the member list for an operator, who needs no session.

        Or return why it is refused; then no zxid is used.
        """
        if self._state.level < LEVEL_OF_MEMBERS:
            detail = "some server is of a version that knows no changes of the member list"
            return ReconfigErrorTxn(Code.UNIMPLEMENTED, detail)
        members = self._list_after(zxid, op)
        if isinstance(members, ReconfigErrorTxn):
            return members
        time_ms = self._begin(zxid, wall_ms)
        return encode_txn(Txn(_NO_SESSION, 0, 0, time_ms, self._list_set(zxid, time_ms, members)))

    def prepare_repeated_list(self, zxid: Zxid, wall_ms: Millis, members: MemberList) -> bytes:
        """Prepare to say a delivered list once more (docs/MEMBERS.md, M4)."""
        time_ms = self._begin(zxid, wall_ms)
        return encode_txn(Txn(_NO_SESSION, 0, 0, time_ms, ReconfigTxn(members)))

    def prepare_config(
        self,
        zxid: Zxid,
        wall_ms: Millis,
        addresses: Mapping[ServerId, str],
        voters: Collection[ServerId],
        observers: Collection[ServerId],
    ) -> bytes | None:
        """Prepare to write these addresses into /zookeeper/config; see `updated_servers`.

        None, and no zxid used, when it has them already.
        """
        lines = updated_servers(self._config().value or b"", addresses, voters, observers)
        if lines is None:
            return None
        time_ms = self._begin(zxid, wall_ms)
        op = SetData(CONFIG_PATH, format_config(lines, zxid), ANY_VERSION)
        change = self._operations.set_data(zxid, time_ms, (SUPER,), op, is_servers_own=True)
        return encode_txn(Txn(_NO_SESSION, 0, 0, time_ms, change))

    def session(self, session_id: SessionId) -> OutstandingSession | None:
        """Return the session once all is applied; None if it is closing or missing."""
        future = self._sessions.get(session_id)
        if future is None:
            session = self._state.sessions.get(session_id)
            if session is None:
                return None
            held = _results_held(session)
            future = OutstandingSession(
                session.owner_zxid,
                session.password,
                session.last_number,
                session.attempt,
                session.host,
                session.auth_ids,
                session.identities,
                held or None,
                sum(size for _, size in held),
                session.is_suspected,
            )
            self._sessions[session_id] = future
        return None if future.closing else future

    def last_number(self, session_id: SessionId) -> int | None:
        """Return the newest prepared number of the session; None if it is closing or missing."""
        session = self.session(session_id)
        return None if session is None else session.last_number

    def owner_zxid_of(self, session_id: SessionId) -> Zxid | None:
        """Return the owner zxid once all is applied; None if the session is closing or missing."""
        outstanding = self._sessions.get(session_id)
        if outstanding is not None:
            return None if outstanding.closing else outstanding.owner_zxid
        session = self._state.sessions.get(session_id)
        return None if session is None else session.owner_zxid

    def is_suspected(self, session_id: SessionId) -> bool:
        """Return whether the session is suspected once all is applied."""
        outstanding = self._sessions.get(session_id)
        if outstanding is not None:
            return outstanding.is_suspected
        session = self._state.sessions.get(session_id)
        return session is not None and session.is_suspected

    def is_heard(self, session_id: SessionId) -> bool:
        """Return whether all that suspected the session is taken back and applied."""
        outstanding = self._sessions.get(session_id)
        heard_zxid = ZERO if outstanding is None else outstanding.heard_zxid
        return not self.is_suspected(session_id) and self._state.zxid >= heard_zxid

    def soft_quotas_exceeded(self) -> list[SoftLimitExceeded]:
        """Return the soft limits exceeded since the last call, each at most once a minute."""
        return self._tree.quotas.drain_exceeded()

    def applied(self, zxid: Zxid) -> None:
        """Drop what was kept for transactions up to `zxid`: the state has applied them."""
        if not self.outstanding:
            return
        self.outstanding = max(0, self._last - zxid)
        self._tree.applied(zxid)
        closing = self._closing
        while closing and closing[0][0] <= zxid:
            del self._sessions[closing.popleft()[1]]

    def _begin(self, zxid: Zxid, wall_ms: Millis) -> Millis:
        """Take `zxid` for the next transaction and return its time, never before the last one's."""
        assert zxid == self._last + 1 or not self._last, (zxid, self._last)
        self._last = zxid
        self.outstanding += 1
        if wall_ms > self._time_ms:
            self._time_ms = wall_ms
        return self._time_ms

    def _change(
        self,
        zxid: Zxid,
        time_ms: Millis,
        session_id: SessionId,
        session: OutstandingSession,
        raw: bytes,
    ) -> TxnBody:
        operations, identities = self._operations, session.identities
        try:
            op = decode_op(raw)
        except DECODE_ERRORS:
            unknown = is_unknown_op(raw)
            code = Code.UNIMPLEMENTED if unknown else Code.MARSHALLING_ERROR
            return ErrorTxn(code.value)
        match op:
            case SetData():
                return operations.set_data(zxid, time_ms, identities, op)
            case Create():
                return operations.create(zxid, time_ms, session_id, identities, op)
            case Delete():
                return operations.delete(zxid, identities, op)
            case Multi():
                size, limits = len(raw), self._limits
                most = max(len(op.compares), len(op.then), len(op.otherwise))
                if size > limits.transaction_bytes_max or most > limits.ops_max(size):
                    return refused_multi(Code.BAD_ARGUMENTS)
                return self._transaction(zxid, time_ms, session_id, session, op)
            case SetAcls():
                return operations.set_acls(zxid, identities, op)
            case AddAuth():
                return self._identified(session, op)
            case Reconfig():
                return self._reconfigured(zxid, time_ms, identities, op)
            case _:
                _closing: CloseSession = op
                return self._closed(zxid, session_id, CloseReason.BY_CLIENT)

    def _transaction(
        self,
        zxid: Zxid,
        time_ms: Millis,
        session_id: SessionId,
        session: OutstandingSession,
        op: Multi,
    ) -> TxnBody:
        room = CACHED_RESULTS_BYTES_MAX - session.results_bytes
        change = self._transactions.prepare(zxid, time_ms, session_id, session.identities, op, room)
        size = 0
        if type(change) is MultiTxn:
            size = results_bytes(change.results)
        elif type(change) is MultiErrorTxn:
            size = OP_BYTES * change.count
        if size:
            if session.results is None:
                session.results = deque()
            session.results.append((session.last_number, size))
            session.results_bytes += size
        return change

    def _reconfigured(
        self, zxid: Zxid, time_ms: Millis, identities: Identities, op: Reconfig
    ) -> ReconfigTxn | ReconfigErrorTxn | ErrorTxn:
        if not is_allowed(self._config().attributes, identities, Permission.ADMIN):
            return refused_reconfig(Code.NO_AUTH)
        if self._state.level < LEVEL_OF_MEMBERS:
            return refused_reconfig(Code.UNIMPLEMENTED)
        members = self._list_after(zxid, op)
        if isinstance(members, ReconfigErrorTxn):
            return members
        return self._list_set(zxid, time_ms, members)

    def _list_after(self, zxid: Zxid, op: Reconfig) -> MemberList | ReconfigErrorTxn:
        mzxid, state = self._config().mzxid, self._state
        version = state.voters_version if state.members is None else state.members.version
        if op.version not in (ANY_VERSION, mzxid, version):
            detail = f"the list is that of version {mzxid:x}, not {op.version:x}"
            return ReconfigErrorTxn(Code.BAD_VERSION, detail)
        return self._next_list(op, zxid)

    def _list_set(self, zxid: Zxid, time_ms: Millis, members: MemberList) -> ReconfigTxn:
        known = self._config().value or b""
        lines = member_lines(known, self._addresses, members.voters, members.observers)
        text = SetData(CONFIG_PATH, format_config(lines, zxid), ANY_VERSION)
        config = self._operations.set_data(zxid, time_ms, (SUPER,), text, is_servers_own=True)
        assert isinstance(config, SetDataTxn), config
        return ReconfigTxn(members, config)

    def _config(self) -> ChangeRecord:
        record = self._tree.find(CONFIG_PATH)
        assert record is not None, "it cannot be deleted"
        return record

    def _identified(self, session: OutstandingSession, op: AddAuth) -> TxnBody:
        identity = authenticate(op.scheme, op.credential)
        if identity is None:
            return refused_auth()
        proven = dict.fromkeys((*session.auth_ids, identity))
        if identity in self._limits.super_identities:
            proven[SUPER] = None
        if len(proven) > self._limits.session_identities_max:
            return refused_auth()
        session.auth_ids = tuple(proven)
        session.identities = identities_of(session.auth_ids, session.host)
        return SetIdentitiesTxn(session.auth_ids)

    def _closed(self, zxid: Zxid, session_id: SessionId, reason: int) -> CloseSessionTxn:
        """End a living session, with the ephemerals it will have by then."""
        session = self._sessions[session_id]
        session.closing = True
        self._closing.append((zxid, session_id))
        self._session_count -= 1
        self._passwords.pop(session.password, None)
        tree = self._tree
        paths = tree.ephemerals_of(session_id)
        for path in paths:
            record = tree.find(path)
            assert record is not None, path
            tree.delete(zxid, path, record)
        return CloseSessionTxn(session_id, paths, reason)

    def _opened(
        self, zxid: Zxid, server_id: ServerId, connection: int, request: Connect, host: str
    ) -> CreateSessionTxn | CreateSessionErrorTxn:
        limits = self._limits
        password = request.password
        session_id = request.session_id
        if not session_id:
            session_id = self._with_password(password)
        if session_id:
            session = self.session(session_id)
            if session is None:
                return CreateSessionErrorTxn(server_id, connection, Code.SESSION_EXPIRED)
            taken = request.new_password
            if taken and session.password == password:
                if self._with_password(taken):
                    return CreateSessionErrorTxn(server_id, connection, Code.AUTH_FAILED)
                self._passwords.pop(password, None)
                self._passwords[taken] = session_id
                session.password = password = taken
            elif session.password != (password := taken or password):
                return CreateSessionErrorTxn(server_id, connection, Code.AUTH_FAILED)
            elif request.attempt < session.attempt:
                # It was under way for long, or its server does not know yet that the link is dead,
                # and a client that is served elsewhere would be thrown off.
                return CreateSessionErrorTxn(server_id, connection, Code.SESSION_MOVED)
            session.owner_zxid = zxid
            session.is_suspected = False
            session.attempt = request.attempt
            session.host = host
            session.identities = identities_of(session.auth_ids, host)
        else:
            if len(password) != PASSWORD_BYTES:
                return CreateSessionErrorTxn(server_id, connection, Code.AUTH_FAILED)
            if self._session_count >= limits.sessions_max:
                return CreateSessionErrorTxn(
                    server_id, connection, Code.CONNECTION_LOSS, limits.sessions_max
                )
            session_id = SessionId(zxid)
            future = OutstandingSession(
                zxid, password, 0, request.attempt, host, (), identities_of((), host), None, 0
            )
            self._sessions[session_id] = future
            self._passwords[password] = session_id
            self._session_count += 1
        timeout_ms = limits.session_timeout_of(request.timeout_ms)
        return CreateSessionTxn(
            session_id, password, timeout_ms, server_id, connection, request.attempt, host
        )

    def _with_password(self, password: bytes) -> SessionId:
        """Return the living session with this password, 0 for none."""
        session_id = self._passwords.get(password)
        if session_id is None:
            session_id = self._state.sessions.with_password(password)
        if session_id is None or self.session(session_id) is None:
            return _NO_SESSION
        return session_id


def _results_held(session: Session) -> deque[tuple[int, int]]:
    held: deque[tuple[int, int]] = deque()
    for number, outcome in session.reply_cache.items():
        if outcome.results is not None:
            held.append((number, results_bytes(outcome.results.results)))
    return held
