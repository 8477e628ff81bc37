"""The table of sessions, each with a cache of its writes' replies: the base of exactly once.

A session lives from its CreateSessionTxn to its CloseSessionTxn. Its id is the zxid of the first
and never returns, so a replay over a fuzzy snapshot needs few comparisons: owner number, attempt,
last number and acked number only rise, and what a replay opens again is closed again before Z1.

The outcomes held are those of the numbers in (max(acked, last - REPLY_CACHE_MAX), last]: a function
of two numbers that only rise, so every way to the same state holds the same ones.

ZooKeeper: `SessionTrackerImpl` and `ZKDatabase.sessionsWithTimeouts`; outcomes have no counterpart.
"""

from typing import Final

import msgspec
from msgspec import Struct
from msgspec.structs import astuple

from raykeeper.zab.ids import Millis, ServerId, Zxid
from raykeeper.znodes.acl import Identities, identities_of
from raykeeper.znodes.digest import record_term
from raykeeper.znodes.limits import REPLY_CACHE_MAX
from raykeeper.znodes.requests import SessionId
from raykeeper.znodes.txns import CreateSessionTxn, SuspectSessionTxn, WriteOutcome


class DigestedSession(Struct, frozen=True, array_like=True, tag=2):
    """What the digest covers of a session: what replicas of every version have."""

    session_id: SessionId
    password: bytes
    timeout_ms: Millis
    owner_zxid: Zxid
    last_number: int
    acked: int
    reply_cache: dict[int, WriteOutcome]
    attempt: int = 0
    host: str = ""
    auth_ids: Identities = ()


class SessionRecord(DigestedSession, frozen=True, array_like=True, tag=2):
    """A session as it stands in a snapshot."""

    server_id: ServerId = ServerId(0)
    """The server that it was opened at or has moved to; 0 in a snapshot that does not tell."""
    is_suspected: bool = False
    """Half of its timeout has passed in silence; the digest covers it beside the others."""


_encode_record = _encode_item = msgspec.msgpack.Encoder().encode


class Session(Struct, gc=False):
    """One session. `owner_zxid` is the zxid of its latest CreateSessionTxn.

    It begins with the fields of its record.
    """

    session_id: SessionId
    password: bytes
    timeout_ms: Millis
    owner_zxid: Zxid
    last_number: int
    """Number of the newest write that was applied."""
    acked: int
    """The client has every outcome up to this number."""
    reply_cache: dict[int, WriteOutcome]
    """By number, ascending."""
    attempt: int
    """Which of its client's connections the owner number stands for."""
    host: str
    """The address of its present connection, "" when the connection has none."""
    auth_ids: Identities
    server_id: ServerId
    """The server of its present connection; 0 if an older snapshot did not tell."""
    is_suspected: bool
    """Half of its timeout has passed in silence, and it was not heard again since."""
    identities: Identities
    """Of both: the identities that ACLs see."""
    digest_term: int = 0
    """The term of this session in the digest."""


_RECORD_FIELDS: Final = len(SessionRecord.__struct_fields__)
_DIGESTED_FIELDS: Final = len(DigestedSession.__struct_fields__)
assert Session.__struct_fields__[:_RECORD_FIELDS] == SessionRecord.__struct_fields__


class SessionTable:
    """The sessions by id and by password."""

    def __init__(self) -> None:
        self.by_id: dict[SessionId, Session] = {}
        self._by_password: dict[bytes, SessionId] = {}
        self._digest = 0
        self._undigested: dict[SessionId, None] = {}  # sessions changed since they were hashed

    def get(self, session_id: SessionId) -> Session | None:
        """Return the session, None when it never was or has ended."""
        return self.by_id.get(session_id)

    def with_password(self, password: bytes) -> SessionId | None:
        """Return the living session that was opened with `password`."""
        return self._by_password.get(password)

    def open(self, zxid: Zxid, change: CreateSessionTxn) -> None:
        """Apply an opening, or a move to another connection."""
        session_id = change.session_id
        session = self.by_id.get(session_id)
        if session is None:
            opened = session_id, change.password, change.timeout_ms, zxid
            host, server_id = change.host, change.server_id
            identities = identities_of((), host)
            self.add(
                Session(*opened, 0, 0, {}, change.attempt, host, (), server_id, False, identities)
            )
        elif session.owner_zxid < zxid:
            if session.password != change.password:
                self._take_over(session, change.password)
            session.owner_zxid = zxid
            session.timeout_ms = change.timeout_ms
            session.attempt = change.attempt
            session.host = change.host
            session.server_id = change.server_id
            session.is_suspected = False
            session.identities = identities_of(session.auth_ids, change.host)
            self._undigested[session_id] = None

    def add(self, session: Session) -> None:
        """Add a session as it is."""
        session_id = session.session_id
        assert session_id not in self.by_id, session_id
        self.by_id[session_id] = session
        # A replay can open an older session of the same password again, until it is closed again.
        if self._by_password.get(session.password, 0) < session_id:
            self._by_password[session.password] = session_id
        self._undigested[session_id] = None

    def close(self, session_id: SessionId) -> None:
        """Apply the end of a session and of its reply cache."""
        session = self.by_id.pop(session_id, None)
        if session is None:
            return
        self._forget_password(session)
        self._digest -= session.digest_term
        self._undigested.pop(session_id, None)

    def identify(self, session_id: SessionId, number: int, auth_ids: Identities) -> None:
        """Apply the identities that write `number` has proved."""
        session = self.by_id.get(session_id)
        if session is None or number <= session.last_number:
            return  # a replay
        session.auth_ids = auth_ids
        session.identities = identities_of(auth_ids, session.host)

    def suspect(self, zxid: Zxid, change: SuspectSessionTxn) -> None:
        """Apply that a session is suspected, or heard again."""
        session = self.by_id.get(change.session_id)
        if session is None or session.owner_zxid > zxid:
            return  # a replay: it has ended or moved since
        session.is_suspected = change.is_suspected
        self._undigested[session.session_id] = None

    def record(self, session: Session, number: int, acked: int, outcome: WriteOutcome) -> None:
        """Keep the outcome of write `number`, and forget what the client has acknowledged."""
        last = session.last_number
        if number <= last:
            return  # a replay
        outcomes = session.reply_cache
        outcomes[number] = outcome
        session.last_number = number
        if acked > session.acked:
            for old in range(session.acked + 1, acked + 1):
                outcomes.pop(old, None)
            session.acked = acked
        if len(outcomes) > REPLY_CACHE_MAX:
            del outcomes[number - REPLY_CACHE_MAX]
        self._undigested[session.session_id] = None

    def digest(self) -> int:
        """Return the part of the digest that covers sessions: only those changed since are hashed.

        Not done with each write: most outcomes are acknowledged and gone before the next digest.
        """
        by_id = self.by_id
        for session_id in self._undigested:
            session = by_id[session_id]
            digested = DigestedSession(*astuple(session)[:_DIGESTED_FIELDS])
            term = record_term(_encode_record(digested))
            if session.is_suspected:
                term += record_term(_encode_item(("suspected", session_id)))
            self._digest += term - session.digest_term
            session.digest_term = term
        self._undigested.clear()
        return self._digest

    def _take_over(self, session: Session, password: bytes) -> None:
        self._forget_password(session)
        session.password = password
        self._by_password[password] = session.session_id

    def _forget_password(self, session: Session) -> None:
        # A replay may have given the password to another session meanwhile.
        if self._by_password.get(session.password) == session.session_id:
            del self._by_password[session.password]


def session_of(record: SessionRecord) -> Session:
    """Return the session that a snapshot holds."""
    return Session(*[*astuple(record), identities_of(record.auth_ids, record.host)])


def record_of(session: Session) -> SessionRecord:
    """Return the session's record; it shares the reply cache, so encode it at once."""
    return SessionRecord(*astuple(session)[:_RECORD_FIELDS])
