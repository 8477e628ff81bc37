"""What is known of the death of a client's process: by this machine, or by Ray.

Ray keeps a table of its workers, drivers among them, and notes why each has ended. That table is
not public (links/ray_internals.py), and without it nothing is known. Most of what it says is no
proof. Ray writes down that a worker "exits" when it has told it to: also for an actor whose last
handle is gone, and which runs on, and after some seconds for one that stands still; for a driver
that has called `ray.shutdown()`; for whatever was on a node that is lost. So one cause alone is
believed, that the node's raylet met the end of that worker's socket, and only if our own link to
it has met its end as well. In all other cases a task on the node of the process looks for it.

Invariant: nothing here says that a process is dead while it could still run; in doubt it is alive.
"""

from collections.abc import Callable
from typing import Final

from raykeeper.links.processes import Process, is_running
from raykeeper.links.ray_internals import WorkerExit, worker_exit

PROBE_S: Final = 2.0
"""How long a task may take that looks for a process."""
_END_OF_SOCKET: Final = "connection error code 2. End of file"
_SYSTEM_ERROR: Final = 0
"""`WorkerExitType.SYSTEM_ERROR`."""


def is_gone(own_node: str, process: Process, *, link_is_over: bool) -> bool:
    """Whether a process is dead beyond doubt, as far as can be known on Ray's node `own_node`.

    May block for seconds; never raises. See `is_dead`.
    """
    return is_dead(own_node, process, worker_exit, _probe_node, link_is_over=link_is_over)


def is_dead(
    own_node: str,
    process: Process,
    find_exit: Callable[[str], WorkerExit | None],
    probe: Callable[[Process], bool | None],
    *,
    link_is_over: bool,
) -> bool:
    """Whether a process is dead beyond doubt.

    Args:
        own_node: Ray's id of the node of whoever asks.
        process: As it told of itself.
        exited: How a worker has ended, None if it has not; any exception is doubt.
        probe: Whether a process is found on its node; None and any exception are doubt.
        link_is_over: Whether our link to it has ended by itself.
    """
    if process.node == own_node:
        runs = is_running(process.pid, process.started, process.pid_namespace)
        if runs is not None:
            return not runs
    # Whatever fails in Ray, or is not as in the Ray that this was written for, leaves doubt.
    try:
        found = find_exit(process.worker)
        if found is None or found.pid != process.pid:
            return False
        if link_is_over and is_raylet_witness(found):
            return True
        return probe(process) is False
    except Exception:
        return False


def is_raylet_witness(found: WorkerExit) -> bool:
    """Whether the raylet itself has met the end of that process, rather than asked for it."""
    return found.type == _SYSTEM_ERROR and _END_OF_SOCKET in found.detail


def _probe_node(process: Process) -> bool | None:
    # Imported late, because that file imports the replica, which imports this one.
    from raykeeper.actors.ray_actors import is_running_on

    return is_running_on(process.node, process.pid, process.started, process.pid_namespace, PROBE_S)
