"""A deadline for a sign of life that a stall of this very process does not use up.

The timer counts quarters of its time without a sign, one each time it fires. If this process was
stopped, or was busy for seconds, the timer fires late but only once, so the signs that wait behind
it are still seen before the other end is given up.
"""

from collections.abc import Callable

from raykeeper.links.shared_ticks import SharedTicks

QUARTERS = 4


class IdleTimer:
    """Calls `expired` when `timeout_s`, up to a quarter more, pass without `restart` or `pause`."""

    __slots__ = ("_expired", "_group", "_is_running", "_quarters_passed")

    def __init__(self, ticks: SharedTicks, timeout_s: float, expired: Callable[[], None]) -> None:
        self._expired = expired
        self._quarters_passed = 0
        self._is_running = False
        self._group = ticks.add(timeout_s / QUARTERS, self._tick)

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
        self._group.remove(self._tick)

    def _tick(self) -> None:
        if self._is_running:
            self._quarters_passed += 1
            # The quarter that was under way at the last sign counts as well, hence one more.
            if self._quarters_passed > QUARTERS:
                self.cancel()
                self._expired()
