"""The identity of a session: one line that names its process to people who list contenders.

    actor Trainer "main" 3f2a9c0d1e2f pid 812 on node-b/5d0e9a1c7b3f
    task train_one 16310a0f0a45 pid 4711 on node-b/5d0e9a1c7b3f
    driver submit.py 01000000 pid 77 on node-a/0c9d8e7f6a5b
    process tool.py pid 78 on laptop                                (without Ray)

The kind; the class of an actor and its name, if it has one, the name of a task, or the program; the
first digits of Ray's id of the actor, task or job; the process id; the host, and the first digits
of Ray's id of the node. Unknown parts are left out. Locks, permits, leases and candidates show this
line unless they are given an `identifier`, and each server shows it of the sessions that are
connected to it. No recipe compares these lines.

A session has the line from when it was opened: another process opens its own, with its own line.
"""

import os
import socket
import sys
from pathlib import Path
from typing import Final

from raykeeper.links.ray_internals import current_task
from raykeeper.znodes.requests import IDENTITY_BYTES_MAX

NAME_CHARS_MAX: Final = 60
"""Characters of each name in the line."""
ID_DIGITS: Final = 12
"""Digits of Ray's ids: enough to find them in its dashboard."""


def identity_of_process() -> bytes:
    """Return the line of this process, and in Ray of the actor or task that calls this."""
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
    """Return the line of these parts; empty parts are left out."""
    place = f"{_printable(host)}/{node_id[:ID_DIGITS]}".strip("/")
    parts = [kind, name, ray_id[:ID_DIGITS], f"pid {pid}", f"on {place}" if place else ""]
    line = " ".join(part for part in parts if part)
    return line.encode()[:IDENTITY_BYTES_MAX].decode(errors="ignore").encode()


def _ray_identity() -> tuple[str, str, str]:
    """Return kind, name and id of the actor, task or driver that runs here."""
    import ray

    context = ray.get_runtime_context()
    actor_id = context.get_actor_id()
    if actor_id is not None:
        # Ray knows the class only in the thread of a method: elsewhere there is no task.
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
