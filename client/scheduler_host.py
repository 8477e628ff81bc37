"""The services of a client for its flows: requests, time, callbacks. For both facades.

The driver may be run by any thread that waits for an answer (client/driver.py), so everything here
happens under its lock, in whichever thread that is.
"""

import asyncio
import logging
from collections.abc import Callable
from typing import Any, Final

from raykeeper.client.core.outstanding import NewRequest
from raykeeper.client.core.scheduler import Scheduler
from raykeeper.client.driver import Driver
from raykeeper.client.request_builder import RequestBuilder
from raykeeper.zab.ids import Millis

log = logging.getLogger("raykeeper.client")

CLEANUP_TIMEOUT_S: Final = 5.0
"""How long a session that is closed waits for its flows to give back what nobody wants. It takes
milliseconds if a server is there."""


class DriverHost:
    """The `SchedulerHost` of client/core/scheduler.py over a driver."""

    def __init__(
        self,
        driver: Driver,
        requests: RequestBuilder,
        call_back: Callable[[Callable[[], object]], object],
    ) -> None:
        """`call_back` has a callback called in order with the client's others."""
        self._driver = driver
        self._requests = requests
        self._call_back = call_back

    def submit(self, ask: NewRequest, token: Any) -> None:
        """Submit a request; what it creates has the handle's default ACL."""
        self._driver.submit_threadsafe(self._requests.with_default_acl(ask), token)

    def now(self) -> Millis:
        """Return the time as the core is told it."""
        return self._driver.now()

    def call_at(self, at: Millis, wake: Callable[[], None]) -> Callable[[], None]:
        """Call `wake` at that time; return what prevents it."""
        timer = _Timer(self._driver, wake)
        self._driver.loop.call_soon_threadsafe(timer.set, at)
        return timer.cancel

    def call_user(self, callback: Callable[..., object], *arguments: Any) -> None:
        """Have a callback called."""
        self._call_back(lambda: callback(*arguments))

    def report(self, error: Exception) -> None:
        """Log the error of a flow for which nobody waits."""
        log.error("a recipe failed in the background", exc_info=error)


async def wait_cleaned_up(flows: Scheduler, driver: Driver) -> None:
    """Return when what nobody waits for any more has been given back, or it takes too long.

    An operation whose caller gave up gives back what it got by further requests, and none can be
    made behind the one that closes the session. Ephemerals go with the session, but the element of
    a queue would be lost.
    """
    left: asyncio.Future[None] = driver.loop.create_future()

    def done() -> None:
        if not left.done():
            left.set_result(None)

    with driver.lock:
        if not flows.is_cleaning_up:
            return
        flows.when_cleaned_up(lambda: driver.loop.call_soon_threadsafe(done))
    await asyncio.wait([left], timeout=CLEANUP_TIMEOUT_S)


class _Timer:
    """One timer, which may be cancelled in any thread."""

    def __init__(self, driver: Driver, wake: Callable[[], None]) -> None:
        self._driver = driver
        self._wake: Callable[[], None] | None = wake
        self._handle: asyncio.TimerHandle | None = None

    def set(self, at: Millis) -> None:
        if self._wake is not None:
            delay_s = max(at - self._driver.now(), 0) / 1000
            self._handle = self._driver.loop.call_later(delay_s, self._fire, at)

    def cancel(self) -> None:
        self._wake = None
        if self._handle is not None:
            self._driver.loop.call_soon_threadsafe(self._handle.cancel)

    def _fire(self, at: Millis) -> None:
        with self._driver.lock:
            if self._driver.now() < at:
                self.set(at)  # the loop's clock counts in other steps
                return
            wake, self._wake = self._wake, None
            if wake is not None:
                wake()
