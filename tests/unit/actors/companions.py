"""Imitations of actor handles, whose calls run on the test's own loop."""

import asyncio
from collections.abc import Callable
from typing import Any, Final

WAIT_S: Final = 10.0
"""How long a test waits for calls that have gone wrong."""


class ActorHandle:
    """An imitation of an actor's handle, with the methods of `behaviour`."""

    def __init__(self, behaviour: Any) -> None:
        self._behaviour = behaviour

    def __getattr__(self, method: str) -> "_Method":
        return _Method(getattr(self._behaviour, method))


class _Method:
    def __init__(self, function: Callable[..., Any]) -> None:
        self._function = function

    def remote(self, *args: Any) -> "asyncio.Future[Any]":
        loop = asyncio.get_running_loop()
        answer = loop.create_future()

        def run() -> None:
            try:
                answer.set_result(self._function(*args))
            except RuntimeError as error:
                answer.set_exception(error)

        loop.call_soon(run)
        return answer


class Events:
    """The events that were delivered, to be awaited."""

    def __init__(self) -> None:
        self.delivered: list[Any] = []
        self.reasons: list[str] = []
        self._changed = asyncio.Event()

    def deliver(self, event: Any) -> None:
        self.delivered.append(event)
        self._changed.set()

    def log(self, reason: str) -> None:
        self.reasons.append(reason)

    async def wait(self, count: int) -> list[Any]:
        async with asyncio.timeout(WAIT_S):
            while len(self.delivered) < count:
                self._changed.clear()
                await self._changed.wait()
        return self.delivered
