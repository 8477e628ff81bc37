"""The asyncio shell of the client core: performs its effects and decides nothing.

Each turn of the loop takes all submitted requests and sends them in one frame. One timer is armed
for the core's deadline. The core is never entered from inside itself: inputs of a callback or a
link that come while effects are performed wait until those are done.

A thread that waits for one reply need not hop to the loop and back: over a stream it runs the core
and the socket itself until the reply is there (`call`). A lock guards the core; effects that need
the loop, such as opening a link, are left to the loop in their order.
"""

import asyncio
import logging
import threading
import time
from collections import deque
from collections.abc import Callable
from functools import partial
from typing import Final, Protocol, cast

from raykeeper.client.active_link import ActiveLink
from raykeeper.client.core.client_core import ClientCore
from raykeeper.client.core.effects import (
    CallWatchers,
    ChangeState,
    CloseLink,
    CloseSearchLink,
    Complete,
    Effect,
    Fail,
    KeepServers,
    ListServers,
    OpenLink,
    OpenSearchLink,
    PromoteSearchLink,
    SearchEffect,
    SendFrame,
    SendSearchFrame,
    SuccessReply,
    TimedOut,
)
from raykeeper.client.core.outstanding import NewRequest, Query, WatchAddition
from raykeeper.client.core.public_types import ClientState, WatchedEvent
from raykeeper.links.contract import Dialer, ServerFinder, summarize_error
from raykeeper.zab.ids import Millis, ServerId
from raykeeper.znodes.errors import ConnectionLossError, KeeperError

log = logging.getLogger("raykeeper.client")

LISTING_S: Final = 5.0
"""How long Ray's GCS may take to list the servers that run."""
RECHECK_S: Final = 0.05
"""How soon a thread that reads for itself sees that the loop has failed its token."""


def _best_clock() -> Callable[[], float]:
    """Return the monotonic clock of a client, which counts the time that the machine sleeps.

    A client whose clock stops with the machine would still believe in its locks after a sleep, when
    the servers have long given them to another client. Where CLOCK_BOOTTIME is missing, the clock
    is the ordinary one, and the client learns of a sleep with its first heartbeat.
    """
    boot_time = getattr(time, "CLOCK_BOOTTIME", None)
    return time.monotonic if boot_time is None else partial(time.clock_gettime, boot_time)


client_clock = _best_clock()
"""Returns seconds since an arbitrary moment; only differences have a meaning. All times of a client
are on this clock. Timers of the event loop do not count sleep, so they may come late; what must be
on time, `Client.state` and `lost.is_set()`, reads this clock."""


class RequestToken(Protocol):
    """The receiver of a request's outcome; called exactly once."""

    def complete(self, answer: SuccessReply) -> None:
        """The request succeeded."""

    def fail(self, error: KeeperError) -> None:
        """The request failed."""


class OutcomeToken(RequestToken, Protocol):
    """A token that gets the outcome even if it comes too late."""

    def late(self, error: KeeperError) -> None:
        """There is no reply in time. The outcome follows all the same."""


class BlockingToken(RequestToken, Protocol):
    """A token for which a thread waits."""

    def has_arrived(self) -> bool:
        """Return whether it has its outcome."""


class ClientEvents(Protocol):
    """The receiver of watch events and states, in order with the tokens."""

    def watch_fired(self, watchers: list[object], event: WatchedEvent) -> None:
        """Call each of the watchers once."""

    def state_changed(self, state: ClientState) -> None:
        """Act on a new state of the handle."""


class Driver:
    """Runs one core on one loop. Call all methods there except `submit_threadsafe` and `call`."""

    def __init__(
        self,
        core: ClientCore,
        dialer: Dialer,
        events: ClientEvents,
        loop: asyncio.AbstractEventLoop,
        clock: Callable[[], float] = client_clock,
    ) -> None:
        """`clock` tells monotonic seconds."""
        self.core = core
        self.loop = loop
        self.opened: asyncio.Future[None] = loop.create_future()
        """Done when the session is open, or failed with the reason why it could not be opened."""
        self.finished: asyncio.Future[None] = loop.create_future()
        """Done when the handle is LOST."""
        self._events = events
        self._clock = clock
        self._inbox: deque[tuple[NewRequest, RequestToken]] = deque()
        self._is_scheduled = False
        self._is_running = False
        self.lock = threading.RLock()
        """Held whenever the core runs or its effects are performed."""
        self._caller_thread_lock = threading.Lock()  # held by the one thread that reads for itself
        self._waiting_threads = 0  # threads that wait for what the loop reads
        self._is_in_caller_thread = False  # a thread other than the loop's runs the core
        self._main_link = ActiveLink(dialer, self, loop, self.lock)
        self._search_link = ActiveLink(dialer, self, loop, self.lock)
        self._finder = dialer if isinstance(dialer, ServerFinder) else None
        self._listing: asyncio.Task[None] | None = None
        self._timer: asyncio.TimerHandle | None = None
        self._timer_at = Millis(0)

    def now(self) -> Millis:
        """Return the time as the core is told it."""
        return Millis(int(self._clock() * 1000))

    def start(self) -> None:
        """Open the session; `opened` tells when it is."""
        with self.lock:
            self.core.start(self.now())
            self._carry_out()

    def submit(self, request: NewRequest, token: RequestToken) -> None:
        """Submit a request on the loop; the next turn sends it."""
        self._inbox.append((request, token))
        if not self._is_scheduled:
            self._is_scheduled = True
            self.loop.call_soon(self._turn)

    def submit_threadsafe(self, request: NewRequest, token: RequestToken) -> None:
        """Submit a request from any thread. The requests of one thread keep their order."""
        self._inbox.append((request, token))
        # A turn clears the flag before it reads the inbox, so a flag that is set promises a turn
        # that has yet to read it.
        if not self._is_scheduled:
            self._is_scheduled = True
            self.loop.call_soon_threadsafe(self._turn)

    def call(self, request: NewRequest, token: BlockingToken) -> None:
        """Submit a request from a thread other than the loop's, and read its reply there.

        Returns when the token has its outcome, or when the loop will deliver it.
        """
        if not self._caller_thread_lock.acquire(blocking=False):
            self.submit_threadsafe(request, token)
            return
        try:
            with self.lock:
                link = self._main_link.shareable_stream()
                has_io = link is not None and link.acquire_io()
            if link is None or not has_io:
                self.submit_threadsafe(request, token)
                return
            try:
                self._run_in_caller_thread(partial(self._submit_all, request, token))
                while not token.has_arrived() and self._main_link.shareable_stream() is link:
                    link.wait_readable(RECHECK_S)
                    self._run_in_caller_thread(link.read_in_thread)
            finally:
                with self.lock:
                    link.release_io(at_once=self._waiting_threads > 0 or _sets_watch(request))
        finally:
            self._caller_thread_lock.release()

    def add_waiting_threads(self, count: int) -> None:
        """Note that `count` more threads (fewer if negative) wait for what the loop reads."""
        with self.lock:
            self._waiting_threads += count
            link = self._main_link.shareable_stream()
            if count > 0 and link is not None:
                link.resume_reading_threadsafe()

    def close(self) -> None:
        """End the session after all submitted requests; `finished` is done when it has ended."""
        with self.lock:
            self._turn()
            self.core.close(self.now())
            self._carry_out()

    async def wait_closed(self) -> None:
        """Return when the handle is LOST and holds no socket; then the loop may end."""
        await asyncio.shield(self.finished)
        for line in (self._main_link, self._search_link):
            await line.wait_closed()

    def _run_in_caller_thread(self, run: Callable[[], None]) -> None:
        """Run the core in this thread; leave effects that need the loop to it."""
        with self.lock:
            self._is_in_caller_thread = True
            try:
                run()
                self._carry_out()
            except BaseException:
                # Most likely Ctrl-C, which strikes between any two steps: end the session, because
                # the core may have been left in the middle of a step.
                self.loop.call_soon_threadsafe(self._abort)
                raise
            finally:
                self._is_in_caller_thread = False

    def _submit_all(self, request: NewRequest, token: RequestToken) -> None:
        self._inbox.append((request, token))
        self._take_inbox()

    def _turn(self) -> None:
        self._is_scheduled = False
        with self.lock:
            self._take_inbox()
            self._carry_out()
            link = self._main_link.shareable_stream()
            if link is not None:
                link.resume_reading()

    def _take_inbox(self) -> None:
        core, inbox, now = self.core, self._inbox, self.now()
        while inbox:
            request, token = inbox.popleft()
            core.submit(request, token, now)
        core.flush(now)

    def _wake(self) -> None:
        with self.lock:
            self._timer = None
            self.core.wake(self.now())
            self._carry_out()

    def on_link_opened(self, line: ActiveLink) -> None:
        """For ActiveLink: a link is open."""
        with self.lock:
            if line is self._main_link:
                self.core.link_opened(self.now())
            else:
                self.core.search_link_opened(self.now())
            self._carry_out()

    def on_link_frames(self, line: ActiveLink, frames: list[bytes]) -> None:
        """For ActiveLink: frames came."""
        with self.lock:
            core, now = self.core, self.now()
            take = core.frame if line is self._main_link else core.search_frame
            for frame in frames:
                take(frame, now)
            self._carry_out()

    def on_link_failed(self, line: ActiveLink, reason: str) -> None:
        """For ActiveLink: the link could not be opened, or has broken."""
        with self.lock:
            if line is self._main_link:
                self.core.link_failed(reason, self.now())
            else:
                self.core.search_link_failed(reason, self.now())
            self._carry_out()

    def _carry_out(self) -> None:
        if self._is_running:
            return  # the call under way performs the new effects too
        self._is_running = True
        try:
            while self.core.out:
                effects, self.core.out = self.core.out, []
                if self._is_in_caller_thread:
                    if not self._perform_in_caller_thread(effects):
                        break
                    continue
                for effect in effects:
                    if type(effect) is Complete:
                        effect.token.complete(effect.reply)  # type: ignore[attr-defined]
                    else:
                        self._perform(effect)
        finally:
            self._is_running = False
        self._arm()

    def _perform_in_caller_thread(self, effects: list[Effect]) -> bool:
        """Perform effects, leaving the first that needs the loop and the rest to it.

        Returns whether nothing was left.
        """
        send = self._main_link.shareable_stream()
        done = 0
        try:
            for effect in effects:
                if isinstance(effect, SendFrame) and send is not None:
                    send.send_from_thread(effect.data)
                elif isinstance(effect, Complete | Fail | CallWatchers):
                    self._perform(effect)
                else:
                    self.loop.call_soon_threadsafe(self._resume)
                    break
                done += 1
        finally:
            self.core.out[:0] = effects[done:]
        return done == len(effects)

    def _abort(self) -> None:
        with self.lock:
            self.core.abort("the client was interrupted in the middle of a step")
            self._carry_out()

    def _resume(self) -> None:
        with self.lock:
            self._carry_out()

    def _perform(self, effect: Effect) -> None:
        match effect:
            case Complete():
                effect.token.complete(effect.reply)  # type: ignore[attr-defined]  # a RequestToken
            case SendFrame():
                self._main_link.send(effect.data)
            case Fail():
                cast(RequestToken, effect.token).fail(effect.error)
            case TimedOut():
                cast(OutcomeToken, effect.token).late(effect.error)
            case CallWatchers():
                self._events.watch_fired(effect.watchers, effect.event)
            case ChangeState():
                self._change_state(effect)
            case OpenLink():
                self._main_link.open(effect.server)
            case CloseLink():
                self._main_link.close(effect.reason)
            case KeepServers():
                if self._finder is not None:
                    self._finder.keep(effect.servers)
            case ListServers():
                self._start_listing()
            case _:
                self._perform_search(effect)

    def _start_listing(self) -> None:
        if self._finder is None:
            self.core.servers_listed((), self.now())
        else:
            self._listing = self.loop.create_task(self._list_servers(self._finder))

    async def _list_servers(self, finder: ServerFinder) -> None:
        servers: list[ServerId] = []
        try:
            async with asyncio.timeout(LISTING_S):
                servers = await finder.list_servers()
        # Ray's errors are of many kinds, and the client goes on with what it knows.
        except Exception as error:
            log.debug("the servers cannot be listed: %s", summarize_error(error))
        with self.lock:
            self.core.servers_listed(servers, self.now())
            self._carry_out()

    def _perform_search(self, effect: SearchEffect) -> None:
        match effect:
            case OpenSearchLink():
                self._search_link.open(effect.server)
            case SendSearchFrame():
                self._search_link.send(effect.data)
            case CloseSearchLink():
                self._search_link.close(effect.reason)
            case PromoteSearchLink():
                self._main_link.close("another server has a leader")
                self._main_link, self._search_link = self._search_link, self._main_link

    def _change_state(self, change: ChangeState) -> None:
        if not self.opened.done():
            if change.state is not ClientState.LOST:
                self.opened.set_result(None)
            else:
                cause = change.cause or ConnectionLossError("", "closed before it was open")
                self.opened.set_exception(cause)
        if change.state is ClientState.LOST:
            self.finished.set_result(None)
            self._finder = None
            if self._listing is not None:
                self._listing.cancel()
                self._listing = None
            for line in (self._main_link, self._search_link):
                line.forget_dialer()
        self._events.state_changed(change.state)

    def _arm(self) -> None:
        """Arm the timer. One that fires too early costs less than moving it with every frame."""
        due = self.core.deadline()
        if self._is_in_caller_thread:
            if due is not None and (self._timer is None or due < self._timer_at):
                self.loop.call_soon_threadsafe(self._resume)
            return
        if self._timer is not None:
            if due is not None and due >= self._timer_at:
                return
            self._timer.cancel()
            self._timer = None
        if due is not None:
            self._timer_at = due
            self._timer = self.loop.call_later(max(due - self.now(), 0) / 1000, self._wake)


def _sets_watch(request: NewRequest) -> bool:
    """Return whether an event may follow directly behind the reply."""
    if isinstance(request, Query):
        return request.watcher is not None
    return isinstance(request, WatchAddition)
