"""A replica's calls to the Snapshotter beside it: one at a time, in order, never waited for.

Invariant: once a call for a snapshot has failed nothing more is done for it, and the core is told
once that it will not come.
"""

import asyncio
from collections.abc import Callable
from typing import Any, Final

from raykeeper.actors.actor_call_queue import ActorCallQueue, first_line
from raykeeper.server.effects import (
    SnapshotAbort,
    SnapshotBegin,
    SnapshotEffect,
    SnapshotFinish,
    SnapshotWrite,
)
from raykeeper.server.events import Event, SnapshotCredited, SnapshotFailed, SnapshotWritten
from raykeeper.zab.ids import Zxid

LOOKUP_S: Final = 10.0
WRITE_S: Final = 60.0
FINISH_S: Final = 600.0
"""Forcing and reading again all of a large tree."""


class SnapshotterClient:
    """Has effects done by the actor that `find` looks up or starts, in a thread."""

    def __init__(
        self,
        find: Callable[[], Any],
        deliver: Callable[[Event], None],
        on_failure: Callable[[str], None],
    ) -> None:
        """`deliver` takes the completions, `on_failure` the reason for the log."""
        self._deliver = deliver
        self._on_failure = on_failure
        self._calls = ActorCallQueue(find, self._process)
        self._failed_zxid: Zxid | None = None

    def perform(self, effect: SnapshotEffect) -> None:
        """Have `effect` done after those before it."""
        self._calls.put(effect)

    def close(self) -> None:
        """Do no more."""
        self._calls.close()

    async def _process(self, effect: SnapshotEffect) -> None:
        if isinstance(effect, SnapshotBegin):
            self._failed_zxid = None
        if effect.zxid == self._failed_zxid:
            return
        try:
            await self._perform(effect)
        # Every failure of the actor, of its disk, of Ray or of the lookup means the same.
        except Exception as error:
            self._calls.invalidate_handle()
            self._failed_zxid = effect.zxid
            self._on_failure(first_line(error))
            if not isinstance(effect, SnapshotAbort):
                self._deliver(SnapshotFailed(effect.zxid))

    async def _perform(self, effect: SnapshotEffect) -> None:
        handle = await self._calls.handle(LOOKUP_S)
        zxid = effect.zxid
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
