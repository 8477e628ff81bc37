"""A replica's calls to the session tracker beside it: one at a time, in order, never waited for.

A call that fails or is late means that the tracker has lost what it knew: the core is told once,
and the next report finds the tracker anew.
"""

import asyncio
from collections.abc import Callable
from typing import Any, Final

from raykeeper.actors.companion import Companion, in_short
from raykeeper.server.events import Event, SessionsOverdue, TrackerLost
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
        self._deliver = deliver
        self._log_lost = lost
        self._tracker = Companion(find, self._try)

    def track(self, report: SessionReport) -> None:
        """Have `report` told to the tracker after those before it."""
        self._tracker.put(report)

    def close(self) -> None:
        """Tell no more."""
        self._tracker.close()

    async def _try(self, report: SessionReport) -> None:
        try:
            await self._tell(report)
        # Every failure of the actor, of Ray or of the lookup means the same.
        except Exception as error:
            self._tracker.forget()
            self._tracker.clear()
            self._log_lost(in_short(error))
            self._deliver(TrackerLost())

    async def _tell(self, report: SessionReport) -> None:
        limit_s = CALL_S if self._tracker.is_known else FIRST_CALL_S
        handle = await self._tracker.handle(FIRST_CALL_S)
        if len(self._tracker) >= WAITING_MAX:
            raise TrackerLate(f"more than {WAITING_MAX} reports wait for the tracker")
        verdicts = await asyncio.wait_for(handle.track.remote(report), limit_s)
        if verdicts is None:
            raise TrackerLate("the tracker was started anew and knows nothing")
        self._deliver(SessionsOverdue(verdicts))
