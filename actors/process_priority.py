"""The priority of a process of a server, which Ray starts behind all other work of its node.

Ray gives its workers a niceness of 15 (`RAY_worker_niceness`). On a busy node a server then waits
for a processor with each message, and sessions expire. So a server raises itself as far as the
system lets it, and tells when it may not; the SessionTracker and the keeper do the same.

To Linux the priority belongs to a thread, and a new thread has that of the one that begins it.
"""

import os
from contextlib import suppress
from pathlib import Path
from typing import Final

LOWEST_PRIORITY: Final = 19
"""The highest niceness."""
_THREADS: Final = Path("/proc/self/task")
_LIMIT_AT_0: Final = 20
"""RLIMIT_NICE counts the other way round: at 20 a niceness of 0 is allowed."""


def raise_priority(niceness: int) -> str:
    """Give every thread of this process at most this niceness; return why that is not allowed.

    "" if they have it now. A thread with a lower niceness keeps it.
    """
    raised: set[int] = set()
    # A thread that is still low may begin another one meanwhile.
    while low := {thread for thread, has in _niceness_by_thread().items() if has > niceness}:
        if low <= raised:
            break  # the system has ignored it
        for thread in low:
            try:
                with suppress(ProcessLookupError):  # it has ended
                    os.setpriority(os.PRIO_PROCESS, thread, niceness)
            except PermissionError:
                needed = _LIMIT_AT_0 - niceness
                return (
                    f"niceness {read_niceness()} cannot become {niceness}: that needs root, "
                    f"CAP_SYS_NICE, or a limit of {needed} (`ulimit -e`) where Ray is started"
                )
        raised |= low
    return ""


def read_niceness() -> int:
    """Return the niceness that this process has: that of the thread with the highest."""
    return max(_niceness_by_thread().values())


def _niceness_by_thread() -> dict[int, int]:
    """Return what each thread has; where the system does not list them, what the process has."""
    threads = [int(each.name) for each in _THREADS.iterdir()] if _THREADS.is_dir() else []
    found = {}
    for thread in threads or [os.getpid()]:
        with suppress(ProcessLookupError):
            found[thread] = os.getpriority(os.PRIO_PROCESS, thread)
    return found
