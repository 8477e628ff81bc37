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

A crowd may lose its links at once while its processes live. So the links of one process have their
questions in common; nothing more is asked about a link whose session has ended or was taken up
again, as it is within moments; and the kernel, which answers in microseconds, is asked on the loop.

Invariants: the monitor reports a death only if the process can no longer run; in doubt it is alive.
Questions to Ray run in threads of their own, a few at a time, so that neither the server nor its
other work ever waits for an answer.
"""

import asyncio
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from typing import Final, Protocol

from msgspec import Struct

from raykeeper.actors.client_links import ClientLinks
from raykeeper.actors.ray_actors import is_running_on
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
    """A question to Ray about a process, which may block."""

    def __call__(self, process: Process, *, link_is_over: bool) -> bool: ...


class _LostLinks(Struct):
    """Links of one process that have ended by themselves, and the questions about it."""

    connections: list[int]
    task: asyncio.Task[None]
    has_asked: bool = False


class ClientProcessMonitor:
    """The questions under way."""

    def __init__(
        self,
        clients: ClientLinks,
        is_running: Callable[[Process], bool | None],
        is_gone: IsGone,
        is_awaited: Callable[[int], bool],
        deliver: Callable[[Event], None],
        pauses_s: Sequence[float] = PAUSES_S,
        poll_s: float = POLL_S,
    ) -> None:
        """Ask on the running loop, from now on.

        Args:
            clients: The links.
            is_running: The kernel's answer, None if it is not the one to ask. Must not block.
            is_gone: Ray's answer.
            is_awaited: Whether the server would end a session if the process of this connection
                were dead. Called after the server has learned that the connection is gone.
            deliver: Takes the events.
            pauses_s: Before each question about a process that has lost a link.
            poll_s: Between two rounds of questions about clients over Ray calls.
        """
        self._clients = clients
        self._is_running = is_running
        self._is_gone = is_gone
        self._is_awaited = is_awaited
        self._deliver = deliver
        self._pauses_s = pauses_s
        self._poll_s = poll_s
        self._threads = ThreadPoolExecutor(THREADS, "raykeeper-processes")
        self._check_slots = asyncio.Semaphore(CHECKED_MAX)
        self._loop = asyncio.get_running_loop()
        self._lost: dict[Process, _LostLinks] = {}
        self._last_polled = 0
        self._poll_task = self._loop.create_task(self._poll_call_clients())
        clients.on_link_lost = self.on_link_lost

    def on_link_lost(self, connection: int, process: Process) -> None:
        """Ask whether `process` is dead, as its link has ended by itself."""
        connections = [connection]
        before = self._lost.get(process)
        if before is not None:
            if not before.has_asked:
                before.connections.append(connection)
                return
            before.task.cancel()  # the questions begin anew, with short pauses
            connections = before.connections + connections
        elif len(self._lost) >= WAITING_MAX:
            return
        task = self._loop.create_task(self._check_repeatedly(process))
        self._lost[process] = _LostLinks(connections, task)

    def close(self) -> None:
        """Ask no more."""
        self._poll_task.cancel()
        for lost in self._lost.values():
            lost.task.cancel()
        self._lost.clear()
        self._threads.shutdown(wait=False, cancel_futures=True)

    async def _check_repeatedly(self, process: Process) -> None:
        async with self._check_slots:
            for pause_s in self._pauses_s:
                await asyncio.sleep(pause_s)
                lost = self._lost[process]
                lost.connections = [each for each in lost.connections if self._is_awaited(each)]
                if not lost.connections:
                    break
                lost.has_asked = True
                if await self._ask(process, link_is_over=True):
                    for connection in lost.connections:
                        self._deliver(ClientProcessDied(connection))
                    break
        del self._lost[process]  # not after a cancellation: another task goes on

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
        runs = self._is_running(process)
        if runs is not None:
            return not runs

        def ask() -> bool:
            return self._is_gone(process, link_is_over=link_is_over)

        return await self._loop.run_in_executor(self._threads, ask)


def monitor_client_processes(
    clients: ClientLinks,
    own_node: str,
    is_awaited: Callable[[int], bool],
    deliver: Callable[[Event], None],
) -> ClientProcessMonitor:
    """Return the monitor of a server on Ray's node `own_node`, which asks the kernel and Ray."""
    is_running = partial(is_running_here, own_node)
    return ClientProcessMonitor(clients, is_running, is_gone, is_awaited, deliver)


def is_running_here(own_node: str, process: Process) -> bool | None:
    """Return what the kernel of Ray's node `own_node` says, None if it does not know the process.

    Does not block.
    """
    if process.node != own_node:
        return None
    return is_running(process.pid, process.started, process.pid_namespace)


def is_gone(process: Process, *, link_is_over: bool) -> bool:
    """Return whether a process is dead beyond doubt, as far as Ray can know.

    May block for seconds; never raises. See `is_dead`.
    """
    return is_dead(process, worker_exit, _probe_node, link_is_over=link_is_over)


def is_dead(
    process: Process,
    find_exit: Callable[[str], WorkerExit | None],
    probe: Callable[[Process], bool | None],
    *,
    link_is_over: bool,
) -> bool:
    """Return whether a process is dead beyond doubt.

    Args:
        process: As it described itself.
        find_exit: Returns how a worker has ended, None if it has not; any exception is doubt.
        probe: Returns whether a process is found on its node; None and any exception are doubt.
        link_is_over: Whether our link to it has ended by itself.
    """
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
