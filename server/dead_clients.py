"""Sessions whose connection here is gone, and which of them have lost their process with it.

A session is its client's, and a client is a process. When that process is known to be dead, nobody
can come back to the session, so its leader is asked to end it without waiting for the timeout.
ZooKeeper has no counterpart: it cannot know.

Invariants: a session is named to the leader only under the owner number that the connection of the
dead process had, and is named again to every new leader until it has ended or moved; nothing is
kept of a session that has.
"""

from msgspec import Struct

from raykeeper.server.connection import Connection
from raykeeper.server.context import ServerContext
from raykeeper.server.peer_messages import OwnedSession
from raykeeper.zab.ids import ZERO, Zxid
from raykeeper.znodes.requests import SessionId

UNOPENED_MAX = 1_000
"""Connections that went before their session was opened; one of them may never be."""


class _ClosedConnection(Struct):
    """One connection that is gone. Its session is 0 as long as it has not been opened."""

    session_id: SessionId
    owner_zxid: Zxid
    is_process_dead: bool = False


class DeadClients:
    """What became of the connections of this server that had, or were to have, a session."""

    def __init__(self, context: ServerContext) -> None:
        self.ended: list[OwnedSession] = []
        """Sessions of dead processes that the leader must be told of at the end of the step."""
        self._context = context
        self._by_number: dict[int, _ClosedConnection] = {}
        self._by_session: dict[SessionId, int] = {}
        self._unopened: dict[int, None] = {}

    def __len__(self) -> int:
        return len(self._by_number)

    def on_connection_removed(self, connection: Connection) -> None:
        """A connection is gone; its session may live on, or be opened yet."""
        number, session_id = connection.number, connection.session_id
        if session_id:
            session = self._context.state.sessions.get(session_id)
            if session is None or session.owner_zxid != connection.owner_zxid:
                return  # it has ended or moved, and so the connection did
            self._by_session[session_id] = number
        elif connection.local_session is not None:
            return  # served without a leader, and without a session of the ensemble
        else:
            self._unopened[number] = None
            if len(self._unopened) > UNOPENED_MAX:
                self.on_session_refused(next(iter(self._unopened)))
        self._by_number[number] = _ClosedConnection(session_id, connection.owner_zxid)

    def on_process_died(self, number: int) -> None:
        """The process that had connection `number` is dead."""
        departed = self._by_number.get(number)
        if departed is None or departed.is_process_dead:
            return  # its session has ended or moved, or this was told before
        departed.is_process_dead = True
        if departed.session_id:
            self.ended.append(OwnedSession(departed.session_id, departed.owner_zxid))

    def on_session_created(self, session_id: SessionId, owner: Zxid, number: int) -> None:
        """A session was opened or moved, by a connection of this server or, with 0, of another."""
        departed = self._by_number.get(number)
        if departed is None:
            self.on_session_closed(session_id)
            return
        # The client went before it was told. Or its request was forwarded twice, around a change
        # of leader, and the owner number is raised once more.
        if self._by_session.get(session_id) != number:
            self.on_session_closed(session_id)
        self._unopened.pop(number, None)
        self._by_session[session_id] = number
        departed.session_id, departed.owner_zxid = session_id, owner
        if departed.is_process_dead:
            self.ended.append(OwnedSession(session_id, owner))

    def on_session_refused(self, number: int) -> None:
        """No session will be opened for a connection of this server."""
        if number in self._unopened:
            del self._unopened[number], self._by_number[number]

    def on_session_closed(self, session_id: SessionId) -> None:
        """A session has ended, or is elsewhere."""
        number = self._by_session.pop(session_id, None)
        if number is not None:
            self._by_number.pop(number, None)

    def on_state_replaced(self) -> None:
        """The table of sessions was replaced."""
        sessions = self._context.state.sessions
        for session_id, number in list(self._by_session.items()):
            session = sessions.get(session_id)
            if session is None or session.owner_zxid != self._by_number[number].owner_zxid:
                self.on_session_closed(session_id)

    def report_all(self) -> None:
        """There is a new leader, and none may have been told yet."""
        self.ended = [
            OwnedSession(departed.session_id, departed.owner_zxid)
            for departed in self._by_number.values()
            if departed.is_process_dead and departed.owner_zxid != ZERO
        ]
