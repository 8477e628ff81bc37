"""Which carrier a link takes: a direct stream if one opens, else calls of the server's actor.

The server decides what there is (`links` of the ensemble): one that shall use Ray calls alone gives
no address, and one that shall use streams alone refuses links over calls. So clients need no
setting, and follow an ensemble that is started again with another one.

A server to which no stream opens is told by the time of an attempt: a refused one costs a
millisecond, one whose packets a firewall drops a second. So after a failure streams are left alone
for a while.
"""

import asyncio
from collections.abc import Callable
from typing import Any

from raykeeper.links.contract import Link, LinkEvents, LinkRefused
from raykeeper.links.hello import Fence, Hello
from raykeeper.links.limits import GRACE_MS, QUEUE_BYTES_MAX, STREAM_PAUSE_MS
from raykeeper.links.ray_calls import RayCallDialer
from raykeeper.links.streams import StreamAddress, StreamDialer, StreamUnavailable
from raykeeper.zab.ids import ServerId


class AutoDialer:
    """Dials by stream, and where that fails by Ray calls."""

    def __init__(
        self,
        find: Callable[[ServerId], Any],
        hello: Hello,
        park_ms: int,
        *,
        fence: Fence | None = None,
        queue_bytes_max: int = QUEUE_BYTES_MAX,
        grace_ms: int = GRACE_MS,
    ) -> None:
        """For the arguments see `RayCallDialer`; the actors also have the method `link_address`."""
        fence = fence or Fence()
        self._find = find
        self._calls = RayCallDialer(
            find, hello, park_ms, fence=fence, queue_bytes_max=queue_bytes_max, grace_ms=grace_ms
        )
        self._streams = StreamDialer(
            self._address_of,
            hello,
            park_ms,
            fence=fence,
            queue_bytes_max=queue_bytes_max,
            grace_ms=grace_ms,
        )
        self._no_stream_until: dict[ServerId, float] = {}

    async def dial(self, server: ServerId, events: LinkEvents) -> Link:
        """Open a link to `server`.

        Raises:
            LinkRefused: the server said no, or is an incarnation that was fenced.
            LinkUnreachable: it was not found, its actor failed, or it did not answer in time.
        """
        loop = asyncio.get_running_loop()
        if loop.time() < self._no_stream_until.get(server, 0.0):
            return await self._calls.dial(server, events)
        try:
            return await self._streams.dial(server, events)
        except StreamUnavailable as error:
            no_stream = error
        try:
            link = await self._calls.dial(server, events)
        except LinkRefused as refusal:
            raise LinkRefused(f"{refusal}; {no_stream}") from refusal
        # Only now: a server that is just dying refuses streams too.
        self._no_stream_until[server] = loop.time() + STREAM_PAUSE_MS / 1000
        return link

    async def _address_of(self, server: ServerId) -> StreamAddress | None:
        # A lookup asks Ray's GCS and can take long when that is down.
        handle = await asyncio.to_thread(self._find, server)
        address: StreamAddress | None = await handle.link_address.remote()
        return address
