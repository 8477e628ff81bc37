"""Raykeeper's clients: the blocking one, and the one for event loops, which pipelines.

`where` is the name of an ensemble; a suffix `/<id>` selects one server.
"""

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from functools import partial
from typing import Self, TypeVar

from msgspec.structs import replace

from raykeeper.bench.loads.clients import Done, DoubleBarrier, call_done
from raykeeper.client import AsyncClient, Client
from raykeeper.client.ensembles import dialer_of, find_servers
from raykeeper.client.session import BlockingSession
from raykeeper.client.session_options import SessionOptions
from raykeeper.links.contract import Dialer
from raykeeper.zab.ids import ServerId

T = TypeVar("T")

OPENED_AT_ONCE = 64
"""Sessions that one process opens at a time."""


def client_options(
    where: str, options: SessionOptions | None = None
) -> tuple[list[ServerId], Dialer, SessionOptions]:
    """Return the servers of `where`, what dials them, and the options of a session. May block."""
    ensemble, _, server = where.partition("/")
    known = find_servers(ensemble)
    options = replace(options or SessionOptions(), learns_servers=not server)
    servers = [ServerId(int(server))] if server else known
    return servers, dialer_of(ensemble, options.session_timeout_s, servers), options


async def gather_bounded(
    calls: Sequence[Callable[[], Awaitable[T]]], at_once: int = OPENED_AT_ONCE
) -> list[T]:
    """Make all calls, `at_once` at a time, and return their results in the order of the calls."""
    slots = asyncio.Semaphore(at_once)

    async def make(call: Callable[[], Awaitable[T]]) -> T:
        async with slots:
            return await call()

    return await asyncio.gather(*map(make, calls))


class BlockingRaykeeper:
    """The client for programs without an event loop."""

    def __init__(self, where: str) -> None:
        self._client = Client(BlockingSession.open(*client_options(where)))
        self.create = self._client.create
        self.set = self._client.set
        self.get = self._client.get
        self.get_linearizable = partial(self._client.get, consistency="linearizable")
        self.delete_nowait = self._client.delete_async
        self.close = self._client.close

    def watch(self, path: str, told: Callable[[], object]) -> object:
        """See `BlockingClient`."""
        return self._client.get(path, watch=lambda _event: told())

    def locker(self, path: str) -> Callable[[], object]:
        """See `RecipeClient`."""
        lock = self._client.lock(path)
        return lambda: lock.acquire().release()

    def double_barrier(self, path: str, participants: int, name: str) -> DoubleBarrier:
        """See `RecipeClient`. A crash of a participant is not reported, as with kazoo."""
        return self._client.double_barrier(path, participants, name.encode(), "continue")


class PipelinedRaykeeper:
    """The client for the running event loop."""

    def __init__(self, client: AsyncClient) -> None:
        self._client = client
        self.close = client.close

    @classmethod
    async def open(cls, where: str) -> Self:
        """Open a session."""
        return cls(await AsyncClient.open(*await asyncio.to_thread(client_options, where)))

    def create(self, path: str, value: bytes, done: Done) -> None:
        """See `PipelinedClient`."""
        self._client.create(path, value).add_done_callback(call_done(done))

    def set(self, path: str, value: bytes, done: Done) -> None:
        """See `PipelinedClient`."""
        self._client.set(path, value).add_done_callback(call_done(done))

    def get(self, path: str, done: Done) -> None:
        """See `PipelinedClient`."""
        self._client.get(path).add_done_callback(call_done(done))

    def delete(self, path: str, done: Done) -> None:
        """See `PipelinedClient`."""
        self._client.delete(path).add_done_callback(call_done(done))
