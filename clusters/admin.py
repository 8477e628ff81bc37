"""The admin interface: what operators are told of an ensemble, put together from its servers.

The command line prints what this module returns, and computes nothing. The servers make the tables
(`server/admin_tables.py`); here they are asked, and their parts joined. A server that is dead or
late is named with the reason, and the others tell what they know. What all servers have, such as
the sessions, is told by one: the leader, else the one that has applied most.
"""

from collections.abc import Iterable, Sequence
from typing import Any, Final, Protocol, TypeVar

from msgspec import Struct

from raykeeper.actors.replica_status import ReplicaDescription
from raykeeper.client.errors import NoNodeError
from raykeeper.clusters.actor_calls import ANSWER_TIMEOUT_S, call_actors, find_replicas
from raykeeper.clusters.membership import newest_description
from raykeeper.server.admin_queries import (
    ROWS_MAX,
    AdminAnswer,
    AdminQuery,
    ChildrenPage,
    ConnectionsPage,
    ListChildren,
    ListConnections,
    ListLocks,
    ListSessions,
    ListWatches,
    LockRow,
    LocksPage,
    MeasureTree,
    ReadStats,
    SessionRow,
    SessionsPage,
    TreePage,
    TreeRow,
    WatchesPage,
    WatchRow,
)
from raykeeper.server.connection_stats import ConnectionStats
from raykeeper.server.rates import ServerRates, lag_behind, rates_between
from raykeeper.server.stats import ServerStats
from raykeeper.zab.effects import Role
from raykeeper.zab.errors import RayKeeperError
from raykeeper.zab.ids import ZERO, ServerId, Zxid
from raykeeper.znodes.requests import SessionId

DOWN: Final = "down"
NO_SESSION: Final = SessionId(0)
WALK_TIMEOUT_S: Final = 30.0
WALKS: Final = (ListChildren, ListLocks, MeasureTree)
"""The queries for which a server walks its tree, between all its other work."""

P = TypeVar("P")


class SessionNotFoundError(RayKeeperError):
    """Raised when no server has a connection of the session whose watches are asked for.

    It has ended, or was never opened; or its client is between two servers: look again.
    """


class ServerState(Struct, frozen=True):
    """What a server said of itself, or why it did not answer."""

    server_id: ServerId
    role: str
    """As in `ServerStatus`."""
    is_active: bool = False
    """Whether it has a leader, or is one."""
    zxid: Zxid = ZERO
    problem: str = ""


class SessionEntry(Struct, frozen=True):
    """A session, with its connection if a server that answered has one.

    A connection that waits for its session, or has one of read-only mode, stands alone.
    """

    session: SessionRow | None
    server_id: ServerId | None
    connection: ConnectionStats | None


class SessionsTable(Struct, frozen=True):
    """The sessions of an ensemble."""

    servers: list[ServerState]
    told_by: ServerId | None
    """The server that listed the sessions; None: none can, and only connections are shown."""
    rows: list[SessionEntry]
    total: int
    left_out: int
    """Those that come after these rows, and connections beyond a thousand without a session."""


class ClientPlace(Struct, frozen=True):
    """The connection of a session."""

    server_id: ServerId
    connection: ConnectionStats


class LocksTable(Struct, frozen=True):
    """The locks of an ensemble."""

    servers: list[ServerState]
    told_by: ServerId | None
    """The server that knows the locks; None: none can tell."""
    rows: list[LockRow]
    clients: dict[SessionId, ClientPlace]
    """The connections of the contenders in the rows, as far as servers told them."""
    left_out: int
    """Locks that come after these rows."""
    is_all: bool
    """False: there are more locks than these and those that are left out."""


class WatchesTable(Struct, frozen=True):
    """The watches of an ensemble, by server."""

    servers: list[ServerState]
    rows: list[tuple[ServerId, WatchRow]]
    clients: dict[SessionId, ClientPlace]
    """The connections of the sessions in the rows, as far as servers told them."""
    total: int
    """All watches of the servers that answer."""
    left_out: int
    """Watches that were asked for, beyond these rows."""

    @property
    def is_complete(self) -> bool:
        """Whether every server has answered: only then no row means no watch."""
        return not any(each.problem for each in self.servers)


class TreeTable(Struct, frozen=True):
    """The sizes of a subtree and its parts."""

    servers: list[ServerState]
    told_by: ServerId | None
    """The server that walked its tree; None: none can tell."""
    row: TreeRow | None
    """None: none can tell."""
    begun_at: Zxid
    ended_at: Zxid
    """What the server had applied when the walk began and ended."""


class ChildrenTable(Struct, frozen=True):
    """A part of the children of a znode, by name."""

    servers: list[ServerState]
    told_by: ServerId | None
    """The server that listed them; None: none can tell."""
    page: ChildrenPage | None
    """None if none can tell."""


class ServerLoad(Struct, frozen=True):
    """What a server is and does."""

    stats: ServerStats
    rates: ServerRates | None
    """None: there was no look before, or the server was started since."""
    lag: int | None
    """Transactions that the leader has applied and it has not; None if that cannot be said."""


class LoadTable(Struct, frozen=True):
    """The load of an ensemble at one moment, and since the moment before."""

    servers: list[ServerState]
    leader: ServerId | None
    loads: dict[ServerId, ServerLoad]


class Servers(Protocol):
    """The servers of an ensemble, by whatever way they are asked."""

    def ids(self) -> list[ServerId]:
        """Return those that the ensemble should have, in order."""

    def ask(self, servers: Sequence[ServerId], query: AdminQuery) -> list[AdminAnswer | str]:
        """Ask each of them; a string tells why one did not answer."""


class RayServers:
    """The actors of an ensemble."""

    def __init__(self, name: str, walk_timeout_s: float) -> None:
        """A server that takes longer than 2 s, for a walk of its tree `walk_timeout_s`, is late.

        Raises:
            EnsembleNotFoundError: no server of the ensemble runs.
        """
        self._handles = find_replicas(name)
        self._silent: dict[ServerId, str] = {}  # they are asked once
        self._walk_timeout_s = walk_timeout_s

    def ids(self) -> list[ServerId]:
        """See `Servers`."""
        known = set(self._handles)
        answers = call_actors(self._handles.values(), "describe")
        newest = newest_description(answers)
        for server, answer in zip(self._handles, answers, strict=True):
            if not isinstance(answer, ReplicaDescription):
                self._silent[server] = answer
        if newest is not None:
            known.update(newest.voters, newest.observers)
        return sorted(known)

    def ask(self, servers: Sequence[ServerId], query: AdminQuery) -> list[AdminAnswer | str]:
        """See `Servers`."""
        there = [
            server for server in servers if server in self._handles and server not in self._silent
        ]
        answers = call_actors(
            [self._handles[server] for server in there],
            "answer",
            given=(query,),
            timeout_s=self._walk_timeout_s if isinstance(query, WALKS) else ANSWER_TIMEOUT_S,
        )
        heard = {**self._silent, **dict(zip(there, answers, strict=True))}
        return [heard.get(server, "not started") for server in servers]


class EnsembleAdmin:
    """Asks the servers of one ensemble."""

    def __init__(self, servers: Servers) -> None:
        """Use `admin_of`."""
        self._servers = servers

    def sessions(self, rows_max: int = ROWS_MAX, after: SessionId = NO_SESSION) -> SessionsTable:
        """Return the sessions with the lowest ids above `after`, and all connections without one.

        Args:
            rows_max: How many sessions at most.
            after: A session id, or 0.
        """
        inquiry = _Inquiry(self._servers)
        rows: list[SessionEntry] = []
        total = left_out = hidden = 0
        told_by = None
        while rows_max > 0:
            told = inquiry.ask_one(ListSessions(after, min(rows_max, ROWS_MAX)), SessionsPage)
            if told is None:
                break
            server, page = told
            ids = tuple(each.session_id for each in page.rows)
            connections = inquiry.ask_all(ListConnections(ids, told_by is None), ConnectionsPage)
            rows += _join_connections(page.rows, connections)
            if told_by is None:
                hidden = sum(each.left_out for each in connections.values())
            told_by, total, left_out = server, page.total, page.left_out + hidden
            if not page.left_out:
                break
            after = ids[-1]
            rows_max -= len(ids)
        rows.sort(key=lambda entry: entry.session is None)
        if told_by is None:
            pages = inquiry.ask_all(ListConnections(), ConnectionsPage)
            rows = _join_connections([], pages)
            total = sum(page.total for page in pages.values())
            left_out = sum(page.left_out for page in pages.values())
        return SessionsTable(inquiry.states(), told_by, rows, total, left_out)

    def locks(
        self, path: str = "/", rows_max: int = ROWS_MAX, contenders_max: int = 10
    ) -> LocksTable:
        """Return the locks at a path and below it, each with the first of its queue.

        Args:
            path: A znode; of a simple lock or a lease its own.
            rows_max: How many locks at most.
            contenders_max: How many contenders of each lock, at most a thousand.

        Raises:
            NoNodeError: there is no such znode; a lock that nobody uses may have none.
        """
        inquiry = _Inquiry(self._servers)
        rows: list[LockRow] = []
        told_by, left_out, is_all, after = None, 0, True, ("", "")
        while len(rows) < rows_max:
            query = ListLocks(path, after, rows_max - len(rows), contenders_max)
            told = inquiry.ask_one(query, LocksPage)
            if told is None:
                break
            told_by, page = told
            if not page.is_there:
                raise NoNodeError(path, "nobody holds a lock there, or waits for one")
            rows += page.rows
            left_out, is_all = page.left_out, page.is_all
            if not left_out or not page.rows:
                break
            after = page.rows[-1].path, page.rows[-1].kind
        clients = inquiry.find_clients(each.session_id for row in rows for each in row.contenders)
        return LocksTable(inquiry.states(), told_by, rows, clients, left_out, is_all)

    def watches(
        self, path: str = "", session_id: SessionId | None = None, rows_max: int = ROWS_MAX
    ) -> WatchesTable:
        """Return the watches that clients have set, of every server.

        Args:
            path: Only watches that fire for this znode; "" for any.
            session_id: Only those of this session; None for any.
            rows_max: How many at most, and of each server at most a thousand.

        Raises:
            NoNodeError: there is no such znode, and of all servers none has a watch for it.
            SessionNotFoundError: of all servers none has a connection of that session.
        """
        inquiry = _Inquiry(self._servers)
        pages = inquiry.ask_all(ListWatches(session_id, path, rows_max), WatchesPage)
        every = [(server, each) for server, page in pages.items() for each in page.rows]
        rows = every[:rows_max]
        clients = inquiry.find_clients(each.session_id for _, each in rows)
        left_out = len(every) - len(rows) + sum(page.left_out for page in pages.values())
        total = sum(page.total for page in pages.values())
        table = WatchesTable(inquiry.states(), rows, clients, total, left_out)
        if not rows and table.is_complete:
            if session_id is not None and not any(page.is_connected for page in pages.values()):
                raise SessionNotFoundError(f"no server has a connection of session {session_id:#x}")
            if not any(page.is_there for page in pages.values()):
                raise NoNodeError(path, "nobody watches for it")
        return table

    def tree_sizes(self, path: str = "/", depth: int = 1, rows_max: int = 20) -> TreeTable:
        """Return how large the subtree at `path` is, and the largest of its parts.

        Args:
            path: A znode.
            depth: Levels below it that have rows of their own, at most 20.
            rows_max: Children of each znode that have a row, the largest ones. They are fewer if
                all rows together would be more than ten thousand.

        Raises:
            NoNodeError: there is no such znode.
        """
        inquiry = _Inquiry(self._servers)
        told = inquiry.ask_one(MeasureTree(path, depth, rows_max), TreePage)
        if told is None:
            return TreeTable(inquiry.states(), None, None, ZERO, ZERO)
        server, page = told
        if page.row is None:
            raise NoNodeError(path)
        ended_at = inquiry.state_of(server).zxid
        return TreeTable(inquiry.states(), server, page.row, page.begun_at, ended_at)

    def children(self, path: str, after: str = "", rows_max: int = 100) -> ChildrenTable:
        """Return the children of a znode with the lowest names above `after`.

        Args:
            path: A znode.
            after: A name, not necessarily of a child.
            rows_max: How many at most, and never more than a thousand.

        Raises:
            NoNodeError: there is no such znode.
        """
        inquiry = _Inquiry(self._servers)
        told = inquiry.ask_one(ListChildren(path, after, rows_max), ChildrenPage)
        server, page = (None, None) if told is None else told
        if page is not None and not page.is_there:
            raise NoNodeError(path)
        return ChildrenTable(inquiry.states(), server, page)

    def load(self, before: LoadTable | None = None) -> LoadTable:
        """Return the statistics of all servers, and what they did since `before`."""
        inquiry = _Inquiry(self._servers)
        stats = inquiry.ask_all(ReadStats(), ServerStats)
        leading = [each for each in stats.values() if each.is_active and each.role is Role.LEADER]
        # A deposed leader may not know it yet; the newest epoch is right.
        leader = max(leading, key=lambda each: each.epoch, default=None)
        earlier = {} if before is None else before.loads
        loads = {
            server: ServerLoad(
                each,
                rates_between(earlier[server].stats, each) if server in earlier else None,
                lag_behind(leader, each),
            )
            for server, each in stats.items()
        }
        return LoadTable(inquiry.states(), None if leader is None else leader.server_id, loads)


def admin_of(name: str, walk_timeout_s: float = WALK_TIMEOUT_S) -> EnsembleAdmin:
    """Return the admin interface of an ensemble that runs in this Ray cluster.

    Args:
        name: Of the ensemble.
        walk_timeout_s: How long a server may take for a table for which it walks its tree. For any
            other a server that does not answer within 2 s is late.

    Raises:
        EnsembleNotFoundError: no server of the ensemble runs.
        RayNotFoundError: there is no Ray cluster.
    """
    return EnsembleAdmin(RayServers(name, walk_timeout_s))


class _Inquiry:
    """The questions for one table. A server that once fails to answer is not asked again."""

    def __init__(self, servers: Servers) -> None:
        self._servers = servers
        self._states: dict[ServerId, ServerState] = {}
        self._ask(servers.ids(), ListConnections(()))

    def states(self) -> list[ServerState]:
        """Return all servers, in order."""
        return list(self._states.values())

    def state_of(self, server: ServerId) -> ServerState:
        """Return what a server said last."""
        return self._states[server]

    def ask_all(self, query: AdminQuery, kind: type[P]) -> dict[ServerId, P]:
        """Return the pages of all servers that answer."""
        answers = self._ask(self._reached(), query)
        return {
            server: answer.page
            for server, answer in answers.items()
            if isinstance(answer.page, kind)
        }

    def ask_one(self, query: AdminQuery, kind: type[P]) -> tuple[ServerId, P] | None:
        """Return the page of the server that knows most of those that answer."""
        for server in sorted(self._reached(), key=self._rank, reverse=True):
            answer = self._ask([server], query).get(server)
            if answer is not None and isinstance(answer.page, kind):
                return server, answer.page
        return None

    def find_clients(self, sessions: Iterable[SessionId]) -> dict[SessionId, ClientPlace]:
        """Return the connections of these sessions, as far as servers tell them."""
        wanted = list(dict.fromkeys(each for each in sessions if each))
        found: dict[SessionId, ClientPlace] = {}
        for start in range(0, len(wanted), ROWS_MAX):
            query = ListConnections(tuple(wanted[start : start + ROWS_MAX]))
            for server, page in self.ask_all(query, ConnectionsPage).items():
                found |= {each.session_id: ClientPlace(server, each) for each in page.rows}
        return found

    def _rank(self, server: ServerId) -> tuple[Any, ...]:
        state = self._states[server]
        leads = state.is_active and state.role == Role.LEADER.value
        return leads, state.is_active, state.zxid, -server

    def _reached(self) -> list[ServerId]:
        return [server for server, state in self._states.items() if state.role != DOWN]

    def _ask(self, servers: Sequence[ServerId], query: AdminQuery) -> dict[ServerId, AdminAnswer]:
        answers = dict(zip(servers, self._servers.ask(servers, query), strict=True))
        for server, answer in answers.items():
            if isinstance(answer, str):
                self._states[server] = ServerState(server, DOWN, problem=answer)
            else:
                before = self._states.get(server)
                # A problem of one answer concerns the whole table.
                problem = answer.problem or ("" if before is None else before.problem)
                self._states[server] = ServerState(
                    server, answer.role.value, answer.is_active, answer.zxid, problem
                )
        return {key: each for key, each in answers.items() if not isinstance(each, str)}


def _join_connections(
    sessions: Sequence[SessionRow], pages: dict[ServerId, ConnectionsPage]
) -> list[SessionEntry]:
    """Return an entry for each session, and behind them one for each connection without one."""
    found = {
        (server, number): each
        for server, page in pages.items()
        for number, each in enumerate(page.rows)
    }
    of_session = {each.session_id: place for place, each in found.items()}
    entries: list[SessionEntry] = []
    for session in sessions:
        place = of_session.get(session.session_id)
        entries.append(
            SessionEntry(session, None, None)
            if place is None
            else SessionEntry(session, place[0], found.pop(place))
        )
    return entries + [SessionEntry(None, server, each) for (server, _), each in found.items()]
