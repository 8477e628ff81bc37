"""What operators may ask a server, and what it answers: the tables of the command line.

A query is answered in steps, for a table may take longer than one step of a server may: see
`AdminTables`. Every answer has a bound, and says how much it leaves out.

ACLs hide no path from operators, as in ZooKeeper's words `dump` and `wchp`; no value is shown, but
the identifier of a contender, and that only if the ACL of its znode lets everybody read it.
"""

from typing import Final

from msgspec import Struct

from raykeeper.server.connection_stats import ConnectionStats
from raykeeper.zab.effects import Role
from raykeeper.zab.ids import Millis, ServerId, Zxid
from raykeeper.znodes.requests import SessionId

ROWS_MAX: Final = 1_000
"""Rows of one answer: half a megabyte, and some milliseconds to make."""


class ListSessions(Struct, frozen=True):
    """The sessions of the ensemble, by id, which is the order in which they were opened."""

    after: SessionId = SessionId(0)
    rows_max: int = ROWS_MAX


class SessionRow(Struct, frozen=True):
    """One session of the ensemble."""

    session_id: SessionId
    timeout_ms: Millis
    host: str
    """Of its last connection, as far as its server knew it."""
    users: list[str]
    """The users whose credentials it has shown, each with the scheme; no hash."""
    ephemerals: int


class SessionsPage(Struct, frozen=True):
    """A part of the sessions."""

    rows: list[SessionRow]
    total: int
    """All sessions of the ensemble."""
    left_out: int
    """Those that come after these rows."""


class ListConnections(Struct, frozen=True):
    """The connections of a server: those of the given sessions, or all of them."""

    session_ids: tuple[SessionId, ...] | None = None
    """None: all."""
    without_session: bool = False
    """Also those that wait for a session, or have one of read-only mode."""


class ConnectionsPage(Struct, frozen=True):
    """A part of the connections of one server."""

    rows: list[ConnectionStats]
    total: int
    """All connections of this server."""
    left_out: int


AdminQuery = ListSessions | ListConnections
AdminPage = SessionsPage | ConnectionsPage


class AdminAnswer(Struct, frozen=True):
    """The answer of one server."""

    server_id: ServerId
    role: Role
    is_active: bool
    """Whether it has a leader, or is one; else what it knows may be old."""
    zxid: Zxid
    """The last transaction that it has applied, as the answer ended."""
    page: AdminPage | None
    problem: str = ""
    """Why there is no page."""
