"""A core with a known bug, so that the machinery around the simulator can be seen to find one.

The write that a client repeats after a lost connection is never answered: it waits for ever.
"""

import os
import signal

import pytest

from raykeeper.server.client_requests import ClientRequests
from raykeeper.server.connection import Connection
from raykeeper.znodes.requests import Write

WORDS = "no convergence in N ms"
"""How the kind of its failure ends."""


def never_repeat(_self: ClientRequests, _connection: Connection, _write: Write) -> bool:
    """In the place of `ClientRequests._repeat`."""
    return False


def break_repeats(patch: pytest.MonkeyPatch) -> None:
    """Bring the bug about until the patch is undone."""
    patch.setattr(ClientRequests, "_reply_to_repeated_write", never_repeat)


def break_for_good() -> None:
    """In a process of its own."""
    break_repeats(pytest.MonkeyPatch())


def interrupt_parent() -> None:
    """As Ctrl-C does, from a worker."""
    os.kill(os.getppid(), signal.SIGINT)
