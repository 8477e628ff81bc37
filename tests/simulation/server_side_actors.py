"""The two other actors of a server, its session tracker and its snapshotter, and calls to them.

Each has one call at a time, in order. If a call fails or is late, the server learns that the actor
is lost. The actors are separate processes: they go on when their server dies or is frozen.
"""

from abc import ABC, abstractmethod
from collections import deque
from collections.abc import Callable
from typing import Generic, TypeVar

from raykeeper.actors.sidecars import REPORTS_MAX
from raykeeper.server.effects import (
    SnapshotAbort,
    SnapshotBegin,
    SnapshotEffect,
    SnapshotFinish,
    SnapshotWrite,
)
from raykeeper.server.events import (
    Event,
    SessionsOverdue,
    SnapshotCredited,
    SnapshotFailed,
    SnapshotWritten,
    TrackerLost,
)
from raykeeper.zab.ids import ZERO, Zxid
from raykeeper.znodes.expiry import ExpiryProposal, SessionExpiry, SessionReport
from tests.harness.schedule import Schedule
from tests.harness.sim_disk import SimDisk, StoredSnapshot
from tests.simulation.checks.full_timeouts import new_awake
from tests.simulation.clock import SimClock
from tests.simulation.plan import ServerPlan

TRACKER_CALL_MS = 2_000
_USUAL_MS = 5
_LONG_AGO_MS = 3_000
"""How late a report or expiry proposal may arrive again, perhaps in a later epoch of its leader."""

Call = TypeVar("Call")
Deliver = Callable[[list[Event]], None]


class SimActor(ABC, Generic[Call]):
    """An actor beside a server: the calls to it wait in a queue, and one is under way."""

    def __init__(self, name: str, schedule: Schedule) -> None:
        """`name` is that of its random stream."""
        self.slow_ms = 0
        self._schedule = schedule
        self._random = schedule.stream(name)
        self._waiting: deque[Call] = deque()
        self._deliver: Deliver = lambda _events: None
        self._is_busy = False
        self._life = 0  # the caller's incarnation

    def server_starts(self, deliver: Deliver) -> None:
        """Serve a new server process; nobody waits for the calls of the previous one."""
        self._drop_calls()
        self._deliver = deliver

    @abstractmethod
    def _begin(self, life: int, call: Call) -> None:
        """Begin a call of incarnation `life`; `_next` ends it."""

    def _submit(self, call: Call) -> None:
        """Make `call` after all earlier ones."""
        self._waiting.append(call)
        if not self._is_busy:
            self._next()

    def _next(self) -> None:
        self._is_busy = bool(self._waiting)
        if self._is_busy:
            self._begin(self._life, self._waiting.popleft())

    def _drop_calls(self) -> None:
        self._life += 1
        self._waiting.clear()
        self._is_busy = False


class SimTracker(SimActor[SessionReport]):
    """The session tracker of a server, and the calls to it."""

    def __init__(self, name: str, schedule: Schedule, clock: SimClock, plan: ServerPlan) -> None:
        super().__init__(f"tracker.{name}", schedule)
        self.repeats = False
        self._clock = clock
        self._plan = plan
        self._expiry, self._awake = SessionExpiry(), new_awake()

    def server_starts(self, deliver: Deliver) -> None:
        """Serve a new server process; the tracker may have died with the previous one, or not."""
        super().server_starts(deliver)
        if self._random.random() < 0.5:
            self._expiry, self._awake = SessionExpiry(), new_awake()

    def lose(self) -> None:
        """Kill the tracker alone; its server learns it."""
        self._expiry, self._awake = SessionExpiry(), new_awake()
        self._fail()

    def track(self, report: SessionReport) -> None:
        """Send a report to the tracker."""
        self._submit(report)

    def _begin(self, life: int, report: SessionReport) -> None:
        if len(self._waiting) >= REPORTS_MAX:
            self._fail()
            return
        there, back = self._delay(), self._delay()
        if not self._plan.has_tracker:
            self._schedule.after(there + back, lambda: self._late(life))
            return
        if there + back > TRACKER_CALL_MS:
            self._schedule.after(TRACKER_CALL_MS, lambda: self._late(life))
            return
        self._schedule.after(there, lambda: self._arrive(life, report, back))

    def _delay(self) -> int:
        return self._random.randint(0, self._plan.tracker_ms_max + self.slow_ms)

    def _late(self, life: int) -> None:
        if life == self._life:
            self._fail()

    def _arrive(self, life: int, report: SessionReport, back: int) -> None:
        # Calls of a dead server arrive all the same.
        proposals = self._track(report)
        event: Event = TrackerLost()
        if proposals is not None:
            event = SessionsOverdue(proposals)
            self._awake.judged(proposals)
        self._schedule.after(back, lambda: self._answer(life, event))
        if self.repeats and isinstance(event, SessionsOverdue):
            again = back + self._random.choice([0, 100, 1_000, _LONG_AGO_MS])
            self._schedule.after(again, lambda: self._repeat(life, report, event))

    def _track(self, report: SessionReport) -> list[ExpiryProposal] | None:
        now = self._clock.mono()
        self._awake.called(report, now)
        return self._expiry.track(report, now)

    def _answer(self, life: int, event: Event) -> None:
        if life != self._life:
            return
        if isinstance(event, TrackerLost):
            self._fail()
            return
        self._is_busy = False
        self._deliver([event])
        if not self._is_busy:
            self._next()

    def _repeat(self, life: int, report: SessionReport, event: Event) -> None:
        self._track(report)  # nobody waits for the answer, as after the death of a server
        if life == self._life:
            self._deliver([event])

    def _fail(self) -> None:
        self._drop_calls()
        self._deliver([TrackerLost()])


class SimSnapshotter(SimActor[SnapshotEffect]):
    """The snapshotter of a server, and the calls to it."""

    def __init__(self, name: str, schedule: Schedule, disk: SimDisk) -> None:
        super().__init__(f"snapshotter.{name}", schedule)
        self.disk = disk
        self._snapshot: StoredSnapshot | None = None
        self._failed: Zxid | None = None

    def server_starts(self, deliver: Deliver) -> None:
        """Serve a new server process; work of the previous one is dropped."""
        super().server_starts(deliver)
        self._failed = None

    def lose(self) -> None:
        """Kill the snapshotter with its unfinished work."""
        self._snapshot = None

    def perform(self, effect: SnapshotEffect) -> None:
        """Perform `effect` after all earlier ones."""
        self._submit(effect)

    def _begin(self, life: int, effect: SnapshotEffect) -> None:
        delay = self._random.randint(0, 2 * _USUAL_MS + self.slow_ms)
        self._schedule.after(delay, lambda: self._do(life, effect))

    def _do(self, life: int, effect: SnapshotEffect) -> None:
        if life != self._life:
            return
        if isinstance(effect, SnapshotBegin):
            self._failed = None
        if effect.zxid != self._failed:
            event = self._perform(effect)
            if isinstance(event, SnapshotFailed):
                self._failed = effect.zxid
            if event is not None:
                self._deliver([event])
        self._next()

    def _perform(self, effect: SnapshotEffect) -> Event | None:
        zxid, snapshot = effect.zxid, self._snapshot
        if isinstance(effect, SnapshotBegin):
            self._snapshot = StoredSnapshot(zxid, ZERO, [])
            return None
        is_it = snapshot is not None and snapshot.zxid == zxid
        if isinstance(effect, SnapshotAbort):
            self.disk.written.pop(zxid, None)
            if is_it:
                self._snapshot = None
            return None
        if snapshot is None or not is_it:
            return SnapshotFailed(zxid)
        if isinstance(effect, SnapshotWrite):
            snapshot.chunks.append(effect.data)
            return SnapshotCredited(zxid)
        assert isinstance(effect, SnapshotFinish)
        snapshot.consistent_at = effect.consistent_at
        self.disk.written[zxid] = snapshot
        self._snapshot = None
        return SnapshotWritten(zxid)
