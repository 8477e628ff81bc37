"""Idle sessions whose server is killed: how long each one is away, and how many are lost."""

import asyncio
import time
from functools import partial

from raykeeper.bench.loads.raykeeper_clients import gather_bounded
from raykeeper.client import AsyncClient
from raykeeper.client.core.public_types import ClientState
from raykeeper.client.ensembles import dialer_of, find_servers
from raykeeper.client.session_options import SessionOptions


class ReturningSessions:
    """The sessions of one process, on one event loop."""

    def __init__(self) -> None:
        self.absences: list[tuple[float, float]] = []
        """The moment at which a session lost its server, and the microseconds until it was back."""
        self.lost: list[tuple[float, float]] = []
        """The same of the sessions that were not back before they were over."""
        self._clients: list[AsyncClient] = []
        self._suspended_at: dict[int, float] = {}

    async def open(self, ensemble: str, count: int, session_timeout_s: float) -> None:
        """Open `count` sessions, each with a dialer of its own, as `connect` does."""
        servers = await asyncio.to_thread(find_servers, ensemble)
        options = SessionOptions(session_timeout_s=session_timeout_s)

        async def open_one() -> None:
            dialer = dialer_of(ensemble, session_timeout_s, servers)
            client = await AsyncClient.open(servers, dialer, options)
            client.add_listener(partial(self._on_state, len(self._clients)))
            self._clients.append(client)

        await gather_bounded([open_one] * count)

    async def close(self) -> None:
        """End the sessions that are left."""
        await asyncio.gather(*(client.close() for client in self._clients))

    def _on_state(self, number: int, state: ClientState) -> None:
        now = time.monotonic()
        if state is ClientState.SUSPENDED:
            self._suspended_at[number] = now
        else:
            since = self._suspended_at.pop(number, now)
            ended = self.absences if state is ClientState.CONNECTED else self.lost
            ended.append((since, (now - since) * 1e6))
