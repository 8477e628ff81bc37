"""A replica's calls to the session tracker beside it: one at a time, in order, never waited for.

A call that fails or is late means that the tracker has lost what it knew: the core is told once,
and the next report finds the tracker anew.
"""

import asyncio
from collections.abc import Callable
from typing import Any, Final

from raykeeper.actors.actor_call_queue import ActorCallQueue, first_line
from raykeeper.server.events import Event, SessionsOverdue, TrackerLost
from raykeeper.znodes.expiry import SessionReport

CALL_S: Final = 2.0
FIRST_CALL_S: Final = 10.0
"""It may have to be started first."""
WAITING_MAX: Final = 64


class TrackerOverloaded(Exception):
    """Raised when the tracker cannot keep up; the caller gives it up."""


class SessionTrackerClient:
    """Sends reports to the actor that `find` looks up or starts, in a thread since it may block."""

    def __init__(
        self,
        find: Callable[[], Any],
        deliver: Callable[[Event], None],
        on_lost: Callable[[str], None],
    ) -> None:
        """`deliver` takes the verdicts, `on_lost` the reason for the log."""
        self._deliver = deliver
        self._on_lost = on_lost
        self._calls = ActorCallQueue(find, self._process)

    def track(self, report: SessionReport) -> None:
        """Have `report` told to the tracker after those before it."""
        self._calls.put(report)

    def close(self) -> None:
        """Tell no more."""
        self._calls.close()

    async def _process(self, report: SessionReport) -> None:
        try:
            await self._send_report(report)
        # Every failure of the actor, of Ray or of the lookup means the same.
        except Exception as error:
            self._calls.invalidate_handle()
            self._calls.clear()
            self._on_lost(first_line(error))
            self._deliver(TrackerLost())

    async def _send_report(self, report: SessionReport) -> None:
        limit_s = CALL_S if self._calls.has_handle else FIRST_CALL_S
        handle = await self._calls.handle(FIRST_CALL_S)
        if len(self._calls) >= WAITING_MAX:
            raise TrackerOverloaded(f"more than {WAITING_MAX} reports wait for the tracker")
        verdicts = await asyncio.wait_for(handle.track.remote(report), limit_s)
        if verdicts is None:
            raise TrackerOverloaded("the tracker was started anew and knows nothing")
        self._deliver(SessionsOverdue(verdicts))
