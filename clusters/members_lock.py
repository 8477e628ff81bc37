"""The lock of whoever changes the members or restarts servers: one process at a time has it.

It is in the ensemble's own tree, beside the plan of a change (member_journal.py), and ends with the
session of the process that has it, so one that was killed keeps nobody out for long.

A second caller waits as long as a killed process may have the lock, `LOCK_S` at most. If the first
one has ended by then, however it did, the second begins; else it gets an error that names the
first.
"""

import os
import socket
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from typing import Any, Final

from raykeeper.client import Client
from raykeeper.client.errors import WaitTimeoutError
from raykeeper.client.recipes.acquirable import Held
from raykeeper.clusters.member_journal import LOCK, MemberJournal
from raykeeper.zab.errors import RayKeeperError

SESSION_TIMEOUT_S: Final = 10.0
"""Of a session with which the lock is held."""
LOCK_S: Final = SESSION_TIMEOUT_S + 5.0
"""How long to wait for the lock at most. The session of a process that was killed ends at once, or
after its timeout if its server ends at the same time. In an ensemble whose shortest timeout is
longer than this, it may be named as the one that has the lock."""


@contextmanager
def members_lock(
    client: Client, wait_s: float, refusal: Callable[[str | None], RayKeeperError]
) -> Iterator[Held[Any]]:
    """Hold the lock in the session of a client.

    Args:
        client: Its session ends the lock; it asked for `SESSION_TIMEOUT_S`.
        wait_s: How long to wait for another process that has it, if that is less than `LOCK_S`.
        refusal: Returns the error for a wait in vain, from who has it; None: it has just ended.
    """
    MemberJournal(client).create_paths()
    lock = client.lock(LOCK, identify_process().encode())
    try:
        held = lock.acquire(min(wait_s, LOCK_S))
    except WaitTimeoutError:
        holders = [each.identifier.decode(errors="replace") for each in lock.contenders()[:1]]
        raise refusal(holders[0] if holders else None) from None
    try:
        yield held
    finally:
        with suppress(RayKeeperError):  # it may be lost, and ends with the session in any case
            held.release()


def identify_process() -> str:
    """Return what others are told of this process."""
    return f"pid {os.getpid()} on {socket.gethostname()}"
