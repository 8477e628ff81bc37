"""The creations of one round, many under way, and their deletion after a warm-up."""

import asyncio
import itertools
import time
from collections.abc import Iterator

from raykeeper.bench.loads.clients import PipelinedClient
from raykeeper.bench.loads.task import LoadTask

CHILDREN = 1_000
"""Children of one parent, when very many znodes are created."""


def turns_of(task: LoadTask, began: float) -> Iterator[int]:
    """Count the turns of a round: `count` of them, or those that begin within `seconds`."""
    if task.count:
        return iter(range(task.count))
    until = began + task.seconds
    return itertools.takewhile(lambda _: time.monotonic() < until, itertools.count())


class Window:
    """At most `size` requests of pipelined clients under way; each acquires `room` first."""

    def __init__(self, size: int) -> None:
        self.room = asyncio.Semaphore(size)
        self._loop, self._size = asyncio.get_running_loop(), size
        self._errors: list[BaseException] = []

    def done(self, error: BaseException | None) -> None:
        """Record that a request was answered."""
        if error is not None:
            self._errors.append(error)
        self._loop.call_soon_threadsafe(self.room.release)

    async def drain(self) -> None:
        """Wait until all requests are answered, and raise the first error; then it is closed."""
        for _ in range(self._size):
            await self.room.acquire()
        if self._errors:
            raise self._errors[0]


def _parent_path(root: str, index: int) -> str:
    return f"{root}-{index // CHILDREN}"


def _child_path(root: str, index: int) -> str:
    return f"{_parent_path(root, index)}/{index}"


async def create_below(root: str, task: LoadTask, began: float, client: PipelinedClient) -> int:
    """Create the znodes of one round, and their parents; return how many without the parents."""
    window, value = Window(task.outstanding), bytes(task.value_bytes)
    created = 0
    for index in turns_of(task, began):
        if not index % CHILDREN:
            await window.room.acquire()
            client.create(_parent_path(root, index), b"", window.done)
        await window.room.acquire()
        client.create(_child_path(root, index), value, window.done)
        created += 1
    await window.drain()
    return created


async def delete_below(root: str, created: int, task: LoadTask, client: PipelinedClient) -> None:
    """Delete the znodes of one round, and their parents."""
    window = Window(task.outstanding)
    paths = [_child_path(root, index) for index in range(created)]
    paths += [_parent_path(root, index) for index in range(0, created, CHILDREN)]
    for path in paths:
        await window.room.acquire()
        client.delete(path, window.done)
    await window.drain()
