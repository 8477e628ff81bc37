"""The asyncio shell of the client core: it carries out effects and decides nothing.

A loop turn takes everything that was submitted, and what leaves goes into one frame. One timer is
armed for the core's deadline. The core is never entered from inside itself: what a callback or a
link does while effects are carried out waits for its turn.
"""

import asyncio
import time
from collections import deque
from collections.abc import Callable
from typing import Protocol, cast

from raykeeper.client.core import ClientCore
from raykeeper.client.effects import (
    Answer,
    ChangeState,
    CloseLink,
    CloseSearch,
    Complete,
    Effect,
    Fail,
    FireWatch,
    OpenLink,
    OpenSearch,
    SearchEffect,
    SendFrame,
    SendSearch,
    TakeSearch,
)
from raykeeper.client.line import Line
from raykeeper.client.outstanding import Ask
from raykeeper.client.states import ClientState
from raykeeper.client.watched_event import WatchedEvent
from raykeeper.links.contract import Dialer
from raykeeper.zab.ids import Millis
from raykeeper.znodes.errors import ConnectionLossError, KeeperError


class Token(Protocol):
    """Who waits for a request; told exactly once, on the loop."""

    def complete(self, answer: Answer) -> None:
        """The request succeeded."""

    def fail(self, error: KeeperError) -> None:
        """The request failed."""


class Audience(Protocol):
    """Who is told what no request asked for, in order with the tokens."""

    def watch_fired(self, watchers: list[object], event: WatchedEvent) -> None:
        """Each of the watchers is to be called once."""

    def state_changed(self, state: ClientState) -> None:
        """The handle has a new state."""


class Driver:
    """Runs one core on one loop. Everything but `submit_threadsafe` is called on that loop."""

    def __init__(
        self,
        core: ClientCore,
        dialer: Dialer,
        audience: Audience,
        loop: asyncio.AbstractEventLoop,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        """`clock` tells monotonic seconds."""
        self.core = core
        self.loop = loop
        self.opened: asyncio.Future[None] = loop.create_future()
        """Done when the session is open, or with the reason why it could not be opened."""
        self.finished: asyncio.Future[None] = loop.create_future()
        """Done when the handle is LOST."""
        self._audience = audience
        self._clock = clock
        self._inbox: deque[tuple[Ask, Token]] = deque()
        self._is_scheduled = False
        self._is_running = False
        self._line = Line(dialer, self, loop)
        self._search_line = Line(dialer, self, loop)
        self._timer: asyncio.TimerHandle | None = None
        self._timer_at = Millis(0)

    def now(self) -> Millis:
        """The time that the core is told."""
        return Millis(int(self._clock() * 1000))

    def start(self) -> None:
        """Open the session; `opened` tells when it is."""
        self.core.start(self.now())
        self._carry_out()

    def submit(self, ask: Ask, token: Token) -> None:
        """Submit a request on the loop; it leaves in the next turn."""
        self._inbox.append((ask, token))
        if not self._is_scheduled:
            self._is_scheduled = True
            self.loop.call_soon(self._turn)

    def submit_threadsafe(self, ask: Ask, token: Token) -> None:
        """Submit a request from any thread. Of one thread they keep their order."""
        self._inbox.append((ask, token))
        # The turn clears the flag before it looks into the inbox, so whoever sees it set may
        # rely on a turn that is still to look.
        if not self._is_scheduled:
            self._is_scheduled = True
            self.loop.call_soon_threadsafe(self._turn)

    def close(self) -> None:
        """End the session after what was submitted; `finished` tells when it has ended."""
        self._turn()
        self.core.close(self.now())
        self._carry_out()

    def _turn(self) -> None:
        self._is_scheduled = False
        core, inbox, now = self.core, self._inbox, self.now()
        while inbox:
            ask, token = inbox.popleft()
            core.submit(ask, token, now)
        core.flush(now)
        self._carry_out()

    def _wake(self) -> None:
        self._timer = None
        self.core.wake(self.now())
        self._carry_out()

    def line_opened(self, line: Line) -> None:
        """For the lines: a link is open."""
        if line is self._line:
            self.core.link_opened(self.now())
        else:
            self.core.search_opened(self.now())
        self._carry_out()

    def line_frames(self, line: Line, frames: list[bytes]) -> None:
        """For the lines: frames came."""
        core, now = self.core, self.now()
        take = core.frame if line is self._line else core.search_frame
        for frame in frames:
            take(frame, now)
        self._carry_out()

    def line_failed(self, line: Line, reason: str) -> None:
        """For the lines: there is no link."""
        if line is self._line:
            self.core.link_failed(reason, self.now())
        else:
            self.core.search_failed(reason, self.now())
        self._carry_out()

    def _carry_out(self) -> None:
        if self._is_running:
            return  # whoever is at it will come to the new effects as well
        self._is_running = True
        try:
            while self.core.out:
                effects, self.core.out = self.core.out, []
                for effect in effects:
                    self._perform(effect)
        finally:
            self._is_running = False
        self._arm()

    def _perform(self, effect: Effect) -> None:
        match effect:
            case Complete():
                cast(Token, effect.token).complete(effect.answer)
            case SendFrame():
                self._line.send(effect.data)
            case Fail():
                cast(Token, effect.token).fail(effect.error)
            case FireWatch():
                self._audience.watch_fired(effect.watchers, effect.event)
            case ChangeState():
                self._change_state(effect)
            case OpenLink():
                self._line.open(effect.server)
            case CloseLink():
                self._line.close(effect.reason)
            case _:
                self._search(effect)

    def _search(self, effect: SearchEffect) -> None:
        match effect:
            case OpenSearch():
                self._search_line.open(effect.server)
            case SendSearch():
                self._search_line.send(effect.data)
            case CloseSearch():
                self._search_line.close(effect.reason)
            case TakeSearch():
                self._line.close("another server has a leader")
                self._line, self._search_line = self._search_line, self._line

    def _change_state(self, change: ChangeState) -> None:
        if not self.opened.done():
            if change.state is not ClientState.LOST:
                self.opened.set_result(None)
            else:
                cause = change.cause or ConnectionLossError("", "closed before it was open")
                self.opened.set_exception(cause)
        if change.state is ClientState.LOST:
            self.finished.set_result(None)
        self._audience.state_changed(change.state)

    def _arm(self) -> None:
        """A timer that is too early costs one call; to move it with every frame would cost more."""
        due = self.core.deadline()
        if self._timer is not None:
            if due is not None and due >= self._timer_at:
                return
            self._timer.cancel()
            self._timer = None
        if due is not None:
            self._timer_at = due
            self._timer = self.loop.call_later(max(due - self.now(), 0) / 1000, self._wake)
