"""What operators may ask a server, and what it answers: the tables of the command line.

A query is answered in steps, for a table may take longer than one step of a server may: see
`AdminTables`. Every answer has a bound, and says how much it leaves out.

ACLs hide no path from operators, as in ZooKeeper's words `dump` and `wchp`; no value is shown, but
the identifier of a contender, and that only if the ACL of its znode lets everybody read it.
"""

from typing import Final

from msgspec import Struct

from raykeeper.server.connection_stats import ConnectionStats
from raykeeper.server.stats import ServerStats
from raykeeper.zab.effects import Role
from raykeeper.zab.ids import Millis, ServerId, Zxid
from raykeeper.znodes.requests import SessionId

ROWS_MAX: Final = 1_000
"""Rows of one answer: a hundred kilobytes, and about a millisecond to make."""


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


class ListLocks(Struct, frozen=True):
    """The locks at a path and below it, by path."""

    path: str = "/"
    after: tuple[str, str] = ("", "")
    """Path and kind of the last lock of the page before."""
    rows_max: int = ROWS_MAX
    contenders_max: int = 10
    """Contenders of each lock, the first in its queue. Of all locks together there are not many
    more than `ROWS_MAX`."""


class ContenderRow(Struct, frozen=True):
    """A holder of a lock, or one that waits for it."""

    name: str
    """Of its znode."""
    holds: bool
    mode: str
    """What it wants of the lock: read, write, permit, or nothing in particular."""
    session_id: SessionId
    """0 for a lease."""
    since_ms: Millis
    """When it joined the queue, by the clock of the leader then; it holds the lock since later."""
    token: Zxid
    """Its fencing token."""
    identifier: str | None
    """How it introduced itself, perhaps with odd characters; None: the ACL hides it."""


class LockRow(Struct, frozen=True):
    """A lock with the first of its queue."""

    path: str
    kind: str
    permits: int | None
    """Of a semaphore; 0: its znode does not say."""
    holders: int
    waiting: int
    contenders: list[ContenderRow]


class LocksPage(Struct, frozen=True):
    """A part of the locks."""

    rows: list[LockRow]
    left_out: int
    """Locks that come after these rows."""
    is_all: bool
    """False: there are more locks than one answer can choose from."""
    is_there: bool
    """False: there is no znode at the path, nor a lock below it."""


class ListWatches(Struct, frozen=True):
    """The watches of a server's clients: of one session, for one znode, or all."""

    session_id: SessionId | None = None
    path: str = ""
    """Watches that fire for this znode, recursive ones above it too; "": for any."""
    rows_max: int = ROWS_MAX


class WatchRow(Struct, frozen=True):
    """One watch."""

    session_id: SessionId
    """0 for a session of read-only mode."""
    path: str
    kind: str
    """data, child, persistent or recursive."""


class WatchesPage(Struct, frozen=True):
    """A part of the watches of one server."""

    rows: list[WatchRow]
    total: int
    """All watches of this server."""
    left_out: int
    """Those that were asked for, beyond these rows."""
    is_there: bool
    """False: there is no znode at the path that was asked for."""
    is_connected: bool
    """False: the session that was asked for has no connection here."""


class MeasureTree(Struct, frozen=True):
    """The sizes of a subtree and its parts."""

    path: str = "/"
    depth: int = 1
    """Levels below `path` that have rows of their own."""
    rows_max: int = 20
    """Children of each znode with a row, the largest ones."""


class TreeRow(Struct, frozen=True):
    """A znode with all below it."""

    path: str
    znodes: int
    """The znode itself, too."""
    data_bytes: int
    """Bytes of all values and characters of all paths, as in `ServerStats`."""
    ephemerals: int
    value_bytes: int
    """Of its own value."""
    children: int
    """When the walk came to it."""
    rows: list["TreeRow"]
    """Of its largest children, the largest first."""
    left_out: int
    """Children without a row, if others have one."""
    left_out_znodes: int
    left_out_bytes: int


class TreePage(Struct, frozen=True):
    """The sizes, as they were during the walk."""

    row: TreeRow | None
    """None: there is no such znode."""
    begun_at: Zxid
    """What the server had applied when the walk began."""


class ListChildren(Struct, frozen=True):
    """The children of a znode, by name."""

    path: str = "/"
    after: str = ""
    """A name, not necessarily of a child: only names behind it."""
    rows_max: int = 100


class ChildRow(Struct, frozen=True):
    """One child."""

    name: str
    children: int
    value_bytes: int
    session_id: SessionId
    """The owner of an ephemeral znode, else 0."""


class ChildrenPage(Struct, frozen=True):
    """A part of the children."""

    rows: list[ChildRow]
    last: str
    """The name after which the next page begins."""
    total: int
    """All children of the znode, as the list was begun."""
    left_out: int
    """Those that come after these rows."""
    is_there: bool
    """False: there is no such znode."""


class ReadStats(Struct, frozen=True):
    """The statistics of a server: `ServerStats`."""


AdminQuery = (
    ListSessions
    | ListConnections
    | ListLocks
    | ListWatches
    | ListChildren
    | MeasureTree
    | ReadStats
)
AdminPage = (
    SessionsPage | ConnectionsPage | LocksPage | WatchesPage | ChildrenPage | TreePage | ServerStats
)


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
