"""Checks of committed transactions, each when it is delivered for the first time.

Each must be what its request demands, from a session that may write; transactions without a
request must be the leader's own kinds. So the truth grows only by checked transactions.
"""

from raykeeper.zab.ids import ServerId, Zxid, format_zxid
from raykeeper.znodes.requests import SessionId, WriteOp
from raykeeper.znodes.txns import (
    CloseSessionTxn,
    CreateSessionTxn,
    CreateTxn,
    DeleteTxn,
    SuspectSessionTxn,
    Txn,
)
from tests.harness.schedule import Schedule
from tests.simulation.checks import (
    execution,
    expiring_znodes,
    full_timeouts,
    multi_execution,
    sessions,
)
from tests.simulation.checks.byte_connections import ByteConnection, ByteConnections, next_sent
from tests.simulation.checks.history_recorder import HistoryRecorder
from tests.simulation.checks.persistent_watches import PersistentWatches
from tests.simulation.checks.session_view import (
    SessionView,
    Told,
    counts_on,
    known_session,
    takes_over,
)
from tests.simulation.checks.truth import Truth
from tests.simulation.checks.watches import Watches


class Committed:
    """The truth, the owners of its sessions, and the answers that their clients must get."""

    def __init__(self, schedule: Schedule) -> None:
        self.truth = Truth()
        self.watches = Watches(self.truth)
        self.lasting = PersistentWatches(self.truth)
        self.recorder = HistoryRecorder(schedule)
        self.timeouts = full_timeouts.FullTimeouts()
        self.endings = expiring_znodes.ExpiringZnodes(self.truth)
        self.byte_connections = ByteConnections(self.truth)
        self.by_password: dict[bytes, SessionView] = {}
        self.by_id: dict[SessionId, SessionView] = {}
        self.told: dict[SessionId, dict[int, Told]] = {}
        self.fences: dict[ServerId, list[tuple[Zxid, sessions.Place]]] = {}
        """Where sessions were, and by which transaction they moved away."""
        self.departing: dict[SessionId, None] = {}
        """Sessions that some leader was about to end because their process is dead."""
        self._schedule = schedule
        self._places: dict[SessionId, sessions.Place] = {}

    def committed(self, zxid: Zxid, txn: Txn) -> None:
        """Check and apply a transaction that was delivered for the first time."""
        truth, change, now = self.truth, txn.body, self._schedule.now
        execution.times_never_go_back(truth, txn)
        self.endings.begins(zxid)
        if txn.number:
            self._check_write(zxid, txn)
        else:
            execution.is_the_leaders_own(truth, zxid, txn)
            if isinstance(change, CreateSessionTxn):
                self._opened(zxid, change)
                self.timeouts.moved(zxid, change, now)
            elif isinstance(change, SuspectSessionTxn):
                self.timeouts.suspected(zxid, change, now)
            elif isinstance(change, DeleteTxn):
                self.endings.only_what_is_due_ends(zxid, change, now)
                self.recorder.ended(change.path)
        if isinstance(change, CloseSessionTxn):
            self._check_end(txn, change)
            if not txn.number and change.session_id not in self.departing:
                self.timeouts.full_after_a_move(change.session_id, zxid, now)
        touched = truth.apply(zxid, txn)
        self.endings.applied(change, now)
        if txn.number:
            told = self.told.setdefault(txn.session_id, {})
            told[txn.number] = sessions.outcome(truth, zxid, txn)
            self.by_id[txn.session_id].done_at.append(self.recorder.clock.tick())
        if touched:
            self.watches.happened(touched)
            self.lasting.happened(touched)

    def told_to(self, seen: SessionView, number: int) -> Told | None:
        """Return the answer that a client's write must get; None if it is not done."""
        is_lost = seen.fenced_after is not None and number > seen.fenced_after
        if is_lost and not seen.speaks_jute:
            return None
        return self.told.get(seen.session_id, {}).get(number)

    def is_counted_on(self, session_id: SessionId) -> bool:
        """Return whether the process that has a session takes it for its own, and holds it."""
        return counts_on(self.by_id[session_id], session_id) and self.is_held(session_id)

    def is_held(self, session_id: SessionId) -> bool:
        """Return whether the process that counts on a session has the connection that holds it.

        Else a request of a process before it has moved the session, perhaps with another timeout,
        after that process had died. The living one was fenced: its connection ends, and it comes
        back.
        """
        place = self._places[session_id]
        connection = self.byte_connections.at((place.server_id, place.connection))
        return connection is None or connection.seen is self.by_id[session_id]

    def _opened(self, zxid: Zxid, change: CreateSessionTxn) -> None:
        connection = self.byte_connections.at((change.server_id, change.connection))
        if connection is not None:
            self._opened_by_bytes(zxid, change, connection)
            return
        truth, asked = self.truth, self.by_password.get(change.password)
        sessions.sessions_open_once(truth, zxid, change, asked.takes if asked else None)
        seen = sessions.one_session_for_a_client(truth, asked, change)
        if not sessions.is_its_session(truth, seen, known_session(seen)):
            seen.session_id, seen.ended_at = change.session_id, None
            seen.done_at = []
        former = self.by_id.get(change.session_id, seen)
        if former is not seen:
            takes_over(seen, former, truth.sessions[change.session_id].last_number)
        self.by_id[change.session_id] = seen
        self._moved(zxid, change)

    def _opened_by_bytes(
        self, zxid: Zxid, change: CreateSessionTxn, connection: ByteConnection
    ) -> None:
        self.byte_connections.opened(zxid, change, connection)
        seen = connection.seen
        former = self.by_id.setdefault(change.session_id, seen)
        if former is not seen and not seen.is_dead:
            # Else a request of a process that has died meanwhile: the next one has the session.
            takes_over(seen, former, self.truth.sessions[change.session_id].last_number)
            seen.session_id = change.session_id
            self.by_id[change.session_id] = seen
        elif former is seen and not seen.was_connected and _knows_no_real(seen):
            # Else it had a session: what it sent on other connections may open some more.
            seen.session_id, seen.ended_at = change.session_id, None
        self._moved(zxid, change)

    def _moved(self, zxid: Zxid, change: CreateSessionTxn) -> None:
        session_id, place = change.session_id, (change.server_id, change.connection)
        known = self._places.get(session_id)
        if known is None or place != (known.server_id, known.connection):
            self._places[session_id] = sessions.Place(*place, zxid)
            if known is not None:
                self.fences.setdefault(known.server_id, []).append((zxid, known))

    def _check_write(self, zxid: Zxid, txn: Txn) -> None:
        truth, change = self.truth, txn.body
        session = truth.sessions.get(txn.session_id)
        sessions.expired_sessions_do_nothing(session, txn)
        assert session is not None
        seen = self.by_id[txn.session_id]
        place = self._places[txn.session_id]
        connection = self.byte_connections.at((place.server_id, place.connection))
        if connection is not None:
            asked = next_sent(truth, zxid, txn, connection)
            asked.number, asked.done_at = txn.number, self.recorder.clock.tick()
            assert isinstance(asked.ask, WriteOp), asked
            seen.writes.append(asked.ask)
        op = sessions.exactly_once(session, txn, seen)
        is_living = seen.client.life == seen.life and seen.client.core is not None
        if is_living and connection is None:
            shown = seen.client.core.last_zxid  # type: ignore[union-attr]
            sessions.written_on_the_present_connection(seen, place, shown)
        execution.refusals_are_justified(truth, zxid, txn, op)
        for each in multi_execution.changes_of(change):
            if isinstance(each, CreateTxn):
                sessions.owns_only_for_itself(txn, each)

    def _check_end(self, txn: Txn, change: CloseSessionTxn) -> None:
        seen = self.by_id[change.session_id]
        if not txn.number and self._schedule.trace is not None:
            self._schedule.say(f"session {format_zxid(Zxid(change.session_id))} of {seen} expires")
        is_known = self.is_counted_on(change.session_id)
        sessions.ends_once_and_with_a_reason(self.truth, txn, change, seen, is_known=is_known)
        execution.ephemerals_end_with_their_session(self.truth.sessions[change.session_id], change)
        ended_at = self.recorder.clock.tick()
        each: SessionView | None = seen
        while each is not None and each.session_id == change.session_id:
            each.ended_at, each = ended_at, each.former


def _knows_no_real(seen: SessionView) -> bool:
    """Return whether a client knows no session, or that of a server without a leader only."""
    return not known_session(seen) or seen.was_read_only
