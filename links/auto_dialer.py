"""The dialer that chooses the carrier: a direct stream if one opens, else Ray calls.

The server decides what there is (`links` of the ensemble): one that shall use Ray calls alone gives
no address, and one that shall use streams alone refuses links over calls. So clients need no
setting, and follow an ensemble that is started again with another one.

A server that is reached over streams and is busy is not one without streams: the client comes
again, and takes no calls, which would cost the server more.

An attempt that is refused costs a millisecond, one whose packets a firewall drops a second. So
after a failure streams are left alone for a while; then one is tried again beside the link over
calls, which moves to it without a break (links/upgradable_link.py).

A stream is tried at the address that is known (links/server_directory.py), which takes no call of
Ray. So a dialer finds its way while Ray's GCS is away, and a crowd that comes back after a server
died spares the others a call each.

Of the clients of one process a few at a time open a stream to the same server. If a thousand did so
at once, all would be done at the end, and none before it has given up.
"""

import asyncio
import secrets
from random import Random
from typing import Any, Final

from msgspec import structs

from raykeeper.links.contract import Link, LinkEvents, LinkRefused, LinkUnreachable
from raykeeper.links.hello import Fence, Hello
from raykeeper.links.limits import (
    ADDRESS_MS_MIN,
    GRACE_MS,
    QUEUE_BYTES_MAX,
    STREAM_PAUSE_MS,
    STREAM_PAUSE_MS_MAX,
)
from raykeeper.links.ray_calls import RayCallDialer
from raykeeper.links.server_directory import ServerDirectory
from raykeeper.links.stream_endpoints import StreamDialer, StreamUnavailable
from raykeeper.links.stream_link import StreamLink
from raykeeper.links.upgradable_link import UpgradableLink
from raykeeper.zab.ids import ServerId

LINK_BITS: Final = 62


class AutoDialer:
    """Dials by stream, and where that fails by Ray calls."""

    def __init__(
        self,
        directory: ServerDirectory,
        hello: Hello,
        keepalive_ms: int,
        *,
        fence: Fence | None = None,
        queue_bytes_max: int = QUEUE_BYTES_MAX,
        grace_ms: int = GRACE_MS,
        pause_ms: int = STREAM_PAUSE_MS,
        rng: Random | None = None,
    ) -> None:
        """As `LinkDialer`, but `directory` tells where the servers are.

        No stream is tried for `pause_ms` after one did not open. `rng` draws the pauses before a
        busy server is tried again.
        """
        self._hello = hello
        self._pause_s = pause_ms / 1000
        self._upgrades: set[asyncio.Task[None]] = set()
        self._directory = directory
        self._grace_s = grace_ms / 1000
        options: dict[str, Any] = {
            "fence": fence or Fence(),
            "queue_bytes_max": queue_bytes_max,
            "grace_ms": grace_ms,
        }
        self._calls = RayCallDialer(directory.handle, hello, keepalive_ms, **options)
        self._streams = StreamDialer(directory.ask_address, hello, keepalive_ms, rng=rng, **options)
        self._stream_retry_at: dict[ServerId, float] = {}

    async def dial(self, server: ServerId, events: LinkEvents) -> Link:
        """See `Dialer`."""
        loop = asyncio.get_running_loop()
        if loop.time() < self._stream_retry_at.get(server, 0.0):
            return await self._dial_calls(server, events)
        try:
            return await self._dial_stream(server, events)
        except StreamUnavailable as error:
            no_stream = error
        try:
            link = await self._dial_calls(server, events)
        except LinkRefused as refusal:
            raise LinkRefused(f"{refusal}; {no_stream}") from refusal
        # Only now: a server that is just dying refuses streams too.
        self._stream_retry_at[server] = loop.time() + self._pause_s
        return link

    async def _dial_stream(
        self, server: ServerId, events: LinkEvents, hello: Hello | None = None
    ) -> StreamLink:
        """Dial the known address; if no stream opens there, the one that the server tells then."""
        async with self._directory.dial_slots(server):
            return await self._dial_stream_in_turn(server, events, hello)

    async def _dial_stream_in_turn(
        self, server: ServerId, events: LinkEvents, hello: Hello | None
    ) -> StreamLink:
        known = self._directory.address(server)
        if known is None:
            return await self._streams.dial(server, events, hello)
        loop = asyncio.get_running_loop()
        deadline = loop.time() + self._grace_s
        try:
            return await self._streams.dial_at(known, server, events, hello)
        except StreamUnavailable as error:
            failure = error
        except LinkRefused:
            self._directory.ask_again(server)  # an old incarnation may live on
            raise
        question = self._directory.ask_address(server, known)
        limit_s = max(deadline - loop.time(), ADDRESS_MS_MIN / 1000)
        address = await self._streams.wait_address(server, question, limit_s)
        if address == known:
            raise failure
        return await self._streams.dial_at(address, server, events, hello)

    async def _dial_calls(self, server: ServerId, events: LinkEvents) -> UpgradableLink:
        link = UpgradableLink()
        link.events = events
        hello = structs.replace(self._hello, link=secrets.randbits(LINK_BITS) + 1)
        try:
            link.start_on_calls(await self._calls.dial(server, link, hello))
        except LinkUnreachable:
            self._directory.ask_again(server)  # another actor may have its name by now
            raise
        loop = asyncio.get_running_loop()
        upgrade = loop.create_task(self._upgrade_when_possible(server, link, hello))
        self._upgrades.add(upgrade)
        upgrade.add_done_callback(self._upgrades.discard)
        return link

    async def _upgrade_when_possible(
        self, server: ServerId, link: UpgradableLink, hello: Hello
    ) -> None:
        """Move `link` to a stream when one opens."""
        pause_s = self._pause_s
        while True:
            await asyncio.sleep(pause_s)
            pause_s = min(2 * pause_s, STREAM_PAUSE_MS_MAX / 1000)
            if link.is_over:
                return
            link.expect_upgrade()
            try:
                stream = await self._dial_stream(server, link.stream_events, hello)
            except LinkUnreachable:
                link.cancel_upgrade()
            except LinkRefused:
                # The server does not know the link any more, which will soon be known here.
                link.cancel_upgrade()
                return
            else:
                self._stream_retry_at.pop(server, None)
                link.upgrade_to(stream)
                return
