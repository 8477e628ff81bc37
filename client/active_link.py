"""One link of a client, from its dialing to its end. The driver has two: to serve and to search.

The invariant of this file: only the present link's events are passed on; a link that was closed, or
whose dialing was given up, is not heard any more.
"""

import asyncio
from contextlib import AbstractContextManager
from typing import Protocol

from raykeeper.links.contract import Dialer, Link, LinkError
from raykeeper.links.stream_link import StreamLink
from raykeeper.zab.ids import ServerId


class ActiveLinkOwner(Protocol):
    """The receiver of the link's events, on the loop."""

    def on_link_opened(self, line: "ActiveLink") -> None:
        """The link is open."""

    def on_link_frames(self, line: "ActiveLink", frames: list[bytes]) -> None:
        """Frames came, in order."""

    def on_link_failed(self, line: "ActiveLink", reason: str) -> None:
        """The link could not be opened, or has broken; another one can be dialed."""


class ActiveLink:
    """At most one link: none, one being dialed, or one that is open."""

    def __init__(
        self,
        dialer: Dialer,
        owner: ActiveLinkOwner,
        loop: asyncio.AbstractEventLoop,
        lock: AbstractContextManager[object],
    ) -> None:
        """`lock` is reentrant and guards the owner; its holder may take over a stream's IO."""
        self._lock = lock
        self._dialer: Dialer | None = dialer
        self._owner = owner
        self._loop = loop
        self._link: Link | None = None
        self._events: _LinkEvents | None = None
        self._dialing: asyncio.Task[None] | None = None
        self._closing: set[asyncio.Future[None]] = set()  # of streams that were closed

    def open(self, server: ServerId) -> None:
        """Dial `server`, and tell the owner the outcome."""
        assert self._dialer is not None, server
        self._events = events = _LinkEvents(self)
        self._dialing = self._loop.create_task(self._dial(self._dialer, server, events))

    def shareable_stream(self) -> StreamLink | None:
        """Return the open link if it is a stream, which a thread can use without the loop."""
        return self._link if isinstance(self._link, StreamLink) else None

    def send(self, frame: bytes) -> None:
        """Send on the open link."""
        assert self._link is not None, len(frame)
        self._link.send(frame)

    def close(self, reason: str) -> None:
        """Close the link, or stop dialing, if there is either."""
        link = self._link
        self._forget()
        if link is not None:
            link.close(reason)
        if isinstance(link, StreamLink):
            self._closing.add(link.released)
            link.released.add_done_callback(self._closing.discard)

    def forget_dialer(self) -> None:
        """Open no more links: the handle may live on, but what it knows of the servers need not."""
        self._dialer = None

    async def wait_closed(self) -> None:
        """Return when the closed links hold no socket any more."""
        if self._closing:
            await asyncio.wait(self._closing)

    async def _dial(self, dialer: Dialer, server: ServerId, events: "_LinkEvents") -> None:
        try:
            link = await dialer.dial(server, events)
        except LinkError as error:
            if events.line is not None:
                self._dialing = None  # this very task, which must not cancel itself
                events.closed(str(error))
            return
        if events.line is None:
            link.close("it was opened too late")
            return
        self._dialing = None
        if isinstance(link, StreamLink):
            link.enable_thread_io(self._lock)
        self._link = link
        self._owner.on_link_opened(self)

    def _frames(self, frames: list[bytes]) -> None:
        self._owner.on_link_frames(self, frames)

    def _failed(self, reason: str) -> None:
        self._forget()
        self._owner.on_link_failed(self, reason)

    def _forget(self) -> None:
        if self._events is not None:
            self._events.line = None
        if self._dialing is not None:
            self._dialing.cancel()
        self._events = self._link = self._dialing = None


class _LinkEvents:
    """Receives one link's events, until the ActiveLink has left that link."""

    def __init__(self, line: ActiveLink) -> None:
        self.line: ActiveLink | None = line

    def frames(self, frames: list[bytes]) -> None:
        if self.line is not None:
            self.line._frames(frames)

    def closed(self, reason: str) -> None:
        if self.line is not None:
            self.line._failed(reason)
