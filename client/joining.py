"""Joins a Ray cluster: one thread of the process at a time, and within a time.

`ray.init` waits for ever for a GCS or a raylet that does not answer, so it runs in a thread of its
own; see client/ray_lookups.py. A process that stops waiting may be in the cluster a moment later.
"""

import signal
import sys
import threading
from types import FrameType
from typing import Any

from raykeeper.client.errors import RayUnavailableError
from raykeeper.client.forks import refuse_inherited_ray
from raykeeper.client.ray_address import join_problem
from raykeeper.client.ray_lookups import left_s, result_in_time
from raykeeper.links.daemon_threads import begin_in_daemon_thread
from raykeeper.links.ray_internals import without_sigterm_warning
from raykeeper.zab.errors import RayKeeperError

_lock = threading.Lock()  # Ray refuses one of two threads at once, or hangs


def join_at(address: str, refusal: type[RayKeeperError], **options: Any) -> None:
    """Connect this process, which is in no cluster, to the one at `address`.

    Does nothing if another thread has joined a cluster meanwhile.

    Args:
        address: Any that `ray.init` takes.
        refusal: The error if this process cannot join; its text is one line that says why.
        options: More of `ray.init`.

    Raises:
        RayUnavailableError: the cluster does not answer in time.
        WrongContextError: this process was forked off one that uses Ray.
        RayKeeperError: `refusal`.
    """
    import ray
    import ray.exceptions

    refuse_inherited_ray()
    if not _lock.acquire(timeout=left_s()):
        raise RayUnavailableError("another thread of this process still waits for a Ray cluster")
    is_begun = False
    try:
        if ray.is_initialized():
            return
        problem = join_problem(address)
        if problem is not None:
            raise refusal(problem)
        joining = begin_in_daemon_thread(_init_ray, address, options)
        is_begun = True
    finally:
        if not is_begun:
            _lock.release()
    try:
        result_in_time(f"its cluster at {address}", joining)
    except (OSError, RuntimeError, ValueError, ray.exceptions.RayError) as error:
        raise refusal(f"cannot join the Ray cluster at {address}: {error}") from error
    _end_on_sigterm()


def _init_ray(address: str, options: dict[str, Any]) -> None:
    """Call `ray.init`, and let other threads try again."""
    import ray

    try:
        with without_sigterm_warning():
            ray.init(address=address, **options)
    finally:
        _lock.release()


def _end_on_sigterm() -> None:
    """Have SIGTERM end this process as `sys.exit` does, unless the program has a handler.

    As `ray.init` does in the main thread, so that a `with` block closes its session.
    """
    is_main = threading.current_thread() is threading.main_thread()
    if is_main and signal.getsignal(signal.SIGTERM) is signal.SIG_DFL:
        signal.signal(signal.SIGTERM, _exit)


def _exit(number: int, _frame: FrameType | None) -> None:
    sys.exit(number)
