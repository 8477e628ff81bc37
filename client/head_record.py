"""The record of the Ray head that `raykeeper up` has started for this user on this machine.

`raykeeper up` writes it (clusters/local_head.py), and whoever looks for a cluster to join reads it
(client/ray_address.py).
"""

from pathlib import Path

import msgspec
from msgspec import Struct

from raykeeper.links.processes import is_running
from raykeeper.zab.errors import DECODE_ERRORS


class LocalHead(Struct, frozen=True):
    """The record of a head."""

    pid: int
    started: int
    """Distinguishes the process from a later one with the same pid; see links/processes.py."""
    pid_namespace: str
    address: str
    wants_token: bool = False
    """Whether a program that joins must set RAY_AUTH_MODE=token, which Ray does not tell it."""

    def export_line(self) -> str:
        """Return the shell command after which programs join this head."""
        return f"export RAY_ADDRESS={self.address}" + " RAY_AUTH_MODE=token" * self.wants_token


def head_folder() -> Path:
    """Return the folder of the records and logs of local heads."""
    return Path.home() / ".raykeeper"


def record_file() -> Path:
    """Return the file of the record."""
    return head_folder() / "head.json"


def find_head() -> LocalHead | None:
    """Return the head that `raykeeper up` started, if it certainly still runs."""
    try:
        head = msgspec.json.decode(record_file().read_bytes(), type=LocalHead)
        does_run = is_running(head.pid, head.started, head.pid_namespace)
    # RuntimeError: no home; OverflowError: the record has a number that no process can have.
    except (OSError, ValueError, RuntimeError, OverflowError, *DECODE_ERRORS):
        return None
    return head if does_run else None
