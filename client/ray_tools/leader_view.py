"""The present leader, as the ensemble reports it, for coroutines of any loop of one process.

The invariant: a coroutine that waits for a change is woken by the change, or by the end of the
session or of the observation, after which no change would be reported.
"""

import asyncio
import threading
from contextlib import suppress

from raykeeper.client.client import Client
from raykeeper.client.core.flows import CallUser, Flow, Spawn
from raykeeper.client.core.public_types import ClientState
from raykeeper.client.errors import RayKeeperError
from raykeeper.client.recipes.election import Election, Leader

Waiting = tuple[asyncio.AbstractEventLoop, asyncio.Future[None]]


class LeaderView:
    """The leader of an election, as one session knows it."""

    def __init__(self, client: Client, path: str) -> None:
        """Read the leader from the ensemble, and block meanwhile.

        Raises:
            InvalidValueError: the value of the znode is not one of an election.
            KeeperError: as for every call.
        """
        self.client = client
        self.leader: Leader | None = None
        self._lock = threading.Lock()
        self._waiting: list[Waiting] = []
        self._observation = Election(client, path).observe(self._on_leader)
        client.add_listener(self._state_changed)
        client._run_flow(self._watch_end(), "observe")

    @property
    def is_over(self) -> bool:
        """Whether no change will be reported, for example as somebody wrote an invalid record."""
        return self._observation.is_over or self.client._is_lost()

    async def change(self, seen: Leader | None) -> None:
        """Wait until the leader differs from `seen`, or this view is over."""
        loop = asyncio.get_running_loop()
        future: asyncio.Future[None] = loop.create_future()
        with self._lock:
            if self.leader != seen or self.is_over:
                return
            self._waiting.append((loop, future))
        try:
            await future
        finally:
            with self._lock:
                self._waiting = [each for each in self._waiting if each[1] is not future]

    def _watch_end(self) -> Flow[None]:
        yield Spawn(self._tell_end())

    def _tell_end(self) -> Flow[None]:
        with suppress(RayKeeperError):  # the reason for the end
            yield from self._observation._wait_until(lambda: self._observation.is_over)
        yield CallUser(self._wake)

    def _on_leader(self, leader: Leader | None) -> None:
        with self._lock:
            self.leader = leader
        self._wake()

    def _state_changed(self, state: ClientState) -> None:
        if state is ClientState.LOST:
            self._wake()

    def _wake(self) -> None:
        with self._lock:
            waiting, self._waiting = self._waiting, []
        for loop, future in waiting:
            with suppress(RuntimeError):  # the loop is closed: nothing waits there any more
                loop.call_soon_threadsafe(_resolve, future)


def _resolve(future: asyncio.Future[None]) -> None:
    if not future.done():
        future.set_result(None)
