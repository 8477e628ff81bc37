"""A paused lock holder: it wakes up too late, and the resource refuses what it writes.

    python -m raykeeper.examples.systems paused_holder

Writer 1 holds the lock, and its process is stopped (SIGSTOP), as a long collection of garbage or a
suspended machine would stop it. Its session ends, writer 2 gets the lock and writes. Then writer 1
goes on (SIGCONT) in the middle of what it was doing, before any thread of it could learn the news.
A lock cannot help here. The guard of the resource can: it has seen a newer token.

    /locks/disk/lock-<n>         ephemeral: who holds the lock; its czxid is the fencing token
"""

import os
import signal
from typing import Any

import ray

from raykeeper.client import FencedResource
from raykeeper.client.errors import StaleTokenError
from raykeeper.clusters import Ensemble
from raykeeper.examples.systems.scene import PATIENCE_S, expect, scene, start, tell

SESSION_S = 3.0
"""Nobody can tell a stopped process from a slow one, so its session ends only after that."""


class Disk:
    """The resource that the lock protects. The guard is here, where the writing is done."""

    def __init__(self) -> None:
        self._guard = FencedResource("the disk")
        self._lines: list[str] = []

    def write(self, line: str, token: int) -> None:
        """Write a line, unless somebody who got the lock later was here before."""
        with self._guard.use(token):
            self._lines.append(line)

    def read(self) -> list[str]:
        """Return the lines written."""
        return self._lines


class Writer:
    """Takes the lock and writes, and does not look whether it has the lock still."""

    def __init__(self, ensemble: Ensemble, disk: Any) -> None:
        self._disk = disk
        self._client = ensemble.connect(session_timeout_s=SESSION_S)

    def acquire(self) -> tuple[int, int]:
        """Wait for the lock; process id and fencing token."""
        self._held = self._client.lock("/locks/disk").acquire(timeout_s=PATIENCE_S)
        return os.getpid(), self._held.token

    def write(self, line: str) -> str:
        """Write to the disk, and show the token; what came of it."""
        try:
            ray.get(self._disk.write.remote(line, self._held.token))
        except StaleTokenError as error:
            return f"refused, {getattr(error, 'cause', error)}"  # in Ray's wrapping
        return "written"

    def has_lost(self) -> bool:
        """Whether it knows that it lost the lock."""
        return self._held.lost.is_set()


def main() -> None:
    with scene("paused") as ensemble:
        disk = start(Disk)
        first, second = (start(Writer, ensemble, disk) for _ in range(2))
        pid, token = ray.get(first.acquire.remote(), timeout=PATIENCE_S)
        tell(f"writer 1 holds the lock, token {token}")
        outcome = ray.get(first.write.remote("one"), timeout=PATIENCE_S)
        tell(f"writer 1 writes 'one': {outcome}")

        os.kill(pid, signal.SIGSTOP)
        try:
            tell(f"stopped writer 1, process {pid}; it is to write 'late' as soon as it goes on")
            late = first.write.remote("late")
            _, newer = ray.get(second.acquire.remote(), timeout=PATIENCE_S)
            expect(newer > token, "a token is larger than all before")
            tell(f"the session of writer 1 has ended; writer 2 holds the lock, token {newer}")
            outcome = ray.get(second.write.remote("two"), timeout=PATIENCE_S)
            tell(f"writer 2 writes 'two': {outcome}")
        finally:
            os.kill(pid, signal.SIGCONT)
        tell("writer 1 goes on")
        outcome = ray.get(late, timeout=PATIENCE_S)
        tell(f"writer 1 writes 'late': {outcome}")
        expect(outcome.startswith("refused"), "a stale token is refused")
        expect(ray.get(first.has_lost.remote()), "writer 1 knows when it looks")
        lines = ray.get(disk.read.remote())
        expect(lines == ["one", "two"], "the disk has what was written by holders only")
        tell(f"on the disk: {', '.join(lines)}")
