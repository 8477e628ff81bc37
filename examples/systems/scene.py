"""The beginning and the end of every example: Ray, an ensemble of three servers, and a narrator.

`scene` joins the Ray that RAY_ADDRESS names, or starts one for as long as the example runs. What is
killed is always a process that the example has started itself.
"""

import json
import logging
import os
import shutil
import signal
import sys
import tempfile
import threading
import time
import uuid
from collections.abc import Callable, Iterator
from contextlib import contextmanager, nullcontext
from typing import Any, TypeVar

import ray

from raykeeper.client import Client, WatchedEvent
from raykeeper.clusters import Ensemble, launch
from raykeeper.clusters.local_ray import join_ray, private_ray

SESSION_S = 8.0
"""After that what a process held is free at the latest; when it is killed, much earlier."""
PATIENCE_S = 100.0
T = TypeVar("T")
Watch = Callable[[WatchedEvent], object]

_began = time.monotonic()
_actors: list[Any] = []
_out = sys.stdout  # kept, as a Ray of our own has its messages printed to the present one


class StoryError(Exception):
    """Raised when a story does not come out as it is told, so that the program exits with 1."""


@contextmanager
def scene(name: str) -> Iterator[Ensemble]:
    """Ray, and an ensemble in a temporary folder. Both are gone in the end."""
    joins = ray.is_initialized() or "RAY_ADDRESS" in os.environ
    logging.getLogger("raykeeper").setLevel(logging.ERROR)  # here a machine has three servers
    folder = tempfile.mkdtemp(prefix=f"raykeeper-{name}-")
    try:
        with nullcontext() if joins else private_ray():
            if joins:
                join_ray(is_quiet=True)
            ensemble = launch(name=f"{name}-{uuid.uuid4().hex[:8]}", data_dir=folder)
            tell(f"three servers are up, server {ensemble.wait_for_leader()} leads")
            try:
                yield ensemble
            finally:
                while _actors:
                    ray.kill(_actors.pop())
                ensemble.shutdown()
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def start(cls: type, *args: object) -> Any:
    """An actor, until the scene ends. Its methods run beside one another, none runs twice."""
    options: Any = ray.remote(cls)
    actor = options.options(num_cpus=0, max_concurrency=16, max_restarts=0).remote(*args)
    _actors.append(actor)
    return actor


def kill(pid: int) -> None:
    """SIGKILL a process, and never a group of them, which 0 and -1 stand for."""
    expect(pid > 1, f"{pid} is no process")
    os.kill(pid, signal.SIGKILL)


def leader_of(client: Client, path: str) -> tuple[str, int, int]:
    """Name, process id and epoch of who leads; candidates say `json.dumps([name, pid])`."""
    leader = client.election(path).leader()
    if leader is None:
        raise StoryError(f"nobody leads in {path}")
    name, pid = json.loads(leader.identifier)
    return name, pid, leader.epoch


def tell(text: str) -> None:
    """One line of the story, with the time."""
    print(f"{time.monotonic() - _began:6.2f} s  {text}", file=_out, flush=True)


def expect(is_so: bool, text: str) -> None:
    """Go on if the story is right so far.

    Raises:
        StoryError: it is not.
    """
    if not is_so:
        raise StoryError(f"the story went wrong: {text}")


def until(look: Callable[[Watch], T], text: str) -> T:
    """Return the result of `look` once that is true. `look` is called again when its watch fires.

    Raises:
        StoryError: it finds nothing for a long time.
    """
    changed = threading.Event()
    deadline = time.monotonic() + PATIENCE_S
    while not (found := look(lambda event: changed.set())):
        expect(changed.wait(deadline - time.monotonic()), f"{text} did not come about")
        changed.clear()
    return found
