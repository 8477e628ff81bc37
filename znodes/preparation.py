"""The leader's side of a write: from what a client asks to what every replica will do.

A request holds conditions, a transaction results: paths, versions, counters and times as they will
be, found against the future state (paper, section 4.1). So a transaction can be applied any number
of times. A request that cannot be granted becomes an error transaction, which uses up the write's
number, so that a repeated write gets the same refusal.

Owns: numbers of a session are prepared in order without gaps; txn times never go back; a session
that is closing writes no more; a session never goes back to an earlier connection of its client;
sequence numbers never repeat under a parent.

ZooKeeper: `PrepRequestProcessor.pRequest2Txn`; the order of the checks is the same.
"""

from collections import deque
from typing import Final

from msgspec import Struct

from raykeeper.zab.errors import MALFORMED
from raykeeper.zab.ids import ZERO, DiskId, Millis, ServerId, Zxid
from raykeeper.znodes.errors import Code
from raykeeper.znodes.future import FutureTree
from raykeeper.znodes.limits import Limits
from raykeeper.znodes.paths import SEQUENCE_DIGITS, UNDELETABLE, fault_in, is_name
from raykeeper.znodes.requests import (
    ANY_VERSION,
    PASSWORD_BYTES,
    CloseSession,
    Connect,
    Create,
    CreateMode,
    Delete,
    SessionId,
    SetData,
    Write,
    decode_op,
)
from raykeeper.znodes.stat import Stat
from raykeeper.znodes.state import State
from raykeeper.znodes.tree import cversion_of
from raykeeper.znodes.txns import (
    Change,
    Created,
    DataSet,
    Deleted,
    OpenRefused,
    Refused,
    SessionClosed,
    SessionOpened,
    Txn,
    VoterReplaced,
    encode_txn,
)

_REFUSED: Final = {code: Refused(code.value) for code in Code}
_NO_SESSION: Final = SessionId(0)


class FutureSession(Struct, gc=False):
    """What preparing needs to know of a session; kept as long as the session and this reign."""

    owner: Zxid
    password: bytes
    last_number: int
    attempt: int
    closing: bool = False


class Preparation:
    """Prepares the writes of one reign. Every transaction of the reign is prepared here, in order.

    `state` already has every transaction before the first that is prepared.
    """

    def __init__(self, state: State, limits: Limits) -> None:
        assert state.zxid >= state.consistent_at, (state.zxid, state.consistent_at)
        self._state = state
        self._limits = limits
        self._tree = FutureTree(state.tree)
        self._sessions: dict[SessionId, FutureSession] = {}
        self._passwords: dict[bytes, SessionId] = {}
        self._closing: deque[tuple[Zxid, SessionId]] = deque()
        self._session_count = len(state.sessions.by_id)
        self._time_ms = state.time_ms
        self._last = ZERO
        self.outstanding = 0
        """Transactions prepared and not yet applied."""

    def write(self, zxid: Zxid, wall_ms: Millis, session_id: SessionId, write: Write) -> bytes:
        """Prepare a numbered write as transaction `zxid`; the caller has checked the number."""
        time_ms = self._begin(zxid, wall_ms)
        number = write.number
        session = self._session(session_id)
        change: Change
        if session is None:
            change = _REFUSED[Code.SESSION_EXPIRED]
        else:
            assert number == session.last_number + 1, (number, session.last_number)
            session.last_number = number
            change = self._change(zxid, time_ms, session_id, write.op)
        # No client can have the outcome of this write yet, whatever it says.
        acked = write.acked
        if acked >= number:
            acked = number - 1
        return encode_txn(Txn(session_id, number, acked, time_ms, change))

    def open_session(
        self,
        zxid: Zxid,
        wall_ms: Millis,
        server_id: ServerId,
        connection: int,
        request: Connect,
    ) -> bytes:
        """Prepare the opening of a session, or its move to another connection.

        A request for a new session whose password is that of a living one is a repeat: its first
        answer was lost, so it finds the session it made. A request that is older than the one that
        has the session now is refused.
        """
        time_ms = self._begin(zxid, wall_ms)
        change = self._opened(zxid, server_id, connection, request)
        return encode_txn(Txn(_NO_SESSION, 0, 0, time_ms, change))

    def expire_session(self, zxid: Zxid, wall_ms: Millis, session_id: SessionId) -> bytes | None:
        """Prepare the end of an overdue session; None, and no zxid used, when it has ended."""
        if self._session(session_id) is None:
            return None
        time_ms = self._begin(zxid, wall_ms)
        return encode_txn(Txn(_NO_SESSION, 0, 0, time_ms, self._closed(zxid, session_id)))

    def replace_voter(
        self, zxid: Zxid, wall_ms: Millis, server_id: ServerId, disk: DiskId
    ) -> bytes:
        """Prepare that the vote of a server rests on another disk (rule D3)."""
        time_ms = self._begin(zxid, wall_ms)
        return encode_txn(Txn(_NO_SESSION, 0, 0, time_ms, VoterReplaced(server_id, disk)))

    def last_number(self, session_id: SessionId) -> int | None:
        """The newest number prepared for the session; None when it is closing, or is not."""
        session = self._session(session_id)
        return None if session is None else session.last_number

    def owner_of(self, session_id: SessionId) -> Zxid | None:
        """The session's owner number once all is applied; None when it is closing, or is not."""
        session = self._session(session_id)
        return None if session is None else session.owner

    def applied(self, zxid: Zxid) -> None:
        """The state has every transaction up to `zxid`: drop what was kept for them."""
        if not self.outstanding:
            return
        self.outstanding = max(0, self._last - zxid)
        self._tree.applied(zxid)
        closing = self._closing
        while closing and closing[0][0] <= zxid:
            del self._sessions[closing.popleft()[1]]

    def _begin(self, zxid: Zxid, wall_ms: Millis) -> Millis:
        """Take `zxid` for the next transaction; its time is never before that of the last."""
        assert zxid == self._last + 1 or not self._last, (zxid, self._last)
        self._last = zxid
        self.outstanding += 1
        if wall_ms > self._time_ms:
            self._time_ms = wall_ms
        return self._time_ms

    def _session(self, session_id: SessionId) -> FutureSession | None:
        future = self._sessions.get(session_id)
        if future is None:
            session = self._state.sessions.get(session_id)
            if session is None:
                return None
            future = FutureSession(
                session.owner, session.password, session.last_number, session.attempt
            )
            self._sessions[session_id] = future
        return None if future.closing else future

    def _change(self, zxid: Zxid, time_ms: Millis, session_id: SessionId, raw: bytes) -> Change:
        try:
            op = decode_op(raw)
        except MALFORMED:
            return _REFUSED[Code.MARSHALLING_ERROR]
        match op:
            case SetData():
                return self._data_set(zxid, time_ms, op)
            case Create():
                return self._created(zxid, time_ms, session_id, op)
            case Delete():
                return self._deleted(zxid, op)
            case _:
                _closing: CloseSession = op
                return self._closed(zxid, session_id)

    def _data_set(self, zxid: Zxid, time_ms: Millis, op: SetData) -> Change:
        path = op.path
        value = op.value
        tree = self._tree
        record = tree.find(path)
        if record is None:
            return _missing(path)
        size = len(value)
        if size > self._limits.value_bytes_max:
            return _REFUSED[Code.BAD_ARGUMENTS]
        version = record.version
        if op.version != version and op.version != ANY_VERSION:
            return _REFUSED[Code.BAD_VERSION]
        record.version = version = next_version(version)
        tree.keep(zxid, path, record)
        count = record.num_children
        stat = Stat(
            record.czxid,
            zxid,
            record.ctime,
            time_ms,
            version,
            cversion_of(record.creates, count),
            0,
            record.owner,
            size,
            count,
            record.pzxid,
        )
        return DataSet(path, value, stat)

    def _created(self, zxid: Zxid, time_ms: Millis, session_id: SessionId, op: Create) -> Change:
        flags = op.flags
        limits = self._limits
        if flags & ~CreateMode.MASK or len(op.value) > limits.value_bytes_max:
            return _REFUSED[Code.BAD_ARGUMENTS]
        path = op.path
        cut = path.rfind("/")
        if cut < 0 or path[:2] == "//":  # without the second, "//a" would be a child of the root
            return _REFUSED[Code.BAD_ARGUMENTS]
        tree = self._tree
        parent_path = path[:cut] or "/"
        parent = tree.find(parent_path)
        if parent is None:
            return _REFUSED[Code.NO_NODE]
        if flags & CreateMode.SEQUENTIAL:
            path = f"{path}{parent.creates:0{SEQUENCE_DIGITS}d}"
        # What stands before the name is the path of a znode, so it is well-formed.
        if path != "/" and (not is_name(path[cut + 1 :]) or len(path) > limits.path_chars_max):
            return _REFUSED[Code.BAD_ARGUMENTS]
        if tree.exists(path):
            return _REFUSED[Code.NODE_EXISTS]
        if parent.owner:
            return _REFUSED[Code.NO_CHILDREN_FOR_EPHEMERALS]
        parent.creates += 1
        parent.num_children += 1
        parent.pzxid = zxid
        tree.keep(zxid, parent_path, parent)
        owner = session_id if flags & CreateMode.EPHEMERAL else _NO_SESSION
        tree.create(zxid, time_ms, path, owner)
        return Created(path, op.value, owner, parent.creates)

    def _deleted(self, zxid: Zxid, op: Delete) -> Change:
        path = op.path
        if path in UNDELETABLE:
            return _REFUSED[Code.BAD_ARGUMENTS]
        record = self._tree.find(path)
        if record is None:
            return _missing(path)
        if op.version != record.version and op.version != ANY_VERSION:
            return _REFUSED[Code.BAD_VERSION]
        if record.num_children:
            return _REFUSED[Code.NOT_EMPTY]
        self._tree.delete(zxid, path, record)
        return Deleted(path)

    def _closed(self, zxid: Zxid, session_id: SessionId) -> SessionClosed:
        """The end of a living session, with the ephemerals it will have by then."""
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
        return SessionClosed(session_id, paths)

    def _opened(
        self, zxid: Zxid, server_id: ServerId, connection: int, request: Connect
    ) -> SessionOpened | OpenRefused:
        limits = self._limits
        password = request.password
        session_id = request.session_id
        if not session_id:
            session_id = self._with_password(password)
        if session_id:
            session = self._session(session_id)
            if session is None:
                return OpenRefused(server_id, connection, Code.SESSION_EXPIRED)
            if session.password != password:
                return OpenRefused(server_id, connection, Code.AUTH_FAILED)
            if request.attempt < session.attempt:
                # It was under way for long, or its server does not know yet that the link is dead,
                # and a client that is served elsewhere would be thrown off.
                return OpenRefused(server_id, connection, Code.SESSION_MOVED)
            session.owner = zxid
            session.attempt = request.attempt
        else:
            if len(password) != PASSWORD_BYTES:
                return OpenRefused(server_id, connection, Code.AUTH_FAILED)
            if self._session_count >= limits.sessions_max:
                return OpenRefused(server_id, connection, Code.CONNECTION_LOSS)
            session_id = SessionId(zxid)
            self._sessions[session_id] = FutureSession(zxid, password, 0, request.attempt)
            self._passwords[password] = session_id
            self._session_count += 1
        timeout_ms = request.timeout_ms
        timeout_ms = max(limits.session_timeout_min_ms, timeout_ms)
        timeout_ms = min(limits.session_timeout_max_ms, timeout_ms)
        return SessionOpened(
            session_id, password, timeout_ms, server_id, connection, request.attempt
        )

    def _with_password(self, password: bytes) -> SessionId:
        """The living session with this password, 0 for none."""
        session_id = self._passwords.get(password)
        if session_id is None:
            session_id = self._state.sessions.with_password(password)
        if session_id is None or self._session(session_id) is None:
            return _NO_SESSION
        return session_id


def next_version(version: int) -> int:
    """Versions wrap as signed 32-bit numbers and leave out -1, which means any version."""
    if version == -2:
        return 0
    return version + 1 if version != 0x7FFF_FFFF else -0x8000_0000


def _missing(path: str) -> Refused:
    """Why there is no znode at `path`. Looked at only now: a malformed path never has one."""
    return _REFUSED[Code.NO_NODE if fault_in(path) is None else Code.BAD_ARGUMENTS]
