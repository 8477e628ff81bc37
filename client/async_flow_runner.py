"""The recipes of a blocking `Client`, to be awaited: for code that may run in any event loop.

An `AsyncClient` belongs to one loop and pickles as little as that. What is made in one process and
used in others, in plain code and in coroutines, has one `Client` in each process, whose requests
are sent by its background thread; `AsyncFlowRunner` awaits the outcome of its flows where it is
called.
"""

import asyncio
from collections.abc import Awaitable
from typing import TypeVar

from raykeeper.client.call_forms import UnawaitedCall
from raykeeper.client.client import Client
from raykeeper.client.core.flows import CallInCaller, Flow
from raykeeper.zab.ids import Millis

T = TypeVar("T")


class AsyncFlowRunner:
    """A `FlowRunner` for recipes to await, over the session of a blocking client.

    Making a recipe on it, `Lock[Awaited]` for example, needs no loop.
    """

    _is_awaited = True

    def __init__(self, client: Client) -> None:
        self.client = client

    def _run_flow(self, flow: Flow[T], name: str) -> Awaitable[T]:
        """Run an operation of a recipe. Return an awaitable of its result.

        Raises:
            RecipeError: as the recipe says.
            KeeperError: a request of it failed.
        """
        return UnawaitedCall(self._run(flow), name)

    def _is_lost(self) -> bool:
        """Return whether the session is over, or may be over by now."""
        return self.client._is_lost()

    def _identity(self) -> bytes:
        """Return the line that names this process."""
        return self.client._identity()

    def _now(self) -> Millis:
        """Return the client's time, monotonic."""
        return self.client._now()

    async def _run(self, flow: Flow[T]) -> T:
        session = self.client._open_session()
        reply, task = session.begin_flow(flow)
        try:
            while isinstance(result := await asyncio.wrap_future(reply), CallInCaller):
                reply = session.continue_flow(task, result)
        except BaseException as error:
            given_back = session.cancel_flow(task)
            if isinstance(error, asyncio.CancelledError):
                await asyncio.wrap_future(given_back)  # until it is cancelled again
            raise
        task.result_taken()
        return result
