"""A process that ends when the raylet of its node has ended.

Ray's workers end when no process has the number of their raylet any more. So they live on when it
was killed and nobody reaps it, be it by its parent or, in a container, by the first process; and
when another process has got the number. A server that lives on keeps its folder, and the one that
Ray starts in its place waits for the folder for ever.

Here the process asks who its parent is: the system gives it another one in the moment in which the
raylet ends, whether that is reaped or not, and a number that is used again cannot deceive. A
raylet that stands still, or whose node is cut off, is still the parent.
"""

import os
import threading
import time
from collections.abc import Callable
from typing import Final

from raykeeper.links.ray_internals import raylet_pid

POLL_S: Final = 0.5


def share_fate_with_raylet(before_exit: Callable[[], None] = lambda: None) -> bool:
    """Have this process end soon after its raylet, `before_exit` being called before.

    Returns:
        Whether that is possible; else nothing changes. The raylet is not known, or not the parent:
        Ray has started the worker through another program, such as that of a container.
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
    """Return when the parent of this process is another one than `parent`."""
    while os.getppid() == parent:
        pause()
