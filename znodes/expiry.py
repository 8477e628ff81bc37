"""The expiry of sessions: the logic of the session tracker, without a clock of its own.

ZooKeeper: `SessionTrackerImpl`, `ExpiryQueue`; there deadlines are rounded up to buckets of a tick.
"""

from heapq import heappop, heappush, heapreplace

import msgspec
from msgspec import Struct

from raykeeper.zab.ids import Epoch, Millis, Zxid
from raykeeper.znodes.requests import SessionId


class TouchedSession(Struct, frozen=True, array_like=True):
    """A session that was heard, or opened; `timeout_ms` runs from the report's arrival."""

    session_id: SessionId
    owner_zxid: Zxid
    timeout_ms: Millis


class SessionReport(Struct, frozen=True, array_like=True):
    """The leader's report to its tracker. `batch` numbers the reports within one epoch.

    A `full` report names every session and replaces what the tracker knew; each gets its whole
    timeout. The first report of an epoch, and after the loss of a tracker, is full.
    """

    epoch: Epoch
    batch: int
    full: bool
    touched: list[TouchedSession]
    ended: list[SessionId]


class ExpiryProposal(Struct, frozen=True, array_like=True):
    """A session that was silent for its timeout, as far as reports up to `batch` say.

    `batch` is the last report that touched this session. The core drops the proposal unless
    epoch and owner are current and the session was not touched after that report.
    """

    epoch: Epoch
    session_id: SessionId
    owner_zxid: Zxid
    batch: int


encode_report = msgspec.msgpack.Encoder().encode
decode_report = msgspec.msgpack.Decoder(SessionReport).decode


class TrackedSession(Struct, gc=False):
    """One session. `due` and `queued` are in the tracker's own time, see `SessionExpiry`."""

    owner_zxid: Zxid
    timeout_ms: int
    batch: int
    due: int
    """When it is overdue."""
    queued: int
    """The entry of the heap that counts for it; never after `due`. -1 once it was proposed."""


class SessionExpiry:
    """The deadlines of all sessions, exact to the millisecond.

    The caller calls at least every `clock_gap_ms`. When it did not, this process was held up and
    may have touches waiting that are older than the gap, so every deadline moves by it: the
    tracker's own time, monotonic less all gaps, stood still.

    Owns: a session is proposed for expiry only after a full timeout since its last report arrived,
    during which this process was awake all along; and once until it is reported again. Once is
    enough because a proposal leaves only with the answer to a report that was taken: if that answer
    is lost, a full report follows, of the same leader or of the next one.
    """

    def __init__(self, clock_gap_ms: int = 1_000) -> None:
        self._clock_gap_ms = clock_gap_ms
        # A report was lost: the next one must name every session.
        self._needs_full_report = False
        self._epoch = Epoch(0)
        self._batch = 0
        self._sessions: dict[SessionId, TrackedSession] = {}
        # One entry for each session, not moved when it is touched but pushed again when it is
        # reached: a touch costs no heap operation. (due, session)
        self._heap: list[tuple[int, SessionId]] = []
        self._last_mono: Millis | None = None
        self._gaps_ms = 0

    def track(self, report: SessionReport, now_mono: Millis) -> list[ExpiryProposal] | None:
        """Take a report; return the overdue sessions, the longest overdue first, each once.

        Returns None if only a full report can be answered now, since one was lost. A report of an
        older epoch, or a repeated one, changes nothing and gets None too. Counterexample for an
        answer: a server dies, its last report arrives after the first one of its next life, and
        the proposals in the answer reach nobody; these sessions would never expire.
        """
        now = self._own_time(now_mono)
        if (report.epoch, report.batch) <= (self._epoch, self._batch):
            return None
        self._take(report, now)
        return None if self._needs_full_report else self._proposals(now)

    def _take(self, report: SessionReport, now: int) -> None:
        if report.epoch > self._epoch:
            self._epoch = report.epoch
            self._sessions.clear()  # of another leader: its owners and batches mean nothing now
            self._heap.clear()
            self._needs_full_report = not report.full
        elif report.batch > self._batch + 1:
            self._needs_full_report = True
        self._batch = report.batch
        if report.full:
            self._needs_full_report = False
            self._sessions.clear()
            self._heap.clear()
        for touched in report.touched:
            self._touch(touched, report.batch, now)
        for session_id in report.ended:
            self._sessions.pop(session_id, None)

    def _proposals(self, now: int) -> list[ExpiryProposal]:
        proposals: list[ExpiryProposal] = []
        heap = self._heap
        while self._find_next() and heap[0][0] <= now:
            _, session_id = heappop(heap)
            session = self._sessions[session_id]
            session.queued = -1
            proposals.append(
                ExpiryProposal(self._epoch, session_id, session.owner_zxid, session.batch)
            )
        return proposals

    def _own_time(self, now_mono: Millis) -> int:
        last = self._last_mono
        if last is not None and now_mono - last > self._clock_gap_ms:
            self._gaps_ms += now_mono - last
        self._last_mono = now_mono
        return now_mono - self._gaps_ms

    def _touch(self, touched: TouchedSession, batch: int, now: int) -> None:
        session_id = touched.session_id
        due = now + touched.timeout_ms
        session = self._sessions.get(session_id)
        if session is None:
            session = TrackedSession(touched.owner_zxid, touched.timeout_ms, batch, due, due)
            self._sessions[session_id] = session
            heappush(self._heap, (due, session_id))
            return
        session.owner_zxid = touched.owner_zxid
        session.timeout_ms = touched.timeout_ms
        session.batch = batch
        session.due = due
        if session.queued < 0 or due < session.queued:
            session.queued = due
            heappush(self._heap, (due, session_id))

    def _find_next(self) -> bool:
        """Bring a current entry to the top of the heap; return False when there is none."""
        heap = self._heap
        while heap:
            queued, session_id = heap[0]
            session = self._sessions.get(session_id)
            if session is None or session.queued != queued:
                heappop(heap)  # ended, or another entry counts
            elif session.due != queued:
                session.queued = session.due
                heapreplace(heap, (session.due, session_id))
            else:
                return True
        return False
