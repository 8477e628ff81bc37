"""The client's clock: it goes on while the machine sleeps.

A client whose clock stops with the machine would still believe in its locks after a sleep, when the
servers have long given them to another client. Linux has a monotonic clock that counts sleep;
elsewhere the client uses the ordinary one, and learns of a sleep with its first heartbeat.

The invariant of this file: where CLOCK_BOOTTIME exists, all times of the client are on it. Timers
of the event loop do not count sleep, so they may come late; `Client.state` and `lost.is_set()`,
which must be on time, read this clock.
"""

import time
from collections.abc import Callable
from functools import partial


def _best_clock() -> Callable[[], float]:
    boot_time = getattr(time, "CLOCK_BOOTTIME", None)
    return time.monotonic if boot_time is None else partial(time.clock_gettime, boot_time)


clock = _best_clock()
"""Return seconds since an arbitrary moment; only differences have a meaning."""
