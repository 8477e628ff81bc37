"""A replica's calls to the actors beside it: its SessionTracker and its Snapshotter.

Each actor has a queue of its own: one call at a time, in order, and the server never waits for an
answer. Every failure has the same meaning, be it of the actor, of its disk, of Ray or of the
lookup: the actor is looked up again before the next call, and the core is told once.
"""

import asyncio
from collections import deque
from collections.abc import Awaitable, Callable
from typing import Any, Final, Generic, TypeVar

from raykeeper.links.daemon_threads import SharedCall
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
from raykeeper.zab.ids import Zxid
from raykeeper.znodes.expiry import SessionReport, encode_report

TRACK_S: Final = 2.0
LOOKUP_S: Final = 10.0
"""How long a lookup may take, and the first report: the actor may have to be started."""
WRITE_S: Final = 60.0
FINISH_S: Final = 600.0
"""How long the Snapshotter may force and read again all of a large tree."""
TRACKER_CALL_FAILED: Final = "tracker.call_failed"
SNAPSHOTTER_CALL_FAILED: Final = "snapshotter.call_failed"
"""Lines of the log, which the metric of notes counts."""
REPORTS_MAX: Final = 64
"""Reports that may wait for the session tracker."""

T = TypeVar("T")


class ActorCallQueue(Generic[T]):
    """The work that waits for one actor, and the handle by which the actor is called."""

    def __init__(
        self,
        find: Callable[[], Any],
        process_item: Callable[[T], Awaitable[None]],
        on_failure: Callable[[T, str], None],
    ) -> None:
        """Create an empty queue.

        Args:
            find: Looks the actor up or starts it, in a thread since it may block.
            process_item: Does one item of the work.
            on_failure: Called with an item that failed, and the first line of the error.
        """
        self._find = SharedCall(find)
        self._process_item = process_item
        self._on_failure = on_failure
        self._handle: Any = None
        self._queue: deque[T] = deque()
        self._task: asyncio.Task[None] | None = None

    def __len__(self) -> int:
        return len(self._queue)

    @property
    def has_handle(self) -> bool:
        """Whether the actor was found and has not failed since."""
        return self._handle is not None

    def put(self, item: T) -> None:
        """Have `item` processed after those before it."""
        self._queue.append(item)
        if self._task is None:
            self._task = asyncio.get_running_loop().create_task(self._run())

    def clear(self) -> None:
        """Drop the items that wait."""
        self._queue.clear()

    def close(self) -> None:
        """Drop all items, also the one that is being processed."""
        self._queue.clear()
        if self._task is not None:
            self._task.cancel()

    async def handle(self) -> Any:
        """Return the actor, looked up if need be.

        Raises:
            TimeoutError: the lookup took longer than `LOOKUP_S`.
        """
        if self._handle is None:
            self._handle = await asyncio.wait_for(self._find(), LOOKUP_S)
        return self._handle

    async def _run(self) -> None:
        try:
            while self._queue:
                item = self._queue.popleft()
                try:
                    await self._process_item(item)
                except Exception as error:
                    self._handle = None
                    self._on_failure(item, first_line(error))
        finally:
            self._task = None


class TrackerUnusable(Exception):
    """Raised when the tracker cannot keep up or has lost what it knew."""


class SessionTrackerClient:
    """Sends reports to the session tracker.

    A call that fails or is late means that the tracker has lost what it knew: the core is told
    once, whatever waits is dropped, and the next report finds the tracker anew.
    """

    def __init__(
        self,
        find: Callable[[], Any],
        deliver: Callable[[Event], None],
        on_lost: Callable[[str], None],
    ) -> None:
        """`find` looks the actor up or starts it, `deliver` takes the proposals to expire
        sessions, `on_lost` the reason for the log.
        """
        self._deliver = deliver
        self._on_lost = on_lost
        self._calls = ActorCallQueue(find, self._send_report, self._on_failure)
        self.close = self._calls.close
        self.track = self._calls.put
        """Have a report sent to the tracker after those before it."""

    async def _send_report(self, report: SessionReport) -> None:
        limit_s = TRACK_S if self._calls.has_handle else LOOKUP_S
        handle = await self._calls.handle()
        if len(self._calls) >= REPORTS_MAX:
            raise TrackerUnusable(f"more than {REPORTS_MAX} reports wait for the tracker")
        proposals = await asyncio.wait_for(handle.track.remote(encode_report(report)), limit_s)
        if proposals is None:
            raise TrackerUnusable("the tracker was restarted and knows no session")
        self._deliver(SessionsOverdue(proposals))

    def _on_failure(self, _report: SessionReport, reason: str) -> None:
        self._calls.clear()
        self._on_lost(reason)
        self._deliver(TrackerLost())


class SnapshotterClient:
    """Has the effects of a snapshot done by the Snapshotter.

    Invariant: once a call for a snapshot has failed nothing more is done for it, and the core is
    told once that it will not come.
    """

    def __init__(
        self,
        find: Callable[[], Any],
        deliver: Callable[[Event], None],
        on_failure: Callable[[str], None],
    ) -> None:
        """`find` looks the actor up or starts it, `deliver` takes the completions, `on_failure`
        the reason for the log.
        """
        self._deliver = deliver
        self._log_failure = on_failure
        self._failed_zxid: Zxid | None = None
        self._calls = ActorCallQueue(find, self._process, self._on_failure)
        self.close = self._calls.close
        self.perform = self._calls.put
        """Have an effect performed after those before it."""

    async def _process(self, effect: SnapshotEffect) -> None:
        if isinstance(effect, SnapshotBegin):
            self._failed_zxid = None
        zxid = effect.zxid
        if zxid == self._failed_zxid:
            return
        handle = await self._calls.handle()
        match effect:
            case SnapshotWrite():
                await asyncio.wait_for(handle.write.remote(zxid, effect.data), WRITE_S)
                self._deliver(SnapshotCredited(zxid))
            case SnapshotFinish():
                call = handle.finish.remote(zxid, effect.consistent_at)
                await asyncio.wait_for(call, FINISH_S)
                self._deliver(SnapshotWritten(zxid))
            case SnapshotBegin():
                await asyncio.wait_for(handle.begin.remote(zxid), WRITE_S)
            case SnapshotAbort():
                await asyncio.wait_for(handle.abort.remote(zxid), WRITE_S)

    def _on_failure(self, effect: SnapshotEffect, reason: str) -> None:
        self._failed_zxid = effect.zxid
        self._log_failure(reason)
        if not isinstance(effect, SnapshotAbort):
            self._deliver(SnapshotFailed(effect.zxid))


def first_line(error: BaseException) -> str:
    """Return the first line of an error; Ray's texts run over pages."""
    return str(error).split("\n", 1)[0] or type(error).__name__
