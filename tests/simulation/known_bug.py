"""A core with a deliberate bug, to test that the simulator's tools find one.

The server never answers a write that a client repeats after a lost connection.
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
    """Replace `ClientRequests._repeat`."""
    return False


def break_repeats(patch: pytest.MonkeyPatch) -> None:
    """Install the bug until the patch is undone."""
    patch.setattr(ClientRequests, "_reply_to_repeated_write", never_repeat)


def break_for_good() -> None:
    """Install the bug for the rest of a worker process."""
    break_repeats(pytest.MonkeyPatch())


def interrupt_parent() -> None:
    """Interrupt the parent from a worker, as Ctrl-C does."""
    os.kill(os.getppid(), signal.SIGINT)
