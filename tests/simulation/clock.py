"""The clocks of one machine: monotonic time drifts, wall time may jump."""

from raykeeper.client.core.limits import EXPIRY_MARGIN_DIVISOR
from raykeeper.zab.ids import Millis, Now
from tests.harness.schedule import WALL_AT_START, Schedule

_MILLION = 1_000_000
DRIFT_PPM_MAX = 25_000
"""How fast or slow a clock runs at most, in millionths."""

# By any clock, a client lets go before its session expires by any other clock.
assert (_MILLION + DRIFT_PPM_MAX) * (EXPIRY_MARGIN_DIVISOR - 1) < (
    _MILLION - DRIFT_PPM_MAX
) * EXPIRY_MARGIN_DIVISOR


class SimClock:
    """The clocks of a machine, whose monotonic time has its own origin."""

    def __init__(self, schedule: Schedule, drift_ppm: int, start_ms: int) -> None:
        self.wall_offset_ms = 0
        self._schedule = schedule
        self._rate = _MILLION + drift_ppm
        self._start_ms = start_ms

    def mono(self) -> Millis:
        """Return the monotonic time."""
        return Millis(self._start_ms + self._schedule.now * self._rate // _MILLION)

    def times(self) -> Now:
        """Return the time as a step of a server gets it."""
        return Now(self.mono(), Millis(WALL_AT_START + self._schedule.now + self.wall_offset_ms))

    def moment_of(self, mono: Millis) -> int:
        """Return when, in the world's time, this clock shows `mono`."""
        return -((self._start_ms - mono) * _MILLION // self._rate)

    def delay_until(self, due: Millis) -> int:
        """Return how long, in the world's time, until this clock shows `due`."""
        return max(0, self.moment_of(due) - self._schedule.now)
