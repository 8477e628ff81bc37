"""Where the page gets its data from.

The web application knows only `Source`. Real is `RaySource`; the tests have one of pure servers in
their own process.

What asks Ray blocks, and may block for ever where Ray has left. So each such call has a thread of
its own, of which there are at most `CALLS_MAX`; a call that is over its time keeps its place until
it ends, and others are told that the ensemble is late.
"""

import asyncio
from collections.abc import Callable
from typing import Any, Final, Protocol, TypeVar

from raykeeper.client import AsyncClient
from raykeeper.clusters.admin import WALK_TIMEOUT_S, EnsembleAdmin, admin_of
from raykeeper.clusters.ensemble import Ensemble
from raykeeper.clusters.ensemble_status import EnsembleStatus
from raykeeper.clusters.keeper_status import KeeperStatus
from raykeeper.links.daemon_threads import to_daemon_thread
from raykeeper.zab.errors import RayKeeperError

CALLS_MAX: Final = 8
GRACE_S: Final = 10.0
"""What a table may take besides the walk of a server: Ray's own calls."""
CONNECT_S: Final = 5.0
"""How long a viewer waits for a session."""

T = TypeVar("T")


class LateError(RayKeeperError):
    """Raised when Ray or the ensemble does not answer the page in time.

    The caller should ask again later.
    """


class Source(Protocol):
    """An ensemble, by whatever way it is asked. All on one event loop."""

    name: str
    """Of the ensemble."""
    value_bytes_max: int
    """The largest value that the ensemble takes."""

    async def ask(self, question: Callable[[EnsembleAdmin], T]) -> T:
        """Return what the admin interface answers.

        Raises:
            LateError: it did not in time.
            RayKeeperError: there is no such ensemble any more.
        """

    async def status(self) -> EnsembleStatus:
        """Return the status; for the errors see `ask`."""

    async def keeper(self) -> KeeperStatus | None:
        """Return what the keeper says, None if there is none; for the errors see `ask`."""

    async def connect(self) -> AsyncClient:
        """Open a session, one of read-only mode where nothing else is to be had.

        Raises:
            KeeperError: no server takes a session.
        """


class RaySource:
    """An ensemble of the Ray cluster that this process has joined."""

    def __init__(
        self, ensemble: Ensemble, value_bytes_max: int, walk_timeout_s: float = WALK_TIMEOUT_S
    ) -> None:
        """`walk_timeout_s` bounds tables for which a server walks its tree."""
        self.name = ensemble.name
        self.value_bytes_max = value_bytes_max
        self._ensemble = ensemble
        self._walk_timeout_s = walk_timeout_s
        self._free = asyncio.Semaphore(CALLS_MAX)

    async def ask(self, question: Callable[[EnsembleAdmin], T]) -> T:
        """See `Source`."""
        # A server may have moved since the last question.
        return await self._call(lambda: question(admin_of(self.name, self._walk_timeout_s)))

    async def status(self) -> EnsembleStatus:
        """See `Source`."""
        return await self._call(self._ensemble.status)

    async def keeper(self) -> KeeperStatus | None:
        """See `Source`."""
        return await self._call(self._ensemble.keeper)

    async def connect(self) -> AsyncClient:
        """See `Source`."""
        return await AsyncClient.connect(
            self.name, timeout_s=CONNECT_S, value_bytes_max=self.value_bytes_max, read_only=True
        )

    async def _call(self, call: Callable[[], T]) -> T:
        patience_s = self._walk_timeout_s + GRACE_S
        try:
            await asyncio.wait_for(self._free.acquire(), patience_s)
        except TimeoutError:
            raise LateError(f"{CALLS_MAX} questions to Ray are not answered yet") from None
        task: asyncio.Task[T] = asyncio.ensure_future(to_daemon_thread(call))
        task.add_done_callback(self._on_answered)
        try:
            return await asyncio.wait_for(asyncio.shield(task), patience_s)
        except TimeoutError:
            raise LateError(f"Ray does not answer within {patience_s:g} s") from None

    def _on_answered(self, task: "asyncio.Task[Any]") -> None:
        self._free.release()
        if not task.cancelled():
            task.exception()  # whoever asked may have gone
