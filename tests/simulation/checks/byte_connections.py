"""Connections of ZooKeeper's protocol: which session each has, and which writes came through it.

Its writes have no numbers, and none is sent again. So each committed one is matched with what its
client sent on the connection that had the session then, in that order. A write without a reply
has happened if it was matched.
"""

from collections import deque

from msgspec import Struct
from msgspec.structs import replace

from raykeeper.zab.ids import ServerId, Zxid, format_zxid
from raykeeper.znodes.replies import WriteReply
from raykeeper.znodes.requests import AddAuth, SessionId, WriteOp
from raykeeper.znodes.txns import CreateSessionTxn, OpDone, Txn
from tests.simulation.checks import execution
from tests.simulation.checks.session_view import PendingRequest, SessionView, Told, known_session
from tests.simulation.checks.truth import Truth

Place = tuple[ServerId, int]
"""A server, and the number that it gave a connection."""


class ByteConnection(Struct, eq=False):
    """One connection of a client. `asked` is the session that it asks for, 0 for a new one."""

    seen: SessionView
    asked: SessionId
    password: bytes
    """Of that session as the client knows it, or what the server has drawn for a new one."""
    since: Zxid
    """The state that its client had seen when it was opened."""
    is_resuming: bool
    """The client's watches are not known to be set on it."""
    sent: deque[PendingRequest] = deque()
    """Writes without a transaction so far."""
    session_id: SessionId = SessionId(0)
    """The session that it got."""


class ByteConnections:
    """All connections of this protocol that ever were."""

    def __init__(self, truth: Truth) -> None:
        self._truth = truth
        self._by_place: dict[Place, ByteConnection] = {}

    def at(self, place: Place) -> ByteConnection | None:
        """Return the connection at a place; None if it is a native one."""
        return self._by_place.get(place)

    def connects(self, seen: SessionView, place: Place, drawn: bytes, *, has_watches: bool) -> None:
        """Record that a client opens a connection."""
        core = seen.client.core
        assert core is not None, "a client without a process"
        asked, password = core.asked  # type: ignore[attr-defined]
        known = password if asked else drawn
        connection = ByteConnection(seen, asked, known, core.last_zxid, has_watches, sent=deque())
        self._by_place[place] = seen.connection = connection

    def opened(self, zxid: Zxid, change: CreateSessionTxn, connection: ByteConnection) -> None:
        """Check that a connection gets the session that it asks for, by the right password."""
        session = self._truth.sessions.get(change.session_id)
        text = f"{connection.seen} has asked for {connection.asked} and gets {change}"
        assert change.password == connection.password, f"SessionsOpen: the password, {text}"
        if session is None:
            assert not connection.asked and change.session_id == zxid, f"SessionsOpen: {text}"
        else:
            mine = connection.asked or connection.session_id
            assert mine == change.session_id, f"SessionsOpen: {text}"
            assert session.closed_at is None, f"SessionsOpen: {change} was closed"
            assert session.password == change.password, f"SessionsOpen: the password, {text}"
        connection.session_id = change.session_id

    def joined(self, seen: SessionView) -> None:
        """Check that a client is told of the session that its connection has."""
        connection, known = seen.connection, known_session(seen)
        assert connection is not None, "nobody is served without a connection"
        if seen.is_read_only:
            assert known == connection.asked or not self._is_its_own(connection), (
                f"SessionsOpen: {seen} is told of another session than {connection.asked}"
            )
            return
        assert known == connection.session_id, (
            f"SessionsOpen: {seen} is told of {format_zxid(Zxid(known))}, "
            f"its connection has {format_zxid(Zxid(connection.session_id))}"
        )
        assert seen.client.core is not None
        assert seen.client.core.client_id.password == connection.password, (
            f"SessionsOpen: {seen} is told another password"
        )
        seen.session_id = known

    def refused(self, seen: SessionView) -> None:
        """Check that a session of which a client is told that it is over is not its own, or over.

        A client that knows none may be told so: there are too many.
        """
        connection = seen.connection
        assert connection is not None, "nobody is refused without a connection"
        assert not self._is_its_own(connection), (
            f"SessionEnds: {seen} is told that {format_zxid(Zxid(connection.asked))} has ended"
        )

    def _is_its_own(self, connection: ByteConnection) -> bool:
        """Return whether the session that a connection asks for lives, and has this password."""
        session = self._truth.sessions.get(connection.asked)
        return (
            session is not None
            and session.closed_at is None
            and session.password == connection.password
        )


def next_sent(truth: Truth, zxid: Zxid, txn: Txn, connection: ByteConnection) -> PendingRequest:
    """Return the write that became a transaction: the next one that its client sent.

    Only a proof of what the server knows already becomes none.
    """
    sent = connection.sent
    text = f"write {txn.number} of {connection.seen} in {format_zxid(zxid)}"
    while sent:
        asked = sent.popleft()
        assert isinstance(asked.ask, WriteOp), asked
        if not isinstance(asked.ask, AddAuth):
            return asked
        due = execution.execute(truth, zxid, txn.time_ms, txn.session_id, asked.ask)
        if due == txn.body:
            return asked
    raise AssertionError(f"ExactlyOnce: {text}, {txn.body}, was not sent on its connection")


def with_stats_of_creations(answer: WriteReply, due: Told) -> WriteReply:
    """Add the Stats that ZooKeeper leaves out of what a multi tells of its creations."""
    if answer.results is None or due.results is None:
        return answer
    results = [
        mine if isinstance(mine, OpDone) and mine.path and told == OpDone(mine.path, None) else told
        for told, mine in zip(answer.results.results, due.results.results, strict=True)
    ]
    return replace(answer, results=replace(answer.results, results=results))
