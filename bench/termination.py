"""A SIGTERM to `raykeeper bench` ends everything that it started, within moments.

A KeyboardInterrupt would do the same, one orderly end after the other: servers are told to stop and
waited for, and Ray ends last. A supervisor that sends SIGTERM kills after some seconds, and then
all of them would stay. What they hold is thrown away in any case, so here they are killed.
"""

import os
import shutil
import signal
import socket
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Final

import psutil

EXIT_CODE: Final = 128 + signal.SIGTERM
_POLL_S: Final = 0.02
_PATIENCE_S: Final = 3.0
"""How long killed processes may take to be gone; the kernel frees their memory meanwhile."""


@contextmanager
def ended_by_sigterm(folder: Path) -> Iterator[None]:
    """Have SIGTERM kill all descendants, remove `folder`, and end this process.

    A thread does that, which the C part of any handler wakes: Ray puts a handler of its own in the
    place of this one, and may be in the middle of its start.
    """

    def end(*_: object) -> None:
        deadline = time.monotonic() + _PATIENCE_S
        # Again until none is left: one may have started another before it was killed.
        while (left := _running_descendants()) and time.monotonic() < deadline:
            for each in left:
                with suppress(psutil.NoSuchProcess):
                    each.kill()
            time.sleep(_POLL_S)
        shutil.rmtree(folder, ignore_errors=True)
        os._exit(EXIT_CODE)  # not by an exception: nothing that it unwinds is there any more

    ours, theirs = socket.socketpair()
    theirs.setblocking(False)

    def wait() -> None:
        while number := ours.recv(1):
            if number[0] == signal.SIGTERM:
                end()

    before = signal.signal(signal.SIGTERM, end)
    fd_before = signal.set_wakeup_fd(theirs.fileno())
    thread = threading.Thread(target=wait, name="raykeeper-bench-sigterm", daemon=True)
    thread.start()
    try:
        yield
    finally:
        signal.set_wakeup_fd(fd_before)
        signal.signal(signal.SIGTERM, before)
        theirs.close()
        thread.join()
        ours.close()


def _running_descendants() -> list[psutil.Process]:
    found = psutil.Process().children(recursive=True)
    return [each for each in found if is_alive(each)]


def is_alive(process: psutil.Process) -> bool:
    """Return whether a process runs: one that nobody has waited for yet does not."""
    try:
        return bool(process.status() != psutil.STATUS_ZOMBIE)
    except psutil.NoSuchProcess:
        return False
