"""The client's clock: it goes on while the machine sleeps.

A client that believes in its session by a clock which stops with the machine believes in its locks
when it wakes, long after its servers gave them to somebody else. Linux has a monotonic clock that
counts that time too; elsewhere the ordinary one must do, and a machine that slept finds out with
its first heartbeat.

The invariant of this file: where CLOCK_BOOTTIME exists, every moment of the client is on it. Timers
of the event loop do not count sleep, so they may come late; what must be on time (`Client.state`,
`lost.is_set()`) asks this clock.
"""

import time
from collections.abc import Callable
from functools import partial


def _best_clock() -> Callable[[], float]:
    boot_time = getattr(time, "CLOCK_BOOTTIME", None)
    return time.monotonic if boot_time is None else partial(time.clock_gettime, boot_time)


clock = _best_clock()
"""Seconds since some moment, of which only differences mean anything."""
