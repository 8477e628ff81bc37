"""The sessions of one generator process that do nothing but live."""

import asyncio
from collections.abc import Callable

from raykeeper.bench.loads.raykeeper_clients import client_options
from raykeeper.bench.loads.task import LoadReport, LoadTask
from raykeeper.client import AsyncClient
from raykeeper.client.core.public_types import ClientState

OPENED_AT_ONCE = 32
CLOSED_AT_ONCE = 256


async def hold_idle_sessions(
    task: LoadTask, begin: Callable[[], Callable[..., LoadReport]]
) -> LoadReport:
    """Open the sessions of `task`, let them idle for its `seconds`, and close them.

    `begin` blocks until the load begins, and returns what makes the report. A session that is not
    connected at the end, or that was lost, is an error.
    """
    options = await asyncio.to_thread(client_options, task.where)
    opening = asyncio.Semaphore(OPENED_AT_ONCE)

    async def open_one() -> AsyncClient:
        async with opening:
            return await AsyncClient.open(*options)

    clients = await asyncio.gather(*(open_one() for _ in range(task.clients)))
    report_of = await asyncio.to_thread(begin)
    await asyncio.sleep(task.seconds)
    connected = sum(client.state is ClientState.CONNECTED for client in clients)
    report = report_of(done=connected, errors=len(clients) - connected)
    closing = asyncio.Semaphore(CLOSED_AT_ONCE)

    async def close_one(client: AsyncClient) -> None:
        async with closing:
            await client.close()

    await asyncio.gather(*map(close_one, clients))
    return report
