"""The sessions of one generator process that do nothing but live."""

import asyncio
from collections.abc import Callable
from functools import partial

from raykeeper.bench.loads.raykeeper_clients import client_options, gather_bounded
from raykeeper.bench.loads.task import LoadReport, LoadTask
from raykeeper.client import AsyncClient
from raykeeper.client.core.public_types import ClientState

CLOSED_AT_ONCE = 256


async def hold_idle_sessions(
    task: LoadTask, begin: Callable[[], Callable[..., LoadReport]]
) -> LoadReport:
    """Open the sessions of `task`, let them idle for its `seconds`, and close them.

    `begin` blocks until the load begins, and returns what makes the report. A session that is not
    connected at the end, or that was lost, is an error.
    """
    options = await asyncio.to_thread(client_options, task.where)
    clients = await gather_bounded([partial(AsyncClient.open, *options)] * task.clients)
    report_of = await asyncio.to_thread(begin)
    await asyncio.sleep(task.seconds)
    connected = sum(client.state is ClientState.CONNECTED for client in clients)
    report = report_of(done=connected, errors=len(clients) - connected)
    await gather_bounded([client.close for client in clients], CLOSED_AT_ONCE)
    return report
