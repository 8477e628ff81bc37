"""Deadlines of clients, expiry of sessions, and monotonic reads."""

from heapq import heappush
from typing import Any

from msgspec import structs

from raykeeper.client.core.client_core import ClientCore
from raykeeper.client.core.session_deadlines import SessionDeadlines
from raykeeper.server.client_requests import ClientRequests
from raykeeper.server.client_send_queues import ClientSendQueues
from raykeeper.server.connection import Phase
from raykeeper.server.leader_forwarder import LeaderForwarder
from raykeeper.server.leader_outbox import LeaderOutbox
from raykeeper.server.leader_request_processor import LeaderRequestProcessor
from raykeeper.server.leader_session_tracker import LeaderSessionTracker
from raykeeper.server.server import Server
from raykeeper.server.server_trace_events import SESSION_EXPIRED
from raykeeper.zab.ids import ZERO, Millis
from raykeeper.znodes.expiry import ExpiryProposal, SessionExpiry
from raykeeper.znodes.prep_request_processor import PrepRequestProcessor
from raykeeper.znodes.txns import CloseReason
from tests.simulation.mutations.mutation import Mutation, instead


def _from_when_it_was_confirmed(self: SessionDeadlines, seq: int) -> None:
    unconfirmed = self._unconfirmed
    if unconfirmed and unconfirmed[0][0] <= seq:
        while unconfirmed and unconfirmed[0][0] <= seq:
            unconfirmed.popleft()
        self._extend(self._last_received_at)


def _without_a_margin(self: SessionDeadlines, at: Millis) -> None:
    self._last_confirmed_at = max(self._last_confirmed_at, at)
    self.expires_at = Millis(self._last_confirmed_at + self.timeout_ms)


def _confirmed_by_the_server(right: Any) -> Any:
    def flush(self: ClientSendQueues, connection: Any) -> None:
        connection.confirmed_heartbeat = connection.heartbeat_seq
        right(self, connection)

    return flush


def _never_lost(right: Any) -> Any:
    def alive(self: SessionDeadlines, at: Millis) -> None:
        right(self, at)
        self.expires_at = None

    return alive


def _a_touch_is_lost(right: Any) -> Any:
    def take_touched(self: LeaderOutbox) -> Any:
        touches, heartbeats = right(self)
        return touches[1:], heartbeats

    return take_touched


def _confirmed_for_later_ones(right: Any) -> Any:
    def confirmed(self: ClientRequests, heartbeats: Any, rejected: Any) -> None:
        right(
            self,
            [(connection, connection.heartbeat_seq) for connection, _ in heartbeats],
            rejected,
        )

    return confirmed


def _serve_any_leader(right: Any) -> Any:
    def serve(self: Server) -> None:
        self._clients.is_serving_reads = True
        self._clients.resume_all()

    return serve


def _late_answers_count(right: Any) -> Any:
    def on_server_frame(self: ClientCore, frame: Any, now: Millis) -> None:
        let_go, self._deadlines.expires_at = self._deadlines.expires_at, None
        right(self, frame, now)
        if self._deadlines.expires_at is None:
            self._deadlines.expires_at = let_go

    return on_server_frame


def _confirmed_by_the_leaders_word(
    self: LeaderForwarder, sender: Any, message: Any, leading: LeaderRequestProcessor
) -> None:
    from raykeeper.server.effects import SendPeer
    from raykeeper.server.peer_messages import TouchSessionsReply

    answer = TouchSessionsReply(message.number, leading.sessions.touch_sessions(message.sessions))
    if sender == self._context.peer.settings.server_id:
        self.on_touch_sessions_reply(answer)
    else:
        self._context.out.append(SendPeer(sender, answer))


def _confirm_those_about_to_end(right: Any) -> Any:
    def touches(self: LeaderSessionTracker, touches: Any) -> Any:
        right(self, touches)
        return []

    return touches


def _accept_every_proposal(self: LeaderSessionTracker, proposals: list[ExpiryProposal]) -> None:
    for proposal in proposals:
        if self.prep.owner_zxid_of(proposal.session_id) is None:
            continue
        if (zxid := self._next_zxid()) is None:
            return
        wall = self._context.now.wall
        txn = self.prep.prepare_close_session(zxid, wall, proposal.session_id, CloseReason.EXPIRED)
        if txn is not None:
            self._add(txn)


def _without(field: str) -> Any:
    """Accept an expiry proposal as if `field` matched."""

    def make(right: Any) -> Any:
        def on_expiry_proposals(
            self: LeaderSessionTracker, proposals: list[ExpiryProposal]
        ) -> None:
            wrong = []
            for proposal in proposals:
                fields = {
                    "epoch": self.epoch,
                    "owner": self.prep.owner_zxid_of(proposal.session_id) or ZERO,
                    "batch": self._last_touch_report.get(proposal.session_id, 0),
                }
                told = {
                    "epoch": proposal.epoch,
                    "owner": proposal.owner_zxid,
                    "batch": proposal.batch,
                    field: fields[field],
                }
                wrong.append(
                    ExpiryProposal(told["epoch"], proposal.session_id, told["owner"], told["batch"])
                )
            right(self, wrong)

        return on_expiry_proposals

    return make


def _half_a_timeout(right: Any) -> Any:
    def touch(self: SessionExpiry, touched: Any, batch: int, now: int) -> None:
        right(self, touched, batch, now - touched.timeout_ms // 2)

    return touch


def _half_a_timeout_when(is_due: Any) -> Any:
    def make(right: Any) -> Any:
        def take(self: SessionExpiry, report: Any, now: int) -> None:
            before = self._epoch
            right(self, report, now)
            if report.full and is_due(report, before):
                for session_id, session in self._sessions.items():
                    session.due -= session.timeout_ms // 2
                    session.queued = session.due
                    heappush(self._heap, (session.due, session_id))

        return take

    return make


def _at_once(self: LeaderSessionTracker, session_id: Any, **_: Any) -> None:
    self._expire(session_id, SESSION_EXPIRED, CloseReason.EXPIRED)


def _a_move_is_no_touch(self: LeaderSessionTracker, session_id: Any) -> None:
    pass


def _two_losses_change_nothing(right: Any) -> Any:
    def tracker_lost(self: LeaderSessionTracker) -> None:
        self._tracker_losses = []
        right(self)

    return tracker_lost


def _late_reports_are_answered(right: Any) -> Any:
    def track(self: SessionExpiry, report: Any, now_mono: Millis) -> Any:
        answer = right(self, report, now_mono)
        if answer is None and not self._needs_full_report:
            return self._proposals(self._own_time(now_mono))
        return answer

    return track


def _gaps_do_not_count(self: SessionExpiry, now_mono: Millis) -> int:
    return now_mono


def _a_lost_tracker_is_not_told_all(right: Any) -> Any:
    def tracker_lost(self: LeaderSessionTracker) -> None:
        self._context.out.append(right_note())

    return tracker_lost


def right_note() -> Any:
    """Report a lost tracker."""
    from raykeeper.server import server_trace_events
    from raykeeper.zab.effects import TraceEvent

    return TraceEvent(server_trace_events.TRACKER_LOST, 0)


def _expire_on_disconnect(right: Any) -> Any:
    def gone(self: ClientRequests, number: int) -> None:
        from raykeeper.znodes.requests import CloseSession, Write, encode_op

        connection = self._by_number.get(number)
        session = connection and self._context.state.sessions.get(connection.session_id)
        if connection is not None and session:
            write = Write(
                max(session.last_number, connection.last_forwarded) + 1,
                0,
                encode_op(CloseSession()),
            )
            self._leader_outbox.add_write(connection, write)
        right(self, number)

    return gone


def _a_session_keeps_its_ephemerals(right: Any) -> Any:
    def closed(self: PrepRequestProcessor, zxid: Any, session_id: Any) -> Any:
        change = right(self, zxid, session_id)
        return type(change)(change.session_id, change.ephemerals[1:])

    return closed


def _answer_connect_at_once(right: Any) -> Any:
    def frame(self: ClientRequests, number: int, data: bytes, host: str = "") -> None:
        right(self, number, data, host)
        connection = self._by_number.get(number)
        if connection is None or connection.session_id:
            return
        for session in self._context.state.sessions.by_id.values():
            if session.session_id == connection.connect.session_id:
                from raykeeper.znodes.errors import Code
                from raykeeper.znodes.replies import ConnectReply

                connection.enter(Phase.CONNECTED)
                connection.session_id = session.session_id
                connection.owner_zxid = session.owner_zxid
                self._by_session[session.session_id] = connection
                zxid = self._context.state.zxid
                reply = ConnectReply(
                    Code.OK, session.session_id, session.timeout_ms, zxid, session.last_number
                )
                self._send_queues.send(connection, reply)

    return frame


def _to_any_connection(right: Any) -> Any:
    def opened(self: PrepRequestProcessor, *where: Any) -> Any:
        *where, request = where
        return right(self, *where, structs.replace(request, attempt=0))

    return opened


def _count_connections(right: Any) -> Any:
    def connected(self: Any, *when: Any) -> None:
        self.connections = getattr(self, "connections", 0) + 1
        right(self, *when)

    return connected


def _read_timeout_grows(right: Any) -> Any:
    def silent_at(self: Any) -> Millis:
        learned = self._last_received_at + self.timeout_ms * self.connections // 60
        return min(right(self), Millis(learned))

    return silent_at


def _the_fenced_stay(right: Any) -> Any:
    def opened(self: ClientRequests, zxid: Any, change: Any) -> None:
        before = self._by_session.pop(change.session_id, None)
        right(self, zxid, change)
        if before is not None and change.session_id not in self._by_session:
            self._by_session[change.session_id] = before

    return opened


MUTATIONS = [
    Mutation(
        "session deadlines",
        "the client's deadline runs from the confirmation",
        [(SessionDeadlines, "on_confirmed", instead(_from_when_it_was_confirmed))],
        300,
    ),
    Mutation(
        "session deadlines",
        "the deadline has no margin for clock drift",
        [(SessionDeadlines, "_extend", instead(_without_a_margin))],
        500,
    ),
    Mutation(
        "session deadlines",
        "the server confirms heartbeats by itself",
        [(ClientSendQueues, "flush", _confirmed_by_the_server)],
        200,
    ),
    Mutation(
        "session deadlines",
        "a leader confirms heartbeats by its own word",
        [(LeaderForwarder, "on_touch_sessions", instead(_confirmed_by_the_leaders_word))],
        500,
    ),
    Mutation(
        "session deadlines",
        "a client is never lost by its own clock",
        [(SessionDeadlines, "_extend", _never_lost)],
        100,
    ),
    Mutation(
        "session deadlines",
        "the touch of a session is lost and its heartbeat confirmed",
        [(LeaderOutbox, "take_touched", _a_touch_is_lost)],
    ),
    Mutation(
        "session deadlines",
        "a confirmation counts for later heartbeats",
        [(ClientRequests, "on_heartbeats_confirmed", _confirmed_for_later_ones)],
    ),
    Mutation(
        "session deadlines",
        "a server answers reads as long as it has a leader",
        [(Server, "_update_read_serving", _serve_any_leader)],
    ),
    Mutation(
        "session deadlines",
        "replies after the deadline count",
        [(ClientCore, "_on_server_frame", _late_answers_count)],
        500,
    ),
    Mutation(
        "session deadlines",
        "heartbeats of closing sessions are confirmed",
        [(LeaderSessionTracker, "touch_sessions", _confirm_those_about_to_end)],
        500,
    ),
    Mutation(
        "tracker",
        "every expiry proposal is accepted",
        [(LeaderSessionTracker, "on_expiry_proposals", instead(_accept_every_proposal))],
        200,
    ),
    Mutation(
        "tracker",
        "an expiry proposal of an earlier epoch is accepted",
        [(LeaderSessionTracker, "on_expiry_proposals", _without("epoch"))],
        500,
    ),
    Mutation(
        "tracker",
        "an expiry proposal for an earlier owner is accepted",
        [(LeaderSessionTracker, "on_expiry_proposals", _without("owner"))],
        500,
    ),
    Mutation(
        "tracker",
        "an expiry proposal is accepted despite a later touch",
        [(LeaderSessionTracker, "on_expiry_proposals", _without("batch"))],
        500,
    ),
    Mutation(
        "tracker",
        "sessions get half their timeout",
        [(SessionExpiry, "_touch", _half_a_timeout)],
    ),
    Mutation(
        "tracker",
        "a new leader gives half a timeout",
        [(SessionExpiry, "_take", _half_a_timeout_when(lambda report, before: report.batch == 1))],
    ),
    Mutation(
        "tracker",
        "a lost tracker gives half a timeout",
        [(SessionExpiry, "_take", _half_a_timeout_when(lambda report, before: report.batch > 1))],
    ),
    Mutation(
        "tracker",
        "a moved session gets no new timeout",
        [(LeaderSessionTracker, "on_session_changed", instead(_a_move_is_no_touch))],
        200,
    ),
    Mutation(
        "tracker",
        "the leader never tracks sessions itself",
        [(LeaderSessionTracker, "on_tracker_lost", _two_losses_change_nothing)],
        200,
    ),
    Mutation(
        "tracker",
        "a session ends in place of its suspicion",
        [(LeaderSessionTracker, "_suspect", instead(_at_once))],
    ),
    Mutation(
        "tracker",
        "heartbeats of suspected sessions are confirmed",
        [(PrepRequestProcessor, "is_heard", instead(lambda self, session_id: True))],
        200,
    ),
    Mutation(
        "tracker",
        "a session is heard before its suspicion ends",
        [(PrepRequestProcessor, "is_heard", instead(lambda self, i: not self.is_suspected(i)))],
        500,
    ),
    Mutation(
        "tracker",
        "a gap in the tracker's own clock counts as silence",
        [(SessionExpiry, "_own_time", instead(_gaps_do_not_count))],
        500,
    ),
    Mutation(
        "tracker",
        "a report of a dead server takes the expiry proposals",
        [(SessionExpiry, "track", _late_reports_are_answered)],
        500,
    ),
    Mutation(
        "tracker",
        "a new tracker does not receive all sessions",
        [(LeaderSessionTracker, "on_tracker_lost", _a_lost_tracker_is_not_told_all)],
        300,
    ),
    Mutation(
        "sessions",
        "a session ends with its connection",
        [(ClientRequests, "on_disconnect", _expire_on_disconnect)],
    ),
    Mutation(
        "sessions",
        "an ephemeral outlives its session",
        [(PrepRequestProcessor, "_closed", _a_session_keeps_its_ephemerals)],
    ),
    Mutation(
        "sessions",
        "a fenced connection goes on",
        [(ClientRequests, "on_session_created", _the_fenced_stay)],
        300,
    ),
    Mutation(
        "sessions",
        "a session goes back to an earlier connection of its client",
        [(PrepRequestProcessor, "_opened", _to_any_connection)],
    ),
    Mutation(
        "sessions",
        "the read timeout grows with each connection",
        [
            (SessionDeadlines, "on_connected", _count_connections),
            (SessionDeadlines, "read_timeout_at", _read_timeout_grows),
        ],
    ),
    Mutation(
        "monotonic",
        "a server that has not caught up answers a client",
        [(ClientRequests, "on_frame", _answer_connect_at_once)],
        200,
    ),
]
