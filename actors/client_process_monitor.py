"""Asks whether clients that are gone are dead, so that their sessions need not time out.

The end of a link raises the question: over a stream it comes some milliseconds after the death of
the process. It is asked again for a while, for whoever knows may learn it later. Over Ray calls a
link does not end with its client, so those that have one are asked after in turn.

Invariants: it only asks, and what is told is what `is_gone` says; questions run in threads of their
own, a few at a time, so that neither the server nor its other work ever waits for an answer.
"""

import asyncio
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Final, Protocol

from raykeeper.actors.client_links import ClientLinks
from raykeeper.links.processes import Process
from raykeeper.server.events import ClientProcessDied, Event

PAUSES_S: Final = (0.0, 0.01, 0.02, 0.03, 0.05, 0.1, 0.2, 0.4, 0.7, 1.0)
"""Before each question about one process; 2.5 s in all."""
CHECKED_MAX: Final = 256
"""Processes that are asked after at a time; others wait for their turn."""
WAITING_MAX: Final = 10_000
THREADS: Final = 4
POLL_S: Final = 0.5
POLLED_MAX: Final = 64
"""Clients over Ray calls that are asked after in one round."""


class IsGone(Protocol):
    """What knows of processes; it may block."""

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
        """A link has ended by itself; ask whether `process` is dead."""
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
