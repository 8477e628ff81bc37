"""Full timeouts: a session gets one when it moves, its leader changes, or a tracker is lost.

Of the second half only, if it was suspected by then: half of it had passed in silence. DESIGN
section 6, the session tracker. A client lets go by its own clock in any case; these promises keep
the session of a client that was only unlucky.
"""

from collections.abc import Iterable
from typing import Final

from msgspec import Struct

from raykeeper.server.peer_messages import OwnedSession
from raykeeper.zab.ids import Epoch, Millis, ServerId, Zxid, epoch_of, format_zxid
from raykeeper.znodes.expiry import ExpiryProposal, SessionReport
from raykeeper.znodes.requests import SessionId
from raykeeper.znodes.txns import CreateSessionTxn, SuspectSessionTxn
from tests.simulation.checks.truth import Truth

CLOCK_GAP_MS: Final = 1_000
"""A tracker that was not called for longer has slept."""
FASTEST: Final = 0.974
"""A timeout by the fastest clock, as a part of a timeout; the same as in plan.py, rounded."""
ROUNDING_MS: Final = 2


def is_gone(truth: Truth, touch: OwnedSession, known: Zxid) -> bool:
    """Return whether by `known` the session had ended, or moved from the server that reports it."""
    session = truth.sessions.get(touch.session_id)
    if session is None:
        return False
    has_moved = touch.owner_zxid < session.owner <= known
    return has_moved or (session.closed_at is not None and session.closed_at <= known)


def only_the_living_are_confirmed(
    server_id: ServerId, gone: set[SessionId], rejected: list[SessionId]
) -> None:
    """Check that no leader confirms heartbeats of those that it knows moved, ended or suspected."""
    assert gone <= set(rejected), f"Confirmed: {server_id} confirms some of {gone}"


class _Move(Struct, frozen=True):
    """A session was opened, or moved to another connection."""

    zxid: Zxid
    at_ms: int
    timeout_ms: int


class _Suspicion(Struct, frozen=True):
    """A session was suspected, or was not any more."""

    zxid: Zxid
    at_ms: int
    is_suspected: bool


class FullTimeouts:
    """The true time since which each session has a full timeout."""

    def __init__(self) -> None:
        self._moves: dict[SessionId, list[_Move]] = {}  # in the order of their zxids
        self._suspicions: dict[SessionId, list[_Suspicion]] = {}  # likewise
        self._established: dict[Epoch, int] = {}
        self._tracker_lost: dict[ServerId, int] = {}

    def moved(self, zxid: Zxid, change: CreateSessionTxn, now: int) -> None:
        """Record that a session was opened or moved."""
        move = _Move(zxid, now, change.timeout_ms)
        self._moves.setdefault(change.session_id, []).append(move)
        heard = _Suspicion(zxid, now, is_suspected=False)
        self._suspicions.setdefault(change.session_id, []).append(heard)

    def suspected(self, zxid: Zxid, change: SuspectSessionTxn, now: int) -> None:
        """Check and record that a session is suspected, or not any more."""
        if change.is_suspected:
            move, epoch_at = self._moves[change.session_id][-1], self._established[epoch_of(zxid)]
            for what, since in (("last move", move.at_ms), ("begin of the epoch", epoch_at)):
                what = f"{format_zxid(zxid)} suspects it after its {what}"
                _is_full(what, move.timeout_ms // 2, now - since)
        suspicion = _Suspicion(zxid, now, change.is_suspected)
        self._suspicions[change.session_id].append(suspicion)

    def is_suspected(self, session_id: SessionId, known: Zxid) -> bool:
        """Return whether a session is suspected as of `known`."""
        return self._suspicion(session_id, known).is_suspected

    def established(self, epoch: Epoch, now: int) -> None:
        """Record that a leader leads; may be called repeatedly."""
        self._established.setdefault(epoch, now)

    def tracker_lost(self, server_id: ServerId, now: int) -> None:
        """Record that a leader learned of the loss of its tracker."""
        self._tracker_lost[server_id] = now

    def full_after_a_move(self, session_id: SessionId, zxid: Zxid, now: int) -> None:
        """Check a session's end: it had a full timeout after its move, and in this epoch.

        If it is suspected, half of one in this epoch, and half since then.
        """
        move, suspicion = self._moves[session_id][-1], self._suspicion(session_id, zxid)
        of_epoch = move.timeout_ms
        what = f"{format_zxid(zxid)} ends it after"
        if suspicion.is_suspected:
            of_epoch = move.timeout_ms // 2
            _is_full(f"{what} it was suspected", of_epoch, now - suspicion.at_ms)
        _is_full(f"{what} its last move", move.timeout_ms, now - move.at_ms)
        epoch_at = self._established.get(epoch_of(zxid), now)
        _is_full(f"{what} the begin of the epoch", of_epoch, now - epoch_at)

    def full_after_a_loss(
        self,
        server_id: ServerId,
        session_id: SessionId,
        delivered: Zxid,
        now: int,
        *,
        is_suspecting: bool,
    ) -> None:
        """Check that every session gets a full timeout after its tracker was lost.

        Half of one before it is suspected, and if it is. It is the timeout that the server knows,
        which has delivered all up to `delivered`: one that was the leader before may know nothing
        of the session's last move.
        """
        since = self._tracker_lost.get(server_id)
        if since is not None:
            known = [move for move in self._moves[session_id] if move.zxid <= delivered][-1]
            is_half = is_suspecting or self._suspicion(session_id, delivered).is_suspected
            timeout_ms = known.timeout_ms // 2 if is_half else known.timeout_ms
            what = f"{server_id} ends or suspects it after the loss of its tracker"
            _is_full(what, timeout_ms, now - since)

    def _suspicion(self, session_id: SessionId, known: Zxid) -> _Suspicion:
        return [each for each in self._suspicions[session_id] if each.zxid <= known][-1]


class TrackerAwakeTime(Struct):
    """One life of a tracker: how long it was awake until each report arrived."""

    awake_ms: int = 0
    _last: Millis | None = None
    _newest: tuple[Epoch, int] = (Epoch(0), 0)
    _arrived: dict[tuple[Epoch, int], int] = {}
    _timeouts: dict[SessionId, int] = {}

    def called(self, report: SessionReport, now: Millis) -> None:
        """Record that a report arrives."""
        if self._last is not None and now - self._last <= CLOCK_GAP_MS:
            self.awake_ms += now - self._last
        self._last = now
        if (report.epoch, report.batch) <= self._newest:
            return  # repeated, or of a dead server
        self._newest = (report.epoch, report.batch)
        self._arrived[self._newest] = self.awake_ms
        for touched in report.touched:
            self._timeouts[touched.session_id] = touched.timeout_ms

    def judged(self, proposals: Iterable[ExpiryProposal]) -> None:
        """Check that the tracker was awake for the whole timeout of each overdue session."""
        for proposal in proposals:
            awake_ms = self.awake_ms - self._arrived[proposal.epoch, proposal.batch]
            timeout_ms = self._timeouts[proposal.session_id]
            assert awake_ms >= timeout_ms, (
                f"FullTimeout: {proposal} after {awake_ms} of {timeout_ms} ms awake"
            )


def new_awake() -> TrackerAwakeTime:
    """Return the record of a tracker that begins."""
    return TrackerAwakeTime(_arrived={}, _timeouts={})


def _is_full(what: str, timeout_ms: int, lasted_ms: int) -> None:
    assert lasted_ms >= timeout_ms * FASTEST - ROUNDING_MS, (
        f"FullTimeout: {what}, {lasted_ms} of {timeout_ms} ms"
    )
