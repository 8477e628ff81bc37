"""The answers to `admin_queries.py`, each made in steps of a millisecond.

The shell asks for the next step until there is an answer, and lets other work of the server be done
in between. So a table of a large tree is no picture of one moment: it shows what was there all the
time, and of what came or went meanwhile some.

Invariants: no step looks at more than a thousand znodes, the names of one shard of children, or the
ids of all sessions; nothing here changes the server. ZooKeeper: the commands `cons`, `dump` and
`wchc` of its admin server, which answer in one go.
"""

from bisect import bisect_right
from collections.abc import Callable, Generator, Iterable, Mapping
from itertools import islice
from typing import Any, Final

from raykeeper.server.admin_queries import (
    ROWS_MAX,
    AdminAnswer,
    AdminPage,
    AdminQuery,
    ConnectionsPage,
    ListChildren,
    ListConnections,
    ListLocks,
    ListSessions,
    ListWatches,
    MeasureTree,
    ReadStats,
    SessionRow,
    SessionsPage,
    WatchesPage,
    WatchRow,
)
from raykeeper.server.child_list import ChildList
from raykeeper.server.connection import Connection, Phase
from raykeeper.server.connection_stats import connection_stats
from raykeeper.server.context import ServerContext
from raykeeper.server.lock_queues import LockQueues
from raykeeper.server.stats import ServerStats
from raykeeper.server.tree_sizes import TreeSizes
from raykeeper.znodes.requests import SessionId
from raykeeper.znodes.sessions import Session
from raykeeper.znodes.watches import CHILD, DATA, PERSISTENT, RECURSIVE

Steps = Generator[None, None, AdminPage]
WATCH_KINDS: Final = {
    DATA: "data",
    CHILD: "child",
    PERSISTENT: "persistent",
    RECURSIVE: "recursive",
}
NOT_READ_YET: Final = "it has not read all of its log: only a leader can complete its state"


class AdminTables:
    """The tables of one server."""

    def __init__(
        self,
        context: ServerContext,
        by_number: Mapping[int, Connection],
        by_session: Mapping[SessionId, Connection],
        read_stats: Callable[[], ServerStats],
    ) -> None:
        """`by_number` and `by_session` are the connections of this server."""
        self._context = context
        self._by_number = by_number
        self._by_session = by_session
        self._read = read_stats
        self._replicated: dict[type, Callable[[Any], Steps]] = {
            ListSessions: self._list_sessions,
            ListLocks: lambda query: LockQueues(lambda: context.state, query).answer(),
            ListChildren: lambda query: ChildList(lambda: context.state, query).answer(),
            MeasureTree: lambda query: TreeSizes(lambda: context.state, query).answer(),
        }
        self._own: dict[type, Callable[[Any], Steps]] = {
            ListConnections: self._list_connections,
            ListWatches: self._list_watches,
            ReadStats: self._read_stats,
        }

    def answer(self, query: AdminQuery) -> Generator[None, None, AdminAnswer]:
        """Work on the answer, a step for each `next`, and return it."""
        kind, state = type(query), self._context.state
        page: AdminPage | None = None
        problem = ""
        if kind in self._own:
            page = yield from self._own[kind](query)
        elif state.zxid < state.consistent_at:
            problem = NOT_READ_YET
        else:
            page = yield from self._replicated[kind](query)
        peer = self._context.peer
        return AdminAnswer(
            server_id=peer.settings.server_id,
            role=peer.role,
            is_active=peer.is_active,
            zxid=self._context.state.zxid,
            page=page,
            problem=problem,
        )

    def _list_sessions(self, query: ListSessions) -> Steps:
        yield from ()
        state = self._context.state
        by_id = state.sessions.by_id
        ids = sorted(by_id)
        start = bisect_right(ids, query.after)
        shown = ids[start : start + min(query.rows_max, ROWS_MAX)]
        return SessionsPage(
            [self._session_row(by_id[each]) for each in shown],
            len(ids),
            len(ids) - start - len(shown),
        )

    def _session_row(self, session: Session) -> SessionRow:
        return SessionRow(
            session.session_id,
            session.timeout_ms,
            session.host,
            [f"{each.scheme}:{each.id.partition(':')[0]}" for each in session.auth_ids],
            len(self._context.state.tree.ephemerals.get(session.session_id, ())),
        )

    def _list_connections(self, query: ListConnections) -> Steps:
        yield from ()
        every = self._by_number.values()
        others: list[Connection] = []
        if query.session_ids is None:
            others = list(every)
        elif query.without_session:
            others = [each for each in every if each.phase is not Phase.CONNECTED]
        found = map(self._by_session.get, (query.session_ids or ())[:ROWS_MAX])
        shown = [each for each in found if each is not None] + others[:ROWS_MAX]
        return ConnectionsPage(
            [connection_stats(self._context, each) for each in shown],
            len(self._by_number),
            len(others[ROWS_MAX:]),
        )

    def _read_stats(self, _query: ReadStats) -> Steps:
        yield from ()
        return self._read()

    def _list_watches(self, query: ListWatches) -> Steps:
        yield from ()
        watches, connections = self._context.watches, list(self._by_number.values())
        if query.session_id is not None:
            own = self._by_session.get(query.session_id)
            connections = [] if own is None else [own]
        found: Iterable[tuple[int, str, int]]
        if query.path:
            numbers = {each.number: None for each in connections}
            on_path = [each for each in watches.watches_on(query.path) if each[2] in numbers]
            found, wanted = on_path, len(on_path)
        else:
            wanted = sum(watches.count_of(each.number) for each in connections)
            found = (
                (kind, path, each.number)
                for each in connections
                for kind, path, _ in watches.watches_of(each.number)
            )
        shown = [
            WatchRow(self._by_number[number].session_id, path, WATCH_KINDS[kind])
            for kind, path, number in islice(found, min(query.rows_max, ROWS_MAX))
        ]
        is_there = not query.path or query.path in self._context.state.tree.znodes
        is_connected = query.session_id is None or bool(connections)
        return WatchesPage(shown, watches.count, wanted - len(shown), is_there, is_connected)
