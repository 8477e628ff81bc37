"""A replica's calls to the session tracker beside it: one at a time, in order, never waited for.

A call that fails or is late means that the tracker has lost what it knew: the core is told once,
and the next report finds the tracker anew.
"""

import asyncio
from collections import deque
from collections.abc import Callable
from typing import Any, Final

from raykeeper.actors.events import Event, SessionsOverdue, TrackerLost
from raykeeper.znodes.expiry import SessionReport

CALL_S: Final = 2.0
FIRST_CALL_S: Final = 10.0
"""It may have to be started first."""
WAITING_MAX: Final = 64


class TrackerLate(Exception):
    """Raised when the tracker cannot keep up; the caller gives it up."""


class TrackerCalls:
    """Sends reports to the actor that `find` looks up or starts, in a thread since it may block."""

    def __init__(
        self,
        find: Callable[[], Any],
        deliver: Callable[[Event], None],
        lost: Callable[[str], None],
    ) -> None:
        """`deliver` takes the verdicts, `lost` the reason for the log."""
        self._find = find
        self._deliver = deliver
        self._log_lost = lost
        self._handle: Any = None
        self._waiting: deque[SessionReport] = deque()
        self._task: asyncio.Task[None] | None = None

    def track(self, report: SessionReport) -> None:
        """Have `report` told to the tracker after those before it."""
        self._waiting.append(report)
        if self._task is None:
            self._task = asyncio.get_running_loop().create_task(self._work())

    def close(self) -> None:
        """Tell no more."""
        self._waiting.clear()
        if self._task is not None:
            self._task.cancel()

    async def _work(self) -> None:
        try:
            while self._waiting:
                await self._tell()
        # Every failure of the actor, of Ray or of the lookup means the same.
        except Exception as error:
            self._handle = None
            self._waiting.clear()
            self._log_lost(str(error).split("\n", 1)[0] or type(error).__name__)
            self._deliver(TrackerLost())
        finally:
            self._task = None

    async def _tell(self) -> None:
        limit_s = CALL_S
        if self._handle is None:
            limit_s = FIRST_CALL_S
            self._handle = await asyncio.wait_for(asyncio.to_thread(self._find), FIRST_CALL_S)
        if len(self._waiting) > WAITING_MAX:
            raise TrackerLate(f"more than {WAITING_MAX} reports wait for the tracker")
        report = self._waiting.popleft()
        verdicts = await asyncio.wait_for(self._handle.track.remote(report), limit_s)
        if verdicts is None:
            raise TrackerLate("the tracker was started anew and knows nothing")
        self._deliver(SessionsOverdue(verdicts))
