"""The states of one end of a link, the same for every carrier.

    state     the owner closes   the link breaks   the owner hears             the carrier
    OPEN      CLOSING            FAILED            frames                      carries frames
    CLOSING   -                  CLOSED            nothing                     sends what was queued
    FAILED    CLOSED             -                 `closed`, one turn later    is released
    CLOSED    -                  -                 nothing                     is released

`closed` has a turn of the loop of its own, so it never comes from inside `send` or `close`
(promise 7). An owner that closes its end before that turn hears nothing (promise 5).
"""

import asyncio
from abc import ABC, abstractmethod
from enum import Enum

from raykeeper.links.contract import LinkEvents


class LinkState(Enum):
    """See the table of this module."""

    OPEN = "open"
    CLOSING = "closing"
    FAILED = "failed"
    CLOSED = "closed"


class LinkEnd(ABC):
    """The base of the ends of all carriers, which add sending, receiving and the two hooks."""

    events: LinkEvents

    def __init__(self, incarnation: int) -> None:
        """Create an open end on the running loop; `incarnation` is that of the other end."""
        self.incarnation = incarnation
        self._loop = asyncio.get_running_loop()
        self._state = LinkState.OPEN
        # Plain attributes, set by `_enter`, because every frame reads them several times.
        self.is_open = True
        self.is_over = False
        """Whether the carrier is released."""
        self._end_reason = ""  # once the end is not OPEN any more

    def close(self, reason: str) -> None:
        """End the link after what was sent before. Closing again does nothing."""
        if self.is_open:
            self._enter(LinkState.CLOSING)
            self._end_reason = reason
            self._on_closing()
        elif self._state is LinkState.FAILED:
            self._enter(LinkState.CLOSED)

    def fail(self, reason: str) -> None:
        """End the link now, because it is broken or because nothing is left to send."""
        if self.is_open:
            self._enter(LinkState.FAILED)
            self._end_reason = reason
            self._loop.call_soon(self._deliver_closed, reason)
        elif self._state is LinkState.CLOSING:
            self._enter(LinkState.CLOSED)
        else:
            return
        self._on_over()

    def _enter(self, state: LinkState) -> None:
        self._state = state
        self.is_open = False
        self.is_over = state is not LinkState.CLOSING

    def _deliver_closed(self, reason: str) -> None:
        if self._state is LinkState.FAILED:
            self.events.closed(reason)

    def _deliver_frames(self, frames: list[bytes]) -> None:
        if frames and self.is_open:
            self.events.frames(frames)

    @abstractmethod
    def _on_closing(self) -> None:
        """Send what is queued and then the end; call `fail` after `CLOSE_MS` at the latest."""

    @abstractmethod
    def _on_over(self) -> None:
        """Release the carrier. Called once."""
