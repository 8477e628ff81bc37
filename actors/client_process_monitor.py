"""Finds out which clients are dead, so that their sessions need not time out.

The end of a link raises the question: over a stream it comes some milliseconds after the death of
the process. The monitor asks again for a while, for Ray or the system may learn it later. Over Ray
calls a link does not end with its client, so the monitor asks about those clients in turn.

This machine's kernel answers for its own processes, a task on the process's node for others. Ray
keeps a table of its workers, drivers among them, and notes why each has ended. That table is not
public (links/ray_internals.py), and without it nothing is known. Most of its entries are no proof.
Ray writes down that a worker "exits" when Ray has told it to: also for an actor whose last handle
is gone, and which runs on; after some seconds for a process that is stopped; for a driver that has
called `ray.shutdown()`; and for everything on a node that is lost. So one cause alone is believed:
the node's raylet met the end of that worker's socket, and our own link to it has met its end, too.
In all other cases a task on the node of the process looks for it.

Invariants: the monitor reports a death only if the process can no longer run; in doubt it is alive.
Questions run in threads of their own, a few at a time, so that neither the server nor its other
work ever waits for an answer.
"""

import asyncio
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Final, Protocol

from raykeeper.actors.ray_actors import is_running_on
from raykeeper.actors.server_links import ClientLinks
from raykeeper.links.processes import Process, is_running
from raykeeper.links.ray_internals import WorkerExit, worker_exit
from raykeeper.server.events import ClientProcessDied, Event

PAUSES_S: Final = (0.0, 0.01, 0.02, 0.03, 0.05, 0.1, 0.2, 0.4, 0.7, 1.0)
"""Before each question about one process; 2.5 s in all."""
CHECKED_MAX: Final = 256
"""Processes that are asked about at a time; others wait for their turn."""
WAITING_MAX: Final = 10_000
THREADS: Final = 4
POLL_S: Final = 0.5
POLLED_MAX: Final = 64
"""Clients over Ray calls that are asked about in one round."""
PROBE_S: Final = 2.0
"""How long a task may take that looks for a process."""
_END_OF_SOCKET: Final = "connection error code 2. End of file"
_SYSTEM_ERROR: Final = 0
"""`WorkerExitType.SYSTEM_ERROR`."""


class IsGone(Protocol):
    """A question about a process, which may block."""

    def __call__(self, process: Process, *, link_is_over: bool) -> bool: ...


class ClientProcessMonitor:
    """The questions under way."""

    def __init__(
        self,
        clients: ClientLinks,
        is_gone: IsGone,
        deliver: Callable[[Event], None],
        pauses_s: Sequence[float] = PAUSES_S,
        poll_s: float = POLL_S,
    ) -> None:
        """Ask on the running loop, from now on. `deliver` takes the events."""
        self._clients = clients
        self._is_gone = is_gone
        self._deliver = deliver
        self._pauses_s = pauses_s
        self._poll_s = poll_s
        self._threads = ThreadPoolExecutor(THREADS, "raykeeper-processes")
        self._check_slots = asyncio.Semaphore(CHECKED_MAX)
        self._loop = asyncio.get_running_loop()
        self._checks: set[asyncio.Task[None]] = set()
        self._last_polled = 0
        self._poll_task = self._loop.create_task(self._poll_call_clients())
        clients.on_link_lost = self.on_link_lost

    def on_link_lost(self, connection: int, process: Process) -> None:
        """Ask whether `process` is dead, as its link has ended by itself."""
        if len(self._checks) < WAITING_MAX:
            task = self._loop.create_task(self._check_repeatedly(connection, process))
            self._checks.add(task)
            task.add_done_callback(self._checks.discard)

    def close(self) -> None:
        """Ask no more."""
        self._poll_task.cancel()
        for task in self._checks:
            task.cancel()
        self._threads.shutdown(wait=False, cancel_futures=True)

    async def _check_repeatedly(self, connection: int, process: Process) -> None:
        async with self._check_slots:
            for pause_s in self._pauses_s:
                await asyncio.sleep(pause_s)
                if await self._ask(process, link_is_over=True):
                    self._deliver(ClientProcessDied(connection))
                    return

    async def _poll_call_clients(self) -> None:
        while True:
            await asyncio.sleep(self._poll_s)
            for connection, process in self._next_call_clients():
                if await self._ask(process, link_is_over=False):
                    self._clients.close_dead(connection, "the client's process is dead")
                    self._deliver(ClientProcessDied(connection))

    def _next_call_clients(self) -> list[tuple[int, Process]]:
        clients = sorted(self._clients.over_calls(), key=lambda each: each[0])
        later = [each for each in clients if each[0] > self._last_polled]
        chosen = (later + clients[: len(clients) - len(later)])[:POLLED_MAX]
        if chosen:
            self._last_polled = chosen[-1][0]
        return chosen

    async def _ask(self, process: Process, *, link_is_over: bool) -> bool:
        def ask() -> bool:
            return self._is_gone(process, link_is_over=link_is_over)

        return await self._loop.run_in_executor(self._threads, ask)


def is_gone(own_node: str, process: Process, *, link_is_over: bool) -> bool:
    """Return whether a process is dead beyond doubt, as far as Ray's node `own_node` can know.

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
    """Return whether a process is dead beyond doubt.

    Args:
        own_node: Ray's id of this process's node.
        process: As it described itself.
        find_exit: Returns how a worker has ended, None if it has not; any exception is doubt.
        probe: Returns whether a process is found on its node; None and any exception are doubt.
        link_is_over: Whether our link to it has ended by itself.
    """
    if process.node == own_node:
        runs = is_running(process.pid, process.started, process.pid_namespace)
        if runs is not None:
            return not runs
    # Everything that fails in Ray, or differs from the Ray of this writing, leaves doubt.
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
    """Return whether the raylet itself has met the end of that process, not only asked for it."""
    return found.type == _SYSTEM_ERROR and _END_OF_SOCKET in found.detail


def _probe_node(process: Process) -> bool | None:
    return is_running_on(process.node, process.pid, process.started, process.pid_namespace, PROBE_S)
