"""The child of a fork of a process that has used Ray: it can use neither Ray nor its handles.

Threads of Ray's own take every answer of the GCS, and a fork copies no threads: in the child each
question waits for ever. And the child shares the connections of its parent: what the child writes
into them breaks them for the parent, whose next question waits a minute. So a child of a process
with these threads is refused before it calls Ray, and Ray's own hooks for the end of a process are
kept from calling it (`links/ray_internals.py`).

`subprocess`, and `multiprocessing` with "spawn" or "forkserver", start another program: nothing in
this module concerns their processes. A process that has forked before it used Ray, such as a web
server before it serves, has children like any other process.
"""

import os
import sys
from typing import Final

from raykeeper.client.errors import WrongContextError
from raykeeper.links.ray_internals import abandon_inherited, has_threads

ADVICE: Final = (
    'start the child by multiprocessing.get_context("spawn"), or do its work in a Ray task, and '
    "connect() there"
)
_parent_has_threads = False


def refuse_inherited_ray() -> None:
    """Refuse to call Ray in a process whose Ray is that of its parent.

    Raises:
        WrongContextError: it was forked off a process that had used Ray.
    """
    if _inherits_ray:
        raise WrongContextError(
            f"this process was forked off one that uses Ray, which only the parent can: {ADVICE}"
        )


def _is_child_already() -> bool:
    """Return whether this module is imported in such a child, after the fork."""
    ray = sys.modules.get("ray")
    return ray is not None and ray.is_initialized() and not has_threads()


def _before_fork() -> None:
    global _parent_has_threads
    _parent_has_threads = has_threads()


def _after_fork_in_child() -> None:
    global _inherits_ray
    if _parent_has_threads and not _inherits_ray:
        _inherits_ray = True
        abandon_inherited()


_inherits_ray = _is_child_already()
"""Whether this process, or one of its ancestors, is the child of a process that had used Ray."""
if _inherits_ray:
    abandon_inherited()
os.register_at_fork(before=_before_fork, after_in_child=_after_fork_in_child)
