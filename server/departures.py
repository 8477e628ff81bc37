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
from raykeeper.server.peer_messages import Touch
from raykeeper.server.server_context import ServerContext
from raykeeper.zab.ids import ZERO, Zxid
from raykeeper.znodes.requests import SessionId

UNOPENED_MAX = 1_000
"""Connections that went before their session was opened; one of them may never be."""


class _Departed(Struct):
    """One connection that is gone. Its session is 0 as long as it has not been opened."""

    session_id: SessionId
    owner: Zxid
    is_dead: bool = False


class Departures:
    """What became of the connections of this server that had, or were to have, a session."""

    def __init__(self, context: ServerContext) -> None:
        self.ended: list[Touch] = []
        """Sessions of dead processes that the leader must be told of at the end of the step."""
        self._context = context
        self._by_number: dict[int, _Departed] = {}
        self._by_session: dict[SessionId, int] = {}
        self._unopened: dict[int, None] = {}

    def __len__(self) -> int:
        return len(self._by_number)

    def left(self, connection: Connection) -> None:
        """A connection is gone; its session may live on, or be opened yet."""
        number, session_id = connection.number, connection.session_id
        if session_id:
            session = self._context.state.sessions.get(session_id)
            if session is None or session.owner != connection.owner:
                return  # it has ended or moved, and so the connection did
            self._by_session[session_id] = number
        elif connection.local is not None:
            return  # served without a leader, and without a session of the ensemble
        else:
            self._unopened[number] = None
            if len(self._unopened) > UNOPENED_MAX:
                self.refused(next(iter(self._unopened)))
        self._by_number[number] = _Departed(session_id, connection.owner)

    def process_gone(self, number: int) -> None:
        """The process that had connection `number` is dead."""
        departed = self._by_number.get(number)
        if departed is None or departed.is_dead:
            return  # its session has ended or moved, or this was told before
        departed.is_dead = True
        if departed.session_id:
            self.ended.append(Touch(departed.session_id, departed.owner))

    def opened(self, session_id: SessionId, owner: Zxid, number: int) -> None:
        """A session was opened or moved, by a connection of this server or, with 0, of another."""
        departed = self._by_number.get(number)
        if departed is None:
            self.closed(session_id)
            return
        # The client went before it was told. Or its request was forwarded twice, around a change
        # of leader, and the owner number is raised once more.
        if self._by_session.get(session_id) != number:
            self.closed(session_id)
        self._unopened.pop(number, None)
        self._by_session[session_id] = number
        departed.session_id, departed.owner = session_id, owner
        if departed.is_dead:
            self.ended.append(Touch(session_id, owner))

    def refused(self, number: int) -> None:
        """No session will be opened for a connection of this server."""
        if number in self._unopened:
            del self._unopened[number], self._by_number[number]

    def closed(self, session_id: SessionId) -> None:
        """A session has ended, or is elsewhere."""
        number = self._by_session.pop(session_id, None)
        if number is not None:
            self._by_number.pop(number, None)

    def adopted(self) -> None:
        """The table of sessions was replaced."""
        sessions = self._context.state.sessions
        for session_id, number in list(self._by_session.items()):
            session = sessions.get(session_id)
            if session is None or session.owner != self._by_number[number].owner:
                self.closed(session_id)

    def tell_again(self) -> None:
        """There is a new leader, and none may have been told yet."""
        self.ended = [
            Touch(departed.session_id, departed.owner)
            for departed in self._by_number.values()
            if departed.is_dead and departed.owner != ZERO
        ]
