"""Who holds what: one line that names the process of a session, for people who list contenders.

    actor Trainer "main" 3f2a9c0d1e2f pid 812 on node-b/5d0e9a1c7b3f
    task train_one 16310a0f0a45 pid 4711 on node-b/5d0e9a1c7b3f
    driver submit.py 01000000 pid 77 on node-a/0c9d8e7f6a5b
    process tool.py pid 78 on laptop                                (without Ray)

The kind; the class of an actor and its name, if it has one, the name of a task, or the program; the
first digits of Ray's id of the actor, task or job; the process id; the host, and the first digits
of Ray's id of the node. What is not known is left out. It is what locks, permits, leases and
candidates show of themselves unless they are given an `identifier`. No recipe compares them.

A session has the line from when it was opened: another process opens its own, with its own line.
"""

import os
import socket
import sys
from pathlib import Path
from typing import Final

from raykeeper.links.ray_internals import current_task

BYTES_MAX: Final = 250
"""Of the line: it is kept in each znode."""
NAME_CHARS_MAX: Final = 60
"""Of each name in it."""
ID_DIGITS: Final = 12
"""Of Ray's ids: enough to find them in its dashboard."""


def identity_of_process() -> bytes:
    """The line of the process, and in Ray the actor or task, that runs this."""
    host, pid = socket.gethostname(), os.getpid()
    if "ray" in sys.modules:
        import ray

        if ray.is_initialized():
            kind, name, ray_id = _ray_identity()
            return identity_line(
                kind, name, ray_id, pid, host, ray.get_runtime_context().get_node_id()
            )
    return identity_line("process", _program(), "", pid, host)


def identity_line(
    kind: str, name: str, ray_id: str, pid: int, host: str, node_id: str = ""
) -> bytes:
    """The line of these parts; those that are empty are left out."""
    place = f"{_printable(host)}/{node_id[:ID_DIGITS]}".strip("/")
    parts = [kind, name, ray_id[:ID_DIGITS], f"pid {pid}", f"on {place}" if place else ""]
    line = " ".join(part for part in parts if part)
    return line.encode()[:BYTES_MAX].decode(errors="ignore").encode()


def _ray_identity() -> tuple[str, str, str]:
    """Kind, name and id of what Ray runs here."""
    import ray

    context = ray.get_runtime_context()
    actor_id = context.get_actor_id()
    if actor_id is not None:
        # In another thread than that of a method there is no task, and no class to be told.
        kind = _printable((context.get_task_name() or "").partition(".")[0])
        name = _printable(context.get_actor_name() or "")
        return "actor", " ".join(part for part in (kind, name and f'"{name}"') if part), actor_id
    if current_task() is not None:
        return "task", _printable(context.get_task_name() or ""), context.get_task_id() or ""
    return "driver", _program(), context.get_job_id()


def _program() -> str:
    return _printable(Path(sys.argv[0]).name if sys.argv else "")


def _printable(name: str) -> str:
    shown = "".join(char if char.isprintable() else "?" for char in name)
    return shown if len(shown) <= NAME_CHARS_MAX else f"{shown[: NAME_CHARS_MAX - 1]}…"
