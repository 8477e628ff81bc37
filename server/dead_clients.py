"""Sessions whose connection is closed, and which of them have a dead process.

A session belongs to one client, and a client to one process. When that process is known to be dead,
no client can resume the session, so the leader is asked to end it before its timeout. ZooKeeper has
no counterpart, because it cannot know.

Invariants: a dead session is reported only under the owner zxid that the connection of the dead
process had. Counterexample for less: another process resumes the session by its client id, then the
first process dies; without the owner zxid the resumed session would end. A dead session is reported
again to every new leader until it has ended or moved; then its record is deleted.
"""

from msgspec import Struct

from raykeeper.server.connection import Connection, Phase
from raykeeper.server.context import ServerContext
from raykeeper.server.peer_messages import OwnedSession
from raykeeper.zab.ids import ZERO, Zxid
from raykeeper.znodes.requests import SessionId

UNOPENED_MAX = 1_000
"""Closed connections without a session yet that are kept; a session may never be created."""


class _ClosedConnection(Struct):
    """A closed connection. Its session is 0 until it is created."""

    session_id: SessionId
    owner_zxid: Zxid
    is_process_dead: bool = False


class DeadClients:
    """The closed connections of this server that had a session, or asked for one."""

    def __init__(self, context: ServerContext) -> None:
        self._context = context
        self._by_number: dict[int, _ClosedConnection] = {}
        self._by_session: dict[SessionId, int] = {}
        self._unopened: dict[int, None] = {}

    def __len__(self) -> int:
        return len(self._by_number)

    def on_connection_removed(self, connection: Connection) -> None:
        """Record a connection that is about to be closed, unless its session has ended or moved."""
        number, session_id = connection.number, connection.session_id
        if session_id:
            session = self._context.state.sessions.get(session_id)
            if session is None or session.owner_zxid != connection.owner_zxid:
                return  # it has ended or moved, which closes the connection
            self._by_session[session_id] = number
        elif connection.phase is Phase.READ_ONLY:
            return  # the ensemble does not know its session
        else:
            self._unopened[number] = None
            if len(self._unopened) > UNOPENED_MAX:
                self.on_session_refused(next(iter(self._unopened)))
        self._by_number[number] = _ClosedConnection(session_id, connection.owner_zxid)

    def awaits_process_death(self, number: int) -> bool:
        """Return whether connection `number` is closed, and its process not known to be dead."""
        closed = self._by_number.get(number)
        return closed is not None and not closed.is_process_dead

    def on_process_died(self, number: int) -> None:
        """Report the session of connection `number`, whose process is dead."""
        closed = self._by_number.get(number)
        if closed is None or closed.is_process_dead:
            return  # its session has ended or moved, or it was reported before
        closed.is_process_dead = True
        if closed.session_id:
            self._report(closed)

    def on_session_created(self, session_id: SessionId, owner_zxid: Zxid, number: int) -> None:
        """Record a created or moved session; `number` is 0 for another server's connection."""
        closed = self._by_number.get(number)
        if closed is None:
            self.on_session_closed(session_id)
            return
        # The client left before it was told. Or its Connect was forwarded twice, around a change
        # of leader, and the owner zxid is raised once more.
        if self._by_session.get(session_id) != number:
            self.on_session_closed(session_id)
        self._unopened.pop(number, None)
        self._by_session[session_id] = number
        closed.session_id, closed.owner_zxid = session_id, owner_zxid
        if closed.is_process_dead:
            self._report(closed)

    def on_session_refused(self, number: int) -> None:
        """Drop the record of a connection for which no session will be created."""
        if number in self._unopened:
            del self._unopened[number], self._by_number[number]

    def on_session_closed(self, session_id: SessionId) -> None:
        """Drop the record of a session that has ended or moved."""
        number = self._by_session.pop(session_id, None)
        if number is not None:
            self._by_number.pop(number, None)

    def on_state_replaced(self) -> None:
        """Drop the records of sessions that have ended or moved in the new state."""
        sessions = self._context.state.sessions
        for session_id, number in list(self._by_session.items()):
            session = sessions.get(session_id)
            if session is None or session.owner_zxid != self._by_number[number].owner_zxid:
                self.on_session_closed(session_id)

    def report_all(self) -> None:
        """Report every dead session again, to a new leader."""
        closed = self._by_number.values()
        for dead in (x for x in closed if x.is_process_dead and x.owner_zxid != ZERO):
            self._report(dead)

    def _report(self, closed: _ClosedConnection) -> None:
        session = OwnedSession(closed.session_id, closed.owner_zxid)
        self._context.leader_outbox.add_dead_session(session)
