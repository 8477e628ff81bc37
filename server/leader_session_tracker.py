"""The sessions of an established leader: which were heard, which are suspected, which end.

ZooKeeper: `LeaderSessionTracker`, `LearnerHandler` (PING, REVALIDATE).

Invariants: a session is suspected, and then expired, only by a proposal that knew of its last
touch, or ended because the process that has it under its present owner zxid is dead; a heartbeat is
confirmed only for a session that is neither about to end nor suspected.
"""

from collections.abc import Callable

from raykeeper.server import server_trace_events as trace_events
from raykeeper.server.context import ServerContext
from raykeeper.server.effects import TrackSessions
from raykeeper.server.peer_messages import OwnedSession
from raykeeper.zab.feature_levels import LEVEL_OF_SUSPICION
from raykeeper.zab.ids import Epoch, Millis, Zxid
from raykeeper.znodes.expiry import ExpiryProposal, SessionExpiry, SessionReport, TouchedSession
from raykeeper.znodes.prep_request_processor import PrepRequestProcessor
from raykeeper.znodes.requests import SessionId
from raykeeper.znodes.txns import CloseReason


class LeaderSessionTracker:
    """What one epoch's leader knows of its sessions; the actor beside it counts their time."""

    def __init__(
        self,
        context: ServerContext,
        epoch: Epoch,
        prep: PrepRequestProcessor,
        next_zxid: Callable[[], Zxid | None],
        add: Callable[[bytes], None],
    ) -> None:
        """`next_zxid` returns None if this epoch can have no more; `add` takes its transaction."""
        self.epoch = epoch
        self.prep = prep
        self._context = context
        self._next_zxid = next_zxid
        self._add = add
        # The content of the next report, and the report that last touched each session.
        self._report_number = 0
        self._touched: dict[SessionId, None] = {}
        self._ended_sessions: list[SessionId] = []
        self._last_touch_report: dict[SessionId, int] = {}
        self._needs_full_report = True
        self._tracker_losses: list[Millis] = []
        self._own_expiry: SessionExpiry | None = None

    def on_session_changed(self, session_id: SessionId) -> None:
        """Give a created or moved session a full timeout, and a suspected one the rest of its."""
        self._touch(session_id)

    def on_session_closed(self, session_id: SessionId) -> None:
        """Forget a session, and name it as ended in the next report."""
        self._touched.pop(session_id, None)
        self._last_touch_report.pop(session_id, None)
        self._ended_sessions.append(session_id)

    def touch_sessions(self, touches: list[OwnedSession]) -> list[SessionId]:
        """Touch sessions; return those whose heartbeat must not be confirmed now.

        A suspected one waits until it counts as heard again. Counterexample for less: it is
        confirmed, this leader is lost, and the next one gives it only the rest of its timeout.
        """
        rejected, preparation = [], self.prep
        for touch in touches:
            session_id = touch.session_id
            if preparation.owner_zxid_of(session_id) != touch.owner_zxid:
                rejected.append(session_id)
                continue
            self._touch(session_id)
            if preparation.is_suspected(session_id):
                self._suspect(session_id, is_suspected=False)
            if not preparation.is_heard(session_id):
                rejected.append(session_id)
        return rejected

    def send_report(self) -> None:
        """Report the touched sessions to the tracker, or to the leader's own expiry."""
        self._report_number += 1
        sessions = self._context.state.sessions.by_id
        if self._needs_full_report:
            self._last_touch_report = dict.fromkeys(sessions, self._report_number)
            named = list(sessions)
        else:
            named = [session_id for session_id in self._touched if session_id in sessions]
        # The first half of a timeout ends with suspicion, the second with the session.
        parts = 2 if self._suspects else 1
        touched = [
            TouchedSession(session_id, session.owner_zxid, Millis(-(-session.timeout_ms // parts)))
            for session_id in named
            for session in (sessions[session_id],)
        ]
        report = SessionReport(
            self.epoch, self._report_number, self._needs_full_report, touched, self._ended_sessions
        )
        self._needs_full_report = False
        self._touched = {}
        self._ended_sessions = []
        if self._own_expiry is None:
            self._context.out.append(TrackSessions(report))
            return
        proposals = self._own_expiry.track(report, self._context.now.mono)
        assert proposals is not None, "its first report was full, and none was lost"
        self.on_expiry_proposals(proposals)

    def on_expiry_proposals(self, verdicts: list[ExpiryProposal]) -> None:
        """Suspect the proposed sessions that were not touched after the tracker's last report.

        Those that are suspected already expire. So a session that nobody has ends although leaders
        are lost before a whole timeout has passed, each after more than half of it.
        """
        sessions = self._context.state.sessions.by_id
        for verdict in verdicts:
            session_id = verdict.session_id
            if (
                verdict.epoch != self.epoch
                or self.prep.owner_zxid_of(session_id) != verdict.owner_zxid
                or self._last_touch_report.get(session_id) != verdict.batch
            ):
                self._context.trace(trace_events.EXPIRY_DROPPED, session_id)
                continue
            if not self._suspects or sessions[session_id].is_suspected:
                if not self._expire(session_id, trace_events.SESSION_EXPIRED, CloseReason.EXPIRED):
                    return
            elif not self.prep.is_suspected(session_id):  # else it is under way
                self._context.trace(trace_events.SESSION_SUSPECTED, session_id)
                self._suspect(session_id, is_suspected=True)

    def end_dead_sessions(self, sessions: list[OwnedSession]) -> None:
        """End the sessions of dead processes, unless another connection has them by now."""
        for touch in sessions:
            session_id = touch.session_id
            if self.prep.owner_zxid_of(session_id) != touch.owner_zxid:
                self._context.trace(trace_events.DEAD_SESSION_DROPPED, session_id)
            elif not self._expire(
                session_id, trace_events.SESSION_PROCESS_DIED, CloseReason.PROCESS_DIED
            ):
                return  # it is reported again to the next leader

    def on_tracker_lost(self) -> None:
        """Report all sessions to a new tracker, which gives each its whole timeout.

        Losses that come faster than a session can expire would keep dead sessions alive for ever.
        So after a second one the leader tracks its sessions itself until its role ends.
        """
        if self._own_expiry is not None:
            return  # the leader tracks its sessions itself
        context = self._context
        now = context.now.mono
        context.trace(trace_events.TRACKER_LOST, len(self._tracker_losses))
        self._needs_full_report = True
        since = now - context.limits.session_timeout_max_ms
        self._tracker_losses = [at for at in self._tracker_losses if at > since]
        self._tracker_losses.append(now)
        if len(self._tracker_losses) > 1:
            self._own_expiry = SessionExpiry()
            context.trace(trace_events.TRACKER_REPLACED, self.epoch)

    # Within.

    @property
    def _suspects(self) -> bool:
        return self._context.state.level >= LEVEL_OF_SUSPICION

    def _suspect(self, session_id: SessionId, *, is_suspected: bool) -> None:
        if (zxid := self._next_zxid()) is not None:
            wall = self._context.now.wall
            txn = self.prep.prepare_suspect(zxid, wall, session_id, is_suspected=is_suspected)
            self._add(txn)

    def _expire(self, session_id: SessionId, note: str, reason: int) -> bool:
        """End a session that has an owner; return False when no zxid is left for it."""
        if (zxid := self._next_zxid()) is None:
            return False
        wall = self._context.now.wall
        txn = self.prep.prepare_close_session(zxid, wall, session_id, reason)
        assert txn is not None, session_id
        self._context.trace(note, session_id)
        self._add(txn)
        return True

    def _touch(self, session_id: SessionId) -> None:
        self._touched[session_id] = None
        # The report that will say so is the next one; an older verdict does not know of it.
        self._last_touch_report[session_id] = self._report_number + 1
