"""How long a dialer waits that was told to come again: drawn anew each time, from a longer span.

Dialers that were told so together come again one by one: the wait is drawn from the whole span,
so that they do not keep in step.
"""

from random import Random

from raykeeper.links.limits import BUSY_PAUSE_MS_MAX, BUSY_PAUSE_MS_MIN


class BusyPauses:
    """The pauses of one dial."""

    def __init__(self, rng: Random) -> None:
        """Draw them from `rng`."""
        self._rng = rng
        self._longest_ms = BUSY_PAUSE_MS_MIN

    def next_s(self) -> float:
        """Return the next pause, in seconds."""
        pause_ms = self._rng.uniform(0, self._longest_ms)
        self._longest_ms = min(2 * self._longest_ms, BUSY_PAUSE_MS_MAX)
        return pause_ms / 1000
