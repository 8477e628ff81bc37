"""The requests of clients and their answers, each checked when it arrives."""

from collections import Counter
from typing import TYPE_CHECKING, Final

from msgspec.structs import replace

from raykeeper.client.core.effects import SuccessReply
from raykeeper.client.core.outstanding import NewRequest, Query, WatchAddition, WatchRemoval
from raykeeper.client.core.public_types import ClientState
from raykeeper.server.server_trace_events import READS_PAUSED
from raykeeper.zab.ids import Zxid
from raykeeper.znodes.errors import Code, KeeperError
from raykeeper.znodes.replies import (
    EmptyReply,
    ExistsReply,
    GetChildrenReply,
    GetDataReply,
    WriteReply,
)
from raykeeper.znodes.requests import (
    AddAuth,
    CloseSession,
    CountDescendants,
    GetAcls,
    GetQuota,
    Sync,
    WriteOp,
)
from tests.harness.schedule import Schedule
from tests.simulation.checks import answers, aux_reads, session_deadlines, sessions
from tests.simulation.checks.byte_connections import Place, with_stats_of_creations
from tests.simulation.checks.committed import Committed
from tests.simulation.checks.history_recorder import history_keeps_its_promises
from tests.simulation.checks.persistent_watches import REMOVED
from tests.simulation.checks.session_view import (
    PendingRequest,
    SessionView,
    Told,
    known_session,
    new_session_view,
)
from tests.simulation.checks.told_event import EventTold
from tests.simulation.checks.zab import Zab

if TYPE_CHECKING:
    from tests.simulation.client import SimClient

_END_CODES: Final = frozenset(
    {
        Code.SESSION_EXPIRED,
        Code.CONNECTION_LOSS,
        Code.OPERATION_TIMEOUT,
        Code.SESSION_MOVED,
        Code.AUTH_FAILED,
    }
)
"""What the client library says by itself, unless it is what became of a write (AUTH_FAILED); every
other refusal came from a server."""


class Clients:
    """All sessions of all clients, as each client saw its own."""

    def __init__(
        self, schedule: Schedule, zab: Zab, committed: Committed, notes: Counter[str]
    ) -> None:
        self.acked = 0
        self._schedule = schedule
        self._zab = zab
        self._committed = committed
        self._notes = notes
        self._truth = committed.truth
        self._watches = committed.watches
        self._lasting = committed.lasting
        self._recorder = committed.recorder
        self._seen: dict[tuple[str, int], SessionView] = {}

    def started(self, client: "SimClient") -> None:
        """Record the begin of a session."""
        assert client.core is not None
        seen = new_session_view(client.name, client.life, client)
        self._seen[client.name, client.life] = seen
        if not client.speaks_jute:
            seen.takes = client.core._handshake._takeover
            self._committed.by_password[client.core.client_id.password] = seen
        self._schedule.say(f"client {client.name} begins")

    def view_of(self, client: "SimClient") -> SessionView:
        """Return the present session of a client."""
        return self._seen[client.name, client.life]

    def lost(self, client: "SimClient", cause: KeeperError | None) -> None:
        """Record that the handle is LOST."""
        seen = self._seen[client.name, client.life]
        sessions.a_closed_handle_has_not_expired(seen, cause)
        if seen.speaks_jute and cause is not None:
            self._committed.byte_connections.refused(seen)
        self._over(seen)

    def closed(self, client: "SimClient") -> None:
        """Record that the handle was closed."""
        seen = self._seen[client.name, client.life]
        if not seen.has_closed:
            seen.has_closed = seen.is_over = True
            if seen.connection is not None:
                seen.connection.sent.append(PendingRequest(CloseSession(), 0, self._zab.last))
            else:
                seen.writes.append(CloseSession())

    def leaves(self, client: "SimClient", reason: str) -> None:
        """Record that a client closes its link because of an act, or the silence, of its server."""
        who = self._seen[client.name, client.life]
        session_deadlines.servers_keep_the_protocol(who, reason)
        if who.fenced_after is None:
            sessions.the_newest_connection_keeps_its_session(who, reason)

    def died(self, client: "SimClient") -> None:
        """Record that the process was killed; its life counter has already advanced."""
        seen = self._seen[client.name, client.life - 1]
        seen.is_dead = True
        self._over(seen)
        self._schedule.say(f"client {client.name} dies")

    def _over(self, seen: SessionView) -> None:
        seen.is_over = True
        seen.watching = {}
        seen.due = {}
        seen.following = {}
        seen.torn = {}

    def submitted(self, client: "SimClient", token: int, ask: NewRequest) -> None:
        """Record a request."""
        seen = self._seen[client.name, client.life]
        if seen.is_over:
            return  # the client refuses it at once
        number = 0
        is_write = isinstance(ask, WriteOp)
        if is_write and not client.refuses_writes and seen.connection is None:
            seen.writes.append(ask)
            number = len(seen.writes)
        operation = self._recorder.asked(seen, ask)
        asked = PendingRequest(ask, number, self._zab.last, self._delays(client), operation)
        seen.pending.append(asked)
        if is_write and seen.connection is not None:
            seen.connection.sent.append(asked)

    # Clients of ZooKeeper's protocol.

    def connects(self, client: "SimClient", place: Place, drawn: bytes) -> None:
        """Record that a client of ZooKeeper's protocol opens a connection."""
        seen = self._seen[client.name, client.life]
        has_watches = client.core.watches.to_set_again(Zxid(0)) is not None
        connections = self._committed.byte_connections
        connections.connects(seen, place, drawn, has_watches=has_watches)

    def replays(self, client: "SimClient", ask: AddAuth) -> None:
        """Record that such a client proves an identity again, on a new connection."""
        seen = self._seen[client.name, client.life]
        assert seen.connection is not None, "it sends on a connection"
        seen.connection.sent.append(PendingRequest(ask, 0, self._zab.last))

    def set_again(self, client: "SimClient", zxid: Zxid) -> None:
        """Record that the watches of such a client are set again: from `zxid` on it misses nothing.

        If its server does not know all changes before, persistent watches may have missed some;
        nobody tells it.
        """
        self._lasting.set_again(self._seen[client.name, client.life], zxid)

    def completed(self, client: "SimClient", ask: NewRequest, answer: SuccessReply) -> None:
        """Check a successful answer."""
        seen = self._seen[client.name, client.life]
        asked = answers.answers_in_order(seen, ask)
        zxid = answer.zxid
        seen.is_settled = True
        is_late = asked.delays != self._delays(client)
        answers.nothing_is_shown_before_it_is_committed(self._truth, seen, zxid)
        sessions.expired_sessions_are_not_answered(self._truth, seen)
        if seen.is_read_only:
            answers.answered_without_a_leader(seen, asked)
            self._recorder.left_out(seen, asked)
        else:
            seen.is_answered = True
        if seen.speaks_jute and isinstance(ask, AddAuth):
            return  # its answer shows nothing, and what the server knew already is not written
        if seen.speaks_jute and isinstance(answer, WriteReply):
            answer = replace(answer, number=asked.number)
        if isinstance(answer, WriteReply):
            due = self._told(seen, asked)
            if seen.speaks_jute and due is not None:
                answer = with_stats_of_creations(answer, due)
                if zxid > due.zxid:
                    # Raised to that of a read before it, which had to wait for a leader.
                    answer, zxid = replace(answer, zxid=due.zxid), due.zxid
            answers.answer_is_the_outcome(seen, asked, answer, due)
            self._wrote(seen, zxid)
            self.acked += 1
        else:
            answers.reads_never_go_back(seen, zxid)
            seen.zxid = zxid
            if not is_late:
                seen.read = zxid
            if seen.due:
                self._watches.event_before_the_state_it_announces(seen, zxid)
            self._lasting.told_before(seen, zxid)
            if isinstance(ask, Query) and (ask.linearizable or isinstance(answer, EmptyReply)):
                answers.syncs_are_recent(seen, asked, zxid)
            if isinstance(answer, GetDataReply | ExistsReply | GetChildrenReply):
                self._read(seen, ask, answer)
            elif isinstance(ask, WatchAddition):
                self._lasting.is_set(seen, ask, zxid)
            elif isinstance(ask, WatchRemoval):
                self._lasting.none_left(seen, ask)
            elif not isinstance(answer, EmptyReply):
                aux_reads.aux_reads_are_true(self._truth, seen, ask, answer)
        if asked.operation is not None:
            if is_late:
                self._recorder.was_late(seen, asked.operation)
            self._recorder.answered(seen, asked, answer)

    def _told(self, seen: SessionView, asked: PendingRequest) -> Told | None:
        """Return the answer that a write must get; None while it is not done, or for a read."""
        return self._committed.told_to(seen, asked.number) if asked.number else None

    def _delays(self, client: "SimClient") -> tuple[int, int]:
        """Return how often reads had to wait so far: for another connection, or for a leader."""
        return client._dials, self._notes[READS_PAUSED]

    def _wrote(self, seen: SessionView, zxid: Zxid) -> None:
        answers.writes_come_after_earlier_reads(seen, zxid)
        seen.zxid = max(seen.zxid, zxid)
        self._lasting.told_before(seen, zxid)
        if seen.due:
            self._watches.event_before_the_state_it_announces(seen, zxid, is_write=True)

    def _read(
        self,
        seen: SessionView,
        ask: NewRequest,
        answer: GetDataReply | ExistsReply | GetChildrenReply,
    ) -> None:
        assert isinstance(ask, Query)
        answers.reads_are_true(self._truth, seen, ask, answer)
        if ask.watcher is not None:
            key = (ask.path, isinstance(answer, GetChildrenReply))
            is_missing = answer.stat is None
            self._watches.is_set(seen, key, ask.watcher, answer.zxid, is_missing=is_missing)

    def failed(self, client: "SimClient", ask: NewRequest, error: KeeperError) -> None:
        """Check a failed request."""
        seen = self._seen[client.name, client.life]
        if seen.is_over and not (seen.pending and seen.pending[0].ask is ask):
            answers.late_requests_never_leave(seen, error)
            return
        asked = answers.answers_in_order(seen, ask)
        if error.code == Code.NOT_READ_ONLY:
            self._needs_a_leader(seen, asked, error)
            return
        answers.indefinite_only_where_it_may_have_happened(asked, error)
        due = self._told(seen, asked)
        is_end = error.code in _END_CODES and not (due is not None and due.code == error.code)
        is_cut_off = seen.speaks_jute and error.code == Code.CONNECTION_LOSS
        if is_cut_off:
            seen.synced_at = 0
        elif is_end:
            sessions.only_the_end_of_a_session_fails_requests(seen, error)
        else:
            if isinstance(ask, Query):
                answers.missing_is_true(self._truth, seen, asked, error)
            elif isinstance(ask, WatchRemoval):
                self._lasting.none_left(seen, ask)
            elif isinstance(ask, GetAcls | CountDescendants | GetQuota):
                aux_reads.refusals_are_true(self._truth, seen, ask, error)
            else:
                due = answers.refusal_is_the_outcome(seen, asked, error.code, due)
                self._wrote(seen, due.zxid)
            if asked.operation is not None:
                if asked.delays != self._delays(client):
                    self._recorder.was_late(seen, asked.operation)
                self._recorder.refused(seen, asked, error.code, due)
        if is_end and asked.number and error.definite:
            answers.denied_has_no_effect(seen, asked, due)
            seen.denied.add(asked.number)
        if asked.operation is not None and asked.operation.result is None:
            seen.unknown.append(asked)

    def _needs_a_leader(self, seen: SessionView, asked: PendingRequest, error: KeeperError) -> None:
        answers.indefinite_only_where_it_may_have_happened(asked, error)
        answers.refused_only_without_a_leader(seen, asked)
        if seen.connection is not None and asked in seen.connection.sent:
            seen.connection.sent.remove(asked)
        self._recorder.left_out(seen, asked)
        if isinstance(asked.ask, Query) and asked.ask.kind is Sync:
            seen.synced_at = 0
            if seen.pending and isinstance(seen.pending[0].ask, Query):
                self._recorder.left_out(seen, seen.pending[0])

    def becomes(self, client: "SimClient", state: ClientState) -> None:
        """Record a new state of the handle."""
        seen = self._seen[client.name, client.life]
        seen.was_connected |= state is ClientState.CONNECTED
        seen.is_settled = False
        seen.is_read_only = state is ClientState.CONNECTED_READ_ONLY
        seen.was_read_only |= seen.is_read_only
        if seen.speaks_jute and state in (ClientState.CONNECTED, ClientState.CONNECTED_READ_ONLY):
            self._committed.byte_connections.joined(seen)

    def event(self, client: "SimClient", told: EventTold) -> None:
        """Check a watch event."""
        seen = self._seen[client.name, client.life]
        event, watchers = told.event, told.watchers
        answers.nothing_is_shown_before_it_is_committed(self._truth, seen, event.zxid)
        if event.type in REMOVED:
            self._lasting.removed(seen, watchers, event)
        elif rest := self._lasting.in_order(seen, told):
            self._watches.once_and_true(seen, rest, event)

    # The end of a run.

    def sessions_have_ended(self) -> bool:
        """Return whether the sessions of all clients that are gone have ended."""
        living = [seen for seen in self._seen.values() if not seen.is_over]
        return sessions.every_session_ends(self._truth, [known_session(seen) for seen in living])

    def finish(self, counts: Counter[str]) -> None:
        """Check the whole history."""
        for seen in self._seen.values():
            # Without a connection a client of ZooKeeper's protocol may have missed anything.
            if not seen.is_over and (not seen.speaks_jute or seen.client.lets_go_at):
                self._watches.no_event_missed(seen)
                self._lasting.told_before(seen, self._truth.zxid)
        result = history_keeps_its_promises(
            self._seen.values(), self._committed.told_to, self._recorder.ended_by_itself
        )
        counts["linearizability.steps"] += result.steps
        counts["linearizability.znodes"] += result.znodes
        counts["linearizability.undecided"] += len(result.undecided)
