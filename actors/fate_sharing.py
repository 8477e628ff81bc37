"""Ends a process when the raylet of its node has ended.

Ray's workers end when no process has the number of their raylet any more. So a worker lives on if
the raylet was killed and neither its parent nor, in a container, the first process reaps it; and if
another process has got the number. A server that lives on keeps its folder locked, and the one that
Ray starts in its place waits for the folder for ever.

Here the process watches its parent: the system gives it another parent in the moment in which the
raylet ends, reaped or not, and a number that is used again cannot deceive. A raylet that is
stopped, or whose node is cut off, is still the parent.
"""

import os
import threading
import time
from collections.abc import Callable
from typing import Final

from raykeeper.links.ray_internals import raylet_pid

POLL_S: Final = 0.5


def share_fate_with_raylet(before_exit: Callable[[], None] = lambda: None) -> bool:
    """End this process soon after its raylet has ended; call `before_exit` before.

    Returns:
        Whether that is possible; else nothing changes. It is not if the raylet is unknown, or not
        the parent: Ray has started the worker through another program, such as a container's.
    """
    raylet = raylet_pid()
    if raylet is None or os.getppid() != raylet:
        return False

    def watch() -> None:
        wait_for_end_of_parent(raylet, lambda: time.sleep(POLL_S))
        try:
            before_exit()
        finally:
            os._exit(1)

    threading.Thread(target=watch, name="raykeeper-raylet", daemon=True).start()
    return True


def wait_for_end_of_parent(parent: int, pause: Callable[[], None]) -> None:
    """Return when the parent of this process is no longer `parent`."""
    while os.getppid() == parent:
        pause()
