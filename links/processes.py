"""The process of a client, and whether it still runs.

The number of a process says nothing by itself: it is used again, and means another process on
another machine or in another container. So a `Process` carries when it was started, and where its
number is valid. ZooKeeper has nothing like it; its clients are anonymous.

Invariant: only what the kernel says of that very process counts; what it does not say is None.
"""

import os
from functools import cache
from pathlib import Path

from msgspec import Struct

_STARTED = 19
"""The place of the start time behind the name of the program in /proc/<pid>/stat; see proc(5)."""
_ENDED = ("Z", "X", "x")
_BOOT_ID = Path("/proc/sys/kernel/random/boot_id")


class Process(Struct, frozen=True, array_like=True):
    """A process in a Ray cluster. `node` and `worker` are Ray's ids of its node and of itself.

    `started` counts the kernel's ticks, and `pid_namespace` names the machine, since it was booted,
    and the namespaces in which number and ticks are valid. Both are empty where the system does not
    tell.
    """

    node: str
    worker: str
    pid: int
    started: int
    pid_namespace: str


def this_process(node: str, worker: str) -> Process:
    """Return the calling process, to which Ray gives these ids."""
    pid = os.getpid()
    return Process(node, worker, pid, started_at(pid), this_pid_namespace())


def started_at(pid: int) -> int:
    """Return when a process of this machine was started; 0 if the system does not tell."""
    found = _read_state(pid)
    return 0 if found is None else found[1]


@cache
def this_pid_namespace() -> str:
    """Return where process numbers and start times mean the same as here; "" if unknown."""
    try:
        boot = _BOOT_ID.read_text().strip()
        spaces = [Path(f"/proc/self/ns/{kind}").stat().st_ino for kind in ("pid", "time")]
    except OSError:
        return ""
    return f"{boot}/{spaces[0]}/{spaces[1]}"


# Only a fork can bring a process elsewhere.
os.register_at_fork(after_in_child=this_pid_namespace.cache_clear)


def is_running(pid: int, started: int, pid_namespace: str) -> bool | None:
    """Return whether a process runs or is stopped on this machine; None in doubt."""
    if not started or not pid_namespace or pid_namespace != this_pid_namespace():
        return None
    found = _read_state(pid)
    if found is None:
        try:
            os.kill(pid, 0)
        except ProcessLookupError:
            return False
        except OSError:
            pass  # it belongs to another user
        return None  # it is hidden from us
    state, at = found
    if at != started:
        return False
    # Its first thread may have ended before the others.
    return state not in _ENDED or _count_threads(pid) > 1


def _read_state(pid: int) -> tuple[str, int] | None:
    """Return state and start time of a process, None if the system does not tell."""
    try:
        with open(f"/proc/{pid}/stat") as file:  # noqa: PTH123  # takes half the time
            told = file.read()
        words = told[told.rindex(")") + 1 :].split()
        return words[0], int(words[_STARTED])
    except (OSError, ValueError, IndexError):
        return None


def _count_threads(pid: int) -> int:
    try:
        return sum(1 for _ in Path(f"/proc/{pid}/task").iterdir())
    except OSError:
        return 0
