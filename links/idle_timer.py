"""A deadline for a sign of life that a stall of this very process does not use up.

The timer counts quarters of its time without a sign, one each time it fires. If this process was
stopped, or was busy for seconds, the timer fires late but only once, so the signs that wait behind
it are still seen before the other end is given up.
"""

from asyncio import AbstractEventLoop
from collections.abc import Callable

QUARTERS = 4


class IdleTimer:
    """Calls `expired` when `timeout_s`, up to a quarter more, pass without `restart` or `pause`."""

    __slots__ = ("_expired", "_is_running", "_loop", "_quarter_s", "_quarters_passed", "_timer")

    def __init__(
        self, loop: AbstractEventLoop, timeout_s: float, expired: Callable[[], None]
    ) -> None:
        self._loop = loop
        self._quarter_s = timeout_s / QUARTERS
        self._expired = expired
        self._quarters_passed = 0
        self._is_running = False
        self._timer = loop.call_later(self._quarter_s, self._tick)

    def restart(self) -> None:
        """Count from now on: a sign was seen, or is expected from here on."""
        self._quarters_passed = 0
        self._is_running = True

    def pause(self) -> None:
        """Stop counting until `restart`: no sign is expected for now."""
        self._is_running = False

    def cancel(self) -> None:
        """Stop counting for good and release the timer."""
        self._is_running = False
        self._timer.cancel()

    def _tick(self) -> None:
        if self._is_running:
            self._quarters_passed += 1
            # The quarter that was under way at the last sign counts as well, hence one more.
            if self._quarters_passed > QUARTERS:
                self._expired()
                return
        self._timer = self._loop.call_later(self._quarter_s, self._tick)
