"""Work for an actor beside this one: a piece at a time, in order, and nobody waits for it."""

import asyncio
from collections import deque
from collections.abc import Awaitable, Callable
from typing import Any, Generic, TypeVar

from raykeeper.links.daemon_threads import SharedCall

T = TypeVar("T")


class ActorCallQueue(Generic[T]):
    """What waits for one companion, and the handle by which it is called."""

    def __init__(
        self, find: Callable[[], Any], process_item: Callable[[T], Awaitable[None]]
    ) -> None:
        """`find` looks the actor up or starts it, in a thread since it may block.

        `process_item` does one piece, and sees to its own failures.
        """
        self._find = SharedCall(find)
        self._process_item = process_item
        self._handle: Any = None
        self._queue: deque[T] = deque()
        self._task: asyncio.Task[None] | None = None

    def __len__(self) -> int:
        return len(self._queue)

    @property
    def has_handle(self) -> bool:
        """Whether the actor was found and has not failed since."""
        return self._handle is not None

    def put(self, item: T) -> None:
        """Have `item` done after those before it."""
        self._queue.append(item)
        if self._task is None:
            self._task = asyncio.get_running_loop().create_task(self._run())

    def clear(self) -> None:
        """Do nothing of what waits."""
        self._queue.clear()

    def close(self) -> None:
        """Do no more, not even what is under way."""
        self._queue.clear()
        if self._task is not None:
            self._task.cancel()

    async def handle(self, limit_s: float) -> Any:
        """The actor, looked up if need be.

        Raises:
            TimeoutError: the lookup took longer than `limit_s`.
        """
        if self._handle is None:
            self._handle = await asyncio.wait_for(self._find(), limit_s)
        return self._handle

    def invalidate_handle(self) -> None:
        """The actor has failed: look it up again before the next call."""
        self._handle = None

    async def _run(self) -> None:
        try:
            while self._queue:
                await self._process_item(self._queue.popleft())
        finally:
            self._task = None


def first_line(error: BaseException) -> str:
    """The first line of an error; Ray's texts run over pages."""
    return str(error).split("\n", 1)[0] or type(error).__name__
