"""One link of a client, from its dialing to its end. The driver has one, and one to search with.

The invariant of this file: what a link tells is passed on while it is this line's present one; once
it was left, or its dialing given up, nothing of it is heard.
"""

import asyncio
from contextlib import AbstractContextManager
from typing import Protocol

from raykeeper.links.contract import Dialer, Link, LinkError
from raykeeper.links.stream_link import StreamLink
from raykeeper.zab.ids import ServerId


class ActiveLinkOwner(Protocol):
    """Who is told, on the loop."""

    def on_link_opened(self, line: "ActiveLink") -> None:
        """The link is open."""

    def on_link_frames(self, line: "ActiveLink", frames: list[bytes]) -> None:
        """Frames came, in order."""

    def on_link_failed(self, line: "ActiveLink", reason: str) -> None:
        """The link could not be opened, or has broken; the line is free again."""


class ActiveLink:
    """Has no link, dials one, or has one that is open."""

    def __init__(
        self,
        dialer: Dialer,
        owner: ActiveLinkOwner,
        loop: asyncio.AbstractEventLoop,
        lock: AbstractContextManager[object],
    ) -> None:
        """`lock` is reentrant and guards the owner; whoever holds it may borrow a stream."""
        self._lock = lock
        self._dialer = dialer
        self._owner = owner
        self._loop = loop
        self._link: Link | None = None
        self._events: _LinkEvents | None = None
        self._dialing: asyncio.Task[None] | None = None
        self._closing: set[asyncio.Future[None]] = set()  # of streams that were closed

    def open(self, server: ServerId) -> None:
        """Dial `server`; the owner is told of the outcome."""
        self._events = events = _LinkEvents(self)
        self._dialing = self._loop.create_task(self._dial(server, events))

    def shareable_stream(self) -> StreamLink | None:
        """The open link if it is a stream, which a thread can use without the loop."""
        return self._link if isinstance(self._link, StreamLink) else None

    def send(self, frame: bytes) -> None:
        """Send on the open link."""
        assert self._link is not None, len(frame)
        self._link.send(frame)

    def close(self, reason: str) -> None:
        """Close the link, or stop dialing. Without either: nothing."""
        link = self._link
        self._forget()
        if link is not None:
            link.close(reason)
        if isinstance(link, StreamLink):
            self._closing.add(link.released)
            link.released.add_done_callback(self._closing.discard)

    async def wait_closed(self) -> None:
        """Return when the links that were closed hold no socket any more."""
        if self._closing:
            await asyncio.wait(self._closing)

    async def _dial(self, server: ServerId, events: "_LinkEvents") -> None:
        try:
            link = await self._dialer.dial(server, events)
        except LinkError as error:
            if events.line is not None:
                self._dialing = None  # which is this very task
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
    """What one link is told to tell; deaf once the line has left that link."""

    def __init__(self, line: ActiveLink) -> None:
        self.line: ActiveLink | None = line

    def frames(self, frames: list[bytes]) -> None:
        if self.line is not None:
            self.line._frames(frames)

    def closed(self, reason: str) -> None:
        if self.line is not None:
            self.line._failed(reason)
