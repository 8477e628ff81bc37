"""The one background thread on which the event loop of all blocking clients of a process runs,
and the guard that keeps their blocking calls out of the caller's own loops.
"""

import asyncio
import atexit
import os
import threading
from typing import Final

from raykeeper.client.errors import WrongContextError

STOP_S: Final = 5.0
"""How long the end of a process waits for the loop to finish its turn."""
_INSTEAD: Final = (
    "in an async actor use `await AsyncClient.connect(...)`, or the _async methods of a Client "
    "made elsewhere"
)
_lock = threading.Lock()
_loops: dict[int, asyncio.AbstractEventLoop] = {}  # by process: a fork inherits no threads


def shared_loop() -> asyncio.AbstractEventLoop:
    """Return the loop, which runs as long as the process. It is uvloop's where that exists."""
    with _lock:
        loop = _loops.get(os.getpid())
        if loop is None:
            loop = _new_loop()
            thread = threading.Thread(target=loop.run_forever, name="raykeeper-client", daemon=True)
            thread.start()
            atexit.register(_stop, loop, thread, os.getpid())
            _loops[os.getpid()] = loop
        return loop


def in_running_loop() -> bool:
    """Return whether the caller runs in an event loop, which a blocking call would stop."""
    try:
        asyncio.get_running_loop()
    except RuntimeError:
        return False
    return True


def refuse_running_loop(method: str, instead: str = _INSTEAD) -> None:
    """Refuse a blocking call inside an event loop; `instead` is what to use there.

    Raises:
        WrongContextError: the caller runs in one.
    """
    if in_running_loop():
        raise WrongContextError(f"{method}() would block the running event loop; {instead}")


def _stop(loop: asyncio.AbstractEventLoop, thread: threading.Thread, pid: int) -> None:
    """Stop the loop before the interpreter is torn down, in the process that has started it.

    The interpreter abandons a daemon thread at its end, but uvloop calls back into it from C: a
    timer that is due then would end the process with a segmentation fault.
    """
    if os.getpid() == pid:
        loop.call_soon_threadsafe(loop.stop)
        thread.join(STOP_S)


def _new_loop() -> asyncio.AbstractEventLoop:
    try:
        import uvloop
    except ImportError:  # pyproject.toml says where there is none
        return asyncio.new_event_loop()
    return uvloop.new_event_loop()
