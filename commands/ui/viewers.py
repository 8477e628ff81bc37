"""The sessions with which viewers read and change znodes, one for each viewer.

A session has the identities that its viewer has entered, and no other viewer's. It is opened by the
first request that needs one, and closed when it was not used for a while, when its viewer leaves,
or when another viewer needs its place. The next request then opens another one, without identities:
no password is kept here.
"""

import asyncio
import time
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager, suppress
from typing import Final

from raykeeper.client import AsyncClient, ClientState
from raykeeper.client.errors import KeeperError
from raykeeper.commands.ui.answers import ApiError
from raykeeper.commands.ui.source import Source

CLOSE_S: Final = 5.0
"""How long the end of a session may take; it ends by its timeout otherwise."""


class Viewers:
    """The viewers with a session, at most `viewers_max`."""

    def __init__(
        self,
        source: Source,
        viewers_max: int,
        idle_s: float,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        """A session that was not used for `idle_s` is closed by `close_idle`."""
        self._source = source
        self._viewers_max = viewers_max
        self._idle_s = idle_s
        self._clock = clock
        self._viewers: dict[str, _Viewer] = {}
        """The one that was used last is the last."""

    @asynccontextmanager
    async def client_of(self, viewer_id: str) -> AsyncIterator[AsyncClient]:
        """Lend the client of a viewer.

        Raises:
            ApiError: the sessions of as many other viewers as there may be are in use.
            KeeperError: no server takes a session.
        """
        viewer, evicted = self._viewers.pop(viewer_id, None), None
        if viewer is None:
            evicted, viewer = self._make_room(), _Viewer()
        self._viewers[viewer_id] = viewer
        viewer.uses += 1
        try:
            if evicted is not None:
                await evicted.close()
            yield await viewer.open(self._source)
        finally:
            viewer.uses -= 1
            viewer.used_at = self._clock()

    async def close(self, viewer_id: str) -> None:
        """End the session of a viewer, if there is one."""
        viewer = self._viewers.pop(viewer_id, None)
        if viewer is not None:
            await viewer.close()

    async def close_idle(self) -> None:
        """End the sessions that were not used for long."""
        now = self._clock()
        for viewer_id, viewer in list(self._viewers.items()):
            if not viewer.uses and now - viewer.used_at >= self._idle_s:
                await self.close(viewer_id)

    async def close_all(self) -> None:
        """End all sessions."""
        viewers, self._viewers = list(self._viewers.values()), {}
        await asyncio.gather(*(each.close() for each in viewers))

    def _make_room(self) -> "_Viewer | None":
        """Take out the viewer who has been idle for longest, if there is no place for another."""
        if len(self._viewers) < self._viewers_max:
            return None
        for viewer_id, viewer in self._viewers.items():
            if not viewer.uses:
                return self._viewers.pop(viewer_id)
        raise ApiError(
            503, f"{self._viewers_max} viewers have sessions in use; `--viewers` allows more"
        )


class _Viewer:
    """A viewer's client, once there is one."""

    def __init__(self) -> None:
        self.uses = 0
        self.used_at = 0.0
        self._client: AsyncClient | None = None
        self._opening = asyncio.Lock()

    async def open(self, source: Source) -> AsyncClient:
        """Return the client; open a session if there is none, or if it is over."""
        async with self._opening:
            if self._client is not None and self._client.state is ClientState.LOST:
                await self.close()
            if self._client is None:
                self._client = await source.connect()
            return self._client

    async def close(self) -> None:
        client, self._client = self._client, None
        if client is not None:
            with suppress(KeeperError, TimeoutError):
                await asyncio.wait_for(client.close(), CLOSE_S)
